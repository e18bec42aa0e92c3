"""`mooring approve`: say yes or no to calls that wait for a person."""

from __future__ import annotations

import argparse
import json
import sys
import time

from mooring.interfaces.cli.gateway_socket import find_socket
from mooring.interfaces.cli.output import duration, one_line, print_table
from mooring.interfaces.cli.run_api import Json, ask, path_of


def run(arguments: argparse.Namespace) -> int:
    """Without an id: what waits."""
    if arguments.id is None:
        return _list(arguments)
    target = path_of("approvals", arguments.id)
    decided: Json = ask(find_socket(arguments), "POST", target, {"approved": not arguments.deny})
    word = "denied" if arguments.deny else "approved, once"
    who = one_line(decided["principal"])
    print(f"`{one_line(decided['tool'])}` on `{decided['server']}` for {who} is {word}", file=sys.stderr)
    return 0


def _list(arguments: argparse.Namespace) -> int:
    waiting: list[Json] = ask(find_socket(arguments), "GET", path_of("approvals"))["calls"]
    if arguments.format == "json":
        print(json.dumps(waiting))
        return 0
    if not waiting:
        print("no call waits for a yes", file=sys.stderr)
        return 0
    rows = [
        (
            call["id"],
            one_line(call["principal"]),
            f"{call['server']} {one_line(call['tool'])}",
            duration(call["expires"] - time.time()),
            one_line(call["arguments"]),
        )
        for call in waiting
    ]
    print_table(("id", "who", "what", "expires in", "arguments"), rows, sys.stdout)
    return 0
