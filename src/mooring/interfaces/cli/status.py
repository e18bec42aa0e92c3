"""`mooring status`: which server is up, and why one is not."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

from mooring.interfaces.cli.control_api import get_json
from mooring.interfaces.cli.failure import no_such_server
from mooring.interfaces.cli.gateway_socket import find_socket
from mooring.interfaces.cli.output import duration, one_line, print_table, size, styled, wants_colour
from mooring.interfaces.cli.run_api import ask, path_of

_HEADS = ("id", "state", "kind", "era", "transport", "sessions", "calls", "errors", "last success", "url")
_LEAST = ("transport", "era", "kind", "sessions", "last success", "calls", "errors")
_STYLE_BY_STATE = {"up": "green", "down": "red"}


def run(arguments: argparse.Namespace) -> int:
    """Print the state of each server, or all about one workload."""
    if arguments.name:
        return _run_one(arguments)
    status = get_json(find_socket(arguments), "/api/v1/status")
    servers: list[dict[str, Any]] = status.get("servers", [])
    if arguments.format == "json":
        print(json.dumps(status, indent=2, ensure_ascii=False))
    else:
        _print_text(status, servers, () if arguments.long else _LEAST)
    return 0


def _run_one(arguments: argparse.Namespace) -> int:
    found = _workload_or_server(arguments)
    if arguments.format == "json":
        print(json.dumps(found, indent=2, ensure_ascii=False))
        return 0
    rows = [(label, text) for key, label in _DETAILS.items() if (text := _shown(found.get(key), key))]
    width = max(len(label) for label, _ in rows)
    for label, text in rows:
        print(f"{label.ljust(width)}  {one_line(text)}")
    return 0


def _workload_or_server(arguments: argparse.Namespace) -> dict[str, Any]:
    """All about a workload; of a server that is only connected to, what there is to say about it."""
    socket = find_socket(arguments)
    servers: list[dict[str, Any]] = get_json(socket, "/api/v1/status").get("servers", [])
    named = {str(server["id"]): server for server in servers}
    if arguments.name not in named:
        raise no_such_server(arguments.name, named)
    if not named[arguments.name].get("workload"):
        return named[arguments.name]
    return ask(socket, "GET", path_of("workloads", arguments.name))


_DETAILS = {
    "id": "name",
    "name": "name",
    "state": "state",
    "status": "status",
    "reasons": "because",
    "status_context": "because",
    "url": "url",
    "package": "runs",
    "version": "version",
    "integrity": "integrity",
    "group": "group",
    "runtime": "runtime",
    "sandbox": "sandbox",
    "permission_profile": "permissions",
    "kind": "kind",
    "era": "era",
    "revision": "revision",
    "transport": "transport",
    "transport_type": "transport",
    "share": "share",
    "tools": "tools",
    "labels": "labels",
    "created_at": "created",
    "started_at": "started",
    "last_sign_of_life_seconds_ago": "sign of life",
    "last_success_seconds_ago": "last success",
    "pids": "processes",
    "memory_bytes": "memory",
    "sessions": "sessions",
    "calls": "calls",
    "errors": "errors",
    "refused_connections": "refused connections",
    "notes": "notes",
}


def _shown(value: Any, key: str) -> str:
    if value is None or value in ([], {}):
        return ""
    match key:
        case "memory_bytes":
            return size(int(value))
        case "last_sign_of_life_seconds_ago" | "last_success_seconds_ago":
            return f"{duration(float(value))} ago"
        case "labels":
            return ", ".join(f"{name}={text}" for name, text in value.items())
        case "pids" | "tools":
            return ", ".join(map(str, value))
        case "notes" | "reasons":
            return "; ".join(map(str, value))
        case _:
            return str(value)


def _print_text(status: dict[str, Any], servers: list[dict[str, Any]], least: Sequence[str]) -> None:
    print(
        f"mooring {status.get('version', '?')}, up for {duration(status.get('uptime_seconds', 0))}",
        file=sys.stderr,
    )
    if not servers:
        print("no servers: start one with `mooring run`, or add one under `servers`", file=sys.stderr)
        return
    print_table(_HEADS, [_row(server) for server in servers], least=least)
    colour = wants_colour(sys.stdout)
    for server in servers:
        reasons: list[str] = server.get("reasons", [])
        for reason in reasons:
            state = _state(server)
            mark = styled(f"{server['id']} is {state}", _STYLE_BY_STATE.get(state, ""), colour)
            print(f"{mark}: {one_line(reason)}")


def _state(server: dict[str, Any]) -> str:
    """Where there is something to say about it, in the words of its workload: `stopped`, `error`, ..."""
    phase = server.get("workload")
    return str(phase if server.get("reasons") and phase not in (None, "running") else server.get("state", ""))


def _row(server: dict[str, Any]) -> list[str]:
    ago = server.get("last_success_seconds_ago")
    return [
        str(server.get("id", "")),
        _state(server),
        str(server.get("kind", "")),
        str(server.get("era") or "-"),
        str(server.get("transport") or "-"),
        str(server.get("sessions", 0)),
        str(server.get("calls", 0)),
        str(server.get("errors", 0)),
        "never" if ago is None else f"{duration(ago)} ago",
        str(server.get("url", "")),
    ]
