"""A stand-in for the gateway on a Unix socket: the control API, and the library example."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import pty
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
LIMIT_SECONDS = 20


def _example(name: str) -> Any:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class StandIn(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    """Answers from what the test put into it, and remembers what it was asked."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, path: Path) -> None:
        library = _example("library_server")
        self.path = path
        self.status: dict[str, Any] = {"version": "9.9", "uptime_seconds": 61, "servers": []}
        self.workloads: list[dict[str, Any]] = []
        self.trace: list[dict[str, Any]] = []
        self.targets: list[str] = []
        self.accepted: list[dict[str, Any]] = []
        self.upgraded: Any = None
        super().__init__(str(path), _handler(library.Handler, self))


def _handler(base: Any, stand_in: StandIn) -> Any:
    class Handler(base):
        def setup(self) -> None:
            self.disable_nagle_algorithm = False  # there is none on a Unix socket
            super().setup()

        def do_GET(self) -> None:  # noqa: N802 - the name that the base class looks for
            if not self.path.startswith("/api/"):
                return super().do_GET()
            stand_in.targets.append(self.path)
            if self.path == "/api/v1/status":
                return self.json(200, stand_in.status)
            if self.path == "/api/v1/workloads":
                return self.json(200, {"workloads": stand_in.workloads})
            if self.path.startswith("/api/v1/trace/library"):
                return self.lines(stand_in.trace)
            if self.path == "/api/v1/stdio/library" and self.headers["Upgrade"] == "mcp-stdio":
                return self.upgrade()
            return self.json(404, {"error": "no server has this id; known: library"})

        def do_POST(self) -> None:  # noqa: N802 - as above
            if self.path != "/mcp/library":
                self.rfile.read(int(self.headers["Content-Length"]))
                return self.json(404, {"error": {"code": -32600, "message": "no server has this id"}})
            return super().do_POST()

        def accept(self, session: Any, message: dict[str, Any]) -> None:
            stand_in.accepted.append(message)
            super().accept(session, message)

        def json(self, status: int, value: Any) -> None:
            body = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def lines(self, events: list[dict[str, Any]]) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "application/x-ndjson")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for event in events:
                self.chunk(json.dumps(event).encode() + b"\n")
            self.chunk(b"")

        def upgrade(self) -> None:
            self.wfile.write(
                b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: mcp-stdio\r\n\r\n"
            )
            self.close_connection = True
            stand_in.upgraded(self.rfile, self.wfile)

    return Handler


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[StandIn]:
    with StandIn(tmp_path / "mooring.sock") as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server
        server.shutdown()
        thread.join(LIMIT_SECONDS)


class Command:
    """Runs `mooring` as a process, away from any gateway of the person who runs the tests."""

    def __init__(self, folder: Path, socket: Path | None = None) -> None:
        self.folder = folder
        kept = {key: value for key, value in os.environ.items() if not key.startswith("MOORING_")}
        self.environment = {**kept, "XDG_DATA_HOME": str(folder / "share"), "NO_COLOR": "1"}
        if socket is not None:
            self.environment["MOORING_SOCKET"] = str(socket)

    def arguments(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "mooring.interfaces.cli.main", *words]

    def __call__(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.arguments(*words),
            input=stdin,
            capture_output=True,
            text=True,
            cwd=self.folder,
            env=self.environment,
            timeout=LIMIT_SECONDS,
            check=False,
        )

    def at_a_terminal(self, columns: int, *words: str) -> tuple[int, list[str]]:
        """The exit code, and the lines that stand on a terminal of that width."""
        ours, theirs = pty.openpty()
        with subprocess.Popen(
            self.arguments(*words),
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            cwd=self.folder,
            env={**self.environment, "COLUMNS": str(columns)},
        ) as running:
            os.close(theirs)
            shown = b""
            with contextlib.suppress(OSError), os.fdopen(ours, "rb", buffering=0) as terminal:
                while block := terminal.read(65536):  # EIO: nobody writes any more
                    shown += block
            return running.wait(LIMIT_SECONDS), shown.decode().splitlines()


@pytest.fixture
def alone(tmp_path: Path) -> Command:
    """`mooring` where no gateway runs."""
    return Command(tmp_path)


@pytest.fixture
def mooring(tmp_path: Path, gateway: StandIn) -> Command:
    """`mooring` next to the stand-in."""
    return Command(tmp_path, gateway.path)
