"""What waits to be written to one reader, in order; what is on disk leaves it no faster than it is read."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterator

from mooring.transports.spool import Kept

log = logging.getLogger("mooring.http")


class Outflow:
    """`write` takes the bytes whenever `writable` says so; `on_idle` is told when nothing waits any more,
    `on_broken` when the rest cannot be had (a disk that fails)."""

    __slots__ = ("_on_broken", "_on_idle", "_queue", "_scheduled", "_writable", "_write", "queued_bytes")

    def __init__(
        self,
        write: Callable[[bytes], None],
        writable: Callable[[], bool],
        on_idle: Callable[[], None],
        on_broken: Callable[[], None],
    ) -> None:
        self.queued_bytes = 0
        self._write = write
        self._writable = writable
        self._on_idle = on_idle
        self._on_broken = on_broken
        self._queue: deque[bytes | Iterator[bytes]] = deque()
        self._scheduled = False

    @property
    def idle(self) -> bool:
        return not self._queue

    def put(self, data: bytes | Kept) -> None:
        if isinstance(data, bytes):
            self._queue.append(data)
            self.queued_bytes += len(data)
        else:
            self._queue.append(data.pieces())
        self.pump()

    def clear(self) -> None:
        self._queue.clear()
        self.queued_bytes = 0

    def pump(self) -> None:
        """Write what can be written; of what is on disk a piece per turn of the loop."""
        if self._scheduled or not self._queue:
            return
        while self._queue and self._writable():
            first = self._queue[0]
            if isinstance(first, bytes):
                self._queue.popleft()
                self.queued_bytes -= len(first)
                self._write(first)
            elif self._write_piece(first):
                self._scheduled = True
                asyncio.get_running_loop().call_soon(self._again)
                return
        if not self._queue:
            self._on_idle()

    def _write_piece(self, pieces: Iterator[bytes]) -> bool:
        try:
            piece = next(pieces, None)
        except OSError:
            log.exception("a large message that waited on disk could not be read again")
            self.clear()
            self._on_broken()
            return False
        if piece is None:
            self._queue.popleft()
            return False
        self._write(piece)
        return True

    def _again(self) -> None:
        self._scheduled = False
        self.pump()
