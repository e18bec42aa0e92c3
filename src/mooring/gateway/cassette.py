"""A cassette: the conversation of a server in a file that people can read, one message a line.

The first line says what it is. Every further one holds a message as it was on the wire, with secrets blotted
out, who said it, when, and in which of the server's sessions.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final, Literal

import msgspec
from msgspec import Raw

from mooring.errors import MooringError

FORMAT: Final = 1
Side = Literal["client", "server"]


class CassetteMistake(MooringError):
    """The file is not a cassette; the message names the line."""


class Introduction(msgspec.Struct, frozen=True):
    """What the server said of itself before the recording began."""

    method: Literal["initialize", "server/discover"]
    result: dict[str, Any]


class Header(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    cassette: int
    server: str = ""
    recorded_at: str = ""
    introduction: Introduction | None = None


class Line(msgspec.Struct, frozen=True, omit_defaults=True):
    """One message. `s` is the time in seconds since the beginning; `from` who said it."""

    s: float
    side: Side = msgspec.field(name="from")
    message: Raw
    session: str = ""


class _Shape(msgspec.Struct):
    jsonrpc: str


class Writer:
    """Writes a cassette, whole lines only, each at once."""

    def __init__(self, path: Path, header: Header) -> None:
        self._file = path.open("wb", buffering=0)
        self._file.write(msgspec.json.encode(header) + b"\n")
        self.count = 0

    def write(self, seconds: float, side: Side, message: bytes, session: str = "") -> None:
        """A message, whose secrets have been blotted out; what is no message is left out."""
        text = message.replace(b"\n", b" ").replace(b"\r", b" ")  # between its tokens: strings have none
        try:
            msgspec.json.decode(text, type=_Shape | list[_Shape])
        except (msgspec.DecodeError, UnicodeDecodeError):
            return
        line = Line(round(seconds, 3), side, Raw(text), session)
        self._file.write(msgspec.json.encode(line) + b"\n")
        self.count += 1

    def close(self) -> None:
        self._file.close()


def read(path: Path) -> tuple[Header, list[tuple[int, Line]]]:
    """The header, and every line with its number."""
    try:
        texts = path.read_bytes().split(b"\n")
    except OSError as error:
        raise CassetteMistake(
            f"`{path}` cannot be read: {(error.strerror or 'unreadable').lower()}"
        ) from error
    try:
        header = msgspec.json.decode(texts[0], type=Header)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise CassetteMistake(
            f"`{path}` is not a cassette: {error}; make one with `mooring record`"
        ) from error
    if header.cassette != FORMAT:
        raise CassetteMistake(f"`{path}` is of format {header.cassette}; this version reads {FORMAT}")
    lines: list[tuple[int, Line]] = []
    for number, text in enumerate(texts[1:], 2):
        if not text.strip():
            continue
        try:
            lines.append((number, msgspec.json.decode(text, type=Line)))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise CassetteMistake(f"`{path}`, line {number}: {error}") from error
    return header, lines
