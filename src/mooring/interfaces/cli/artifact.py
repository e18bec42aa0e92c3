"""`mooring artifact list|get`: what tools have made."""

from __future__ import annotations

import argparse
import hashlib
import http.client
import json
import os
import sys
import time
from pathlib import Path
from typing import Any, BinaryIO, cast
from urllib.parse import quote

from mooring.interfaces.cli.control_api import UnixConnection, get_json
from mooring.interfaces.cli.failure import Failed, no_such_server, reason_of
from mooring.interfaces.cli.gateway_socket import find_socket, refusal
from mooring.interfaces.cli.output import duration, one_line, print_table, size

BLOCK_BYTES = 256 * 1024
STALL_SECONDS = 60.0
MOST_NAMES = 10_000


class Unknown(Failed):
    """The gateway has no such artifact."""


def list_artifacts(arguments: argparse.Namespace) -> int:
    """Print name, size and URI of each."""
    found = _listed(find_socket(arguments), arguments.id)
    if arguments.format == "json":
        print(json.dumps({"artifacts": found}, indent=2, ensure_ascii=False))
        return 0
    if not found:
        print(
            "there are no artifacts: they go with their session, and `mooring tool call` saves what it made",
            file=sys.stderr,
        )
        return 0
    now = time.time()
    rows = [
        [
            item["server"],
            one_line(item["filename"]),
            size(item["size_bytes"]),
            item["mime_type"],
            duration(max(0.0, item["expires"] - now)),
            one_line(item["uri"]),
        ]
        for item in found
    ]
    print_table(("server", "file", "size", "type", "kept for", "uri"), rows)
    return 0


def _listed(socket: Path, server: str | None) -> list[dict[str, Any]]:
    """All of them, or those of one server."""
    found: list[dict[str, Any]] = get_json(socket, "/api/v1/artifacts")["artifacts"]
    if server is None:
        return found
    known = [str(one["id"]) for one in get_json(socket, "/api/v1/status")["servers"]]
    if server not in known:
        raise no_such_server(server, known)
    return [item for item in found if item["server"] == server]


def get_artifact(arguments: argparse.Namespace) -> int:
    """Save one, under its own name or where the person says; never over an existing file by accident."""
    socket = find_socket(arguments)
    link = _link(socket, arguments.artifact)
    if arguments.output == "-":
        _fetch(socket, link, sys.stdout.buffer)
        return 0
    target = Path(arguments.output or link["filename"])
    if target.is_dir():
        target /= link["filename"]
    if not _saved(socket, link, target):
        raise Failed(f"`{target}` exists already: give another name with --output")
    print(target)
    return 0


def save(socket: Path, uri: str, folder: Path) -> Path:
    """Save one under its own name, or with a number behind it if that is taken."""
    link = _link(socket, uri)
    name = Path(one_line(link["filename"])).name or "artifact"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise Failed(f"cannot save into `{folder}`: {reason_of(error)}") from error
    for number in range(1, MOST_NAMES):
        target = folder / name
        if number > 1:
            target = target.with_name(f"{target.stem}-{number}{target.suffix}")
        if not target.exists() and _saved(socket, link, target):
            return target
    raise Failed(f"`{folder}` is full of files called `{name}`: give another one with --output")


def _link(socket: Path, artifact: str) -> dict[str, Any]:
    return _posted(socket, f"/api/v1/artifacts/{quote(_identifier(artifact), safe='')}/link")


def _saved(socket: Path, link: dict[str, Any], target: Path) -> bool:
    """Write it whole or not at all; False if there is something of that name."""
    partial = target.with_name(f".{target.name}.part")
    try:
        with partial.open("wb") as file:
            _fetch(socket, link, file)
        try:
            os.link(partial, target)
        except FileExistsError:
            return False
    except OSError as error:
        raise Failed(f"cannot write `{target}`: {reason_of(error)}") from error
    finally:
        partial.unlink(missing_ok=True)
    return True


def _identifier(text: str) -> str:
    """The id in an URI, or the id itself."""
    if not text.startswith("artifact://"):
        return text
    parts = text.split("/")
    if len(parts) < 5:
        raise Failed(f"`{text}` is not an artifact's URI: `mooring artifact list` shows them")
    return parts[4]


def _posted(socket: Path, target: str) -> dict[str, Any]:
    connection = UnixConnection(socket, STALL_SECONDS)
    connection.request("POST", target)
    answer = connection.getresponse()
    body = answer.read(65536)
    if answer.status == http.client.NOT_FOUND:
        raise Unknown(refusal(answer.status, body))
    if answer.status != http.client.CREATED:
        raise Failed(refusal(answer.status, body))
    return json.loads(body)


def _fetch(socket: Path, link: dict[str, Any], file: BinaryIO) -> None:
    connection = UnixConnection(socket, STALL_SECONDS)
    digest = hashlib.sha256()
    try:
        connection.request("GET", cast("str", link["path"]))
        answer = connection.getresponse()
        if answer.status != 200:
            raise Failed(refusal(answer.status, answer.read(65536)))
        while block := answer.read(BLOCK_BYTES):
            digest.update(block)
            file.write(block)
    except http.client.HTTPException as error:
        raise Failed(f"the gateway broke off: {error or type(error).__name__}; try again") from error
    finally:
        connection.close()
    if digest.hexdigest() != link["sha256"]:
        raise Failed("what arrived is not what was kept: try again")
