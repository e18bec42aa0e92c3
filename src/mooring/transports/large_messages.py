"""Messages that are too large to be held: their bytes go to disk, their envelope is read while they pass."""

from __future__ import annotations

import logging
from typing import Final

from msgspec import Raw

from mooring.errors import InvalidRequest, RpcError, UpstreamFailed
from mooring.protocol.jsonrpc import is_batch, is_request_id
from mooring.protocol.spans import ObjectScanner, Span
from mooring.transports.spool import Kept, Slice, Spool

log = logging.getLogger("mooring.wire")

WATCHED: Final = (b"resource_link", b"audio", b"\\u")
"""What an older client may not understand in a result, and the way in which it could be spelled otherwise."""
_LONGEST: Final = max(map(len, WATCHED))


class KeptResult:
    """The result of a request, on disk. `members` are those of the result, where each of them is and, if it
    is short, what it is; None if it is no object, or has more of them than anybody needs."""

    __slots__ = ("_scanner", "_spool", "mentions", "whole")

    def __init__(
        self, spool: Spool, span: Span, scanner: ObjectScanner | None, mentions: frozenset[bytes]
    ) -> None:
        self.mentions = mentions
        self.whole: Slice = (spool, span.start, span.end)
        self._spool = spool
        self._scanner = scanner

    @property
    def length(self) -> int:
        return self.whole[2] - self.whole[1]

    @property
    def members(self) -> dict[str, Slice] | None:
        if self._scanner is None:
            return None
        return {name: (self._spool, span.start, span.end) for name, span in self._scanner.members.items()}

    def short(self, name: str) -> bytes:
        """A member's value, if it is a short string, a number or a word."""
        return self._scanner.short.get(name, b"") if self._scanner is not None else b""

    def load(self) -> bytes:
        return Kept(self.whole).load()


class LargeMessage:
    """One message on its way."""

    def __init__(self) -> None:
        self._scanner = ObjectScanner("result")
        self._spool: Spool | None = None
        self._unreadable: RpcError | None = None
        self._unkept: UpstreamFailed | None = None
        self._is_batch = False
        self._mentions: frozenset[bytes] = frozenset()
        self._tail = b""
        self.size = 0

    def add(self, data: bytes) -> None:
        """The next piece. Whatever is wrong with it is said at the end, when it is known whose it is."""
        if not self.size:
            self._is_batch = is_batch(data)
        self.size += len(data)
        if self._unreadable is None and not self._is_batch:
            try:
                self._scanner.feed(data)
            except RpcError as error:
                self._unreadable = error
        self._watch(data)
        if self._unkept is None:
            try:
                if self._spool is None:
                    self._spool = Spool()
                self._spool.write(data)
            except OSError as error:
                log.warning("a message could not be kept on disk: %s", error)
                self.forget()
                self._unkept = UpstreamFailed(
                    "the gateway has no room on its disk for an answer of this size; "
                    "ask for less, or have space made in its data directory"
                )

    def _watch(self, data: bytes) -> None:
        for word in WATCHED:
            if word not in self._mentions and (word in data or word in self._tail + data[:_LONGEST]):
                self._mentions |= {word}
        self._tail = (self._tail + data[-_LONGEST:])[-_LONGEST:]

    def forget(self) -> None:
        if self._spool is not None:
            self._spool.close()
            self._spool = None

    def finish(self) -> None:
        """That was all of it. Raises what is wrong with its envelope."""
        if self._unreadable is not None:
            raise self._unreadable
        if self._is_batch:
            return
        self._scanner.finish()
        short = self._scanner.short
        if short.get("jsonrpc") != b'"2.0"':
            raise InvalidRequest('`jsonrpc` must be "2.0"')
        if "id" in self._scanner.members and not is_request_id(short.get("id", b"null")):
            raise InvalidRequest("`id` must be a string or an integer")

    @property
    def id(self) -> Raw:
        """As far as it is known."""
        return Raw(self._scanner.short.get("id", b""))

    @property
    def is_complete_result(self) -> bool:
        """Whether nothing in it is for us to look at: no error, no request, no questions."""
        members, inner = self._scanner.members, self._scanner.inner
        if "result" not in members or "error" in members or "method" in members or inner is None:
            return False
        return "resultType" not in inner.members or inner.short.get("resultType") == b'"complete"'

    def result(self) -> KeptResult:
        """Raises why it is not there."""
        return KeptResult(self._kept(), self._scanner.members["result"], self._scanner.inner, self._mentions)

    def whole(self) -> Kept:
        """The message as it came."""
        return Kept((self._kept(), 0, self.size))

    def load(self) -> bytes:
        """The same, in memory."""
        try:
            return self._kept().read(0, self.size)
        finally:
            self.forget()

    def _kept(self) -> Spool:
        if self._unkept is not None:
            raise self._unkept
        assert self._spool is not None
        return self._spool
