"""Hostile bytes over real sockets: both edges answer or close in time, and raise nothing behind our back."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mooring.transports.http_client import ClientLimits, ClientPool, Origin
from mooring.transports.http_errors import TransportError
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

LIMIT_SECONDS = 20
QUICK = ListenerLimits(
    header_seconds=0.3,
    body_gap_seconds=0.3,
    keep_alive_seconds=0.3,
    linger_seconds=0.3,
    max_header_bytes=4_096,
)

fragments = st.one_of(
    st.sampled_from(
        [
            b"GET / HTTP/1.1\r\n",
            b"POST /stream HTTP/1.1\r\n",
            b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nhello",
            b"HTTP/1.1 200 OK\r\n",
            b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\nabc",
            b"HTTP/1.1 100 Continue\r\n\r\n",
            b"HTTP/1.1 204 No Content\r\n\r\n",
            b"host: a\r\n",
            b"content-length: 3\r\n",
            b"content-length: 0\r\n",
            b"transfer-encoding: chunked\r\n",
            b"content-encoding: gzip\r\n",
            b"content-encoding: zstd\r\n",
            b"connection: upgrade\r\nupgrade: x\r\n",
            b"connection: close\r\n",
            b"expect: 100-continue\r\n",
            b"accept-encoding: gzip\r\n",
            b"\r\n",
            b"\n",
            b"\r",
            b"3\r\nabc\r\n",
            b"0\r\n\r\n",
            b"ffffffffffffffff\r\n",
            b";" * 100,
            b"\x1f\x8b\x08",
            b"\x28\xb5\x2f\xfd",
        ]
    ),
    st.binary(max_size=40),
)
conversations = st.lists(fragments, min_size=1, max_size=12)
# Each example opens sockets and waits for time limits: fewer than elsewhere, also in the long profile.
few = settings(
    max_examples=40 if settings().max_examples <= 100 else 2_000,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


class App:
    """Answers in every way there is, depending on what was asked."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def accept(self, request: Request) -> Endpoint:
        if request.path == b"/stream":
            return Streaming(self._stream)
        return Buffered(self._answer, 1_000)

    def _answer(self, request: Request, reply: Reply) -> None:
        if len(request.body) % 2:
            reply.start(200, ((b"content-type", b"text/plain"),))
            reply.write(request.body)
            reply.end()
        else:
            reply.send(200, (), request.body)

    def _stream(self, request: Request, reply: Reply, body: BodyStream) -> None:
        task = asyncio.ensure_future(self._receive(reply, body))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _receive(self, reply: Reply, body: BodyStream) -> None:
        with contextlib.suppress(TransportError):
            reply.send(200, (), b"".join([chunk async for chunk in body]))


@contextlib.asynccontextmanager
async def nothing_raised() -> AsyncIterator[None]:
    """Exceptions that reach the loop (from callbacks, or tasks that nobody awaits) are failures."""
    raised: list[dict[str, Any]] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: raised.append(context))
    async with asyncio.timeout(LIMIT_SECONDS):
        yield
        await asyncio.sleep(0)
    assert not raised


def run(work: Coroutine[Any, Any, None], use_uvloop: bool) -> None:
    if use_uvloop:
        uvloop = pytest.importorskip("uvloop")
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(work)
    else:
        asyncio.run(work)


async def send_slowly(writer: asyncio.StreamWriter, pieces: list[bytes]) -> None:
    with contextlib.suppress(ConnectionError, RuntimeError):
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0)


async def attack_listener(pieces: list[bytes]) -> None:
    async with nothing_raised(), Listener(App(), QUICK) as listener:
        port = await listener.listen_tcp("127.0.0.1", 0)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        await send_slowly(writer, pieces)
        with contextlib.suppress(ConnectionError):
            while await reader.read(65_536):  # until the listener closes: its limits see to it
                pass
        writer.transport.abort()
        # It has not been harmed.
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
        assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 200")
        writer.transport.abort()


async def attack_client(pieces: list[bytes], consume: Callable[..., Any]) -> None:
    writers: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await reader.readuntil(b"\r\n\r\n")
            await send_slowly(writer, pieces)
            await asyncio.sleep(0.05)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    limits = ClientLimits(head_seconds=0.6, body_stall_seconds=0.6, max_header_bytes=4_096)
    async with nothing_raised():
        port = server.sockets[0].getsockname()[1]
        async with ClientPool(Origin("http", "127.0.0.1", port), limits) as pool:
            for _ in range(2):
                try:
                    response = await pool.request(b"GET", b"/", b"", b"")
                    await consume(response)
                except TransportError:
                    pass
            assert pool.open_count <= 1
        assert pool.open_count == 0
        server.close()
        for writer in writers:
            writer.transport.abort()
        await asyncio.sleep(0)


async def by_reading(response: Any) -> None:
    assert len(await response.read(1_000_000)) <= 1_000_000


async def by_callbacks(response: Any) -> None:
    ended = asyncio.get_running_loop().create_future()
    response.attach(lambda _: None, ended.set_result)
    await ended


@pytest.fixture(autouse=True, scope="module")
def quiet() -> Iterator[None]:
    """Thousands of refusals say nothing; the tests that come after this module read the log again."""
    logger = logging.getLogger("mooring.http")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(before)


@pytest.mark.parametrize("use_uvloop", [False, True], ids=["asyncio", "uvloop"])
@few
@given(pieces=conversations)
def test_the_listener_answers_or_closes_whatever_it_is_sent(use_uvloop: bool, pieces: list[bytes]) -> None:
    run(attack_listener(pieces), use_uvloop)


@pytest.mark.parametrize("consume", [by_reading, by_callbacks])
@pytest.mark.parametrize("use_uvloop", [False, True], ids=["asyncio", "uvloop"])
@few
@given(pieces=conversations)
def test_the_client_answers_or_fails_whatever_it_is_sent(
    use_uvloop: bool, consume: Callable[..., Any], pieces: list[bytes]
) -> None:
    run(attack_client(pieces, consume), use_uvloop)
