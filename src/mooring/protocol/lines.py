"""Newline-delimited framing: bytes in, whole lines out; what cannot be a message is set aside as noise.

A server's stdout carries one JSON message per line (2025-11-25 basic/transports, stdio). Servers also
print things they should not: a banner, a traceback, bytes of another encoding. One such line must cost
one log entry, not the connection, so a line is sorted by its look alone; whether it is valid JSON is
judged by whoever decodes it.
"""

import codecs

import msgspec

NOISE_HEAD_BYTES = 512
"""How much of a line over the limit is kept: enough to recognise it in a log."""

NOT_JSON = "not JSON"
NOT_UTF8 = "not valid UTF-8"
TOO_LONG = "line over the limit"
UNFINISHED = "a line without its end"

_BOM = b"\xef\xbb\xbf"
_BLANKS = b" \t\r"
_OPENERS = b"{["
_CLOSERS = b"}]"
_UTF8_STEP_BYTES = 1 << 16


class Message(msgspec.Struct, frozen=True, gc=False):
    """A line that looks like a JSON object or array, without the blanks around it."""

    data: bytes


class Noise(msgspec.Struct, frozen=True, gc=False):
    """A line that cannot be a message, and why."""

    data: bytes
    why: str


class LinePart(msgspec.Struct, frozen=True, gc=False):
    """A piece of a long line that looks like a JSON object."""

    data: bytes
    last: bool


Line = Message | Noise | LinePart


class LineReader:
    """Cuts a byte stream into lines; the bytes may arrive cut anywhere.

    Holds at most `max_bytes` of an unfinished line. A longer one is reported once, as soon as it is too
    long, and skipped up to its newline. With `spill_at` an unfinished object that is longer than that is
    handed out in parts, as its bytes arrive; if it then becomes too long, noise comes in place of its end.
    """

    __slots__ = ("_head", "_max_bytes", "_partial", "_skipping", "_spill_at", "_spilled")

    def __init__(self, max_bytes: int, spill_at: int | None = None) -> None:
        self._max_bytes = max_bytes
        self._spill_at = max_bytes if spill_at is None else spill_at
        self._partial = bytearray()
        self._skipping = False
        self._spilled = 0
        self._head = b""

    def feed(self, data: bytes) -> list[Line]:
        """Take the next bytes of the stream; return the lines they complete."""
        if not self._partial and not self._skipping and not self._spilled:
            end = data.find(b"\n")
            if end == len(data) - 1 and 0 < end <= self._max_bytes:
                if data[0] in _OPENERS and data[end - 1] in _CLOSERS and data.isascii():
                    return [Message(data[:end])]  # as nearly all are: nothing to strip, nothing to check
                line = sort_line(data[:end])
                return [] if line is None else [line]
        return self._feed_slowly(data)

    def finish(self) -> list[Line]:
        """The stream has ended: a last line without its newline counts as a line."""
        line = Noise(self._head, UNFINISHED) if self._spilled else sort_line(bytes(self._partial))
        self._partial = bytearray()
        self._skipping = False
        self._spilled = 0
        return [] if line is None else [line]

    def _feed_slowly(self, data: bytes) -> list[Line]:
        lines: list[Line] = []
        start = 0
        while (end := data.find(b"\n", start)) >= 0:
            self._end_line(data, start, end, lines)
            start = end + 1
        if start < len(data) and not self._skipping:
            if self._spilled:
                self._spill(data[start:], lines, last=False)
            else:
                self._keep(data, start, len(data), lines)
                self._begin_to_spill(lines)
        return lines

    def _end_line(self, data: bytes, start: int, end: int, lines: list[Line]) -> None:
        if self._skipping:
            self._skipping = False
            return
        if self._spilled:
            self._spill(data[start:end], lines, last=True)
            return
        if self._partial or end - start > self._max_bytes:
            self._keep(data, start, end, lines)
            if self._skipping:
                self._skipping = False
                return
            whole = bytes(self._partial)
            self._partial = bytearray()
        else:
            whole = data[start:end]
        line = sort_line(whole)
        if line is not None:
            lines.append(line)

    def _keep(self, data: bytes, start: int, end: int, lines: list[Line]) -> None:
        partial = self._partial
        if len(partial) + end - start <= self._max_bytes:
            partial += memoryview(data)[start:end]
            return
        # Never more than the limit itself, so that the head is the same however the line was cut.
        kept = min(NOISE_HEAD_BYTES, self._max_bytes)
        head = bytes(partial[:kept])
        lines.append(Noise(head + data[start : start + kept - len(head)], TOO_LONG))
        self._partial = bytearray()
        self._skipping = True

    def _begin_to_spill(self, lines: list[Line]) -> None:
        if len(self._partial) <= self._spill_at:
            return
        text = bytes(self._partial[:64]).lstrip(_BLANKS).removeprefix(_BOM).lstrip(_BLANKS)
        if text.startswith(b"{"):
            first = bytes(self._partial).lstrip(_BLANKS).removeprefix(_BOM)
            self._spilled = len(self._partial)
            self._head = first[:NOISE_HEAD_BYTES]
            self._partial = bytearray()
            lines.append(LinePart(first, False))

    def _spill(self, data: bytes, lines: list[Line], *, last: bool) -> None:
        self._spilled += len(data)
        if self._spilled > self._max_bytes:
            lines.append(Noise(self._head, TOO_LONG))
            self._skipping = not last
            self._spilled = 0
        else:
            lines.append(LinePart(data, last))
            if last:
                self._spilled = 0


def sort_line(line: bytes) -> Message | Noise | None:
    """Tell a message from noise; None for a blank line. `line` comes without its newline."""
    text = line.strip(_BLANKS)
    if text.startswith(_BOM):
        # Written at stream start by some runtimes, and by a few at every write.
        text = text[len(_BOM) :].lstrip(_BLANKS)
    if not text:
        return None
    if text[0] not in _OPENERS:
        return Noise(line, NOT_JSON)
    if text.isascii() or _is_utf8(text):
        return Message(text)
    return Noise(line, NOT_UTF8)


def encode_line(message: bytes) -> bytes:
    """Frame one JSON message.

    Raw line breaks can only be white space between tokens (a JSON string cannot hold them), so they
    become spaces: pretty-printed JSON from an HTTP client fits on one line.
    """
    if b"\n" in message:
        message = message.replace(b"\n", b" ")
    if b"\r" in message:
        message = message.replace(b"\r", b" ")
    return message + b"\n"


def _is_utf8(text: bytes) -> bool:
    # In steps: decoding a large line at once would need up to four times its size.
    start, size = 0, len(text)
    view = memoryview(text)
    try:
        while start < size:
            stop = start + _UTF8_STEP_BYTES
            start += codecs.utf_8_decode(view[start:stop], "strict", stop >= size)[1]
    except UnicodeDecodeError:
        return False
    return True
