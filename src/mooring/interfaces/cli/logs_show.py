"""`mooring logs`: what a server wrote on its standard error, and what became of it."""

from __future__ import annotations

import argparse
import http.client
import json
import sys
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

from mooring.interfaces.cli.control_api import get
from mooring.interfaces.cli.failure import Failed
from mooring.interfaces.cli.gateway_socket import find_socket
from mooring.interfaces.cli.output import end_line, one_line, styled, wants_colour
from mooring.interfaces.cli.run_api import explained, path_of


def run(arguments: argparse.Namespace) -> int:
    """Print the last lines, and new ones until Ctrl-C."""
    kinds = [kind for kind in ("server", "events", "network") if getattr(arguments, kind)]
    query = [("lines", str(arguments.lines)), *(("kind", kind) for kind in kinds)]
    if arguments.follow:
        query.append(("follow", "true"))
    target = f"{path_of('workloads', arguments.name, 'logs')}?{urlencode(query)}"
    socket = find_socket(arguments)
    try:
        response = get(socket, target, timeout=None)
    except Failed as refused:
        raise explained(socket, [arguments.name], refused) from refused
    colour = wants_colour(sys.stdout)
    try:
        for line in response:
            if arguments.format == "json":
                print(line.decode().rstrip("\n"), flush=arguments.follow)
            else:
                print(_text(json.loads(line), colour), flush=arguments.follow)
    except KeyboardInterrupt:
        end_line()  # whoever follows a log ends it so
    except (OSError, http.client.HTTPException) as error:
        raise Failed(f"the gateway broke off: {error or type(error).__name__}") from error
    return 0


def _text(line: dict[str, Any], colour: bool) -> str:
    at = datetime.fromisoformat(line["time"]).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    marks = {"events": ("mooring", "cyan"), "network": ("refused", "yellow")}
    word, style = marks.get(line["kind"], ("", ""))
    mark = styled(f"[{word}] ", style, colour) if word else ""
    return f"{styled(at, 'dim', colour)} {mark}{one_line(line['text'])}"
