"""Answers that flow through: what they say is known only when their end has passed.

Whether a tool failed (`isError`) may stand before or behind megabytes of content. Nothing is kept and hardly
anything is looked at: a search for the word, and only from there on the braces are counted, because the word
counts where two of them close behind it: as a member of the `result`, not of something in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from mooring.transports.wire import Relay

Done = Callable[[int, bool, Exception | None, bytes], None]
"""Told how many bytes there were, whether they say that the tool failed, what went wrong on the way, and how
they begin."""
_WORD: Final = b'"isError"'
_FAILED: Final = re.compile(rb'"isError"\s{0,8}:\s{0,8}true')
_LONGEST: Final = len(_WORD) + 8 + 1 + 8 + len("true")
_TOKEN: Final = re.compile(rb'["{}\[\]]')
_REST_OF_STRING: Final = re.compile(rb'[^"\\]*+(?:\\.[^"\\]*+)*+("?)', re.DOTALL)
_RESULT_DEPTH: Final = 2


class FailureScan:
    """Finds `"isError": true` in the result of a response that is fed in pieces."""

    def __init__(self) -> None:
        self._carry = b""
        self._counting = self._in_string = False
        self._depth = 0
        self._candidates: set[int] = set()

    def feed(self, data: bytes) -> None:
        if self._counting:
            self._count(self._carry + data)
            return
        seam = self._carry + data[:_LONGEST]
        if _WORD in seam or _WORD in data:
            self._look_for_start(self._carry + data)
        else:
            self._carry = (self._carry + data)[-_LONGEST:] if len(data) < _LONGEST else data[-_LONGEST:]

    def failed(self) -> bool:
        """Whether it was there; asked when everything has been fed."""
        if self._counting:
            self._count(self._carry, is_end=True)
        return self._depth + _RESULT_DEPTH in self._candidates

    def _look_for_start(self, data: bytes) -> None:
        found = _FAILED.search(data)
        if found is None:
            self._carry = data[-_LONGEST:]
            return
        self._counting = True
        self._count(data[found.start() :])

    def _count(self, data: bytes, *, is_end: bool = False) -> None:
        self._carry = b""
        place = 0
        while place < len(data):
            if self._in_string:
                rest = _REST_OF_STRING.match(data, place)
                assert rest is not None
                place = rest.end()
                self._in_string = not rest[1]
                if self._in_string:
                    self._carry = data[place:]  # a backslash whose other half is still to come
                    return
                continue
            token = _TOKEN.search(data, place)
            if token is None:
                return
            place = token.end()
            if token[0] != b'"':
                self._depth += 1 if token[0] in b"{[" else -1
            elif found := _FAILED.match(data, token.start()):
                self._candidates.add(self._depth)
                place = found.end()
            elif not is_end and len(data) - token.start() < _LONGEST:
                self._carry = data[token.start() :]  # perhaps the word, cut in two
                return
            else:
                self._in_string = True


class AuditedRelay:
    """An answer that flows through: its event is written before the last of it does."""

    def __init__(self, relay: Relay, done: Done, scan: FailureScan | None, kept_bytes: int = 0) -> None:
        self.length = relay.length
        self._relay = relay
        self._done: Done | None = done
        self._scan = scan
        self._seen = 0
        self._head = bytearray()
        self._kept = kept_bytes

    def attach(self, on_data: Callable[[bytes], None], on_end: Callable[[Exception | None], None], /) -> None:
        def data(chunk: bytes) -> None:
            self._seen += len(chunk)
            if len(self._head) < self._kept:
                self._head += chunk[: self._kept - len(self._head)]
            if self._scan is not None:
                self._scan.feed(chunk)
            if self.length is not None and self._seen >= self.length:
                self._finish(None)
            on_data(chunk)

        def end(error: Exception | None) -> None:
            self._finish(error)
            on_end(error)

        self._relay.attach(data, end)

    def _finish(self, error: Exception | None) -> None:
        done, self._done = self._done, None
        if done is not None:
            done(self._seen, self._scan is not None and self._scan.failed(), error, bytes(self._head))

    def pause(self) -> None:
        self._relay.pause()

    def resume(self) -> None:
        self._relay.resume()

    def abort(self) -> None:
        self._finish(ConnectionAbortedError("the client has gone"))
        self._relay.abort()
