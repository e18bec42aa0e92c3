"""A real `mooring serve` in a process of its own, with the scripted servers behind it."""

from __future__ import annotations

import http.client
import json
import os
import re
import selectors
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.waiting import eventually

from mooring.transports.unix_names import short_name

SUPPORT = Path(__file__).parent
START_SECONDS = 30.0
Json = dict[str, Any]


class Gateway:
    """Where a running gateway is, and what it says of itself."""

    def __init__(self, process: subprocess.Popen[bytes], address: str, folder: Path) -> None:
        self.process = process
        self.address = address
        self.folder = folder
        self.socket = folder / "data" / "mooring.sock"
        host, _, port = address.partition("://")[2].partition("/")[0].rpartition(":")
        self.host, self.port = host, int(port)

    def url(self, server: str) -> str:
        return f"{self.address}/mcp/{server}"

    def get(self, path: str) -> Json:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=10)
        try:
            connection.request("GET", path)
            return json.loads(connection.getresponse().read())
        finally:
            connection.close()

    def status(self, server: str) -> Json:
        """One server as `/api/v1/status` shows it."""
        body = ask_socket(self.socket, "/api/v1/status")
        return next(entry for entry in body["servers"] if entry["id"] == server)

    def in_flight(self, server: str) -> int:
        return self.status(server)["in_flight"]

    def log(self) -> str:
        return (self.folder / "gateway.log").read_text(errors="replace")

    @property
    def memory_bytes(self) -> int:
        return memory_bytes(self.process.pid)

    def command(self, *words: str, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
        """`mooring ...` next to this gateway."""
        return subprocess.run(
            [program(), *words],
            env={**os.environ, "MOORING_SOCKET": str(self.socket), "NO_COLOR": "1"},
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
            input=stdin,
        )


def program() -> str:
    return str(Path(sys.executable).parent / "mooring")


def memory_bytes(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024


def ask_socket(path: Path, target: str) -> Json:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(10)
        with short_name(path) as name:
            connection.connect(name)
        connection.sendall(f"GET {target} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        response = http.client.HTTPResponse(connection)
        response.begin()
        return json.loads(response.read())


@contextmanager
def running_gateway(
    folder: Path, servers: list[Json], launcher: list[str] | None = None, **settings: Any
) -> Iterator[Gateway]:
    """Serve these servers on a free port until the block ends."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {
        "mooring": 1,
        "listen": "127.0.0.1:0",
        "storage": {"root": str(folder / "data")},
        "servers": servers,
        **settings,
    }
    (folder / "mooring.yaml").write_text(json.dumps(config))
    with (folder / "gateway.log").open("wb") as log:
        process = subprocess.Popen(
            [*(launcher or [program()]), "serve", "--config", str(folder / "mooring.yaml")],
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        address = eventually(
            lambda: _address(folder, process), "the gateway to be ready", limit=START_SECONDS
        )
        yield Gateway(process, address, folder)
    finally:
        stop(process)


def _address(folder: Path, process: subprocess.Popen[bytes]) -> str | None:
    log = (folder / "gateway.log").read_text(errors="replace")
    assert process.poll() is None, f"the gateway ended by itself:\n{log}"
    found = re.search(r"is ready at (https?://\S+)", log)
    return found[1] if found and "control socket" in log else None


def stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(5)


class Journal:
    """What a scripted server wrote down."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()
        self._start = 0

    def forget(self) -> None:
        """Look only at what comes from here on."""
        self._start = self.path.stat().st_size

    def entries(self) -> list[Json]:
        with self.path.open("rb") as file:
            file.seek(self._start)
            return [
                json.loads(line) for line in file.read().splitlines(keepends=True) if line.endswith(b"\n")
            ]

    def messages(self, method: str | None = None) -> list[Json]:
        found = [entry["message"] for entry in self.entries() if "message" in entry]
        return [message for message in found if method is None or message.get("method") == method]

    def raw(self, method: str) -> list[str]:
        return [e["raw"] for e in self.entries() if "message" in e and e["message"].get("method") == method]

    def events(self, event: str, tool: str | None = None) -> list[Json]:
        return [
            entry
            for entry in self.entries()
            if entry.get("event") == event and (tool is None or entry.get("tool") == tool)
        ]

    def pids(self) -> list[int]:
        return [entry["pid"] for entry in self.events("started")]


def scripted_command(journal: Path, transport: str, era: str, version: str = "2025-11-25") -> list[str]:
    script = str(SUPPORT / "scripted_server.py")
    options = ["--transport", transport, "--era", era, "--version", version, "--record", str(journal)]
    return [sys.executable, "-S", script, *options]


def stdio_server(identifier: str, journal: Path, era: str = "legacy", **more: Any) -> Json:
    """A configuration entry that makes the gateway run the scripted server."""
    return {"id": identifier, "workload": {"run": scripted_command(journal, "stdio", era)}, **more}


@contextmanager
def running_process(command: list[str]) -> Iterator[str]:
    """A process that prints where it listens; its first line."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    try:
        assert process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(process.stdout, selectors.EVENT_READ)
            assert selector.select(START_SECONDS), f"{command} said nothing"
            line = process.stdout.readline().decode().strip()
        assert line, f"{command} did not start"
        yield line
    finally:
        process.kill()
        process.wait(5)
        if process.stdout is not None:
            process.stdout.close()


@contextmanager
def http_server(
    identifier: str, journal: Path, era: str = "legacy", *, transport: str = "http", **more: Any
) -> Iterator[Json]:
    """A running scripted server, as a configuration entry."""
    with running_process(scripted_command(journal, transport, era)) as url:
        yield {"id": identifier, "upstream": {"url": url}, **more}


@contextmanager
def running_process_on_port(command: list[str]) -> Iterator[int]:
    """A process that is told its port by `PORT`; it is ready when something accepts there."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment = {**os.environ, "PORT": str(port)}
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    try:
        eventually(lambda: _accepts(port), f"{command} to listen", limit=START_SECONDS)
        yield port
    finally:
        process.kill()
        process.wait(5)


def _accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def rewrite(gateway: Gateway, **settings: Any) -> None:
    """Change the file, and wait until the gateway says what it made of it."""
    file = gateway.folder / "mooring.yaml"
    known = gateway.log().count("was reloaded") + gateway.log().count("was not reloaded")
    file.write_text(json.dumps({**json.loads(file.read_text()), **settings}))
    os.kill(gateway.process.pid, signal.SIGHUP)
    eventually(
        lambda: gateway.log().count("was reloaded") + gateway.log().count("was not reloaded") > known,
        "the file to be read",
    )
