"""Connections into and out of a container's network, carried as frames over the holder's input and output.

For engines whose networks we cannot open sockets in: they are somebody else's, or in a virtual machine. The
other end is `holder.c`, which says what the frames are. To everybody here a carried connection is a socket.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import struct
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from mooring.workloads.runtime import CannotRun

WINDOW: Final = 16384
PIECE: Final = 4096
HALF: Final = 64
ANSWER_SECONDS: Final = 30.0
_FRAME: Final = struct.Struct("<BxHI")

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Kind(IntEnum):
    """What a frame says."""

    LISTEN = 1
    OPEN = 2
    OPENED = 3
    DATA = 4
    END = 5
    CLOSED = 6
    CREDIT = 7


@dataclass(slots=True)
class _Channel:
    """One connection on our side of the holder."""

    opened: asyncio.Future[None]
    arrived: asyncio.Queue[bytes | None] = field(default_factory=asyncio.Queue[bytes | None])
    """Never more than a window of it: what is not yet written is not yet credited."""
    credit: int = WINDOW
    credited: asyncio.Event = field(default_factory=asyncio.Event)
    told_closed: bool = False
    drawing: asyncio.Task[None] | None = None
    pouring: asyncio.Task[None] | None = None

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        return [task for task in (self.drawing, self.pouring) if task is not None]


class Carrier:
    """Fed with the holder's output; `send` writes to its input."""

    def __init__(
        self, send: Callable[[bytes], Awaitable[None]], on_connection: Callable[[Streams], None]
    ) -> None:
        self._send = send
        self._on_connection = on_connection
        self._turn = asyncio.Lock()
        self._buffer = bytearray()
        self._channels: dict[int, _Channel] = {}
        self._room = asyncio.Semaphore(HALF)
        self._listening: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._tasks: set[asyncio.Task[None]] = set()

    async def listen(self, port: int) -> None:
        """Let the holder accept what the server sends to this port; `CannotRun` when it does not."""
        await self._tell(Kind.LISTEN, 0, port)
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await self._listening
        except (TimeoutError, OSError) as error:
            raise CannotRun("the holder of the container's network does not answer") from error

    async def connect(self, port: int) -> socket.socket:
        """A connection to a server that listens on loopback inside."""
        await self._room.acquire()
        number = next(n for n in range(HALF, 2 * HALF) if n not in self._channels)
        channel = self._new(number)
        await self._tell(Kind.OPEN, number, port)
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await channel.opened
        except TimeoutError:
            await self._abort(number, channel)
            raise
        ours, theirs = socket.socketpair()
        await self._carry(number, channel, ours)
        theirs.setblocking(False)
        return theirs

    def feed(self, data: bytes) -> None:
        """What the holder said, cut anywhere."""
        self._buffer += data
        while len(self._buffer) >= _FRAME.size:
            kind, number, value = _FRAME.unpack_from(self._buffer)
            size = _FRAME.size + (value if kind == Kind.DATA else 0)
            if len(self._buffer) < size:
                return
            payload = bytes(self._buffer[_FRAME.size : size])
            del self._buffer[:size]
            self._obey(Kind(kind), number, value, payload)

    def end(self) -> None:
        """The holder is gone, and every connection with it."""
        gone = ConnectionResetError(errno.ECONNRESET, "the container has ended")
        if not self._listening.done():
            self._listening.set_exception(gone)
            self._listening.exception()  # nobody may be waiting
        for channel in self._channels.values():
            _fail(channel, gone)
            for task in channel.tasks:
                task.cancel()

    async def close(self) -> None:
        self.end()
        running = [*self._tasks, *(task for channel in self._channels.values() for task in channel.tasks)]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _obey(self, kind: Kind, number: int, value: int, payload: bytes) -> None:
        if kind is Kind.LISTEN:
            self._listening.set_result(None)
            return
        if kind is Kind.OPEN:
            self._do(self._accept(number, self._new(number)))
            return
        channel = self._channels.get(number)
        if channel is None:
            return
        match kind:
            case Kind.OPENED:
                channel.opened.set_result(None)
            case Kind.DATA:
                channel.arrived.put_nowait(payload)
            case Kind.END:
                channel.arrived.put_nowait(None)
            case Kind.CREDIT:
                channel.credit += value
                channel.credited.set()
            case Kind.CLOSED:
                self._do(self._closed(number, channel))

    # One connection

    def _new(self, number: int) -> _Channel:
        channel = self._channels[number] = _Channel(asyncio.get_running_loop().create_future())
        return channel

    async def _accept(self, number: int, channel: _Channel) -> None:
        ours, theirs = socket.socketpair()
        await self._carry(number, channel, ours)
        self._on_connection(await asyncio.open_connection(sock=theirs))

    async def _carry(self, number: int, channel: _Channel, ours: socket.socket) -> None:
        reader, writer = await asyncio.open_connection(sock=ours)
        loop = asyncio.get_running_loop()
        channel.drawing = loop.create_task(self._draw(number, channel, reader))
        channel.pouring = loop.create_task(self._pour(number, channel, writer))

    async def _draw(self, number: int, channel: _Channel, reader: asyncio.StreamReader) -> None:
        """From our socket to the holder."""
        with suppress(OSError):
            while True:
                while channel.credit <= 0:
                    channel.credited.clear()
                    await channel.credited.wait()
                data = await reader.read(min(channel.credit, PIECE))
                if not data:
                    break
                channel.credit -= len(data)
                await self._say(channel, Kind.DATA, number, len(data), data)
        await self._say(channel, Kind.END, number)

    async def _pour(self, number: int, channel: _Channel, writer: asyncio.StreamWriter) -> None:
        """From the holder to our socket."""
        try:
            while (data := await channel.arrived.get()) is not None:
                writer.write(data)
                await writer.drain()
                await self._say(channel, Kind.CREDIT, number, len(data))
            writer.write_eof()
            await channel.arrived.get()  # the close after the end
        except OSError:
            await self._abort(number, channel)
        finally:
            writer.close()

    async def _abort(self, number: int, channel: _Channel) -> None:
        """Whoever used it has left."""
        await self._say(channel, Kind.CLOSED, number)

    async def _closed(self, number: int, channel: _Channel) -> None:
        _fail(channel, ConnectionRefusedError(errno.ECONNREFUSED, "nobody listens there"))
        # What came before the close is still written; nothing more is read.
        channel.arrived.put_nowait(None)
        channel.arrived.put_nowait(None)
        if channel.drawing is not None:
            channel.drawing.cancel()
        await self._abort(number, channel)
        self._channels.pop(number, None)
        if number >= HALF:
            self._room.release()
        await asyncio.gather(*channel.tasks, return_exceptions=True)

    def _do(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _say(
        self, channel: _Channel, kind: Kind, number: int, value: int = 0, payload: bytes = b""
    ) -> None:
        """Nothing follows a close: the number may be somebody else's by then."""
        with suppress(OSError, RuntimeError, AssertionError):
            async with self._turn:
                if channel.told_closed:
                    return
                channel.told_closed = kind is Kind.CLOSED
                await self._send(_FRAME.pack(kind, number, value) + payload)

    async def _tell(self, kind: Kind, number: int, value: int) -> None:
        with suppress(OSError, RuntimeError, AssertionError):  # the holder is gone: `end` tells everybody
            async with self._turn:
                await self._send(_FRAME.pack(kind, number, value))


def _fail(channel: _Channel, why: OSError) -> None:
    if not channel.opened.done():
        channel.opened.set_exception(why)
        channel.opened.exception()  # nobody may be waiting
