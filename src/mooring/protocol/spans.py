"""Where the members of a JSON object are, found while its bytes pass by in pieces.

For messages that are too large to be held: an `id` may come after a huge `result`, so the envelope is known
only at the end, and by then the bytes are elsewhere. What lies inside a member is passed over (strings and
brackets are kept apart, brackets must match), not checked any further: that is up to whoever decodes it.
"""

from __future__ import annotations

import codecs
import re
from enum import Enum, auto
from typing import Final, NamedTuple

import msgspec

from mooring.errors import InvalidRequest, ParseFailed

SHORT_BYTES: Final = 1024
"""Values up to this length are remembered as they are."""
MAX_MEMBERS: Final = 256
MAX_DEPTH: Final = 1000

_BLANK = re.compile(rb"[ \t\r\n]*+")
_STRING_REST = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+', re.DOTALL)
_SCALAR_REST = re.compile(rb"[^ \t\r\n,}\]]*+")
_SHAPE = re.compile(rb"([}\]]*)([{\[]*)")
_BRACKETS_AND_QUOTES = b'"{}[]'
_EVERYTHING_ELSE = bytes(byte for byte in range(256) if byte not in _BRACKETS_AND_QUOTES)
_CLOSING = bytes.maketrans(b"{[", b"}]")
_QUOTE, _BACKSLASH, _OPEN, _CLOSE, _COLON, _COMMA = b'"\\{}:,'
_OPENERS = b"{["


class Span(NamedTuple):
    """From the first byte of a value up to behind its last one."""

    start: int
    end: int


class _State(Enum):
    OPENING = auto()
    FIRST_NAME = auto()
    NEXT_NAME = auto()
    NAME = auto()
    COLON = auto()
    VALUE = auto()
    STRING = auto()
    SCALAR = auto()
    NESTED = auto()
    INNER = auto()
    AFTER = auto()
    DONE = auto()


