"""What a client asked: the request, and its body when that is streamed."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from typing import Final, Protocol, Self

import msgspec
from msgspec import Struct

from mooring.transports.http_errors import BodyInterrupted

_LENGTH: Final = b"content-length"


class Client(Struct, frozen=True):
    """Who is at the other end of a connection."""

    address: str
    """An IP address, or "unix"."""
    uid: int | None
    """The user of the process behind a Unix socket, where the system tells."""
    secure: bool
    """Whether the connection itself uses TLS."""


class Memo:
    """What the application found out from a head; the next request of the connection with the same head has
    it too."""

    __slots__ = ("admitted", "checked", "value")

    def __init__(self) -> None:
        self.value: object = None
        self.checked: object = None
        self.admitted: object = None


class Request(msgspec.Struct, eq=False):
    """One parsed request. Header names are lower case and keep their order; nothing is percent-decoded.

    A Struct because one is made for every call; a request that repeats the head of the one before shares its
    parts.
    """

    method: bytes
    target: bytes
    path: bytes
    query: bytes
    first: dict[bytes, bytes]
    """The first value of every header, by its name; ask `header` for the content-length."""
    listed: list[tuple[bytes, bytes]]
    client: Client
    memo: Memo
    body: bytes = b""
    length: bytes = b""
    """The content-length of a request that repeats a head, as it was written."""

    @classmethod
    def of(
        cls,
        method: bytes,
        target: bytes,
        headers: list[tuple[bytes, bytes]],
        first: dict[bytes, bytes],
        client: Client,
    ) -> Self:
        """A request whose head has just been read; `first` has the first value of each header."""
        path, _, query = target.partition(b"?")
        return cls(method, target, path, query, first, headers, client, Memo())

    @property
    def peer(self) -> str:
        return self.client.address

    @property
    def peer_uid(self) -> int | None:
        return self.client.uid

    @property
    def secure(self) -> bool:
        return self.client.secure

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:
        if not self.length:
            return self.listed.copy()
        return [(name, self.length if name == _LENGTH else value) for name, value in self.listed]

    def header(self, name: bytes) -> bytes | None:
        """The first value of a header; `name` is in lower case."""
        if self.length and name == _LENGTH:
            return self.length
        return self.first.get(name)

    def header_values(self, name: bytes) -> list[bytes]:
        return [value for key, value in self.headers if key == name]


class BodySource(Protocol):
    """The connection, as a streamed body sees it."""

    def body_wanted(self) -> None:
        """Somebody reads: send a due `100 Continue`, and resume reading if it was paused."""
        ...

    def body_full(self) -> None:
        """More than the buffer holds is waiting: pause reading."""
        ...


class BodyStream(AsyncIterator[bytes]):
    """The body of a streamed request, chunk by chunk as it arrives.

    `length` is the announced Content-Length, or None for a chunked body. Iteration raises
    `BodyInterrupted` when the client goes away, stalls or breaks the framing. One reader at a time.
    """

    __slots__ = (
        "_buffered",
        "_chunks",
        "_failure",
        "_finished",
        "_source",
        "_waiter",
        "keep_alive",
        "length",
        "limit",
    )

    def __init__(self, source: BodySource, length: int | None, limit: int, *, keep_alive: bool) -> None:
        self.length = length
        self.keep_alive = keep_alive  # what becomes of the connection once the body has ended
        self.limit = limit
        self._source = source
        self._chunks: deque[bytes] = deque()
        self._buffered = 0
        self._finished = False
        self._failure: str | None = None
        self._waiter: asyncio.Future[None] | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        while not self._chunks:
            if self._failure is not None:
                raise BodyInterrupted(self._failure)
            if self._finished:
                raise StopAsyncIteration
            self._source.body_wanted()
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        chunk = self._chunks.popleft()
        self._buffered -= len(chunk)
        if self._buffered <= self.limit // 2:
            self._source.body_wanted()
        return chunk

    @property
    def finished(self) -> bool:
        """Whether the last byte has arrived (it may not have been read yet)."""
        return self._finished

    # The connection's side.

    def feed(self, chunk: bytes) -> None:
        self._chunks.append(chunk)
        self._buffered += len(chunk)
        if self._buffered > self.limit:
            self._source.body_full()
        self._wake()

    def finish(self) -> None:
        self._finished = True
        self._wake()

    def fail(self, message: str) -> None:
        if not self._finished:
            self._failure = message
            self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
