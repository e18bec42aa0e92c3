"""`python -m bench.workloads`: what each workload costs the daemon, and how fast fifty come and go.

A gateway of its own is started on a free port; its memory is read before and after the workloads. They are
the smallest server there is, so that the machine has room for them; their own memory is not counted.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

GOAL_BYTES = 1_000_000
START_SECONDS = 60.0
SERVER = Path(__file__).parents[1] / "examples" / "notes_server.py"


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.workloads", description=__doc__)
    parser.add_argument("--count", type=int, default=50, help="how many workloads (default: 50)")
    parser.add_argument("--sandbox", choices=["on", "off"], default="on", help="(default: on)")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="mooring-bench-") as folder:
        return _measure(Path(folder), options.count, options.sandbox)


def _measure(folder: Path, count: int, sandbox: str) -> int:
    daemon = _start(folder)
    socket_path = folder / "share" / "mooring" / "mooring.sock"
    try:
        _wait(socket_path, daemon)
        _run(socket_path, "warm", sandbox)  # what is loaded for the first one is not the price of each
        _ask(socket_path, "DELETE", "/api/v1/workloads/warm")
        empty = _memory(daemon.pid)
        begin = time.monotonic()
        for number in range(count):
            _run(socket_path, f"w{number}", sandbox)
        started = time.monotonic() - begin
        running = _memory(daemon.pid)
        _ask(socket_path, "POST", "/api/v1/workloads/stop", {"all": True})
        stopped = _memory(daemon.pid)
    finally:
        daemon.send_signal(signal.SIGTERM)
        daemon.wait(60)
    each, resting = (running - empty) / count, (stopped - empty) / count
    print(f"daemon without workloads   {empty / 1e6:8.1f} MB")
    print(f"per running workload       {each / 1e6:8.3f} MB   goal {GOAL_BYTES / 1e6:g} MB")
    print(f"per stopped workload       {resting / 1e6:8.3f} MB")
    print(f"start, one after the other {started / count * 1000:8.0f} ms each (sandbox {sandbox})")
    print("goal reached" if each <= GOAL_BYTES else "goal NOT reached")
    return 0 if each <= GOAL_BYTES else 1


def _start(folder: Path) -> subprocess.Popen[bytes]:
    config = folder / "config" / "mooring" / "mooring.yaml"
    config.parent.mkdir(parents=True)
    config.write_text('{"mooring": 1, "listen": "127.0.0.1:0"}')
    places = {"XDG_DATA_HOME": str(folder / "share"), "XDG_CONFIG_HOME": str(folder / "config")}
    return subprocess.Popen(
        [sys.executable, "-m", "mooring.interfaces.cli.main", "serve", "--user"],
        env={**os.environ, **places},
        stderr=subprocess.DEVNULL,
    )


def _wait(path: Path, daemon: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and daemon.poll() is None:
        if path.exists():
            return
        time.sleep(0.02)
    raise SystemExit("the daemon did not start")


def _run(path: Path, name: str, sandbox: str) -> None:
    command = [os.path.realpath(sys.executable), str(SERVER)]
    config = {"name": name, "mooring": {"command": command, "sandbox": sandbox}}
    status, answer = _ask(path, "POST", "/api/v1/workloads", config)
    if status != 201:
        raise SystemExit(f"{name} did not start: {answer}")


def _ask(path: Path, method: str, target: str, body: Any = None) -> tuple[int, Any]:
    connection = http.client.HTTPConnection("localhost", timeout=START_SECONDS)
    connection.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.sock.settimeout(START_SECONDS)
    connection.sock.connect(str(path))
    try:
        connection.request(method, target, None if body is None else json.dumps(body))
        response = connection.getresponse()
        data = response.read()
        return response.status, json.loads(data) if data else None
    finally:
        connection.close()


def _memory(pid: int) -> int:
    """Resident bytes of the daemon alone, not of what it runs."""
    found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    assert found is not None
    return int(found[1]) * 1024


if __name__ == "__main__":
    sys.exit(main())
