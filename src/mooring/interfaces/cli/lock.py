"""`mooring lock`: approve tool definitions, and see in words what has changed since."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from mooring.config.guard_definitions import OBSERVED
from mooring.interfaces.cli.client import Client
from mooring.interfaces.cli.control_api import get_json
from mooring.interfaces.cli.failure import Failed, no_such_server
from mooring.interfaces.cli.gateway_socket import find_socket
from mooring.interfaces.cli.output import one_line, print_indented
from mooring.policy.pinning.drift import changes, described
from mooring.policy.pinning.lock import LOCK_PLACE, Locked, read_lock, write_lock

Json = dict[str, Any]
_NO_LOCK = "the gateway keeps no lock: set `core.tool_definition_lock.mode` to `warn` or `block`"


def begin(arguments: argparse.Namespace) -> int:
    """Lock servers that are not locked yet; exit 1 if others differ, which only a person may approve."""
    path = _lock_file(arguments)
    offered = _offered(arguments)
    locked = _read(path)
    new = {server: tools for server, tools in offered.items() if server not in locked.servers}
    if new:
        write_lock(path, Locked(locked.version, {**locked.servers, **new}))
    count = sum(len(tools) for tools in new.values())
    print(f"{count} tools of {len(new)} servers are now locked in {path}", file=sys.stderr)
    known = {server: tools for server, tools in offered.items() if server not in new}
    changed = _differences(locked, known)
    if changed:
        names = ", ".join(f"`{server}`" for server in changed)
        print(
            f"not as locked: {names}; see `mooring lock diff`, then `mooring lock approve`", file=sys.stderr
        )
    return 1 if changed else 0


def write(arguments: argparse.Namespace) -> int:
    """Lock what is there now."""
    path = _lock_file(arguments)
    offered = _offered(arguments)
    locked = _read(path)
    for server, tools in offered.items():
        locked.servers[server] = tools
    write_lock(path, locked)
    count = sum(len(tools) for tools in offered.values())
    print(f"{count} tools of {len(offered)} servers are locked in {path}", file=sys.stderr)
    return 0


def diff(arguments: argparse.Namespace) -> int:
    """Exit 0 if nothing differs, 1 otherwise."""
    found = _differences(_read(_lock_file(arguments)), _offered(arguments))
    if arguments.format == "json":
        print(json.dumps(found))
    for server, tools in found.items() if arguments.format == "text" else ():
        for tool, lines in tools.items():
            print(f"{server}: {one_line(tool)}")
            for line in lines:
                print_indented(one_line(line), "  ")
    if not found:
        print("nothing differs from the lock", file=sys.stderr)
    return 1 if found else 0


def approve(arguments: argparse.Namespace) -> int:
    """Take differences into the lock."""
    path = _lock_file(arguments)
    locked, offered = _read(path), _offered(arguments)
    found = _differences(locked, offered)
    count = 0
    for server, tools in found.items():
        for tool in tools:
            if arguments.tool and tool != arguments.tool:
                continue
            definition = offered[server].get(tool)
            if definition is None:
                del locked.servers[server][tool]
            else:
                locked.servers.setdefault(server, {})[tool] = definition
            count += 1
    if arguments.tool and not count:
        raise Failed(f"nothing about `{arguments.tool}` differs from the lock: see `mooring lock diff`")
    write_lock(path, locked)
    print(f"{count} changes are approved in {path}", file=sys.stderr)
    return 0


def _differences(locked: Locked, offered: dict[str, dict[str, Json]]) -> dict[str, dict[str, list[str]]]:
    found: dict[str, dict[str, list[str]]] = {}
    for server, tools in offered.items():
        approved = locked.servers.get(server, {})
        for name in sorted({*tools, *approved}):
            if name not in approved:
                lines = ["is new", *described(tools[name])]
            elif name not in tools:
                lines = ["is gone"]
            else:
                lines = changes(approved[name], tools[name])
            if lines:
                found.setdefault(server, {})[name] = lines
    return found


def _offered(arguments: argparse.Namespace) -> dict[str, dict[str, Json]]:
    """What the servers offer now: each is asked for its list, and the gateway writes down what it saw."""
    socket = find_socket(arguments)
    known = [entry["id"] for entry in get_json(socket, "/api/v1/status")["servers"]]
    if arguments.server and arguments.server not in known:
        raise no_such_server(arguments.server, known)
    offered: dict[str, dict[str, Json]] = {}
    for server in [arguments.server] if arguments.server else known:
        file = socket.parent / OBSERVED / f"{server}.json"
        try:
            _list(socket, server)
        except Failed as error:
            if not file.exists():
                raise
            print(f"note: {error}; what it offered last counts", file=sys.stderr)
        if not file.exists():
            raise Failed(
                "the gateway keeps no lock: set `core.tool_definition_lock.mode` to `warn` or `block`"
            )
        offered[server] = json.loads(file.read_bytes())
    return offered


def _list(socket: Path, server: str) -> None:
    with Client(socket, server, {}, notify=lambda _m, _p: None, answer=lambda _m, _p: None) as client:
        cursor: Json = {}
        while True:
            page = client.request("tools/list", cursor)
            if "nextCursor" not in page:
                return
            cursor = {"cursor": page["nextCursor"]}


def _lock_file(arguments: argparse.Namespace) -> Path:
    """Where the gateway has its lock, as it wrote down itself."""
    place = find_socket(arguments).parent / OBSERVED / LOCK_PLACE
    try:
        return Path(place.read_text(encoding="utf-8"))
    except OSError as error:
        raise Failed(_NO_LOCK) from error


def _read(path: Path) -> Locked:
    try:
        return read_lock(path)
    except (OSError, ValueError) as error:
        raise Failed(str(error)) from error
