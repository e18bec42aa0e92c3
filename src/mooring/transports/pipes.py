"""Our ends of a child's pipes: bytes to a callback, bytes from a queue that makes its writers wait.

Pipes of our own rather than those of the event loop's subprocess calls: these cost one loop turn less for
each read, and one of the loops would give the child sockets, which it cannot reopen as /dev/stdin.
"""

import asyncio
import os
from collections.abc import Callable
from typing import cast

STDIN_HIGH_WATER_BYTES = 1 << 18
"""How much may be queued for a child that does not read before writers have to wait."""


class StdinClosed(ConnectionError):
    """The child does not take input any more: it has ended, closed its stdin, or is being closed."""


class InputPipe(asyncio.BaseProtocol):
    """Our end of the child's stdin."""

    def __init__(self, on_lost: Callable[[], None]) -> None:
        self._on_lost = on_lost
        self._transport: asyncio.WriteTransport | None = None
        self._room = asyncio.Event()
        self._turn = asyncio.Lock()
        self._accepting = False
        self.open = False

    async def connect(self) -> int:
        """Make the pipe; the caller gives the returned end to the child and closes it."""
        theirs, ours = os.pipe()
        try:
            loop = asyncio.get_running_loop()
            file = os.fdopen(ours, "wb", buffering=0, closefd=_closes_files(loop))
            transport, _ = await loop.connect_write_pipe(lambda: self, file)
        except BaseException:
            os.close(theirs)
            raise
        transport.set_write_buffer_limits(high=STDIN_HIGH_WATER_BYTES)
        return theirs

    @property
    def writable(self) -> bool:
        return self._accepting and self._room.is_set()

    def write(self, data: bytes) -> None:
        if not self._accepting or self._transport is None:
            raise StdinClosed("the server has closed its input; start it again")
        self._transport.write(data)

    async def drain(self) -> None:
        if self._turn.locked() or not self.writable:
            # One at a time: when there is room again, the first writes and the next looks anew, so what
            # is queued stays within the mark and one message, however many are waiting.
            async with self._turn:
                await self._room.wait()
        if not self._accepting:
            raise StdinClosed("the server has closed its input; start it again")

    def close(self) -> None:
        """Take no more; the child sees the end of its input after what is queued."""
        self._accepting = False
        self._room.set()
        if self.open and self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Take no more and forget what is queued."""
        self._accepting = False
        self._room.set()
        transport = self._transport
        if not self.open or transport is None:
            return
        if not transport.is_closing() or transport.get_write_buffer_size():
            # Otherwise its end is on the way already; asyncio would announce it twice.
            transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)
        self.open = self._accepting = True
        self._room.set()

    def pause_writing(self) -> None:
        if self._accepting:
            self._room.clear()

    def resume_writing(self) -> None:
        self._room.set()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self.open = self._accepting = False
        self._room.set()
        self._on_lost()


class OutputPipe(asyncio.Protocol):
    """Our end of the child's stdout or stderr."""

    def __init__(self, on_data: Callable[[bytes], object], on_lost: Callable[[], None]) -> None:
        self._on_data = on_data
        self._on_lost = on_lost
        self._transport: asyncio.ReadTransport | None = None
        self.open = False

    async def connect(self) -> int:
        """Make the pipe; the caller gives the returned end to the child and closes it."""
        ours, theirs = os.pipe()
        try:
            loop = asyncio.get_running_loop()
            file = os.fdopen(ours, "rb", buffering=0, closefd=_closes_files(loop))
            await loop.connect_read_pipe(lambda: self, file)
        except BaseException:
            os.close(theirs)
            raise
        return theirs

    def pause(self) -> None:
        if self.open and self._transport is not None:
            self._transport.pause_reading()

    def resume(self) -> None:
        if self.open and self._transport is not None:
            self._transport.resume_reading()

    def discard(self) -> None:
        """Go on reading, so that the child does not block, but throw it away."""
        self._on_data = len

    def close(self) -> None:
        if self.open and self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.ReadTransport, transport)
        self.open = True

    def data_received(self, data: bytes) -> None:
        self._on_data(data)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002
        self.open = False
        self._on_lost()


def _closes_files(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether the loop ends a pipe by closing its file object.

    uvloop closes the descriptor beneath it, then the file object too: that would close the same number
    twice, and in between it may have become somebody else's.
    """
    return isinstance(loop, asyncio.BaseEventLoop)
