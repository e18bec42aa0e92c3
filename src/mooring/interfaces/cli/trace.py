"""`mooring trace`: the conversation of a server, as it happens."""

from __future__ import annotations

import argparse
import http.client
import json
import shutil
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote, urlencode

from mooring.interfaces.cli.control_api import get
from mooring.interfaces.cli.failure import Failed
from mooring.interfaces.cli.gateway_socket import find_socket
from mooring.interfaces.cli.output import end_line, wants_colour
from mooring.interfaces.cli.spans import seconds
from mooring.interfaces.cli.trace_text import Conversation

# As many recorded messages as the gateway keeps; it sends fewer if it has fewer.
_ALL = 1_000_000
# What was recorded comes at once; without --follow a quiet second is its end.
QUIET_SECONDS = 1.0
_NOTHING = "nothing was recorded: that happens only while somebody watches, or with `trace.file`"


def run(arguments: argparse.Namespace) -> int:
    """Print each message until the gateway ends, or Ctrl-C."""
    oldest = time.time() - seconds("--since", arguments.since) if arguments.since else None
    history = _ALL if oldest is not None or not arguments.follow else 0
    query = {"history": history, "follow": int(arguments.follow), "bytes": int(arguments.bytes)}
    target = f"/api/v1/trace/{quote(arguments.id, safe='')}?{urlencode(query)}"
    response = get(find_socket(arguments), target, timeout=None if arguments.follow else QUIET_SECONDS)
    if arguments.follow and sys.stderr.isatty():
        print(f"watching `{arguments.id}`; Ctrl-C to stop", file=sys.stderr)
    show = _show_json if arguments.format == "json" else _text_printer()
    shown = 0
    try:
        for event in _events(response):
            if oldest is None or event.get("t", oldest) >= oldest:
                show(event)
                shown += 1
    except KeyboardInterrupt:
        end_line()
    if not shown and not arguments.follow:
        print(_NOTHING, file=sys.stderr)
    return 0


def _events(response: http.client.HTTPResponse) -> Iterator[dict[str, Any]]:
    try:
        while line := response.readline():
            if line.strip():
                yield json.loads(line)
    except TimeoutError:
        return
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise Failed(f"the gateway ended the trace: {error or type(error).__name__}") from error


def _show_json(event: dict[str, Any]) -> None:
    print(json.dumps(event, separators=(",", ":"), ensure_ascii=False), flush=True)


def _text_printer() -> Callable[[dict[str, Any]], None]:
    ascii_only = "utf" not in (sys.stdout.encoding or "").lower()
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    conversation = Conversation(colour=wants_colour(sys.stdout), ascii_only=ascii_only, width=width)

    def show(event: dict[str, Any]) -> None:
        for line in conversation.lines(event):
            print(line, flush=True)

    return show
