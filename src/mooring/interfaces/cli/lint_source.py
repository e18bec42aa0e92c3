"""Where `mooring lint` and `mooring tokens` read tools: a server of the gateway, a URL, a file, a command."""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from mooring.interfaces.cli.client import Client, Message
from mooring.interfaces.cli.control_api import get_json
from mooring.interfaces.cli.failure import Failed, Misused, reason_of
from mooring.interfaces.cli.gateway_socket import answers, find_socket

START_SECONDS = 30.0
STOP_SECONDS = 10.0
# As in `mooring.policy.saving`, which takes too long to import for one word.
UNSAVED = "mooring/unsaved"


@dataclass(frozen=True, slots=True)
class Read:
    """The tools of a server as clients get them, and as they are without the gateway's savings."""

    server: str
    tools: list[Any]
    unsaved: list[Any]


def read(arguments: argparse.Namespace) -> Read:
    """The tools of what the command line names."""
    if arguments.after and arguments.source:
        raise Misused("give either a server or a command after `--`, not both")
    if arguments.after:
        workload = {"run": arguments.after, "cwd": str(Path.cwd())}
        return _from_own_gateway({"id": "command", "workload": workload})
    if not arguments.source:
        raise Misused(
            "say which server: its id, its URL, a JSON file with its tools, or a command after `--`"
        )
    if arguments.source.startswith(("http://", "https://")):
        return _from_own_gateway({"id": "remote", "upstream": {"url": arguments.source}})
    file = Path(arguments.source)
    if file.suffix == ".json" or os.sep in arguments.source:
        tools = _from_file(file)
        return Read(file.name, tools, tools)
    return from_gateway(find_socket(arguments), arguments.source)


def read_all(arguments: argparse.Namespace) -> tuple[list[Read], list[str]]:
    """The tools of every server of the gateway; those that cannot be read are named with the reason."""
    socket = find_socket(arguments)
    found: list[Read] = []
    failed: list[str] = []
    for entry in get_json(socket, "/api/v1/status").get("servers", []):
        try:
            found.append(from_gateway(socket, entry["id"]))
        except Failed as error:
            failed.append(f"{entry['id']}: {error}")
    return found, failed


def from_gateway(socket: Path, server: str) -> Read:
    """Ask through the gateway: it speaks with servers of every kind."""
    with Client(socket, server, {}, notify=_ignore, answer=_refuse) as client:
        tools = _pages(client, {})
        return Read(server, tools, _pages(client, {"_meta": {UNSAVED: True}}))


def _pages(client: Client, params: Message) -> list[Any]:
    tools: list[Any] = []
    cursor: Any = None
    while True:
        page = client.request("tools/list", params if cursor is None else {**params, "cursor": cursor})
        tools += page.get("tools") or []
        following = page.get("nextCursor")
        if following is None or following == cursor:
            return tools
        cursor = following


def _ignore(method: str, params: Message) -> None:
    del method, params


def _refuse(method: str, params: Message) -> Message | None:
    del method, params


def _from_file(file: Path) -> list[Any]:
    try:
        value = json.loads(file.read_bytes())
    except OSError as error:
        raise Failed(f"cannot read `{file}`: {reason_of(error)}") from error
    except (ValueError, RecursionError) as error:
        raise Failed(f"`{file}` is not JSON: {error}") from error
    for key in ("result", "tools"):
        if isinstance(value, dict) and key in value:
            value = cast("Message", value)[key]
    if not isinstance(value, list):
        raise Failed(f"`{file}` holds no tools: give a list, or the result of `tools/list`")
    return cast("list[Any]", value)


def _from_own_gateway(entry: Message) -> Read:
    with _served(entry) as socket:
        return from_gateway(socket, entry["id"])


@contextmanager
def _served(entry: Message) -> Generator[Path]:
    """A gateway of our own for one server, so that servers of every era are understood."""
    with tempfile.TemporaryDirectory(prefix="mooring-") as folder:
        socket = Path(folder) / "mooring.sock"
        config = {"mooring": 1, "listen": "127.0.0.1:0", "storage": {"root": folder}, "servers": [entry]}
        file = Path(folder) / "mooring.yaml"
        # JSON is YAML; what looks like a variable is the command's own business.
        file.write_text(re.sub(r"\$(?=\{)", "$$", json.dumps(config)), encoding="utf-8")
        with subprocess.Popen(  # noqa: S603 - our own program, and the command that the person gave
            [sys.executable, "-P", "-m", "mooring.interfaces.cli.lint_gateway", str(file)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        ) as gateway:
            try:
                _wait(gateway, socket)
                yield socket
            finally:
                gateway.terminate()
                try:
                    gateway.wait(STOP_SECONDS)
                except subprocess.TimeoutExpired:
                    gateway.kill()


def _wait(gateway: subprocess.Popen[bytes], socket: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while not answers(socket):
        if gateway.poll() is not None or time.monotonic() > deadline:
            raise Failed("the server could not be reached; the lines above say why")
        time.sleep(0.02)
