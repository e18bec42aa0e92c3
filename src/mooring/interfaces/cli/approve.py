"""`mooring approve`: say yes or no to calls that wait for a person."""

from __future__ import annotations

import argparse
import json
import sys
import time

from mooring.interfaces.cli.failure import Failed
from mooring.interfaces.cli.gateway_socket import find_socket
from mooring.interfaces.cli.output import duration, one_line, print_table
from mooring.policy.approvals import FOLDER, Requests


def run(arguments: argparse.Namespace) -> int:
    """Without an id: what waits."""
    requests = Requests(find_socket(arguments).parent / FOLDER)
    if arguments.id is None:
        return _list(requests, arguments)
    try:
        decided = requests.decide(arguments.id, approved=not arguments.deny)
    except KeyError:
        raise Failed(f"no call `{arguments.id}` waits: see `mooring approve`") from None
    word = "denied" if arguments.deny else "approved, once"
    print(f"`{decided.tool}` on `{decided.server}` for {decided.principal} is {word}", file=sys.stderr)
    return 0


def _list(requests: Requests, arguments: argparse.Namespace) -> int:
    waiting = [request for request in requests.all() if not request.approved]
    if arguments.format == "json":
        shown = ("id", "principal", "server", "tool", "arguments", "expires")
        print(json.dumps([{name: getattr(request, name) for name in shown} for request in waiting]))
        return 0
    rows = [
        (
            request.id,
            one_line(request.principal),
            f"{request.server} {one_line(request.tool)}",
            duration(request.expires - time.time()),
            one_line(request.arguments),
        )
        for request in waiting
    ]
    print_table(("ID", "WHO", "WHAT", "EXPIRES IN", "ARGUMENTS"), rows, sys.stdout)
    return 0
