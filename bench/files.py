"""`python -m bench.files`: a large file through the gateway and nginx, and a wired call beside a plain one.

Both get the file from `curl` on the same disk. nginx neither hashes nor syncs what it takes; we do both.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.files.conftest import ADAPTERS, SERVER, post, upload_url
from tests.support.gateway import memory_bytes, running_gateway
from tests.support.peers import StreamablePeer
from tests.support.waiting import eventually

GOAL_THROUGHPUT = 0.7
GOAL_CPU = 1.5


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--calls", type=int, default=400)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        file = folder / "large.bin"
        _fill(file, options.megabytes)
        figures = _compare(folder, file, options.rounds)
        figures |= _calls(folder, options.calls)
    print(json.dumps(figures, indent=2))
    return 0


def _fill(file: Path, megabytes: int) -> None:
    block = os.urandom(1024**2)
    with file.open("wb") as stream:
        for _ in range(megabytes):
            stream.write(block)


def _compare(folder: Path, file: Path, rounds: int) -> dict[str, Any]:
    ours: dict[str, list[float]] = {"upload": [], "download": []}
    theirs: dict[str, list[float]] = {"upload": [], "download": []}
    size = file.stat().st_size
    settings = {
        "uploads": {"max_file_bytes": size},
        "artifacts": {"max_file_bytes": size},
        "core": {"allow_artifacts_download": True},
    }
    with _nginx(folder) as address, running_gateway(folder / "gateway", [_server()], **settings) as gateway:
        growth = 0
        for _ in range(rounds):
            with StreamablePeer(gateway, "files") as peer:
                url = upload_url(peer)["upload_url"].replace("?", "/large.bin?")
                with _watched(gateway.process.pid) as most:
                    ours["upload"].append(_curl("-T", str(file), url))
                    handle = _last(folder)
                    made = _copied(peer, handle)
                    ours["download"].append(_curl(made["download_url"]))
                growth = max(growth, max(most) - most[0])
            theirs["upload"].append(_curl("-T", str(file), f"{address}/large.bin"))
            theirs["download"].append(_curl(f"{address}/large.bin"))
    found: dict[str, Any] = {"megabytes": size // 1024**2, "memory_growth_kb": growth // 1024}
    for what in ("upload", "download"):
        mine, other = statistics.median(ours[what]), statistics.median(theirs[what])
        found[what] = {
            "mooring_mb_per_second": round(size / mine / 1e6),
            "nginx_mb_per_second": round(size / other / 1e6),
            "share_of_nginx": round(other / mine, 2),
            "goal": GOAL_THROUGHPUT,
        }
    return found


def _copied(peer: StreamablePeer, handle: str) -> dict[str, Any]:
    copying = peer.start_tool("copy", {"path": handle, "filename": "large.bin"})
    return copying.result(300)["_meta"]["artifact"]


def _last(folder: Path) -> str:
    return json.loads((folder / "answer").read_text())["upload_handle"]


def _curl(*words: str) -> float:
    """Seconds that a transfer took; its answer is kept beside."""
    target = os.environ["BENCH_ANSWER"] if "-T" in words else os.devnull
    done = subprocess.run(
        ["curl", "-sS", "--fail-with-body", "-H", "Expect:", "-o", target, "-w", "%{time_total}", *words],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return float(done.stdout)


def _server(**more: Any) -> dict[str, Any]:
    run = [sys.executable, "-S", SERVER]
    own = {"type": "artifact_producer", "tools": ["copy"], "output_path_argument": "filename"}
    takes = {"type": "upload_consumer", "tools": ["copy"], "file_path_argument": "path"}
    return {"id": "files", "workload": {"run": run}, "adapters": [*ADAPTERS, own, takes], **more}


@contextmanager
def _watched(pid: int) -> Iterator[list[int]]:
    most = [memory_bytes(pid)]
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.02):
            most.append(memory_bytes(pid))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield most
    finally:
        done.set()
        thread.join(5)


@contextmanager
def _nginx(folder: Path) -> Iterator[str]:
    program = shutil.which("nginx") or "/usr/sbin/nginx"
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    root = folder / "nginx"
    (root / "www").mkdir(parents=True)
    os.environ["BENCH_ANSWER"] = str(folder / "answer")
    (root / "nginx.conf").write_text(
        f"""daemon off; pid {root}/pid; error_log {root}/error.log; worker_processes 1; user root;
events {{}}
http {{ access_log off; sendfile on; client_max_body_size 0; client_body_temp_path {root}/body;
  proxy_temp_path {root}/p; fastcgi_temp_path {root}/f; uwsgi_temp_path {root}/u; scgi_temp_path {root}/s;
  server {{ listen 127.0.0.1:{port}; root {root}/www; dav_methods PUT; }} }}
"""
    )
    process = subprocess.Popen([program, "-c", str(root / "nginx.conf")], stderr=subprocess.DEVNULL)
    try:
        eventually(lambda: _accepts(port), "nginx to listen")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(10)


def _accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def _calls(folder: Path, count: int) -> dict[str, Any]:
    """CPU of the gateway per call: with a handle, making a file, and without adapters."""
    plain = {**_server(), "id": "plain", "adapters": []}
    with (
        running_gateway(folder / "calls", [_server(), plain]) as gateway,
        StreamablePeer(gateway, "files") as wired,
        StreamablePeer(gateway, "plain") as bare,
    ):
        handle = post(upload_url(wired), ("a.txt", b"abc")).json["upload_handle"]
        small = folder / "small.txt"
        small.write_text("abc")
        cases = {
            "plain": lambda: bare.tool("measure", {"path": str(small)}),
            "with_handle": lambda: wired.tool("measure", {"path": handle}),
            "makes_artifact": lambda: wired.tool("write", {"filename": "a.txt"}),
        }
        cost = {name: _cost(gateway.process.pid, call, count) for name, call in cases.items()}
    return {
        "call_cpu_us": {name: round(value * 1e6) for name, value in cost.items()},
        "with_handle_against_plain": round(cost["with_handle"] / cost["plain"], 2),
        "makes_artifact_against_plain": round(cost["makes_artifact"] / cost["plain"], 2),
        "call_goal": GOAL_CPU,
    }


def _cost(pid: int, call: Any, count: int) -> float:
    call()
    before = _cpu_seconds(pid)
    for _ in range(count):
        call()
    return (_cpu_seconds(pid) - before) / count


def _cpu_seconds(pid: int) -> float:
    """User and system time of a process, from its own clock."""
    return time.clock_gettime((~pid << 3) | 2)


if __name__ == "__main__":
    sys.exit(main())
