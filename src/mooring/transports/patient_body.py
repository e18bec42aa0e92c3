"""A large complete body on its way to a client: no faster than it reads, and on disk while it does not.

Without this every client that asks for something large and does not take it would cost its size in memory.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Final, Protocol

from mooring.transports.spool import Kept, Spool

log = logging.getLogger("mooring.http")

SPILL_AFTER_SECONDS: Final = 0.5
"""A client that reads takes its next piece within this time; the rest of the others' goes to a file."""


class Taker(Protocol):
    """The reply, once its head has been sent."""

    closed: bool
    on_closed: Callable[[], object] | None
    on_writable_changed: Callable[[bool], object] | None

    @property
    def writable(self) -> bool: ...
    def write(self, data: bytes | bytearray | memoryview) -> None: ...
    def end(self) -> None: ...
    def abort(self) -> None: ...


class PatientBody:
    """Gives a body away a piece per turn of the loop."""

    __slots__ = ("_body", "_piece_bytes", "_pieces", "_reply", "_scheduled", "_timer", "_total", "_upto")

    def __init__(self, reply: Taker, body: bytes | Kept, piece_bytes: int) -> None:
        self._reply = reply
        self._body = memoryview(body if isinstance(body, bytes) else b"")
        self._pieces = None if isinstance(body, bytes) else body.pieces()
        self._total = len(body) if isinstance(body, bytes) else body.length
        self._upto = 0
        self._piece_bytes = piece_bytes
        self._scheduled = False
        self._timer: asyncio.TimerHandle | None = None
        reply.on_writable_changed = self._writable_changed
        reply.on_closed = self._finished
        self._step()

    def _step(self) -> None:
        self._scheduled = False
        reply = self._reply
        if reply.closed:
            return
        try:
            piece = self._next_piece()
        except OSError:
            log.exception("a large answer that waited on disk could not be read again")
            self._finished()
            reply.abort()
            return
        reply.write(piece)
        self._upto += len(piece)
        if self._upto >= self._total:
            self._finished()
            reply.end()
        elif reply.writable:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._step)
        elif self._timer is None and self._pieces is None:
            self._timer = asyncio.get_running_loop().call_later(SPILL_AFTER_SECONDS, self._spill)

    def _next_piece(self) -> bytes:
        if self._pieces is None:
            # A copy: a slice that waits in the socket's buffer would keep the whole body alive.
            return bytes(self._body[self._upto : self._upto + self._piece_bytes])
        return next(self._pieces)

    def _writable_changed(self, writable: bool) -> None:
        if writable:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            if not self._scheduled:
                self._step()

    def _spill(self) -> None:
        """The client does not read: what it has not taken goes to a file that has no name."""
        self._timer = None
        loop = asyncio.get_running_loop()
        storing = loop.run_in_executor(None, _store, self._body[self._upto :])
        storing.add_done_callback(partial(self._stored, self._upto))

    def _stored(self, start: int, storing: asyncio.Future[Spool]) -> None:
        if storing.cancelled():
            return
        error = storing.exception()
        if error is not None:  # it waits in memory then, until the connection is cut off for stalling
            log.warning("a large answer could not wait on disk: %s", error)
        elif self._total:
            spool = storing.result()
            self._pieces = Kept((spool, self._upto - start, spool.size)).pieces()
            self._body = memoryview(b"")

    def _finished(self) -> None:
        """Everything is taken, or nobody takes anything any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._pieces = None
        self._body = memoryview(b"")
        self._total = 0


def _store(rest: memoryview) -> Spool:
    file = Spool()
    file.write(rest)
    return file
