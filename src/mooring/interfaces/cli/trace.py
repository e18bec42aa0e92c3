"""`mooring trace`: the conversation of a server, as it happens."""

from __future__ import annotations

import argparse
import http.client
import json
import re
import sys
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import quote, urlencode

from mooring.interfaces.cli import trace_text
from mooring.interfaces.cli.control_api import get
from mooring.interfaces.cli.failure import Failed
from mooring.interfaces.cli.gateway_socket import find_socket
from mooring.interfaces.cli.output import wants_colour

# As many recorded messages as the gateway keeps; it sends fewer if it has fewer.
_ALL = 1_000_000
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}


def run(arguments: argparse.Namespace) -> int:
    """Print each message until the gateway ends, or Ctrl-C."""
    oldest = time.time() - _seconds(arguments.since) if arguments.since else None
    history = _ALL if oldest is not None or not arguments.follow else 0
    query = {"history": history, "follow": int(arguments.follow), "bytes": int(arguments.bytes)}
    target = f"/api/v1/trace/{quote(arguments.id, safe='')}?{urlencode(query)}"
    response = get(find_socket(arguments), target, timeout=None if arguments.follow else 30)
    if arguments.follow and sys.stderr.isatty():
        print(f"watching `{arguments.id}`; Ctrl-C to stop", file=sys.stderr)
    try:
        for event in _events(response):
            if oldest is None or event.get("t", oldest) >= oldest:
                _show(event, arguments.format)
    except KeyboardInterrupt:
        return 0
    return 0


def _events(response: http.client.HTTPResponse) -> Iterator[dict[str, Any]]:
    try:
        while line := response.readline():
            if line.strip():
                yield json.loads(line)
    except (OSError, ValueError, http.client.HTTPException) as error:
        raise Failed(f"the gateway ended the trace: {error or type(error).__name__}") from error


def _show(event: dict[str, Any], kind: str) -> None:
    if kind == "json":
        print(json.dumps(event, separators=(",", ":"), ensure_ascii=False), flush=True)
        return
    ascii_only = "utf" not in (sys.stdout.encoding or "").lower()
    for line in trace_text.lines(event, colour=wants_colour(sys.stdout), ascii_only=ascii_only):
        print(line, flush=True)


def _seconds(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", text)
    if not match:
        raise Failed(f"`--since {text}` is not a time span: write for example 30s, 5m or 1h")
    return float(match.group(1)) * _UNITS[match.group(2)]
