"""What each workload costs the daemon, and how fast they come.

A gateway of its own is started on a free port; its memory is read before and after the workloads. They are
the smallest server there is, so that the machine has room for them; their own memory is not counted.
"""

from __future__ import annotations

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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

START_SECONDS = 60.0
SERVER = Path(__file__).parents[1] / "examples" / "notes_server.py"


@dataclass(frozen=True, slots=True)
class Costs:
    """In bytes and seconds."""

    per_running: float
    per_stopped: float
    start_seconds: float


def measure(count: int) -> Costs:
    """Run so many workloads, sandboxed, one after the other."""
    with tempfile.TemporaryDirectory(prefix="mooring-bench-") as folder:
        return _measure(Path(folder), count)


def _measure(folder: Path, count: int) -> Costs:
    daemon = _start(folder)
    socket_path = folder / "share" / "mooring" / "mooring.sock"
    try:
        _wait(socket_path, daemon)
        _run(socket_path, "warm")  # what is loaded for the first one is not the price of each
        _ask(socket_path, "DELETE", "/api/v1/workloads/warm")
        empty = _memory(daemon.pid)
        begin = time.monotonic()
        for number in range(count):
            _run(socket_path, f"w{number}")
        started = time.monotonic() - begin
        running = _memory(daemon.pid)
        _ask(socket_path, "POST", "/api/v1/workloads/stop", {"all": True})
        stopped = _memory(daemon.pid)
    finally:
        daemon.send_signal(signal.SIGTERM)
        daemon.wait(60)
    return Costs((running - empty) / count, (stopped - empty) / count, started / count)


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
    raise OSError("the daemon did not start")


def _run(path: Path, name: str) -> None:
    config = {"name": name, "mooring": {"command": ["/usr/bin/python3", str(SERVER)]}}
    status, answer = _ask(path, "POST", "/api/v1/workloads", config)
    if status != 201:
        raise OSError(f"{name} did not start: {answer}")


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
