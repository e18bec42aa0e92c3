"""Event stream framing, both ways (WHATWG HTML, "Server-sent events", interpreting an event stream).

Two things differ from a browser. Data stays bytes: it is JSON for somebody else to decode. And an event
with an id or a retry but no data is delivered, with empty data: MCP servers open a resumable stream with
such a priming event (2025-11-25 basic/transports, resumability).
"""

import msgspec

KEEP_ALIVE = b": keep-alive\n\n"

MAX_FIELD_BYTES = 1 << 16
"""The longest line that is not data. Ids and event names are short; data alone is worth memory."""

_BOM = b"\xef\xbb\xbf"
_COLON, _LINE_FEED, _RETURN, _SPACE = b":\n\r "
_COMMON_HEAD = b"event: message\ndata: "
_COMMON_HEAD_BYTES = len(_COMMON_HEAD)
_DATA_FIELD = b"data:"
_MAX_RETRY_DIGITS = 15  # a wait of 30,000 years; int() refuses very long ones


class Event(msgspec.Struct, frozen=True, gc=False):
    """One event. `id` is the one written in this event, not the last one seen; "" asks to forget it."""

    data: bytes
    event: str = "message"
    id: str | None = None
    retry: int | None = None


class EventPart(msgspec.Struct, frozen=True, gc=False):
    """A piece of the data of a large event.

    `event`, `id` and `retry` are what was read so far; fields may follow the data, so only the last part
    is sure to have them all.
    """

    data: bytes
    first: bool
    last: bool
    event: str = "message"
    id: str | None = None
    retry: int | None = None


class EventTooLarge(Exception):
    """The peer sent an event over the limit: the stream cannot be read any further.

    `events` holds what the same bytes completed before it.
    """

    def __init__(self, limit: int, events: list[Event | EventPart]) -> None:
        super().__init__(f"an event of the stream is larger than {limit} bytes")
        self.events = events


