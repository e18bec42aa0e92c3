"""One traced message as a line for people.

    12:03:01.123  client ──▶ mooring             a1b2  tools/call #7            312 B
    12:03:01.124             mooring ──▶ server  4711  tools/call #3            312 B
    12:03:01.390             mooring ◀── server  4711  result of tools/call #3  1.2 kB  +266 ms
    12:03:01.391  client ◀── mooring             a1b2  result of tools/call #7  1.2 kB  +268 ms

The lanes keep their columns, so that a message that came in and did not go on is seen at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from mooring.interfaces.cli.output import milliseconds, one_line, printable, size, styled

_LANES = {
    ("client", "in"): "client ──▶ mooring           ",
    ("client", "out"): "client ◀── mooring           ",
    ("server", "out"): "           mooring ──▶ server",
    ("server", "in"): "           mooring ◀── server",
}
_NO_LANE = " " * 29
_TO_ASCII = str.maketrans({"─": "-", "▶": ">", "◀": "<", "·": "-"})
_STYLE_BY_KIND = {"request": "bold", "error": "red", "noise": "yellow", "notification": "cyan"}
_WHAT_WIDTH = 36
_PEER_WIDTH = 10
# Requests without an answer yet; a trace may run for weeks.
_REMEMBERED = 10_000


class Conversation:
    """Turns messages into lines; remembers what was asked, so that an answer can name it."""

    def __init__(self, *, colour: bool, ascii_only: bool = False) -> None:
        self._colour = colour
        self._ascii_only = ascii_only
        self._asked: dict[tuple[Any, ...], str] = {}

    def lines(self, event: dict[str, Any]) -> Iterator[str]:
        """The line of this message, and below it its bytes if they came along."""
        line = _line(self._with_method(event), self._colour)
        yield line.translate(_TO_ASCII) if self._ascii_only else line
        if content := event.get("bytes"):
            yield f"    {styled(printable(str(content)).rstrip(), 'dim', self._colour)}"

    def _with_method(self, event: dict[str, Any]) -> dict[str, Any]:
        kind, direction = event.get("kind"), event.get("dir")
        place = (event.get("leg"), event.get("peer"), event.get("id"))
        if kind == "request":
            if len(self._asked) >= _REMEMBERED:
                del self._asked[next(iter(self._asked))]
            self._asked[*place, direction] = str(event.get("method"))
        elif kind in ("response", "error") and not event.get("method"):
            return {**event, "method": self._asked.pop((*place, "in" if direction == "out" else "out"), None)}
        return event


def _line(event: dict[str, Any], colour: bool) -> str:
    # The clock of whoever watches: that is the one they compare with.
    moment = datetime.fromtimestamp(event.get("t", 0)).astimezone()
    time = styled(f"{moment:%H:%M:%S}.{moment.microsecond // 1000:03d}", "dim", colour)
    kind = str(event.get("kind", ""))
    lane = _NO_LANE if kind == "state" else _LANES.get((event.get("leg", ""), event.get("dir", "")), _NO_LANE)
    peer = _peer(str(event.get("peer") or "")).ljust(_PEER_WIDTH)
    note = str(event.get("note") or "")
    if kind == "state":
        return f"{time}  {lane}  {peer}  {styled(f'· {one_line(note)}', 'dim', colour)}"
    what = styled(_what(event, kind).ljust(_WHAT_WIDTH), _STYLE_BY_KIND.get(kind, ""), colour)
    weight = size(event["size"]).rjust(8) if event.get("size") is not None else " " * 8
    since = event.get("since_request_ms")
    after = f"+{milliseconds(since)}".rjust(9) if since is not None else " " * 9
    tail = styled(f"  · {one_line(note)}", "dim", colour) if note else ""
    return f"{time}  {lane}  {peer}  {what}  {weight}  {after}{tail}".rstrip()


def _peer(peer: str) -> str:
    """The beginning of a session's name or of a process id; of an address the port, which sets it apart."""
    host, colon, port = peer.rpartition(":")
    return one_line(f":{port}" if colon and host else peer)[:_PEER_WIDTH]


def _what(event: dict[str, Any], kind: str) -> str:
    method = one_line(str(event.get("method") or ""))
    number = event.get("id")
    name = f"{method} #{one_line(str(number))}".lstrip() if number is not None else method
    match kind:
        case "response":
            return f"result of {name}" if method else f"result {name}".rstrip()
        case "error":
            return f"error for {name}" if method else f"error {name}".rstrip()
        case "noise":
            return "noise, not a message"
        case _:
            return name or kind
