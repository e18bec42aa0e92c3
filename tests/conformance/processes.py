"""Starts the fixture and the gateway as real processes, and leaves none behind."""

from __future__ import annotations

import json
import os
import re
import selectors
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from tests.conformance.setup import ROOT

FIXTURE = ROOT / "tests/conformance/fixture_server.py"
AUTHORED = ROOT / "tests/authoring/conformance_server.py"
SERVER_ID = "fixture"
_START_SECONDS = 30.0
_STOP_SECONDS = 5.0


class ProcessFailed(Exception):
    """A process did not become ready, or did not stay; the message says which."""


def fixture_command(transport: str, era: str, *, tasks: bool) -> list[str]:
    command = [sys.executable, str(FIXTURE), "--transport", transport, "--era", era]
    return [*command, "--tasks"] if tasks else command


@contextmanager
def running_fixture(transport: str, era: str, log: Path, *, tasks: bool = False) -> Iterator[str]:
    """Run the fixture behind HTTP or SSE; the value is its URL."""
    command = fixture_command(transport, era, tasks=tasks)
    with log.open("w") as errors, _running(command, stdout=subprocess.PIPE, stderr=errors) as process:
        assert process.stdout is not None
        yield _first_line(process.stdout, command, log)


@contextmanager
def running_authored_fixture(log: Path) -> Iterator[str]:
    """Run the server made with `mooring.authoring`; the value is its URL."""
    command = [sys.executable, str(AUTHORED)]
    with log.open("w") as errors, _running(command, stdout=subprocess.PIPE, stderr=errors) as process:
        assert process.stdout is not None
        yield _first_line(process.stdout, command, log)


@contextmanager
def warm_fixture_command(era: str, folder: Path, *, tasks: bool) -> Iterator[list[str]]:
    """A command that is the fixture on stdio and starts without loading anything, while this lasts."""
    here = ROOT / "tests/conformance"
    keeper = [sys.executable, str(here / "warm_keeper.py"), str(folder / "warm.sock")]
    log = folder / "fixture.log"
    with log.open("w") as errors, _running(keeper, stdout=subprocess.PIPE, stderr=errors) as process:
        assert process.stdout is not None
        path = _first_line(process.stdout, keeper, log)
        launcher = [sys.executable, "-I", "-S", str(here / "warm_launcher.py"), path, era]
        yield [*launcher, "--tasks"] if tasks else launcher


@contextmanager
def running_gateway(server: dict[str, Any], directory: Path, **more: Any) -> Iterator[str]:
    """Run `mooring serve` in front of one server; the value is the URL of that server's endpoint."""
    config = directory / "mooring.yaml"
    log = directory / "gateway.log"
    settings = {
        "mooring": 1,
        "listen": "127.0.0.1:0",  # a port chosen beforehand would be taken by a server of the suite meanwhile
        "storage": {"root": str(directory / "data")},
        "servers": [{"id": SERVER_ID, **server}],
        **more,
    }
    config.write_text(json.dumps(settings, indent=2))  # JSON is YAML
    command = [str(gateway_program()), "serve", "--config", str(config)]
    with log.open("w") as output, _running(command, stdout=output, stderr=output) as process:
        yield f"{_address(process, log)}/mcp/{SERVER_ID}"


def gateway_program() -> Path:
    return Path(sys.executable).parent / "mooring"


@contextmanager
def _running(command: list[str], **streams: Any) -> Iterator[subprocess.Popen[str]]:
    # A session of its own: whatever the process starts is stopped with it.
    process = subprocess.Popen(command, cwd=ROOT, start_new_session=True, text=True, **streams)
    try:
        yield process
        ended_by_itself = _has_ended(process)
    finally:
        _stop(process)
    if ended_by_itself:
        raise ProcessFailed(f"`{' '.join(command)}` ended by itself with exit code {process.returncode}")


def _has_ended(process: subprocess.Popen[str]) -> bool:
    # Without reaping it: until then nobody else gets its number, and its group can be signalled safely.
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _stop(process: subprocess.Popen[str]) -> None:
    os.killpg(process.pid, signal.SIGTERM)
    deadline = time.monotonic() + _STOP_SECONDS
    while not _has_ended(process) and time.monotonic() < deadline:
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(_STOP_SECONDS)
    if process.stdout is not None:
        process.stdout.close()


def _first_line(stream: IO[str], command: list[str], log: Path) -> str:
    with selectors.DefaultSelector() as selector:
        selector.register(stream, selectors.EVENT_READ)
        if selector.select(_START_SECONDS) and (line := stream.readline().strip()):
            return line
    raise ProcessFailed(f"`{' '.join(command)}` did not start:\n{_tail(log)}")


def _address(process: subprocess.Popen[str], log: Path) -> str:
    """Where the gateway says that it is ready."""
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline and not _has_ended(process):
        if found := re.search(r"is ready at (http://\S+)", log.read_text(errors="replace")):
            return found[1]
        time.sleep(0.05)
    raise ProcessFailed(f"the gateway did not start:\n{_tail(log)}")


def _tail(log: Path) -> str:
    return log.read_text(errors="replace")[-2000:]
