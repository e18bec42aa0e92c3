"""`mooring export`: the RunConfig of a workload, for another machine or another day."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from mooring.durable import replace_file
from mooring.interfaces.cli.failure import Failed, reason_of
from mooring.interfaces.cli.gateway_socket import find_socket
from mooring.interfaces.cli.run_api import Refused, ask, explained, path_of


def run(arguments: argparse.Namespace) -> int:
    """Write it to a file or to stdout."""
    socket = find_socket(arguments)
    try:
        document = ask(socket, "GET", path_of("workloads", arguments.name, "export"))
    except Refused as refused:
        raise explained(socket, [arguments.name], refused) from refused
    text = json.dumps(document, indent=2, ensure_ascii=False) + "\n"
    if arguments.file in (None, "-"):
        sys.stdout.write(text)
        return 0
    try:
        replace_file(Path(arguments.file), text.encode(), 0o600)
    except OSError as error:
        raise Failed(f"cannot write `{arguments.file}`: {reason_of(error)}") from error
    print(f"wrote {arguments.file}: `mooring run --from-config {arguments.file}` runs it", file=sys.stderr)
    return 0
