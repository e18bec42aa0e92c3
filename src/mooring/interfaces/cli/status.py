"""`mooring status`: which server is up, and why one is not."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from mooring.interfaces.cli.control_api import get_json
from mooring.interfaces.cli.gateway_socket import find_socket
from mooring.interfaces.cli.output import duration, one_line, print_table, styled, wants_colour

_HEADS = ("id", "state", "kind", "era", "transport", "sessions", "calls", "errors", "last success", "url")
_STYLE_BY_STATE = {"up": "green", "down": "red"}


def run(arguments: argparse.Namespace) -> int:
    """Print the state of each server."""
    status = get_json(find_socket(arguments), "/api/v1/status")
    servers: list[dict[str, Any]] = status.get("servers", [])
    if arguments.format == "json":
        print(json.dumps(status, indent=2, ensure_ascii=False))
    else:
        _print_text(status, servers)
    return 0


def _print_text(status: dict[str, Any], servers: list[dict[str, Any]]) -> None:
    print(
        f"mooring {status.get('version', '?')}, up for {duration(status.get('uptime_seconds', 0))}",
        file=sys.stderr,
    )
    if not servers:
        print("no servers: add one under `servers` in the configuration", file=sys.stderr)
        return
    print_table(_HEADS, [_row(server) for server in servers])
    colour = wants_colour(sys.stdout)
    for server in servers:
        reasons: list[str] = server.get("reasons", [])
        for reason in reasons:
            state = str(server.get("state"))
            mark = styled(f"{server['id']} is {state}", _STYLE_BY_STATE.get(state, ""), colour)
            print(f"{mark}: {one_line(reason)}")


def _row(server: dict[str, Any]) -> list[str]:
    ago = server.get("last_success_seconds_ago")
    return [
        str(server.get("id", "")),
        str(server.get("state", "")),
        str(server.get("kind", "")),
        str(server.get("era") or "-"),
        str(server.get("transport") or "-"),
        str(server.get("sessions", 0)),
        str(server.get("calls", 0)),
        str(server.get("errors", 0)),
        "never" if ago is None else f"{duration(ago)} ago",
        str(server.get("url", "")),
    ]
