"""Answers that are too large to be held: they flow through while they arrive."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from typing import Final

from mooring.errors import SessionDied, UpstreamFailed
from mooring.transports.http_response import Response
from mooring.transports.large_messages import LargeMessage
from mooring.transports.spool import SPILL_BYTES

_COMPLETE: Final = re.compile(rb'"resultType"\s*:\s*"complete"')


def shows_completion(beginning: bytes) -> bool:
    """Whether the beginning of a modern answer shows that no questions are in it."""
    return _COMPLETE.search(beginning) is not None


class Collector:
    """A JSON body on its way: collected while it is small, left to flow through once it is not."""

    def __init__(self, response: Response, limit: int) -> None:
        self.ready: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()
        length = response.header(b"content-length")
        encoded = response.header(b"content-encoding")
        self.length = int(length) if length is not None and encoded is None else None
        self._response = response
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0
        response.attach(self._on_data, self._on_end)

    def _on_data(self, data: bytes) -> None:
        self._parts.append(data)
        self._size += len(data)
        if self._size > self._limit and not self.ready.done():
            self._response.pause()
            self.ready.set_result(None)

    @property
    def is_complete_result(self) -> bool:
        """Whether the beginning shows that no questions are in it."""
        return any(shows_completion(part[:SPILL_BYTES]) for part in self._parts[:1])

    async def everything(self, limit: int) -> bytes:
        """After all, wait for the whole of it."""
        self._limit = limit
        self.ready = asyncio.get_running_loop().create_future()
        self._response.resume()
        whole = await self.ready
        if whole is None:
            raise UpstreamFailed(f"the server's answer is larger than {limit} bytes")
        return whole

    async def keep(self, limit: int) -> LargeMessage:
        """As above, on disk."""
        large = LargeMessage()
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def on_data(data: bytes) -> None:
            if large.size + len(data) <= limit:
                large.add(data)
            elif not ended.done():
                ended.set_exception(UpstreamFailed(f"the server's answer is larger than {limit} bytes"))

        def on_end(error: Exception | None) -> None:
            if not ended.done():
                if error is not None:
                    ended.set_exception(SessionDied(str(error)))
                else:
                    ended.set_result(None)

        self.attach(on_data, on_end)
        try:
            await ended
        except BaseException:
            large.forget()
            raise
        return large

    def _on_end(self, error: Exception | None) -> None:
        if self.ready.done():
            return
        if error is not None:
            self.ready.set_exception(SessionDied(str(error)))
        else:
            self.ready.set_result(b"".join(self._parts))

    def attach(self, on_data: Callable[[bytes], None], on_end: Callable[[Exception | None], None], /) -> None:
        for data in self._parts:
            on_data(data)
        self._parts.clear()
        self._response.attach(on_data, on_end)
        self._response.resume()

    def pause(self) -> None:
        self._response.pause()

    def resume(self) -> None:
        self._response.resume()

    def abort(self) -> None:
        self._response.abort()


class PartRelay:
    """The data of a large event that is still arriving."""

    def __init__(self, response: Response) -> None:
        self.length: int | None = None
        self._response = response
        self._early: list[bytes] = []
        self._ended: tuple[Exception | None] | None = None
        self._on_data: Callable[[bytes], None] | None = None
        self._on_end: Callable[[Exception | None], None] | None = None

    def attach(self, on_data: Callable[[bytes], None], on_end: Callable[[Exception | None], None], /) -> None:
        for data in self._early:
            on_data(data)
        self._early.clear()
        self._on_data, self._on_end = on_data, on_end
        if self._ended is not None:
            on_end(self._ended[0])

    def feed(self, data: bytes) -> None:
        if self._on_data is not None:
            self._on_data(data)
        else:
            self._early.append(data)

    def finish(self, error: Exception | None) -> None:
        if self._ended is None:
            self._ended = (error,)
            if self._on_end is not None:
                self._on_end(error)

    def pause(self) -> None:
        self._response.pause()

    def resume(self) -> None:
        self._response.resume()

    def abort(self) -> None:
        self._response.abort()
