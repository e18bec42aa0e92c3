"""A server in a container, spoken to in lines over the engine's attach stream."""

from __future__ import annotations

import asyncio
from typing import Protocol

from aiodocker.stream import Message, Stream
from aiohttp import ClientError

from mooring.errors import UpstreamFailed
from mooring.protocol.lines import encode_line
from mooring.transports.line_wire import LineWire
from mooring.transports.wire import WireEvents

_STANDARD_ERROR = 2


class Attachment(Protocol):
    """What a wire needs of the container behind it."""

    stream: Stream

    def said(self, data: bytes) -> None: ...
    async def close(self) -> None: ...


class AttachedWire(LineWire):
    """Frames are cut anywhere by the engine: they are sorted by stream, then split into lines here."""

    def __init__(self, events: WireEvents, label: str, max_message_bytes: int, held: Attachment) -> None:
        super().__init__(events, label, max_message_bytes)
        self._held = held
        self._turn = asyncio.Lock()
        self._reading = asyncio.get_running_loop().create_task(self._read())

    async def write(self, message: bytes) -> None:
        if self._lost is not None:
            raise UpstreamFailed("the server's container has ended", started=False)
        try:
            async with self._turn:
                await self._held.stream.write_in(encode_line(message))
        except (OSError, RuntimeError, ClientError, AssertionError) as error:
            self.fail("the connection to the container is lost")
            raise UpstreamFailed("the connection to the container is lost", started=False) from error

    async def close(self) -> None:
        await self._held.close()
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)

    async def _read(self) -> None:
        try:
            while (message := await self._held.stream.read_out()) is not None:
                self._receive_frame(message)
        except (OSError, ClientError, RuntimeError):
            pass
        self.receive_end()
        self.fail("the server's container closed its output")

    def _receive_frame(self, message: Message) -> None:
        if message.stream == _STANDARD_ERROR:
            self._held.said(message.data)
            return
        self.receive_bytes(message.data)
