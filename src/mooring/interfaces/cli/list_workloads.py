"""`mooring list`: every workload, and why one is not running."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any
from urllib.parse import urlencode

from mooring.interfaces.cli.gateway_socket import answers, find_socket
from mooring.interfaces.cli.output import one_line, print_table, styled, wants_colour
from mooring.interfaces.cli.run_api import ask
from mooring.interfaces.cli.service_daemon import is_own

_HEADS = ("name", "status", "group", "transport", "runs", "url")
_LEAST = ("transport", "group", "runs")
STYLES = {"running": "green", "error": "red", "unhealthy": "red", "unknown": "yellow", "starting": "yellow"}
_LONGEST = 44


def run(arguments: argparse.Namespace) -> int:
    """Print them as a table or as JSON."""
    socket = find_socket(arguments)
    workloads: list[dict[str, Any]] = []
    hint = "no workloads: start one with `mooring run npx://PACKAGE`"
    if is_own(arguments) and not answers(socket):
        hint = "the gateway does not run: `mooring run` starts it, and `mooring start --all` what it ran"
    else:
        if arguments.label or arguments.group:
            hint = "no such workloads: `mooring list` shows all"
        query = [("label", label) for label in arguments.label]
        query += [("group", arguments.group)] if arguments.group else []
        target = "/api/v1/workloads" + (f"?{urlencode(query)}" if query else "")
        workloads = ask(socket, "GET", target)["workloads"]
    if arguments.format == "json":
        print(json.dumps(workloads, indent=2, ensure_ascii=False))
    elif workloads:
        print_table(
            _HEADS, [_row(workload) for workload in workloads], least=() if arguments.long else _LEAST
        )
        _print_reasons(workloads)
    else:
        print(hint, file=sys.stderr)
    return 0


def _row(workload: dict[str, Any]) -> list[str]:
    package = one_line(str(workload["package"]))
    return [
        str(workload["name"]),
        str(workload["status"]),
        str(workload["group"]),
        str(workload["transport_type"]),
        package if len(package) <= _LONGEST else package[: _LONGEST - 3] + "...",
        str(workload["url"]),
    ]


def _print_reasons(workloads: list[dict[str, Any]]) -> None:
    """What there is to say about them, once: on many machines most servers are idle."""
    colour = wants_colour(sys.stdout)
    names: dict[tuple[str, str], list[str]] = {}
    for workload in workloads:
        if context := str(workload["status_context"]):
            names.setdefault((str(workload["status"]), context), []).append(str(workload["name"]))
    for (status, context), those in names.items():
        who = f"{', '.join(those)} {'is' if len(those) == 1 else 'are'} {status}"
        print(f"{styled(who, STYLES.get(status, ''), colour)}: {one_line(context)}")
