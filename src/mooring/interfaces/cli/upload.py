"""`mooring upload`: send files, watch them go, print their handles."""

from __future__ import annotations

import argparse
import hashlib
import http.client
import json
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import quote, urlsplit

from mooring.interfaces.cli.control_api import UnixConnection
from mooring.interfaces.cli.failure import Failed, reason_of
from mooring.interfaces.cli.gateway_socket import find_socket, refusal
from mooring.interfaces.cli.output import one_line, print_table, size

BLOCK_BYTES = 256 * 1024
# A file may take long; a gateway that takes nothing for so long is stuck.
STALL_SECONDS = 120.0
_BAR_WIDTH = 30


def run(arguments: argparse.Namespace) -> int:
    """Send each file and print what came of it."""
    files = [checked(Path(name)) for name in arguments.files]
    made: list[dict[str, Any]] = []
    url = arguments.to or link_path(find_socket(arguments), arguments.server)
    for path in files:
        made += send(_connection(arguments, url), url, path)
    if arguments.format == "json":
        print(json.dumps({"uploads": made}, indent=2, ensure_ascii=False))
    elif sys.stdout.isatty():
        rows = [
            [one_line(upload["filename"]), size(upload["size_bytes"]), upload["upload_handle"]]
            for upload in made
        ]
        print_table(("file", "size", "handle"), rows)
        if arguments.server:
            print(
                "these are for clients of 2026-07-28; in a call from here, key@=FILE sends the file itself",
                file=sys.stderr,
            )
    else:
        for upload in made:
            print(upload["upload_handle"])
    return 0


def checked(path: Path) -> Path:
    if not path.exists():
        raise Failed(f"there is no file `{path}`")
    if not path.is_file():
        raise Failed(f"`{path}` is not a file: give files, not folders")
    return path


def link_path(socket: Path, server: str) -> str:
    """Where a server takes files, on the socket of its gateway."""
    connection = UnixConnection(socket, STALL_SECONDS)
    connection.request("POST", f"/api/v1/servers/{quote(server, safe='')}/upload-link")
    answer = connection.getresponse()
    body = answer.read(65536)
    if answer.status != 201:
        raise Failed(refusal(answer.status, body))
    return json.loads(body)["path"]


def _connection(arguments: argparse.Namespace, url: str) -> http.client.HTTPConnection:
    """To the address of the link; for a server of our own gateway, over its socket."""
    parts = urlsplit(url)
    if arguments.server:
        return UnixConnection(find_socket(arguments), STALL_SECONDS)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise Failed(f"`{url}` is not an upload URL: give the `upload_url` that the tool answered")
    kind = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    return kind(parts.hostname, parts.port, timeout=STALL_SECONDS)


def send(
    connection: http.client.HTTPConnection, url: str, path: Path, session: str | None = None
) -> list[dict[str, Any]]:
    """Send a file where an upload URL says, or into a session; what became of it."""
    parts = urlsplit(url)
    length = path.stat().st_size
    target = f"{parts.path.rstrip('/')}/{quote(path.name, safe='')}?{parts.query}"
    try:
        headers = {"Content-Length": str(length), "Content-Type": "application/octet-stream"}
        if session is not None:
            headers["Mcp-Session-Id"] = session
        with (
            path.open("rb") as file,
            suppress(BrokenPipeError),
        ):  # refused before the end: the answer says why
            headers["X-Content-Sha256"] = _hash(file, path.name, length)
            file.seek(0)
            connection.request("PUT", target, _watched(file, path.name, length), headers)
        answer = connection.getresponse()
        body = answer.read()
    except (OSError, http.client.HTTPException) as error:
        raise Failed(
            f"sending `{path}` failed: {reason_of(error) or type(error).__name__}; try again"
        ) from error
    finally:
        connection.close()
    if answer.status != 201:
        raise Failed(f"`{path}`: {refusal(answer.status, body)}")
    return json.loads(body)["uploads"]


def _hash(file: BinaryIO, name: str, length: int) -> str:
    """What the gateway compares with what came; a large file takes a moment, and shows it."""
    digest = hashlib.sha256()
    for block in _watched(file, name, length, "reading "):
        digest.update(block)
    return digest.hexdigest()


def _watched(file: BinaryIO, name: str, length: int, doing: str = "sending ") -> Iterator[bytes]:
    """The blocks of the file, with a bar on the terminal while they go."""
    shows = sys.stderr.isatty()
    done = 0
    try:
        while block := file.read(BLOCK_BYTES):
            yield block
            done += len(block)
            if shows:
                print(f"\r{doing}{_bar(name, done, length)}", end="", file=sys.stderr, flush=True)
    finally:  # also when it was refused half-way: why stands on a line of its own
        if done and shows and (doing == "sending " or done < length):
            print(file=sys.stderr)


def _bar(name: str, sent: int, length: int) -> str:
    share = sent / length if length else 1.0
    filled = "#" * round(share * _BAR_WIDTH)
    return f"{one_line(name)[:30]} [{filled.ljust(_BAR_WIDTH)}] {share:4.0%} of {size(length)}"
