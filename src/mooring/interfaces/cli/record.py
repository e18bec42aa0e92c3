"""`mooring record`: a server's conversation as a cassette, from a running gateway or around a command."""

from __future__ import annotations

import argparse
import http.client
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from types import FrameType
from typing import IO, Any
from urllib.parse import quote, urlencode

from mooring.gateway.cassette import FORMAT, Header, Introduction, Side, Writer
from mooring.gateway.tracing import redact
from mooring.interfaces.cli.control_api import open_stream
from mooring.interfaces.cli.failure import Failed, Misused, reason_of
from mooring.interfaces.cli.gateway_socket import find_socket
from mooring.interfaces.cli.output import end_line
from mooring.interfaces.cli.spans import seconds

_LAST_SECONDS = 0.5
_END_SECONDS = 5.0
"""How long a server gets to end after its stdin was closed."""


def run(arguments: argparse.Namespace) -> int:
    """Record until Ctrl-C, or until the conversation is over."""
    command: list[str] = arguments.after
    if bool(arguments.id) == bool(command):
        raise Misused("say what to record: the id of a server, or `-- COMMAND`")
    limit = seconds("--for", arguments.duration) if arguments.duration else None
    if limit is not None:
        signal.setitimer(signal.ITIMER_REAL, limit)
    path = Path(arguments.output)
    try:
        count = _from_gateway(arguments, path) if arguments.id else _around(command, path)
    except OSError as error:
        raise Failed(f"`{error.filename or path}`: {reason_of(error)}") from error
    print(f"{count} messages are in `{path}`; play them with `mooring replay {path}`", file=sys.stderr)
    return 0


def _on_stop(stop: Callable[[], None]) -> None:
    """What Ctrl-C does, and the end of the time."""

    def handle(number: int, _frame: FrameType | None) -> None:
        if number == signal.SIGINT:
            end_line()
        stop()

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM):
        signal.signal(number, handle)


def _header(server: str, introduction: Introduction | None = None) -> Header:
    moment = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return Header(FORMAT, server, moment, introduction)


def _from_gateway(arguments: argparse.Namespace, path: Path) -> int:
    query = urlencode({"bytes": 1, "whole": 1})
    target = f"/api/v1/trace/{quote(arguments.id, safe='')}?{query}"
    wire, response = open_stream(find_socket(arguments), target)
    # What was said before counts, also if it has not arrived yet: then the wire is shut.
    _on_stop(lambda: threading.Timer(_LAST_SECONDS, wire.shutdown, (socket.SHUT_RDWR,)).start())
    tape = _Tape(arguments.id, path)
    print(f"recording `{arguments.id}`; Ctrl-C to stop", file=sys.stderr, flush=True)
    try:
        while line := response.readline():
            if line.strip():
                tape.take(json.loads(line))
    except (OSError, ValueError, http.client.HTTPException):
        pass  # it ended in the middle of nothing
    return tape.finish()


class _Tape:
    """The messages between the gateway and a server, from the gateway's trace."""

    def __init__(self, server: str, path: Path) -> None:
        self._server = server
        self._path = path
        self._introduction: Introduction | None = None
        self._writer: Writer | None = None
        self._began = time.time()
        path.touch()  # so that a place where nothing can be written is known at once

    def take(self, event: dict[str, Any]) -> None:
        if event["kind"] == "introduction":
            self._introduction = Introduction(event["method"], json.loads(event["bytes"]))
        elif "missed" in (event.get("note") or ""):
            raise Failed(f"the recording is not whole: {event['note']}; record less at a time")
        elif event["leg"] == "server" and event["kind"] in ("request", "response", "error", "notification"):
            side: Side = "client" if event["dir"] == "out" else "server"
            message = event["bytes"].encode()
            self._tape().write(event["t"] - self._began, side, message, str(event.get("peer") or ""))

    def _tape(self) -> Writer:
        if self._writer is None:
            self._writer = Writer(self._path, _header(self._server, self._introduction))
        return self._writer

    def finish(self) -> int:
        writer = self._tape()
        writer.close()
        return writer.count


def _around(command: list[str], path: Path) -> int:
    """Run a server, and be it to whoever started us."""
    writer = Writer(path, _header(" ".join(command)))
    lock = threading.Lock()
    began = time.monotonic()

    def passing(side: Side, line: bytes) -> None:
        with lock:
            writer.write(time.monotonic() - began, side, redact(line.strip()))

    try:
        server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)  # noqa: S603 - what it is for
    except OSError as error:
        raise Failed(f"`{command[0]}` cannot be started: {reason_of(error)}") from error
    _on_stop(server.terminate)
    assert server.stdin is not None
    assert server.stdout is not None
    asking = threading.Thread(target=_ask, args=(server.stdin, passing), daemon=True)
    asking.start()
    try:
        for line in server.stdout:
            passing("server", line)
            sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
    finally:
        _end(server)
    with lock:
        writer.close()
    return writer.count


def _ask(stdin: IO[bytes], passing: Any) -> None:
    """What the client says, until it has no more to say."""
    try:
        for line in sys.stdin.buffer:
            passing("client", line)
            stdin.write(line)
            stdin.flush()
        stdin.close()
    except (OSError, ValueError):
        return  # the server has gone, or the file is closed


def _end(server: subprocess.Popen[bytes]) -> None:
    try:
        server.wait(_END_SECONDS)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
