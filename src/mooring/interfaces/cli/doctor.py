"""`mooring doctor`: reads the tools of a server and proposes adapters for those that deal with files."""

from __future__ import annotations

import argparse
import io
import json
import re
import shutil
import sys
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from mooring.files.proposing import Proposal, proposals
from mooring.interfaces.cli.client import Client, Message
from mooring.interfaces.cli.control_api import get_json
from mooring.interfaces.cli.failure import Failed, no_such_server, reason_of
from mooring.interfaces.cli.gateway_socket import find_socket
from mooring.interfaces.cli.output import one_line, print_table


def run(arguments: argparse.Namespace) -> int:
    """Propose adapters for one server or all of them; write them on request."""
    socket = find_socket(arguments)
    known = [server["id"] for server in get_json(socket, "/api/v1/status")["servers"]]
    wanted = [arguments.id] if arguments.id else known
    if arguments.id and arguments.id not in known:
        raise no_such_server(arguments.id, known)
    found: dict[str, list[Proposal]] = {}
    for identifier in wanted:
        try:
            with Client(socket, identifier, {}, notify=_ignore, answer=_no_answer) as client:
                found[identifier] = _missing(socket, identifier, client.list_all("tools/list", "tools"))
        except Failed as error:
            print(f"{identifier}: {error}", file=sys.stderr)
    if arguments.write:
        return _write(Path(arguments.write), found)
    if arguments.format == "json":
        print(
            json.dumps(
                {name: [one.as_config() for one in entries] for name, entries in found.items()}, indent=2
            )
        )
        return 0
    _print(found)
    return 0


def _missing(socket: Path, server: str, tools: list[Message]) -> list[Proposal]:
    """What is proposed for these, without the adapters that they have."""
    given = get_json(socket, f"/api/v1/servers/{quote(server, safe='')}/adapters")["adapters"]
    have = {(one["type"], one["tool"]) for one in given}
    return [one for one in proposals(tools) if (one.type, one.tool) not in have]


def _print(found: dict[str, list[Proposal]]) -> None:
    rows = [
        [identifier, one_line(one.tool), one.type, one_line(one.argument or "-"), one_line(one.why)]
        for identifier, entries in found.items()
        for one in entries
    ]
    if not rows:
        print("no tool without an adapter seems to take or make files", file=sys.stderr)
        return
    print_table(("server", "tool", "adapter", "argument", "because"), rows)
    print("these are guesses: look at them, then add --write FILE to put them into a file", file=sys.stderr)


def _write(path: Path, found: dict[str, list[Proposal]]) -> int:
    """Into the servers' entries of the file, leaving everything else in it as it is."""
    yaml: Any = YAML()
    yaml.preserve_quotes = True
    yaml.width = sys.maxsize
    path = path.resolve()  # a link stays one
    try:
        given = path.read_text(encoding="utf-8")
        value = yaml.load(given)
    except (OSError, YAMLError) as error:
        raise Failed(f"cannot read `{path}`: {reason_of(error)}") from error
    top = cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    servers = cast("list[Any]", top.get("servers") or [])
    added = 0
    for entry in servers:
        if not isinstance(entry, dict):
            continue
        server = cast("dict[str, Any]", entry)
        have = cast("list[Any]", server.get("adapters") or [])
        taken = {(item.get("type"), tool) for item in have for tool in item.get("tools", [])}
        new = [one for one in found.get(str(server.get("id")), []) if (one.type, one.tool) not in taken]
        if new:
            server["adapters"] = [*have, *(one.as_config() for one in new)]
            added += len(new)
    if added:
        if re.search(r"^servers:.*\n(?:\s*#.*\n|\s*\n)* +- ", given, re.MULTILINE):
            yaml.indent(sequence=4, offset=2)
        text = io.StringIO()
        yaml.dump(value, text)
        temporary = path.with_name(f".{path.name}.new")
        temporary.touch(mode=0o600)
        shutil.copymode(path, temporary)
        temporary.write_text(text.getvalue(), encoding="utf-8")
        temporary.replace(path)
    print(f"{added} adapters added to {path}", file=sys.stderr)
    return 0


def _ignore(method: str, params: dict[str, Any]) -> None:
    del method, params


def _no_answer(method: str, params: dict[str, Any]) -> None:
    del method, params
