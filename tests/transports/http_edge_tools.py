"""For the tests of the HTTP edge: an application with routes, and a client that sees every byte."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

from mooring.transports.http_listener import (
    BodyStream,
    Buffered,
    Endpoint,
    Listener,
    ListenerLimits,
    Reply,
    Request,
    Streaming,
)

LIMIT_SECONDS = 10.0
BACKENDS = [
    ("asyncio", {"use_uvloop": False}),
    ("asyncio", {"use_uvloop": True}),
]
BACKEND_NAMES = ["asyncio", "uvloop"]
TEXT = ((b"content-type", b"text/plain"),)
JSON = ((b"content-type", b"application/json"),)


@dataclass
class Routes:
    """An application; unknown paths answer with what was asked, known ones go to their handler."""

    buffered: dict[bytes, Callable[[Request, Reply], None]] = field(default_factory=dict)
    streaming: dict[bytes, Callable[[Request, Reply, BodyStream], Awaitable[None]]] = field(
        default_factory=dict
    )
    max_body_bytes: int = 1 << 20
    seen: list[Request] = field(default_factory=list)
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def accept(self, request: Request) -> Endpoint:
        self.seen.append(request)
        if request.path in self.streaming:
            return Streaming(self._start)
        return Buffered(self.buffered.get(request.path, echo), self.max_body_bytes)

    def _start(self, request: Request, reply: Reply, body: BodyStream) -> None:
        self.spawn(self.streaming[request.path](request, reply, body))

    def spawn(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)


def echo(request: Request, reply: Reply) -> None:
    """Method, target and body, one per line."""
    reply.send(200, TEXT, b"%b\n%b\n%b" % (request.method, request.target, request.body))


@contextlib.asynccontextmanager
async def serving(
    routes: Routes, limits: ListenerLimits | None = None, ssl_context: ssl.SSLContext | None = None
) -> AsyncIterator[tuple[Listener, int]]:
    async with Listener(routes, limits or ListenerLimits()) as listener:
        yield listener, await listener.listen_tcp("127.0.0.1", 0, ssl_context)
    for task in routes.tasks:
        task.cancel()
    await asyncio.gather(*routes.tasks, return_exceptions=True)


@dataclass
class Answer:
    status: int
    headers: list[tuple[bytes, bytes]]
    body: bytes

    def header(self, name: bytes) -> bytes | None:
        return next((value for key, value in self.headers if key == name), None)


class Peer:
    """A client that writes raw bytes and reads strictly framed answers; every wait is limited."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, data: bytes) -> None:
        self.writer.write(data)

    async def head(self) -> Answer:
        async with asyncio.timeout(LIMIT_SECONDS):
            block = await self.reader.readuntil(b"\r\n\r\n")
        first, *lines = block[:-4].split(b"\r\n")
        headers = [(name.lower(), value) for name, _, value in (line.partition(b": ") for line in lines)]
        return Answer(int(first.split(b" ")[1]), headers, b"")

    async def answer(self, *, to_head: bool = False) -> Answer:
        answer = await self.head()
        length = answer.header(b"content-length")
        async with asyncio.timeout(LIMIT_SECONDS):
            if to_head or answer.status in (204, 304):
                pass
            elif answer.header(b"transfer-encoding") == b"chunked":
                answer.body = b"".join([chunk async for chunk in self.chunks()])
            elif length is not None:
                answer.body = await self.reader.readexactly(int(length))
            else:
                answer.body = await self.reader.read()
        return answer

    async def chunk(self) -> bytes:
        async with asyncio.timeout(LIMIT_SECONDS):
            size = int((await self.reader.readuntil(b"\r\n"))[:-2], 16)
            data = await self.reader.readexactly(size + 2)
        assert data.endswith(b"\r\n")
        return data[:-2]

    async def chunks(self) -> AsyncIterator[bytes]:
        while chunk := await self.chunk():
            yield chunk

    async def ask(self, data: bytes) -> Answer:
        self.send(data)
        return await self.answer()

    async def rest(self) -> bytes:
        """Everything up to the end of the connection; a reset counts as an end."""
        async with asyncio.timeout(LIMIT_SECONDS):
            try:
                return await self.reader.read()
            except ConnectionError:
                return b""

    async def is_closed_by_peer(self) -> bool:
        return await self.rest() == b""

    def close(self) -> None:
        self.writer.close()


@contextlib.asynccontextmanager
async def connected(
    port: int, *, ssl_context: ssl.SSLContext | None = None, receive_buffer: int | None = None
) -> AsyncIterator[Peer]:
    sock = socket.socket()
    if receive_buffer is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    sock.setblocking(False)
    async with asyncio.timeout(LIMIT_SECONDS):
        try:
            await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", port))
        except OSError:
            sock.close()
            raise
        reader, writer = await asyncio.open_connection(
            sock=sock, ssl=ssl_context, server_hostname="localhost" if ssl_context else None, limit=1 << 16
        )
    try:
        yield Peer(reader, writer)
    finally:
        writer.transport.abort()


async def until(condition: Callable[[], bool], seconds: float = LIMIT_SECONDS) -> None:
    """Poll with a deadline."""
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110  the point is to look from outside
            await asyncio.sleep(0.005)


def request(
    target: bytes = b"/",
    body: bytes = b"",
    headers: bytes = b"",
    method: bytes = b"",
    version: bytes = b"1.1",
) -> bytes:
    method = method or (b"POST" if body else b"GET")
    length = b"content-length: %d\r\n" % len(body) if body else b""
    return b"%b %b HTTP/%b\r\nhost: localhost\r\n%b%b\r\n%b" % (
        method,
        target,
        version,
        headers,
        length,
        body,
    )
