"""What an upstream answered: head, body with flow control, transparent decompression."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

from mooring.transports.compression import BadEncoding, StreamDecoder, stream_decoder
from mooring.transports.http_errors import ConnectionLost, ResponseTooLarge, TransportError
from mooring.transports.http_limits import ClientLimits

_DECODE_BYTES = 16_384  # packed bytes unpacked before looking again whether the reader still wants more
_EXPANSION_FREE_BYTES = (
    8_388_608  # up to here anything may unpack to this: a ratio means little for small bodies
)


class ResponseSource(Protocol):
    """The connection, as its current response sees it."""

    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def abandon(self) -> None:
        """The rest of the body is not wanted: close the connection."""
        ...


class Response:
    """One response; `await pool.request(...)` returns it complete, or with its body still arriving.

    Read it in one of three ways: `body()` if `complete`; `attach()` for callbacks as it arrives; `read()` for
    all of it, bounded. One that is not read to its end must be given up with `abort()`.

    A gzip, deflate or zstd body is unpacked; its `content-encoding` and `content-length` are then left out.
    """

    __slots__ = (
        "_buffered",
        "_chunks",
        "_decoded",
        "_decoder",
        "_first",
        "_held_back",
        "_limit",
        "_limits",
        "_on_data",
        "_on_end",
        "_packed",
        "_packed_total",
        "_paused",
        "_received",
        "_source",
        "_waiter",
        "complete",
        "error",
        "headers",
        "status",
    )

    def __init__(self, source: ResponseSource, limits: ClientLimits) -> None:
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.complete = False
        """The whole body is here; never True for a response that failed."""
        self.error: TransportError | None = None
        """Why the body ended early."""
        self._first: dict[bytes, bytes] = {}
        self._source: ResponseSource | None = source
        self._limits = limits
        self._limit = limits.buffer_bytes
        self._chunks: deque[bytes] = deque()
        self._buffered = 0
        self._received = False  # the network part is done; packed bytes may be left
        self._decoder: StreamDecoder | None = None
        self._paused = False  # the reader asked us to wait
        self._held_back = False  # nobody reads and the buffer is full
        self._on_data: Callable[[bytes], None] | None = None
        self._on_end: Callable[[TransportError | None], None] | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._packed: deque[bytes]
        self._packed_total: int
        self._decoded = 0

    def header(self, name: bytes) -> bytes | None:
        """The first value of a header; `name` is in lower case."""
        return self._first.get(name)

    def header_values(self, name: bytes) -> list[bytes]:
        return [value for key, value in self.headers if key == name]

    def body(self) -> bytes:
        """The body of a complete response."""
        if not self.complete:
            raise RuntimeError("the response is still arriving; use read() or attach()")
        chunks = self._chunks
        return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    async def read(self, max_bytes: int) -> bytes:
        """The whole body; raises `ResponseTooLarge`, or `ConnectionLost` if it ends early."""
        self._limit = max_bytes
        while True:
            if self._buffered > max_bytes:
                self.abort()
                raise ResponseTooLarge(f"the response is larger than {max_bytes} bytes")
            if self.error is not None:
                raise self.error
            if self.complete:
                return self.body()
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                self._continue()
                if not self._waiter.done():
                    await self._waiter
            except asyncio.CancelledError:
                self.abort()
                raise
            finally:
                self._waiter = None

    def attach(
        self, on_data: Callable[[bytes], None], on_end: Callable[[TransportError | None], None]
    ) -> None:
        """Hand over the body piece by piece, from its first byte; then `on_end(None)`, or the failure."""
        self._on_data = on_data
        self._on_end = on_end
        self._continue()

    def pause(self) -> None:
        """No `on_data` until `resume()`; reading from the upstream stops."""
        self._paused = True
        if self._source is not None:
            self._source.pause()

    def resume(self) -> None:
        self._paused = False
        self._continue()

    def abort(self) -> None:
        """Not wanted any more: no further callbacks, and a connection in the middle of the body is closed."""
        self._on_data = self._on_end = None
        self._chunks.clear()
        self._buffered = 0
        if not self._received:
            self._received = True
            self.error = ConnectionLost("the response was given up", sent=True, response_started=True)
        source, self._source = self._source, None
        if source is not None:
            source.abandon()

    # The connection's side.

    def begin(self, status: int, headers: list[tuple[bytes, bytes]], first: dict[bytes, bytes]) -> None:
        self.status = status
        self.headers = headers
        self._first = first
        coding = first.get(b"content-encoding")
        if coding is None:
            return
        decoder = self._decoder = stream_decoder(coding)
        if decoder is not None:
            self._packed = deque()
            self._packed_total = 0
            dropped = (b"content-encoding", b"content-length")
            self.headers = [header for header in headers if header[0] not in dropped]
            self._first = {name: value for name, value in first.items() if name not in dropped}

    def receive(self, data: bytes) -> None:
        """More of the body; kept until `deliver`."""
        if self._decoder is None:
            self._store(data)
        else:
            self._packed.append(data)
            self._packed_total += len(data)

    def deliver(self) -> None:
        """Called after each read: pass on what was received."""
        if self._decoder is not None:
            self._unpack()
        on_data = self._on_data
        if on_data is not None:
            chunks = self._chunks
            while chunks and not self._paused and self._on_data is not None:
                chunk = chunks.popleft()
                self._buffered -= len(chunk)
                on_data(chunk)
        elif self._buffered > self._limit and not self._held_back:
            self._held_back = True
            if self._source is not None:
                self._source.pause()
        if self._waiter is not None and not self._waiter.done() and self._buffered > self._limit:
            self._waiter.set_result(None)
        if self._received:
            self._settle()

    def finish(self) -> None:
        """The last byte came from the network."""
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

    def _store(self, data: bytes) -> None:
        self._chunks.append(data)
        self._buffered += len(data)
        self._decoded += len(data)
        limit = self._limits.max_body_bytes
        if limit is not None and self._decoded > limit:
            raise ResponseTooLarge(f"the response is larger than {limit} bytes")

    def _store_unpacked(self, data: bytes) -> None:
        self._store(data)
        if self._decoded > max(_EXPANSION_FREE_BYTES, self._limits.max_expansion * self._packed_total):
            raise ResponseTooLarge("the response unpacks to far more than it weighs; it may be a bomb")

    def _unpack(self) -> None:
        decoder, packed = self._decoder, self._packed
        assert decoder is not None
        try:
            while packed and not self._paused and self._buffered <= self._limit:
                data = packed.popleft()
                if len(data) > _DECODE_BYTES:
                    packed.appendleft(data[_DECODE_BYTES:])
                    data = data[:_DECODE_BYTES]
                decoder.decode(data, self._store_unpacked)
            if self._received and not packed and self.error is None and not self.complete:
                decoder.finish()
                self.complete = True
        except BadEncoding as error:
            self._give_up(ConnectionLost(f"malformed response: {error}", sent=True, response_started=True))
        except ResponseTooLarge as error:
            self._give_up(error)

    def _give_up(self, error: TransportError) -> None:
        self._packed.clear()
        self._received = True
        self.error = error
        source, self._source = self._source, None
        if source is not None:
            source.abandon()

    def _continue(self) -> None:
        """Somebody reads (again)."""
        self._held_back = False
        self.deliver()
        if self._source is not None and not self._paused and not self._held_back:
            self._source.resume()

    def _settle(self) -> None:
        """Tell the reader about the end once everything before it has been passed on."""
        if not self.complete and self.error is None:
            return
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
        on_end = self._on_end
        if on_end is not None and not self._chunks and not self._paused:
            self._on_data = self._on_end = None
            on_end(self.error)
