"""Files: a gigabyte through the gateway and through nginx, and calls with files beside plain ones.

Both get the gigabyte from `curl`, onto the same disk. nginx neither hashes nor syncs what it takes; Mooring
does both. Nothing is pinned here: who hashes on another core may do so.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

from tests.files.conftest import ADAPTERS, SERVER, post, upload_url
from tests.support.gateway import Gateway, memory_bytes, running_gateway
from tests.support.peers import StreamablePeer
from tests.support.waiting import eventually

from bench import wire
from bench.processes import CPUS
from bench.programs import debian_program
from bench.run import Run
from bench.suites.suite import Figure, Suite
from bench.targets import free_port
from bench.wire import Connection, Endpoint, WireError
from mooring.files.database import SCHEMA

GIGABYTE = 1024**3
CALLS = 200
_NGINX = """daemon off; pid {folder}/pid; error_log {folder}/error.log; worker_processes 1; {user}
events {{}}
http {{ access_log off; sendfile on; client_max_body_size 0; client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f;
  uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  server {{ listen 127.0.0.1:{port}; root {folder}/www; dav_methods PUT; }} }}
"""


def transfers(run: Run) -> None:
    """One large file in and out."""
    with _unpinned(), ExitStack() as stack:
        folder = run.stage.folder / "transfers"
        (folder / "nginx/www").mkdir(parents=True)
        large = folder / "large.bin"
        _fill(large)
        address = stack.enter_context(_nginx(folder / "nginx"))
        gateway = stack.enter_context(_gateway(folder / "gateway"))
        peer = stack.enter_context(StreamablePeer(gateway, "files"))
        made = _copied(peer, _sent(folder, peer, large)[1])

        def visit(name: str, number: int) -> None:
            if name == "nginx":
                target = f"{address}/large.bin"
                into, out_of = _curl("-T", str(large), target), _curl(target)
            else:
                with _watched(gateway.process.pid) as seen:
                    into, _ = _sent(folder, peer, large)
                    out_of = _curl(made["download_url"])
                run.record.add("transfers", name, number, growth_kb=(max(seen) - seen[0]) / 1024)
            speed = {"upload": GIGABYTE / into / 1e6, "download": GIGABYTE / out_of / 1e6}
            run.record.add("transfers", name, number, **speed)

        run.rounds("transfers", ("nginx", "mooring"), visit, rounds=min(5, run.scale.rounds))


def _sent(folder: Path, peer: StreamablePeer, file: Path) -> tuple[float, str]:
    """Seconds of an upload, and its handle."""
    answer = folder / "answer"
    seconds = _curl("-T", str(file), upload_url(peer)["upload_url"].replace("?", "/large.bin?"), into=answer)
    return seconds, json.loads(answer.read_text())["upload_handle"]


def _copied(peer: StreamablePeer, handle: str) -> dict[str, Any]:
    copying = peer.start_tool("copy", {"path": handle, "filename": "large.bin"})
    return copying.result(300)["_meta"]["artifact"]


def _curl(*words: str, into: Path | None = None) -> float:
    """Seconds that a transfer took."""
    target = str(into) if into is not None else os.devnull
    done = subprocess.run(
        ["curl", "-sS", "--fail-with-body", "-H", "Expect:", "-o", target, "-w", "%{time_total}", *words],
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    if done.returncode:
        raise OSError(f"curl: {done.stderr}")
    return float(done.stdout)


def wired(run: Run) -> None:
    """CPU of the gateway for calls to the same server: without adapters, with a handle, making a file."""
    with _unpinned(), ExitStack() as stack:
        folder = run.stage.folder / "wired"
        gateway = stack.enter_context(_gateway(folder))
        plain = stack.enter_context(closing(_Caller(gateway, "plain")))
        taking = stack.enter_context(closing(_Caller(gateway, "files")))
        offered = taking.call("files_get_upload_url", {})["structuredContent"]
        handle = post(offered, ("a.txt", b"abc")).json["upload_handle"]
        small = folder / "small.txt"
        small.write_text("abc")
        calls: dict[str, Callable[[], Any]] = {
            "plain": lambda: plain.call("measure", {"path": str(small)}),
            "with a handle": lambda: taking.call("measure", {"path": handle}),
            "makes a file": lambda: taking.call("write", {"filename": "a.txt"}),
        }
        bare = stack.enter_context(closing(_Bare(folder / "bare")))

        def visit(name: str, number: int) -> None:
            if name == "the disk alone":
                cost, seconds = _cost(lambda: bare.spent, bare.keep)
            else:
                pid = gateway.process.pid
                cost, seconds = _cost(lambda: _cpu_seconds(pid), calls[name])
            run.record.add("wired", name, number, cpu_us=cost * 1e6, milliseconds=seconds * 1e3)

        run.rounds("wired", (*calls, "the disk alone"), visit)


class _Caller:
    """A client as they are: one connection that it keeps, and JSON without spaces."""

    def __init__(self, gateway: Gateway, server: str) -> None:
        endpoint = Endpoint(gateway.port, f"/mcp/{server}")
        self._connection = Connection(gateway.port)
        self._session = wire.open_session(self._connection, endpoint)
        self._number = 0

    def call(self, tool: str, arguments: dict[str, Any]) -> dict[str, Any]:
        self._number += 1
        request = wire.tool_call(self._session, tool, arguments, identifier=self._number)
        result = wire.result_of(self._connection.exchange(request), self._number)
        if result.get("isError"):
            raise WireError(f"`{tool}` failed: {result}")
        return result

    def close(self) -> None:
        self._connection.close()


def _cost(clock: Callable[[], float], work: Callable[[], Any]) -> tuple[float, float]:
    """CPU seconds by this clock, and seconds, of one turn of work."""
    work()
    before, began = clock(), time.perf_counter()
    for _ in range(CALLS):
        work()
    return (clock() - before) / CALLS, (time.perf_counter() - began) / CALLS


class _Bare:
    """What a durable artifact cannot do without: a folder, a look into it, a hash, a commit, and gone."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        self._number = 0
        self.spent = 0.0
        """CPU seconds, less what the tool would have spent."""
        self._connection = sqlite3.connect(folder / "state.sqlite3", isolation_level=None)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.executescript(SCHEMA)

    def keep(self) -> None:
        self._number += 1
        output = self._folder / f"{self._number:032x}"
        began = time.thread_time()
        output.mkdir()
        self.spent += time.thread_time() - began
        file = output / "a.txt"
        file.write_text("something")
        began = time.thread_time()
        data = file.read_bytes()
        name = output.name
        row = (name, "artifact", "scope", "files", "", "a.txt", "text/plain", len(data))
        more = (hashlib.sha256(data).hexdigest(), time.time(), time.time() + 3600, 1, "", data)
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.execute(f"INSERT INTO files VALUES ({','.join('?' * 14)})", (*row, *more))
        self._connection.execute("COMMIT")
        file.unlink()
        output.rmdir()
        self.spent += time.thread_time() - began

    def close(self) -> None:
        self._connection.close()


