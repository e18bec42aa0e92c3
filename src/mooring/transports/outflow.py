"""What waits to be written to one reader, in order; what is on disk leaves it no faster than it is read."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterator

from mooring.transports.spool import Kept

log = logging.getLogger("mooring.http")


class Outflow(ABC):
    """The queue; to where is up to whoever builds on it. Nothing here refers back to it, so that files are
    closed in the moment in which nobody needs them any more."""

    __slots__ = ("_queue", "_scheduled", "queued_bytes")

    def __init__(self) -> None:
        self.queued_bytes = 0
        self._queue: deque[bytes | Iterator[bytes]] | None = None  # most never need one
        self._scheduled = False

    @abstractmethod
    def put_out(self, data: bytes) -> None:
        """Write to the reader."""

    @property
    @abstractmethod
    def takes_more(self) -> bool:
        """Whether the reader reads."""

    @abstractmethod
    def caught_up(self) -> None:
        """Nothing waits any more."""

    @abstractmethod
    def broke(self) -> None:
        """What waited on disk cannot be had, so the reader gets no more."""

    @property
    def is_behind(self) -> bool:
        return bool(self._queue)

    def queue(self, data: bytes | Kept) -> None:
        if self._queue is None:
            self._queue = deque()
        if isinstance(data, bytes):
            self._queue.append(data)
            self.queued_bytes += len(data)
        else:
            self._queue.append(data.pieces())
        self.pump()

    def forget_queue(self) -> None:
        self._queue = None
        self.queued_bytes = 0

    def pump(self) -> None:
        """Write what can be written; of what is on disk a piece per turn of the loop."""
        if self._scheduled or not self._queue:
            return
        while self._queue and self.takes_more:
            first = self._queue[0]
            if isinstance(first, bytes):
                self._queue.popleft()
                self.queued_bytes -= len(first)
                self.put_out(first)
            elif self._put_out_piece(first):
                self._scheduled = True
                asyncio.get_running_loop().call_soon(self._again)
                return
        if not self._queue:
            self.caught_up()

    def _put_out_piece(self, pieces: Iterator[bytes]) -> bool:
        try:
            piece = next(pieces, None)
        except OSError:
            log.exception("a large message that waited on disk could not be read again")
            self.forget_queue()
            self.broke()
            return False
        if piece is None:
            assert self._queue is not None
            self._queue.popleft()
            return False
        self.put_out(piece)
        return True

    def _again(self) -> None:
        self._scheduled = False
        self.pump()
