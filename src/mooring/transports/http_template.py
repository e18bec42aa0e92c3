"""Recognises a message whose head is, but for its content-length, byte for byte the one before.

A client that keeps its connection sends the same headers again and again, and so does a server. The first
time, a head goes through the parser and every check. When the next message of the connection has the same
bytes around another length, and is complete, nothing is left to find out about it: its parts are known.
Whatever differs in a single byte goes through the parser again.
"""

from __future__ import annotations

from typing import Self

_MAX_DIGITS = 10
_LENGTH = b"\r\ncontent-length:"


_HEADS_KNOWN = 8
MISSES_IN_VAIN = 16
"""After so many messages that differ from the one before, only every so manyth is still learnt from."""


class HeadTemplate:
    """The bytes of a head before and after the digits of its content-length."""

    __slots__ = ("_after", "_after_length", "_before", "_before_length", "digits", "known")

    def __init__(self, before: bytes, after: bytes) -> None:
        self._before = before
        self._before_length = len(before)
        self._after = after
        self._after_length = len(after)
        self.digits = b""
        """The content-length of the last message that matched, as it was written."""
        self.known: dict[int, tuple[bytes, int, bytes]] = {}
        """By the length of a whole message: its head, where its body begins, and its content-length. A
        message of that length which begins with that head is a match."""

    @classmethod
    def of(cls, data: bytes) -> Self | None:
        """Learn from a message that the parser has accepted; None if it is not a single, complete one."""
        end = data.find(b"\r\n\r\n") + 4
        if end < 4 or not data[:1].isalpha():
            return None
        head = data[:end]
        name = head.lower().find(_LENGTH)
        if name < 0:
            return cls(head, b"") if end == len(data) else None
        stop = head.index(b"\r", name + len(_LENGTH))
        value = head[name + len(_LENGTH) : stop]
        digits = value.lstrip(b" \t")
        template = cls(head[: stop - len(digits)], head[stop:])
        return template if template.body_start(data) == end else None

    def body_start(self, data: bytes) -> int:
        """Where the body begins if `data` is one whole message with this head; otherwise -1."""
        if not data.startswith(self._before):
            return -1
        if not self._after_length:
            return self._before_length if len(data) == self._before_length else -1
        start = self._before_length
        stop = data.find(b"\r", start, start + _MAX_DIGITS + 1)
        if stop < 0 or not data.startswith(self._after, stop):
            return -1
        digits = self.digits = data[start:stop]
        body = stop + self._after_length
        if not digits.isdigit() or len(data) - body != int(digits):
            return -1
        if len(self.known) >= _HEADS_KNOWN:
            self.known.clear()
        self.known[len(data)] = (data[:body], body, digits)
        return body
