"""One traced message as a line for people.

    12:03:01.123  client ──▶ mooring             a1b2  tools/call #7            312 B
    12:03:01.124             mooring ──▶ server  4711  tools/call #3            312 B
    12:03:01.390             mooring ◀── server  4711  result of tools/call #3  1.2 kB  +266 ms
    12:03:01.391  client ◀── mooring             a1b2  result of tools/call #7  1.2 kB  +268 ms

The lanes keep their columns, so that a message that came in and did not go on is seen at once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from mooring.interfaces.cli.output import milliseconds, one_line, printable, size, styled

_TO_ASCII = str.maketrans({"─": "-", "▶": ">", "◀": "<", "·": "-", "…": "~"})
_STYLE_BY_KIND = {"request": "bold", "error": "red", "noise": "yellow", "notification": "cyan"}
# Requests without an answer yet; a trace may run for weeks.
_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class _Columns:
    """How much room each part of a line has."""

    lanes: dict[tuple[str, str], str]
    gap: str
    peer: int
    what: int
    size: int
    since: int

    @property
    def lane(self) -> int:
        return len(self.lanes["client", "in"])

    @property
    def before_what(self) -> int:
        return len("hh:mm:ss.123") + self.lane + self.peer + 3 * len(self.gap)

    @property
    def total(self) -> int:
        return self.before_what + self.what + self.size + self.since + 2 * len(self.gap)


_WIDE = _Columns(
    {
        ("client", "in"): "client ──▶ mooring           ",
        ("client", "out"): "client ◀── mooring           ",
        ("server", "out"): "           mooring ──▶ server",
        ("server", "in"): "           mooring ◀── server",
    },
    gap="  ",
    peer=10,
    what=36,
    size=8,
    since=9,
)
_NARROW = _Columns(
    {
        ("client", "in"): "client ─▶       ",
        ("client", "out"): "client ◀─       ",
        ("server", "out"): "       ─▶ server",
        ("server", "in"): "       ◀─ server",
    },
    gap=" ",
    peer=6,
    what=26,
    size=7,
    since=8,
)
"""For terminals of 80 columns."""


class Conversation:
    """Turns messages into lines; remembers what was asked, so that an answer can name it."""

    def __init__(self, *, colour: bool, ascii_only: bool = False, width: int | None = None) -> None:
        """`width`: the lines fit into so many columns, if these are enough for anything."""
        self._colour = colour
        self._ascii_only = ascii_only
        self._width = width
        self._columns = _WIDE if width is None or width >= _WIDE.total else _NARROW
        self._asked: dict[tuple[Any, ...], str] = {}

    def lines(self, event: dict[str, Any]) -> Iterator[str]:
        """The line of this message, and below it its bytes if they came along."""
        for line in self._message(self._with_method(event)):
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

    def _message(self, event: dict[str, Any]) -> Iterator[str]:
        columns, gap = self._columns, self._columns.gap
        # The clock of whoever watches: that is the one they compare with.
        moment = datetime.fromtimestamp(event.get("t", 0)).astimezone()
        time = self._styled(f"{moment:%H:%M:%S}.{moment.microsecond // 1000:03d}", "dim")
        kind, note = str(event.get("kind", "")), one_line(str(event.get("note") or ""))
        lane = columns.lanes.get((event.get("leg", ""), event.get("dir", "")), "")
        peer = _peer(str(event.get("peer") or ""))[: columns.peer].ljust(columns.peer)
        if kind == "state":
            yield gap.join((time, " " * columns.lane, peer, self._styled(f"· {note}", "dim")))
            return
        what = self._styled(self._fitted(_what(event, kind)), _STYLE_BY_KIND.get(kind, ""))
        weight = size(event["size"]) if event.get("size") is not None else ""
        since = event.get("since_request_ms")
        after = f"+{milliseconds(since)}" if since is not None else ""
        figures = gap.join((weight.rjust(columns.size), after.rjust(columns.since)))
        line = gap.join((time, lane.ljust(columns.lane), peer, what, figures))
        has_room = self._width is None or columns.total + len(note) + 4 <= self._width
        yield (line + self._styled(f"  · {note}", "dim") if note and has_room else line).rstrip()
        if note and not has_room:
            yield " " * columns.before_what + self._styled(f"· {note}", "dim")

    def _fitted(self, what: str) -> str:
        most = self._columns.what
        if self._width is not None and len(what) > most:
            return what[: most - 1] + "…"
        return what.ljust(most)

    def _styled(self, text: str, style: str) -> str:
        return styled(text, style, self._colour)


def _peer(peer: str) -> str:
    """The beginning of a session's name or of a process id; of an address the port, which sets it apart."""
    host, colon, port = peer.rpartition(":")
    return one_line(f":{port}" if colon and host else peer)


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
