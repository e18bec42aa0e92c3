"""A response body on its way from the upstream to its reader: buffered, paused, unpacked, bounded."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol, Self

from mooring.transports.compression import BadEncoding, StreamDecoder
from mooring.transports.http_errors import ConnectionLost, ResponseTooLarge, TransportError
from mooring.transports.http_limits import ClientLimits

_DECODE_BYTES = 1_024  # unpacked at a time: even a bomb gives only a megabyte or a few before it is looked at
_EXPANSION_FREE_BYTES = 8_388_608  # whatever their ratio: it means little for small bodies
_TOGETHER_BYTES = 16_384


class FlowSource(Protocol):
    """The connection, as the body that it carries sees it."""

    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def abandon(self) -> None:
        """The rest of the body is not wanted: close the connection."""
        ...


class BodyFlow:
    """Pieces in by `receive`, out by `read` or by the callbacks of `attach`.

    `complete` and `error` exclude each other; until one of them is set the body is still arriving, or
    still being unpacked.
    """

    __slots__ = (
        "_buffered",
        "_chunks",
        "_decoder",
        "_held_back",
        "_limit",
        "_limits",
        "_on_data",
        "_on_end",
        "_packed",
        "_packed_bytes",
        "_paused",
        "_received",
        "_source",
        "_total",
        "_waiter",
        "complete",
        "error",
    )

    def __init__(
        self, source: FlowSource | None, limits: ClientLimits, decoder: StreamDecoder | None = None
    ) -> None:
        self.complete = False
        self.error: TransportError | None = None
        self._source = source
        self._limits = limits
        self._limit = limits.buffer_bytes
        self._decoder = decoder
        self._chunks: deque[bytes] = deque()
        self._buffered = 0
        self._total = 0
        self._packed: deque[memoryview] = deque()
        self._packed_bytes = 0
        self._received = False  # nothing more comes from the network
        self._paused = False  # the reader asked us to wait
        self._held_back = False  # nobody reads and the buffer is full
        self._on_data: Callable[[bytes], None] | None = None
        self._on_end: Callable[[TransportError | None], None] | None = None
        self._waiter: asyncio.Future[None] | None = None

    @classmethod
    def complete_with(cls, chunks: list[bytes]) -> Self:
        """A body that arrived in one go."""
        flow = cls(None, ClientLimits())
        flow._chunks.extend(chunks)
        flow._received = flow.complete = True
        return flow

    # The reader's side.

    def body(self) -> bytes:
        if not self.complete:
            raise RuntimeError("the response is still arriving; use read() or attach()")
        return b"".join(self._chunks)

    async def read(self, max_bytes: int) -> bytes:
        self._limit = max_bytes
        while True:
            if self._buffered > max_bytes:
                self.abort()
                raise ResponseTooLarge(f"the response is larger than {max_bytes} bytes")
            if self.error is not None:
                raise self.error
            if self.complete:
                return self.body()
            waiter = self._waiter = asyncio.get_running_loop().create_future()
            try:
                self._continue()
                await waiter
            except asyncio.CancelledError:
                self.abort()
                raise
            finally:
                self._waiter = None

    def attach(
        self, on_data: Callable[[bytes], None], on_end: Callable[[TransportError | None], None]
    ) -> None:
        self._on_data = on_data
        self._on_end = on_end
        self._continue()

    def pause(self) -> None:
        self._paused = True
        if self._source is not None:
            self._source.pause()

    def resume(self) -> None:
        self._paused = False
        self._continue()

    def abort(self) -> None:
        self._on_data = self._on_end = None
        self._chunks.clear()
        self._buffered = 0
        if not self.complete and self.error is None:
            self._give_up(ConnectionLost("the response was given up", sent=True, response_started=True))

    def _continue(self) -> None:
        """Somebody reads (again)."""
        self._held_back = False
        self.deliver()
        if self._source is not None and not self._paused and not self._held_back:
            self._source.resume()

    # The connection's side.

    def receive(self, data: bytes) -> None:
        """More of the body; kept until `deliver`. Raises `ResponseTooLarge`."""
        if self._decoder is None:
            self._store(data)
        else:
            self._packed.append(memoryview(data))
            self._packed_bytes += len(data)

    def finish(self) -> None:
        """The last byte came from the network; call `deliver` next."""
        self._received = True
        self._source = None
        if self._decoder is None:
            self.complete = True

    def fail(self, error: TransportError) -> None:
        """The connection was lost in the middle; what is already here is delivered first."""
        if not self._received:
            self._received = True
            self._source = None
            self.error = error
            self.deliver()

    def deliver(self) -> None:
        """Pass on what was received, as far as the reader takes it."""
        chunks = self._chunks
        while True:
            if self._decoder is not None:
                self._unpack()
            if not chunks or self._paused or self._on_data is None:
                break
            chunk = self._take()
            self._buffered -= len(chunk)
            self._on_data(chunk)
        if self._buffered > self._limit:
            self._hold_back()
        if self.complete or self.error is not None:
            self._settle()

    def _take(self) -> bytes:
        """The next bytes. Small chunks that came in one read, as events do, go on together."""
        chunks = self._chunks
        first = chunks.popleft()
        size = len(first)
        if not chunks or size + len(chunks[0]) > _TOGETHER_BYTES:
            return first
        parts = [first]
        while chunks and size + len(chunks[0]) <= _TOGETHER_BYTES:
            parts.append(chunks.popleft())
            size += len(parts[-1])
        return b"".join(parts)

    def _hold_back(self) -> None:
        self._wake()  # `read` has more than it wanted
        if not self._held_back:
            self._held_back = True
            if self._source is not None:
                self._source.pause()

    def _settle(self) -> None:
        """Tell the reader about the end once everything before it has been passed on."""
        self._wake()
        on_end = self._on_end
        if on_end is not None and not self._chunks and not self._paused:
            self._on_data = self._on_end = None
            on_end(self.error)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _store(self, data: bytes) -> None:
        self._chunks.append(data)
        self._buffered += len(data)
        self._total += len(data)
        limit = self._limits.max_body_bytes
        if limit is not None and self._total > limit:
            raise ResponseTooLarge(f"the response is larger than {limit} bytes")

    def _store_unpacked(self, data: bytes) -> None:
        self._store(data)
        if self._total > max(_EXPANSION_FREE_BYTES, self._limits.max_expansion * self._packed_bytes):
            raise ResponseTooLarge("the response unpacks to far more than it weighs; it may be a bomb")

    def _unpack(self) -> None:
        decoder, packed = self._decoder, self._packed
        assert decoder is not None
        # With a reader there is no need to get ahead of it; without one, up to what may wait.
        limit = self._limit if self._on_data is None else 0
        try:
            while packed and not self._paused and self._buffered <= limit:
                data = packed.popleft()
                if len(data) > _DECODE_BYTES:
                    packed.appendleft(data[_DECODE_BYTES:])
                decoder.decode(bytes(data[:_DECODE_BYTES]), self._store_unpacked)
            if self._received and not packed and not self.complete and self.error is None:
                decoder.finish()
                self.complete = True
        except BadEncoding as error:
            self._give_up(ConnectionLost(f"malformed response: {error}", sent=True, response_started=True))
        except ResponseTooLarge as error:
            self._give_up(error)

    def _give_up(self, error: TransportError) -> None:
        self.error = error
        self._received = True
        self._packed.clear()
        source, self._source = self._source, None
        if source is not None:
            source.abandon()
