"""HTTP/1.1 messages of one direction of a connection, one part after another, from llhttp's callbacks."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import Final, TypeAlias

import httptools

from mooring.errors import MooringError

MAX_HEAD_BYTES: Final = 65536
CHUNK_BYTES: Final = 65536
HOP_BY_HOP: Final = frozenset(
    {
        *(b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection"),
        *(b"te", b"trailer", b"transfer-encoding", b"upgrade", b"content-length"),
    }
)
"""What concerns one connection only. Lengths are among them: the body is framed anew."""


class BadMessage(MooringError):
    """What arrived is not HTTP that can be passed on."""


@dataclass(slots=True)
class Head:
    """A request's or a response's first part."""

    target: bytes = b""
    status: int = 0
    reason: bytes = b""
    method: bytes = b""
    headers: list[tuple[bytes, bytes]] = field(default_factory=list[tuple[bytes, bytes]])
    keeps_alive: bool = True

    def header(self, name: bytes) -> bytes | None:
        return next((value for key, value in self.headers if key.lower() == name), None)

    def end_to_end(self) -> list[tuple[bytes, bytes]]:
        """The headers for the next hop: without this hop's own, and those `Connection` names."""
        named = b",".join(value for key, value in self.headers if key.lower() == b"connection").lower()
        dropped = HOP_BY_HOP | {item.strip() for item in named.split(b",")}
        return [(key, value) for key, value in self.headers if key.lower() not in dropped]


class End:
    """A message is complete."""


END: Final = End()
Part: TypeAlias = Head | bytes | End


class Messages:
    """The parts of the messages that arrive from a peer, in order.

    `rest` holds what came behind a CONNECT request: those bytes are no longer HTTP.
    """

    def __init__(self, reader: asyncio.StreamReader, first: bytes = b"", *, responses: bool = False) -> None:
        self._reader = reader
        self._unread = first
        self._parts: deque[Part] = deque()
        self._parser = httptools.HttpResponseParser(self) if responses else httptools.HttpRequestParser(self)
        self._responses = responses
        self._head = Head()
        self._head_bytes = 0
        self.rest = b""

    async def next(self) -> Part | None:
        """The next part; None when the peer has ended between two messages."""
        while not self._parts:
            data = self._unread or await self._reader.read(CHUNK_BYTES)
            self._unread = b""
            if not data:
                return None
            self._feed(data)
        return self._parts.popleft()

    def _feed(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self.rest = data[int(upgrade.args[0]) :]
        except httptools.HttpParserError as error:
            raise BadMessage("this is not HTTP/1.1 as a proxy can read it") from error
        if self._head_bytes > MAX_HEAD_BYTES:
            raise BadMessage("the headers are too large")

    # What the parser tells

    def on_message_begin(self) -> None:
        self._head = Head()
        self._head_bytes = 0

    def on_url(self, url: bytes) -> None:
        self._count(url)
        self._head.target += url

    def on_status(self, status: bytes) -> None:
        self._count(status)
        self._head.reason += status

    def on_header(self, name: bytes, value: bytes) -> None:
        self._count(name + value)
        self._head.headers.append((name, value))

    def on_headers_complete(self) -> None:
        self._head_bytes = 0
        if isinstance(self._parser, httptools.HttpResponseParser):
            self._head.status = self._parser.get_status_code()
        else:
            self._head.method = self._parser.get_method()
        self._head.keeps_alive = self._parser.should_keep_alive()
        self._parts.append(self._head)

    def on_body(self, body: bytes) -> None:
        self._parts.append(body)

    def on_message_complete(self) -> None:
        self._parts.append(END)

    def _count(self, data: bytes) -> None:
        self._head_bytes += len(data) + 4
        if self._head_bytes > MAX_HEAD_BYTES:
            raise BadMessage("the headers are too large")
