"""A user of their own, with a home, a free port, and a gateway that `mooring run` starts."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.support.gateway import Journal, ask_socket, scripted_command
from tests.support.waiting import alive, eventually

from mooring.transports.unix_names import short_name

LIMIT_SECONDS = 60
Json = dict[str, Any]


class Person:
    """Runs `mooring` as somebody whose files are all below one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.data = folder / "share" / "mooring"
        self.socket = self.data / "mooring.sock"
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        kept = {key: value for key, value in os.environ.items() if not key.startswith("MOORING_")}
        self.environment = {
            **kept,
            "XDG_DATA_HOME": str(folder / "share"),
            "XDG_CONFIG_HOME": str(folder / "config"),
            "NO_COLOR": "1",
        }
        self.configure()

    def configure(self, **settings: Any) -> None:
        file = self.folder / "config" / "mooring" / "mooring.yaml"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps({"mooring": 1, "listen": f"127.0.0.1:{self.port}", **settings}))

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "mooring.interfaces.cli.main", *words]

    def __call__(self, *words: str, expect: int | None = 0) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            self.command(*words),
            capture_output=True,
            text=True,
            cwd=self.folder,
            env=self.environment,
            timeout=LIMIT_SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        assert expect is None or done.returncode == expect, f"{words}: {done.stdout}{done.stderr}{self.log()}"
        return done

    def json(self, *words: str) -> Any:
        return json.loads(self(*words, "--format", "json").stdout)

    def ask(self, method: str, target: str, body: Any = None) -> tuple[int, Any]:
        """One operation of the API."""
        connection = http.client.HTTPConnection("localhost", timeout=LIMIT_SECONDS)
        connection.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.sock.settimeout(LIMIT_SECONDS)
        with short_name(self.socket) as name:
            connection.sock.connect(name)
        try:
            connection.request(method, target, None if body is None else json.dumps(body))
            response = connection.getresponse()
            data = response.read()
            return response.status, json.loads(data) if data else None
        finally:
            connection.close()

    def workload(self, name: str) -> Json:
        return ask_socket(self.socket, f"/api/v1/workloads/{name}")

    def workloads(self) -> list[Json]:
        return ask_socket(self.socket, "/api/v1/workloads")["workloads"]

    def status(self, name: str) -> str:
        return str(self.workload(name)["status"])

    @property
    def pid(self) -> int:
        return int(ask_socket(self.socket, "/api/v1/status")["pid"])

    def log(self) -> str:
        file = self.data / "daemon.log"
        return file.read_text(errors="replace") if file.is_file() else ""

    def kill(self) -> None:
        """The end that nobody can prepare for."""
        pid = self.pid
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: not alive(pid), "the daemon to die")

    def run_scripted(self, name: str, journal: Journal, *flags: str) -> Json:
        command = scripted_command(journal.path, "stdio", "legacy")
        words = ("run", "--name", name, "--sandbox", "off", *flags, "--format", "json", "--", *command)
        return json.loads(self(*words).stdout)


@contextmanager
def somebody(folder: Path) -> Iterator[Person]:
    """A person, and the end of their gateway."""
    person = Person(folder)
    try:
        yield person
    finally:
        try:
            pid = person.pid
        except (OSError, ValueError):
            pid = 0
        if pid:
            os.kill(pid, signal.SIGTERM)
            eventually(lambda: not alive(pid), "the daemon to end", limit=30)