class ObjectScanner:
    """Takes the bytes of one object. `members` and `short` grow as it goes; a name given twice counts once,
    with its last value, as decoders have it.

    The member called `inside` is looked into as well: `inner` knows its members, if it is an object.
    """

    def __init__(self, inside: str | None = None, offset: int = 0, most: int = MAX_MEMBERS) -> None:
        self.members: dict[str, Span] = {}
        self.short: dict[str, bytes] = {}
        self.inner: ObjectScanner | None = None
        self._inside = inside
        self._most = most
        self._offset = offset
        self._state = _State.OPENING
        self._name: str | None = ""
        self._start = 0
        self._crowded = False
        self._text = bytearray()
        self._escaped = False
        self._in_string = False
        self._stack = b""
        self._decoder = codecs.getincrementaldecoder("utf-8")()

    def feed(self, data: bytes) -> None:
        """The next bytes. Raises what a decoder would raise of them, as far as it can be seen here."""
        if not data.isascii() or self._decoder.getstate()[0]:
            try:
                self._decoder.decode(data)
            except UnicodeDecodeError:
                raise ParseFailed("not valid UTF-8") from None
        position = self._take(data, 0)
        if self._crowded:
            raise InvalidRequest(f"the message has more than {self._most} members")
        if position < len(data) and _BLANK.match(data, position).end() < len(data):  # type: ignore[union-attr]
            raise ParseFailed("not valid JSON: something follows the message")
        self._offset += len(data)

    def finish(self) -> None:
        """There is no more."""
        if self._state is not _State.DONE:
            raise ParseFailed("not valid JSON: it ends in the middle")

    def _take(self, data: bytes, position: int) -> int:
        """Read on, at most to the end of the object; returns where."""
        while position < len(data) and self._state is not _State.DONE and not self._crowded:
            match self._state:
                case _State.NAME:
                    position = self._read_name(data, position)
                case _State.STRING | _State.SCALAR:
                    position = self._read_plain(data, position)
                case _State.NESTED:
                    position = self._pass_nested(data, position)
                case _State.INNER:
                    position = self._look_inside(data, position)
                case _:
                    position = _BLANK.match(data, position).end()  # type: ignore[union-attr]
                    if position < len(data):
                        position = self._turn(data, position)
        return position

    def _turn(self, data: bytes, position: int) -> int:
        """The byte that decides what comes next."""
        byte = data[position]
        match self._state:
            case _State.OPENING if byte == _OPEN:
                self._state = _State.FIRST_NAME
            case _State.FIRST_NAME | _State.NEXT_NAME if byte == _QUOTE:
                self._state = _State.NAME
                self._text.clear()
            case _State.FIRST_NAME | _State.AFTER if byte == _CLOSE:
                self._state = _State.DONE
            case _State.COLON if byte == _COLON:
                self._state = _State.VALUE
            case _State.AFTER if byte == _COMMA:
                self._state = _State.NEXT_NAME
            case _State.VALUE:
                return self._begin_value(data, position)
            case _:
                raise ParseFailed(
                    f"not valid JSON: an unexpected character at byte {self._offset + position}"
                )
        return position + 1

    def _begin_value(self, data: bytes, position: int) -> int:
        self._start = self._offset + position
        byte = data[position]
        self._text.clear()
        if self._name == self._inside:
            self.inner = None
        if byte == _QUOTE:
            self._state = _State.STRING
            self._text.append(byte)
        elif byte == _OPEN and self._name == self._inside:
            self._state = _State.INNER
            self.inner = ObjectScanner(offset=self._offset)
            return position
        elif byte in _OPENERS:
            self._state = _State.NESTED
            self._stack = data[position : position + 1]
            self._in_string = self._escaped = False
        else:
            self._state = _State.SCALAR
            return position
        return position + 1

    def _end_value(self, end: int) -> None:
        is_plain = self._state in (_State.STRING, _State.SCALAR)
        self._state = _State.AFTER
        if is_plain and not self._text:
            raise _unexpected(self._start)
        if self._name is None:
            return
        self.members[self._name] = Span(self._start, self._offset + end)
        self.short.pop(self._name, None)
        if is_plain and len(self._text) <= SHORT_BYTES:
            self.short[self._name] = bytes(self._text)
        self._crowded = len(self.members) > self._most

    def _read_name(self, data: bytes, position: int) -> int:
        end = self._string_end(data, position)
        closed = end < len(data) and not self._escaped
        if len(self._text) <= SHORT_BYTES:
            stop = end if closed else len(data)
            self._text += data[position : min(stop, position + SHORT_BYTES + 1)]
        if closed:
            # Nothing that we look for has a name of that length.
            self._name = _decoded(bytes(self._text)) if len(self._text) <= SHORT_BYTES else None
            self._state = _State.COLON
            return end + 1
        return len(data)

    def _read_plain(self, data: bytes, position: int) -> int:
        if self._state is _State.STRING:
            end = self._string_end(data, position)
            closed = end < len(data) and not self._escaped
            after = end + 1 if closed else len(data)
        else:
            after = end = _SCALAR_REST.match(data, position).end()  # type: ignore[union-attr]
            closed = end < len(data)
        if len(self._text) <= SHORT_BYTES:
            self._text += data[position : min(after, position + SHORT_BYTES + 1)]
        if closed:
            self._end_value(after)
        return after

    def _string_end(self, data: bytes, position: int) -> int:
        """Where the closing quote is; where the data ends, if it is not in there (or only half an escape)."""
        if self._escaped:
            self._escaped = False
            position += 1
        quote = data.find(b'"', position)
        if data.find(b"\\", position, quote if quote >= 0 else len(data)) < 0:
            return quote if quote >= 0 else len(data)
        end = _STRING_REST.match(data, position).end()  # type: ignore[union-attr]
        self._escaped = end < len(data) and data[end] == _BACKSLASH
        return end

    def _look_inside(self, data: bytes, position: int) -> int:
        inner = self.inner
        assert inner is not None
        inner._offset = self._offset
        position = inner._take(data, position)
        if inner._crowded:  # legal there, but not worth a list
            self.inner = None
            self._state = _State.NESTED
            self._stack = b"{"
            self._in_string = self._escaped = False
        elif inner._state is _State.DONE:
            self._end_value(position)
        return position

    def _pass_nested(self, data: bytes, position: int) -> int:
        """Pass over what is inside of a value: all at once, and where its end is near, in ever smaller
        steps."""
        step = len(data) - position
        while position < len(data):
            piece = data[position : position + step]
            if self._pass_piece(piece):
                position += len(piece)
            elif step > 1:
                step //= 2
            else:
                self._end_value(position + 1)
                return position + 1
        return position

    def _pass_piece(self, piece: bytes) -> bool:
        """False, and nothing has changed: the value ends in there."""
        text = piece[1:] if self._escaped else piece
        if b"\\" in text:
            text = text.replace(rb"\\", b"").replace(rb"\"", b"")
        outside, in_string = _without_strings(text.translate(None, _EVERYTHING_ELSE), self._in_string)
        shape = _SHAPE.fullmatch(_without_pairs(outside))
        if shape is None:
            raise ParseFailed("not valid JSON: brackets that do not match")
        closing, opening = shape.groups()
        depth = len(self._stack) - len(closing)
        if self._stack[max(depth, 0) :][::-1].translate(_CLOSING) != closing[: len(self._stack)]:
            raise ParseFailed("not valid JSON: brackets that do not match")
        if depth <= 0:
            return False
        self._stack = self._stack[:depth] + opening
        if len(self._stack) > MAX_DEPTH:
            raise InvalidRequest("the message is nested too deeply")
        self._in_string = in_string
        self._escaped = text.endswith(b"\\")
        return True


def _without_strings(marks: bytes, in_string: bool) -> tuple[bytes, bool]:
    """Of quotes and brackets, the brackets outside of strings; and whether it ends within a string."""
    if b'"' not in marks:
        return (b"" if in_string else marks), in_string
    # Between two quotes in a row there is nothing of interest, whether they are one string or join two.
    parts = marks.replace(b'""', b"").split(b'"')
    return b"".join(parts[1 if in_string else 0 :: 2]), in_string ^ (len(parts) % 2 == 0)


def _without_pairs(brackets: bytes) -> bytes:
    for _ in range(MAX_DEPTH):
        fewer = brackets.replace(b"{}", b"").replace(b"[]", b"")
        if len(fewer) == len(brackets):
            return fewer
        brackets = fewer
    raise InvalidRequest("the message is nested too deeply")


def _unexpected(place: int) -> ParseFailed:
    return ParseFailed(f"not valid JSON: an unexpected character at byte {place}")


def _decoded(name: bytes) -> str:
    try:
        return msgspec.json.decode(b'"%b"' % name, type=str)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise ParseFailed("not valid JSON: a name that cannot be read") from None