class EventReader:
    """Reads an event stream that may arrive cut anywhere.

    Memory is bounded by `max_event_bytes`, or by `spill_at` if that is given: then an event whose data
    has passed `spill_at` bytes and is not complete is handed out in parts, as its bytes arrive.
    """

    __slots__ = (
        "_after_return",
        "_data",
        "_event",
        "_id",
        "_in_data",
        "_max_event_bytes",
        "_opening",
        "_retry",
        "_size",
        "_spill_at",
        "_spilling",
        "_tail",
        "last_id",
    )

    def __init__(self, max_event_bytes: int, spill_at: int | None = None) -> None:
        self.last_id: str | None = None
        self._max_event_bytes = max_event_bytes
        self._spill_at = spill_at
        self._opening: bytes | None = b""  # until three bytes have shown whether there is a byte order mark
        self._after_return = False  # a line feed coming next belongs to the CR before it
        self._tail = b""  # an unfinished line that is not, or not yet known to be, a data line
        self._in_data = False  # the unfinished line is a data line: its value goes straight to _data
        self._clear()

    def feed(self, data: bytes) -> list[Event | EventPart]:
        """Take the next bytes of the stream; return what they complete."""
        if self._opening is not None:
            data = self._open(data)
        if self._after_return and data:
            self._after_return = False
            if data[0] == _LINE_FEED:
                data = data[1:]
        if b"\r" in data:
            # From here on lines end in LF. A CR at the very end ends its line now; its LF may follow.
            self._after_return = data[-1] == _RETURN
            data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        events: list[Event | EventPart] = []
        start = 0
        if not self._size and not self._tail:
            while data.startswith(_COMMON_HEAD, start):
                end = data.find(b"\n", start + _COMMON_HEAD_BYTES)
                if end < 0 or end - start > self._max_event_bytes or not data.startswith(b"\n\n", end):
                    break
                events.append(Event(data[start + _COMMON_HEAD_BYTES : end]))
                start = end + 2
        if start < len(data):
            self._feed_lines(data, start, events)
        return events

    def _open(self, data: bytes) -> bytes:
        opening = (self._opening or b"") + data
        if len(opening) < len(_BOM) and _BOM.startswith(opening):
            self._opening = opening
            return b""
        self._opening = None
        return opening.removeprefix(_BOM)

    def _feed_lines(self, data: bytes, start: int, events: list[Event | EventPart]) -> None:
        while (end := data.find(b"\n", start)) >= 0:
            if self._in_data:
                self._extend(data, start, end, events)
                self._in_data = False
            elif self._tail:
                line = self._tail + data[start:end]
                self._tail = b""
                self._end_line(line, events)
            elif end == start:
                self._end_event(events)
            else:
                self._end_line(data[start:end], events)
            start = end + 1
        if start < len(data):
            self._keep(data, start, events)
        if self._spill_at is not None and self._data is not None:
            self._spill(self._spill_at, events)

    def _end_line(self, line: bytes, events: list[Event | EventPart]) -> None:
        if line[0] == _COLON:
            return
        self._count(len(line), events)
        if line.startswith(_DATA_FIELD):
            self._add_data(line[6:] if line[5:6] == b" " else line[5:])
            return
        if len(line) > MAX_FIELD_BYTES:
            raise EventTooLarge(MAX_FIELD_BYTES, events)
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"event":
            self._event = value.decode(errors="replace") or "message"
        elif name == b"id":
            if b"\0" not in value:
                self._id = value.decode(errors="replace")
        elif name == b"retry":
            if value.isdigit() and len(value) <= _MAX_RETRY_DIGITS:
                self._retry = int(value)
        elif name == b"data":
            self._add_data(b"")

    def _keep(self, data: bytes, start: int, events: list[Event | EventPart]) -> None:
        """Hold an unfinished line: as little of it as is needed to go on."""
        if self._in_data:
            self._extend(data, start, len(data), events)
            return
        tail = self._tail + data[start:] if self._tail else data[start:]
        if tail[0] == _COLON:
            self._tail = b":"
        elif tail.startswith(_DATA_FIELD) and len(tail) > len(_DATA_FIELD):
            self._tail = b""
            self._in_data = True
            value = tail[6:] if tail[5] == _SPACE else tail[5:]
            self._count(len(tail), events)
            self._add_data(value)
        elif len(tail) > min(MAX_FIELD_BYTES, self._max_event_bytes - self._size):
            raise EventTooLarge(min(MAX_FIELD_BYTES, self._max_event_bytes), events)
        else:
            self._tail = tail

    def _add_data(self, value: bytes) -> None:
        if self._data is None:
            self._data = value
        else:
            buffer = self._buffer()
            buffer += b"\n"
            buffer += value

    def _extend(self, data: bytes, start: int, end: int, events: list[Event | EventPart]) -> None:
        self._count(end - start, events)
        buffer = self._buffer()
        buffer += memoryview(data)[start:end]

    def _buffer(self) -> bytearray:
        if not isinstance(self._data, bytearray):
            self._data = bytearray(self._data or b"")
        return self._data

    def _count(self, size: int, events: list[Event | EventPart]) -> None:
        self._size += size
        if self._size > self._max_event_bytes:
            raise EventTooLarge(self._max_event_bytes, events)

    def _spill(self, spill_at: int, events: list[Event | EventPart]) -> None:
        data = self._data
        if data and (self._spilling or len(data) > spill_at):
            first = not self._spilling
            events.append(EventPart(bytes(data), first, False, self._event, self._id, self._retry))
            self._spilling = True
            # Not None: a further data line still has a line before it.
            self._data = bytearray()

    def _end_event(self, events: list[Event | EventPart]) -> None:
        if self._id is not None:
            self.last_id = self._id
        if self._spilling:
            data = bytes(self._data or b"")
            events.append(EventPart(data, False, True, self._event, self._id, self._retry))
        elif self._data is not None or self._id is not None or self._retry is not None:
            events.append(Event(bytes(self._data or b""), self._event, self._id, self._retry))
        self._clear()

    def _clear(self) -> None:
        self._data: bytes | bytearray | None = None
        self._event = "message"
        self._id: str | None = None
        self._retry: int | None = None
        self._size = 0
        self._spilling = False


def encode_event(
    data: bytes,
    event: bytes | None = b"message",
    id: bytes | None = None,  # noqa: A002  the field's name
    retry: int | None = None,
) -> bytes:
    """Frame one event. A CR or CRLF inside `data` arrives as LF: the format cannot tell them apart."""
    if id is None and retry is None and event == b"message" and b"\n" not in data and b"\r" not in data:
        return b"event: message\ndata: %b\n\n" % data
    head = b""
    if event is not None:
        head += b"event: %b\n" % _one_line(event)
    if id is not None:
        if b"\0" in id:
            raise ValueError("an event id cannot hold a NUL byte: readers would ignore it")
        head += b"id: %b\n" % _one_line(id)
    if retry is not None:
        head += b"retry: %d\n" % retry
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if b"\n" in data:
        data = data.replace(b"\n", b"\ndata: ")
    return b"%bdata: %b\n\n" % (head, data)


def _one_line(value: bytes) -> bytes:
    if b"\n" in value or b"\r" in value:
        raise ValueError("an event name or id cannot hold a line break: encode it first")
    return value