@contextmanager
def _gateway(folder: Path) -> Iterator[Gateway]:
    """One server twice: with adapters, and as it is."""
    run = [sys.executable, "-S", SERVER]
    more = [
        {"type": "artifact_producer", "tools": ["copy"], "output_path_argument": "filename"},
        {"type": "upload_consumer", "tools": ["copy"], "file_path_argument": "path"},
    ]
    server = {"id": "files", "workload": {"run": run}, "adapters": [*ADAPTERS, *more]}
    settings = {
        "uploads": {"max_file_bytes": GIGABYTE},
        "artifacts": {"max_file_bytes": GIGABYTE},
        "core": {"allow_artifacts_download": True},
    }
    plain = {"id": "plain", "workload": {"run": run}}
    with running_gateway(folder, [server, plain], **settings) as gateway:
        yield gateway


@contextmanager
def _nginx(folder: Path) -> Iterator[str]:
    port = free_port()
    user = "user root;" if os.getuid() == 0 else ""
    config = folder / "nginx.conf"
    config.write_text(_NGINX.format(folder=folder, port=port, user=user))
    process = subprocess.Popen(
        [debian_program("nginx"), "-c", str(config), "-e", "stderr"], stderr=subprocess.DEVNULL
    )
    try:
        eventually(lambda: _listens(port), "nginx to listen")
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(10)


def _listens(port: int) -> bool:
    state = f":{port:04X} 00000000:0000 0A"
    return any(state in line for line in Path("/proc/net/tcp").read_text().splitlines())


@contextmanager
def _watched(pid: int) -> Iterator[list[int]]:
    """The memory of a process while something happens."""
    seen = [memory_bytes(pid)]
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.02):
            seen.append(memory_bytes(pid))

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield seen
    finally:
        done.set()
        thread.join(5)


@contextmanager
def _unpinned() -> Iterator[None]:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, CPUS)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _fill(file: Path) -> None:
    block = os.urandom(1024**2)
    with file.open("wb") as stream:
        for _ in range(GIGABYTE // len(block)):
            stream.write(block)


def _cpu_seconds(pid: int) -> float:
    """User and system time of a process, from its own clock."""
    return time.clock_gettime((~pid << 3) | 2)


SUITES = (
    Suite(
        "transfers",
        "1 GB over HTTP, on the disk afterwards",
        "nginx",
        (
            Figure("upload", "upload", "MB/s"),
            Figure("download", "download", "MB/s"),
            Figure("growth_kb", "growth of memory meanwhile", "kB", compared=False),
        ),
        transfers,
        "transfers",
    ),
    Suite(
        "wired",
        "calls to one stdio server, one after the other on a kept connection; CPU of the gateway alone",
        "plain",
        (Figure("cpu_us", "CPU per call", "µs"), Figure("milliseconds", "time per call", "ms")),
        wired,
        "wired",
    ),
)
