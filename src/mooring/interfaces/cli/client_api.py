"""`mooring client` where the user's own gateway runs: it knows its servers, and keeps the clients' files."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from mooring.ecosystem.clients.table import ClientKind
from mooring.interfaces.cli.asking import confirmed, show_diff
from mooring.interfaces.cli.gateway_socket import find_socket
from mooring.interfaces.cli.own_gateway import own_gateway
from mooring.interfaces.cli.run_api import Json, ask, path_of


def gateway_for(arguments: argparse.Namespace) -> Path | None:
    """The user's own gateway, if that is the one that is meant, and it runs."""
    own = own_gateway()
    return own if own is not None and find_socket(arguments).absolute() == own.absolute() else None


def rows(socket: Path) -> list[dict[str, object]]:
    """What is known of every client."""
    found: list[Json] = ask(socket, "GET", path_of("clients"))["clients"]
    return [{**row, "entries": row["servers"]} for row in found]


def check_group(socket: Path, group: str) -> None:
    """A group may be empty; one that is not there is an error that names those there are."""
    ask(socket, "GET", path_of("groups", group))


def register(socket: Path, client: ClientKind, arguments: argparse.Namespace) -> None:
    wish = {
        "group": arguments.group,
        "servers": list(arguments.server) or None,
        "replace": bool(arguments.replace),
    }
    target = path_of("clients", client.id, "register")
    planned = ask(socket, "POST", target, {**wish, "dry_run": True})
    for name in planned["migrated"]:
        print(f"`{name}` was written differently before and is brought up to date", file=sys.stderr)
    if _go_on(planned, arguments):
        done = ask(socket, "POST", target, wish)
        if done["before"] == done["after"]:
            print(f"{client.title} is registered; servers appear there when you run them", file=sys.stderr)


def remove(socket: Path, client: ClientKind, arguments: argparse.Namespace) -> None:
    target = path_of("clients", client.id, "remove")
    if _go_on(ask(socket, "POST", target, {"dry_run": True}), arguments):
        ask(socket, "POST", target, {})


def undo(socket: Path, client: ClientKind) -> str:
    """The file that is as it was before."""
    return str(ask(socket, "POST", path_of("clients", client.id, "undo"))["file"])


def _go_on(planned: dict[str, Any], arguments: argparse.Namespace) -> bool:
    """Show the change and ask; what changes no byte needs no question."""
    if planned["before"] == planned["after"]:
        return not arguments.dry_run
    path = Path(planned["file"])
    show_diff(path, planned["before"], planned["after"])
    return not arguments.dry_run and confirmed(arguments, f"write this to `{path}`?")
