"""The client pool over real sockets, against upstreams that are well behaved, slow, broken or hostile."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import socket
import ssl
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest
import zstandard
from http_edge_tools import BACKEND_NAMES, BACKENDS, TEXT, Routes, serving, until

from mooring.transports.http_client import ClientLimits, ClientPool, Origin, Response, shared_tls_context
from mooring.transports.http_errors import (
    ConnectFailed,
    ConnectionLost,
    HeadTimeout,
    PoolBusy,
    ResponseTooLarge,
    TransportError,
)
from mooring.transports.http_listener import Listener, Reply, Request

pytestmark = pytest.mark.anyio

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
OK = b"HTTP/1.1 200 OK\r\n"


@pytest.fixture(params=BACKENDS, ids=BACKEND_NAMES)
def anyio_backend(request: pytest.FixtureRequest) -> object:
    return request.param


@contextlib.asynccontextmanager
async def upstream(serve: Serve) -> AsyncIterator[int]:
    """A server that writes whatever bytes the test wants."""

    running: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def guarded(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        running[task] = writer
        # uvloop raises RuntimeError for a write to a closed transport.
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, RuntimeError):
            await serve(reader, writer)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        del running[task]

    server = await asyncio.start_server(guarded, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for writer in running.values():
            writer.transport.abort()
        await asyncio.wait_for(asyncio.gather(*running, return_exceptions=True), 5)


@contextlib.asynccontextmanager
async def answering(*answers: bytes, then_close: bool = True) -> AsyncIterator[int]:
    """Answers each request of each connection with the next of `answers`, byte for byte."""
    remaining = list(answers)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(remaining.pop(0))
            if not remaining and then_close:
                return

    async with upstream(serve) as port:
        yield port


def pool_of(port: int, **limits: object) -> ClientPool:
    return ClientPool(Origin("http", "127.0.0.1", port), ClientLimits(**limits))  # type: ignore[arg-type]


async def get(pool: ClientPool, target: bytes = b"/") -> Response:
    async with asyncio.timeout(10):
        return await pool.request(b"GET", target, b"", b"")


async def read(pool: ClientPool, target: bytes = b"/", max_bytes: int = 1 << 24) -> bytes:
    async with asyncio.timeout(10):
        return await (await pool.request(b"GET", target, b"", b"")).read(max_bytes)


# Requests and reuse.


async def test_requests_are_sent_whole_over_one_connection() -> None:
    routes = Routes()
    async with serving(routes) as (listener, port), pool_of(port) as pool:
        for index in range(5):
            body = b"x" * index * 40_000
            response = await pool.request(b"POST", b"/a?b=%d" % index, b"x-a: b\r\n", body)
            assert response.status == 200
            assert await response.read(1 << 20) == b"POST\n/a?b=%d\n" % index + body
        assert listener.connection_count == 1
        assert (pool.open_count, pool.idle_count) == (1, 1)
    assert routes.seen[0].headers == [
        (b"host", b"127.0.0.1:%d" % port),
        (b"x-a", b"b"),
        (b"content-length", b"0"),
    ]


async def test_a_get_has_no_length() -> None:
    routes = Routes()
    async with serving(routes) as (_, port), pool_of(port) as pool:
        await get(pool)
    assert routes.seen[0].header(b"content-length") is None


async def test_a_response_has_lower_case_headers_in_order() -> None:
    answer = OK + b"X-A: 1\r\nX-B:  2 \r\nx-a: 3\r\ncontent-length: 0\r\n\r\n"
    async with answering(answer) as port, pool_of(port) as pool:
        response = await get(pool)
    assert response.headers == [(b"x-a", b"1"), (b"x-b", b"2"), (b"x-a", b"3"), (b"content-length", b"0")]
    assert (response.header(b"x-a"), response.header_values(b"x-a")) == (b"1", [b"1", b"3"])
    assert (response.complete, response.body()) == (True, b"")


async def test_a_streamed_response_that_is_read_to_its_end_returns_its_connection() -> None:
    def stream(_: Request, reply: Reply) -> None:
        reply.start(200, TEXT)
        asyncio.get_running_loop().call_later(0.05, finish, reply)

    def finish(reply: Reply) -> None:
        reply.write(b"late")
        reply.end()

    async with serving(Routes({b"/s": stream})) as (_, port), pool_of(port) as pool:
        response = await get(pool, b"/s")
        assert not response.complete
        assert pool.idle_count == 0
        assert await response.read(100) == b"late"
        assert (pool.open_count, pool.idle_count) == (1, 1)


async def test_a_half_read_response_that_is_aborted_closes_its_connection() -> None:
    gone = asyncio.Event()

    def stream(_: Request, reply: Reply) -> None:
        reply.on_closed = gone.set
        reply.start(200, TEXT)
        reply.write(b"half")

    async with serving(Routes({b"/s": stream})) as (_, port), pool_of(port) as pool:
        response = await get(pool, b"/s")
        response.attach(lambda _: None, lambda _: pytest.fail("aborted by ourselves"))
        response.abort()
        assert pool.open_count == 0
        async with asyncio.timeout(5):
            await gone.wait()
        with pytest.raises(ConnectionLost):
            await response.read(100)


async def test_a_cancelled_request_closes_its_connection() -> None:
    gone = asyncio.Event()
    routes = Routes({b"/s": lambda _, reply: setattr(reply, "on_closed", gone.set)})
    async with serving(routes) as (_, port), pool_of(port) as pool:
        asking = asyncio.ensure_future(pool.request(b"GET", b"/s", b"", b""))
        await until(lambda: bool(routes.seen))
        asking.cancel()
        async with asyncio.timeout(5):
            await gone.wait()
        assert pool.open_count == 0


async def cancelled_with_its_answer(pool: ClientPool, target: bytes) -> None:
    """Cancel a request after its answer has come and before it is woken up for it."""
    loop = asyncio.get_running_loop()
    asking = asyncio.ensure_future(pool.request(b"GET", target, b"", b""))
    await until(lambda: any(connection._waiter is not None for connection in pool._spares.known))
    waiter = next(connection._waiter for connection in pool._spares.known if connection._waiter is not None)

    def look() -> None:
        if waiter.done():
            asking.cancel()
        else:
            loop.call_soon(look)

    look()
    with pytest.raises(asyncio.CancelledError):
        await asking


async def test_a_request_cancelled_as_its_answer_arrives_leaks_nothing() -> None:
    replies: list[Reply] = []
    routes = Routes({b"/s": lambda _, reply: replies.append(reply)})
    async with serving(routes) as (_, port), pool_of(port) as pool:
        for index in range(5):
            asking = asyncio.ensure_future(cancelled_with_its_answer(pool, b"/s"))
            await until(lambda index=index: len(replies) == index + 1)
            await asyncio.sleep(0.02)
            replies[index].send(200, TEXT, b"complete")
            await asking
            assert pool.open_count == pool.idle_count == 1
        assert (await get(pool)).status == 200


async def test_a_request_cancelled_as_its_stream_begins_leaks_nothing() -> None:
    replies: list[Reply] = []
    routes = Routes({b"/s": lambda _, reply: replies.append(reply)})
    async with serving(routes) as (_, port), pool_of(port) as pool:
        for index in range(5):
            asking = asyncio.ensure_future(cancelled_with_its_answer(pool, b"/s"))
            await until(lambda index=index: len(replies) == index + 1)
            await asyncio.sleep(0.02)
            replies[index].start(200, TEXT)
            await asking
            assert pool.open_count == 0
            await until(lambda index=index: replies[index].closed)


async def test_a_server_that_speaks_before_it_is_asked_uses_nothing_up() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
        await reader.read()

    async with upstream(serve) as port:

        async def open_socket() -> socket.socket:
            opened = socket.socket()
            opened.setblocking(False)
            await asyncio.get_running_loop().sock_connect(opened, ("127.0.0.1", port))
            await asyncio.sleep(0.05)  # it has spoken
            return opened

        origin = Origin("http", "127.0.0.1", port, open_socket=open_socket)
        async with ClientPool(origin, ClientLimits(max_connections=2, wait_seconds=0.5)) as pool:
            for _ in range(4):
                with contextlib.suppress(ConnectFailed):  # some loops read it only after we have asked
                    assert (await get(pool)).status == 408
                assert pool.open_count == pool.idle_count


async def test_a_connection_lost_on_its_way_to_someone_who_gives_up_is_gone() -> None:
    replies: list[Reply] = []
    routes = Routes({b"/s": lambda _, reply: replies.append(reply)})
    async with serving(routes) as (_, port), pool_of(port, max_connections=1) as pool:
        asking = asyncio.ensure_future(get(pool, b"/s"))
        await until(lambda: len(replies) == 1)
        waiting = asyncio.ensure_future(pool.request(b"GET", b"/", b"", b""))
        await until(lambda: len(pool._waiting) == 1)
        connection = next(iter(pool._spares.known))

        def lose_it() -> None:
            if pool._waiting:
                asyncio.get_running_loop().call_soon(lose_it)
            else:  # it is the other one's, who does not know yet
                connection.close()
                waiting.cancel()

        lose_it()
        replies[0].send(200, TEXT, b"")
        assert (await asking).status == 200
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert (pool.open_count, pool.idle_count) == (0, 0)
        assert (await get(pool)).status == 200


async def test_whoever_waits_for_a_pool_that_closes_opens_nothing() -> None:
    opened = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal opened
        del writer
        opened += 1
        await reader.read()

    async with upstream(serve) as port, pool_of(port, max_connections=1) as pool:
        asking = [asyncio.ensure_future(get(pool)) for _ in range(3)]
        await until(lambda: opened == 1 and len(pool._waiting) == 2)
        pool.close()
        kinds = [type(error) for error in await asyncio.gather(*asking, return_exceptions=True)]
        assert kinds == [ConnectionLost, ConnectFailed, ConnectFailed]
        await asyncio.sleep(0.05)
        assert (opened, pool.open_count) == (1, 0)


# Pools of one origin.


async def test_pools_of_one_origin_use_the_same_connection_in_turn() -> None:
    async with serving(Routes()) as (listener, port), pool_of(port) as one, pool_of(port) as other:
        for pool in (one, other, one, other):
            assert (await get(pool)).status == 200
            assert (pool.open_count, pool.idle_count) == (1, 1)
        assert listener.connection_count == 1


async def test_a_slow_server_takes_no_connection_from_another_of_its_origin() -> None:
    replies: list[Reply] = []
    routes = Routes({b"/slow": lambda _, reply: replies.append(reply)})
    async with (
        serving(routes) as (_, port),
        pool_of(port, max_connections=2, wait_seconds=30) as slow,
        pool_of(port, max_connections=2) as quick,
    ):
        asking = [asyncio.ensure_future(get(slow, b"/slow")) for _ in range(3)]
        await until(lambda: len(replies) == 2)
        assert (await get(quick)).status == 200
        assert quick.idle_count == 1
        await asyncio.sleep(0.05)
        assert len(replies) == 2  # what is free now is not for whoever has enough
        for _ in asking:
            await until(lambda: bool(replies))
            replies.pop().send(200, TEXT, b"")
        assert [answer.status for answer in await asyncio.gather(*asking)] == [200] * 3


async def test_a_pool_that_closes_leaves_the_others_alone() -> None:
    replies: list[Reply] = []
    routes = Routes({b"/s": lambda _, reply: replies.append(reply)})
    async with serving(routes) as (listener, port), pool_of(port) as staying:
        leaving = pool_of(port)
        asking = [asyncio.ensure_future(get(pool, b"/s")) for pool in (staying, leaving)]
        await until(lambda: len(replies) == 2)
        leaving.close()
        with pytest.raises(ConnectionLost):
            await asking[1]
        for reply in replies:
            reply.send(200, TEXT, b"")
        assert (await asking[0]).status == 200
        assert (await get(staying)).status == 200
        with pytest.raises(ConnectFailed):
            await get(leaving)
        staying.close()
        await until(lambda: listener.connection_count == 0)


async def test_the_limits_of_whoever_uses_a_connection_hold() -> None:
    silent = Routes({b"/silent": lambda _, reply: None})
    async with (
        serving(silent) as (_, port),
        pool_of(port) as patient,
        pool_of(port, head_seconds=0.3) as hasty,
    ):
        await get(patient)
        with pytest.raises(HeadTimeout):
            await get(hasty, b"/silent")


async def test_pools_that_trust_different_authorities_share_nothing() -> None:
    def others() -> ssl.SSLContext:
        return shared_tls_context()

    async with serving(Routes()) as (listener, port), pool_of(port) as one:
        other = ClientPool(one.origin, one.limits, others)
        await get(one)
        await get(other)
        assert listener.connection_count == 2
        for pool in (one, other):  # the same place, trusted in the same way
            await get(pool.another())
        assert listener.connection_count == 2
        other.close()


async def test_idle_connections_are_dropped_after_a_while() -> None:
    async with serving(Routes()) as (listener, port), pool_of(port, idle_seconds=0.3) as pool:
        await get(pool)
        assert pool.idle_count == 1
        await until(lambda: pool.open_count == 0, 3)
        await until(lambda: listener.connection_count == 0, 3)


async def test_a_connection_that_the_upstream_closes_leaves_the_pool() -> None:
    async with answering(OK + b"content-length: 2\r\n\r\nhi") as port, pool_of(port) as pool:
        assert await read(pool) == b"hi"
        await until(lambda: pool.open_count == 0, 3)


async def test_a_unix_socket_can_be_an_origin(tmp_path: Path) -> None:
    routes = Routes()
    async with Listener(routes) as listener:
        await listener.listen_unix(tmp_path / "s")
        async with ClientPool(Origin("http", "localhost", 80, str(tmp_path / "s"))) as pool:
            assert (await get(pool)).status == 200
    assert (routes.seen[0].peer, routes.seen[0].header(b"host")) == ("unix", b"localhost")


@pytest.mark.parametrize(
    ("url", "authority"),
    [
        ("http://a/b", "a"),
        ("http://a:8080/b", "a:8080"),
        ("https://a", "a"),
        ("https://a:80", "a:80"),
        ("http://[::1]:9/x", "[::1]:9"),
    ],
)
async def test_the_host_header_names_the_port_unless_it_is_the_default(url: str, authority: str) -> None:
    assert Origin.of(url).authority == authority


async def test_other_urls_have_no_origin() -> None:
    for url in ("ftp://a", "a", "http://", ""):
        with pytest.raises(ValueError, match="not an http"):
            Origin.of(url)


# Framing of responses.


async def test_a_response_is_the_same_however_it_is_cut() -> None:
    whole = (
        b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n"
        + OK
        + b"x-a: b\r\ntransfer-encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n2\r\nde\r\n0\r\nx-trailer: y\r\n\r\n"
    )

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            step = int((await reader.readuntil(b"\r\n\r\n")).split(b" ")[1][1:])
            for start in range(0, len(whole), step):
                writer.write(whole[start : start + step])
                await asyncio.sleep(0)

    async with upstream(serve) as port, pool_of(port) as pool:
        for step in range(1, len(whole) + 1):
            response = await get(pool, b"/%d" % step)
            assert await response.read(100) == b"abcde"
            assert response.headers == [(b"x-a", b"b"), (b"transfer-encoding", b"chunked")]
        assert pool.open_count == 1


async def test_a_response_without_length_ends_with_the_connection() -> None:
    async with answering(OK + b"\r\nto the end") as port, pool_of(port) as pool:
        assert await read(pool) == b"to the end"
        assert pool.open_count == 0


@pytest.mark.parametrize("status", [b"204 No Content", b"304 Not Modified"])
async def test_bodiless_responses_end_at_once(status: bytes) -> None:
    answer = b"HTTP/1.1 %b\r\netag: x\r\n\r\n" % status
    async with answering(answer, answer, then_close=False) as port, pool_of(port) as pool:
        for _ in range(2):
            response = await get(pool)
            assert (response.complete, response.body()) == (True, b"")
        assert pool.open_count == 1


async def test_a_response_to_head_has_no_body() -> None:
    async with serving(Routes()) as (_, port), pool_of(port) as pool:
        async with asyncio.timeout(5):
            response = await pool.request(b"HEAD", b"/x", b"", b"")
        assert (response.complete, response.body(), response.header(b"content-length")) == (True, b"", b"8")
        assert (await get(pool)).status == 200


MALFORMED: dict[str, bytes] = {
    "garbage": b"garbage\r\n\r\n",
    "bare LF": b"HTTP/1.1 200 OK\ncontent-length: 0\n\n",
    "no status": b"HTTP/1.1 OK\r\n\r\n",
    "length and chunked": OK + b"content-length: 3\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
    "two lengths": OK + b"content-length: 3\r\ncontent-length: 4\r\n\r\nabcd",
    "a bad length": OK + b"content-length: x\r\n\r\n",
    "gzip, chunked": OK + b"transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
    "gzip": OK + b"transfer-encoding: gzip\r\n\r\nabc",
    "a folded header": OK + b"x: a\r\n b\r\ncontent-length: 0\r\n\r\n",
    "a space before the colon": OK + b"content-length : 0\r\n\r\n",
    "switching protocols": b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
    "bare switching protocols": b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
    "informational responses for ever": b"HTTP/1.1 100 Continue\r\n\r\n" * 100,
}


@pytest.mark.parametrize("case", MALFORMED)
async def test_a_malformed_response_is_a_lost_connection(case: str) -> None:
    async with answering(MALFORMED[case], then_close=False) as port, pool_of(port) as pool:
        with pytest.raises(ConnectionLost, match="malformed") as caught:
            await get(pool)
        assert (caught.value.sent, caught.value.response_started) == (True, True)
        assert pool.open_count == 0


async def test_a_malformed_body_ends_the_response_that_has_begun() -> None:
    answer = OK + b"transfer-encoding: chunked\r\n\r\n3\r\nabc\r\n"

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await asyncio.sleep(0.05)
        writer.write(b"nonsense\r\n")
        await reader.read()

    async with upstream(serve) as port, pool_of(port) as pool:
        response = await get(pool)
        with pytest.raises(ConnectionLost, match="malformed"):
            await response.read(100)
        assert isinstance(response.error, ConnectionLost)
        assert not response.complete


async def test_a_second_response_in_one_read_is_not_taken_for_the_next_request() -> None:
    first = OK + b"content-length: 3\r\n\r\none"
    smuggled = OK + b"content-length: 8\r\n\r\nsmuggled"
    real = OK + b"content-length: 3\r\n\r\ntwo"
    for extra in (smuggled, b"x", b"HTTP/1.1 200 OK\r\nx: "):
        async with answering(first + extra, real, then_close=False) as port, pool_of(port) as pool:
            assert await read(pool) == b"one"
            assert pool.open_count == 0
            assert await read(pool) == b"two"


async def test_a_second_response_that_comes_late_is_not_taken_for_the_next_request() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK + b"content-length: 3\r\n\r\none")
        await asyncio.sleep(0.05)
        writer.write(OK + b"content-length: 8\r\n\r\nsmuggled")
        await reader.read()

    async with upstream(serve) as port, pool_of(port) as pool:
        assert await read(pool) == b"one"
        await until(lambda: pool.open_count == 0, 3)
        assert await read(pool) == b"one"


async def test_a_response_that_asks_to_close_is_not_reused() -> None:
    answer = OK + b"connection: close\r\ncontent-length: 3\r\n\r\none"
    async with answering(answer, answer, then_close=False) as port, pool_of(port) as pool:
        assert await read(pool) == b"one"
        assert pool.open_count == 0
        assert await read(pool) == b"one"


# Failures.


async def test_a_closed_port_is_a_failed_connect() -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    async with pool_of(port) as pool:
        with pytest.raises(ConnectFailed, match="connection refused"):
            await get(pool)
        assert pool.open_count == 0


async def test_an_unknown_host_is_a_failed_connect() -> None:
    async with ClientPool(Origin("http", "no-such-host.invalid", 80)) as pool:
        with pytest.raises(ConnectFailed, match="cannot be resolved"):
            await get(pool)


async def test_a_connect_that_takes_too_long_fails() -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen(0)
        fillers = [socket.socket() for _ in range(8)]
        for filler in fillers:
            filler.setblocking(False)
            filler.connect_ex(sock.getsockname())
        try:
            async with pool_of(sock.getsockname()[1], connect_seconds=0.3) as pool:
                with pytest.raises(ConnectFailed, match=r"within 0\.3 seconds"):
                    await get(pool)
                assert pool.open_count == 0
        finally:
            for filler in fillers:
                filler.close()


async def test_a_close_before_the_answer_says_that_the_request_was_sent() -> None:
    async with answering(b"") as port, pool_of(port) as pool:
        with pytest.raises(ConnectionLost) as caught:
            await get(pool)
    assert (caught.value.sent, caught.value.response_started) == (True, False)


async def test_a_close_in_the_head_says_that_the_response_had_started() -> None:
    async with answering(OK + b"content-le") as port, pool_of(port) as pool:
        with pytest.raises(ConnectionLost) as caught:
            await get(pool)
    assert (caught.value.sent, caught.value.response_started) == (True, True)


@pytest.mark.parametrize(
    "answer", [b"content-length: 10\r\n\r\nhalf", b"transfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n"]
)
async def test_a_close_in_the_body_is_an_error_after_what_has_come(answer: bytes) -> None:
    ended: asyncio.Future[TransportError | None] = asyncio.get_running_loop().create_future()
    received: list[bytes] = []
    async with answering(OK + answer) as port, pool_of(port) as pool:
        response = await get(pool)
        response.attach(received.append, ended.set_result)
        async with asyncio.timeout(5):
            error = await ended
    assert isinstance(error, ConnectionLost)
    assert (error.sent, error.response_started) == (True, True)
    assert b"".join(received) == b"half"


async def test_a_reset_in_a_body_without_length_is_an_error() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK + b"\r\nhalf")
        await asyncio.sleep(0.05)
        sock = writer.get_extra_info("socket")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        writer.transport.abort()

    async with upstream(serve) as port, pool_of(port) as pool:
        response = await get(pool)
        with pytest.raises(ConnectionLost):
            await response.read(100)


async def test_a_sent_request_is_never_sent_again() -> None:
    count = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal count
        await reader.readuntil(b"\r\n\r\n")
        count += 1

    async with upstream(serve) as port, pool_of(port) as pool:
        with pytest.raises(ConnectionLost):
            await get(pool)
    assert count == 1


async def test_no_head_in_time_is_a_head_timeout() -> None:
    routes = Routes({b"/s": lambda _, __: None})
    async with serving(routes) as (_, port), pool_of(port, head_seconds=0.3) as pool:
        with pytest.raises(HeadTimeout, match=r"0\.3 seconds"):
            await get(pool, b"/s")
        assert pool.open_count == 0


async def test_the_head_may_take_for_ever_if_the_caller_says_so() -> None:
    replies: list[Reply] = []
    routes = Routes({b"/s": lambda _, reply: replies.append(reply)})
    async with serving(routes) as (_, port), pool_of(port, head_seconds=None) as pool:
        asking = asyncio.ensure_future(get(pool, b"/s"))
        await asyncio.sleep(0.8)  # the claim is that nothing happens in this time
        replies[0].send(200, TEXT, b"late")
        assert (await asking).body() == b"late"


async def test_a_body_that_stalls_is_a_lost_connection() -> None:
    replies: list[Reply] = []
    routes = Routes({b"/s": lambda _, reply: replies.append(reply)})
    async with serving(routes) as (_, port), pool_of(port, body_stall_seconds=0.4) as pool:
        asking = asyncio.ensure_future(get(pool, b"/s"))
        await until(lambda: bool(replies))
        replies[0].start(200, TEXT)
        response = await asking
        with pytest.raises(ConnectionLost, match="stalled"):
            async with asyncio.timeout(5):
                await response.read(100)


async def test_endless_headers_are_refused() -> None:
    async with (
        answering(OK + b"x: y\r\n" * 20_000, then_close=False) as port,
        pool_of(port, max_header_bytes=10_000) as pool,
    ):
        with pytest.raises(ConnectionLost, match="too large"):
            await get(pool)


# Limits of the pool.


async def test_requests_wait_in_line_for_a_free_connection() -> None:
    replies: list[Reply] = []
    routes = Routes({b"/s": lambda _, reply: replies.append(reply)})
    order: list[int] = []

    async def ask(pool: ClientPool, index: int) -> None:
        await get(pool, b"/s")
        order.append(index)

    async with serving(routes) as (listener, port), pool_of(port, max_connections=2) as pool:
        asking = [asyncio.ensure_future(ask(pool, index)) for index in range(6)]
        for count in range(6):
            await until(lambda count=count: len(replies) > count)
            assert listener.connection_count <= 2
            replies[count].send(200, TEXT, b"")
        await asyncio.gather(*asking)
        assert pool.open_count == 2
    assert order == sorted(order)


async def test_a_full_line_is_an_error_at_once() -> None:
    routes = Routes({b"/s": lambda _, __: None})
    async with serving(routes) as (_, port), pool_of(port, max_connections=1, max_waiting=1) as pool:
        asking = [asyncio.ensure_future(get(pool, b"/s")) for _ in range(2)]
        await until(lambda: bool(routes.seen))
        with pytest.raises(PoolBusy, match="too many"):
            await get(pool, b"/s")
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        await until(lambda: pool.open_count == 0)


async def test_waiting_too_long_in_line_is_an_error() -> None:
    routes = Routes({b"/s": lambda _, __: None})
    async with serving(routes) as (_, port), pool_of(port, max_connections=1, wait_seconds=0.3) as pool:
        first = asyncio.ensure_future(get(pool, b"/s"))
        await until(lambda: bool(routes.seen))
        with pytest.raises(PoolBusy, match=r"within 0\.3"):
            await get(pool, b"/s")
        first.cancel()


async def test_who_waits_gets_the_place_of_a_lost_connection() -> None:
    replies: list[Reply] = []
    routes = Routes({b"/s": lambda _, reply: replies.append(reply)})
    async with serving(routes) as (_, port), pool_of(port, max_connections=1) as pool:
        first = asyncio.ensure_future(get(pool, b"/s"))
        await until(lambda: len(replies) == 1)
        second = asyncio.ensure_future(get(pool, b"/s"))
        await asyncio.sleep(0)
        replies[0].abort()
        with pytest.raises(ConnectionLost):
            await first
        await until(lambda: len(replies) == 2)
        replies[1].send(200, TEXT, b"")
        assert (await second).status == 200


async def test_who_stops_waiting_leaves_the_line() -> None:
    replies: list[Reply] = []
    routes = Routes({b"/s": lambda _, reply: replies.append(reply)})
    async with serving(routes) as (_, port), pool_of(port, max_connections=1, max_waiting=1) as pool:
        first = asyncio.ensure_future(get(pool, b"/s"))
        await until(lambda: len(replies) == 1)
        second = asyncio.ensure_future(get(pool, b"/s"))
        await asyncio.sleep(0)
        second.cancel()
        await asyncio.sleep(0)
        third = asyncio.ensure_future(get(pool, b"/s"))
        await asyncio.sleep(0)
        replies[0].send(200, TEXT, b"")
        await first
        await until(lambda: len(replies) == 2)
        replies[1].send(200, TEXT, b"")
        assert (await third).status == 200


async def test_a_failed_connect_gives_its_place_to_the_next_in_line() -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    async with pool_of(port, max_connections=1) as pool:
        outcomes = await asyncio.gather(*(get(pool) for _ in range(5)), return_exceptions=True)
    assert all(isinstance(outcome, ConnectFailed) for outcome in outcomes)
    assert pool.open_count == 0


async def test_closing_the_pool_fails_what_is_in_progress_and_in_line() -> None:
    routes = Routes({b"/s": lambda _, __: None})
    async with serving(routes) as (_, port), pool_of(port, max_connections=1) as pool:
        asking = [asyncio.ensure_future(get(pool, b"/s")) for _ in range(2)]
        await until(lambda: bool(routes.seen))
        pool.close()
        first, second = await asyncio.gather(*asking, return_exceptions=True)
        assert isinstance(first, ConnectionLost)
        assert isinstance(second, ConnectFailed)
        with pytest.raises(ConnectFailed, match="closed"):
            await get(pool)
        assert pool.open_count == 0


# Bodies: flow and bounds.


async def test_pausing_stops_reading_from_the_upstream() -> None:
    sent = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK + b"content-length: 20000000\r\n\r\n")
        while sent < 20_000_000:
            writer.write(b"x" * 100_000)
            sent += 100_000
            await writer.drain()
        await reader.read()

    received = 0
    ended: asyncio.Future[TransportError | None] = asyncio.get_running_loop().create_future()

    def on_data(data: bytes) -> None:
        nonlocal received
        received += len(data)

    async with upstream(serve) as port, pool_of(port) as pool:
        response = await get(pool)
        response.attach(on_data, ended.set_result)
        response.pause()
        at_pause = received
        await asyncio.sleep(0.5)  # the claim is that nothing happens in this time
        assert received == at_pause
        assert sent < 15_000_000
        response.resume()
        async with asyncio.timeout(10):
            assert await ended is None
        assert received == 20_000_000
        assert pool.idle_count == 1


async def test_a_body_that_nobody_reads_is_not_read_for_ever() -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK + b"content-length: 20000000\r\n\r\n")
        for _ in range(200):
            writer.write(b"x" * 100_000)
            await writer.drain()
        await reader.read()

    async with upstream(serve) as port, pool_of(port, buffer_bytes=100_000) as pool:
        response = await get(pool)
        connection = next(iter(pool._spares.known))
        await until(lambda: not connection.transport.is_reading())
        assert response.flow is not None
        assert response.flow._buffered < 800_000
        assert len(await response.read(30_000_000)) == 20_000_000


async def test_pausing_in_the_middle_of_a_delivery_holds_the_rest_back() -> None:
    async with (
        answering(OK + b"transfer-encoding: chunked\r\n\r\n" + _chunks(*LARGE) + b"0\r\n\r\n") as port,
        pool_of(port) as pool,
    ):
        response = await get(pool)
        received: list[bytes] = []
        ends: list[TransportError | None] = []

        def on_data(data: bytes) -> None:
            received.append(data)
            response.pause()

        response.attach(on_data, ends.append)
        assert b"".join(received) in LARGE[0]
        while b"".join(received) != b"".join(LARGE):
            assert not ends
            before = len(received)
            response.resume()
            await until(lambda before=before: len(received) > before, 5)
            assert len(received) == before + 1
        assert ends == []
        response.resume()
        await until(lambda: ends == [None], 5)


async def test_small_chunks_of_one_read_are_passed_on_together() -> None:
    small = [b"event %d" % number for number in range(100)]
    async with (
        answering(OK + b"transfer-encoding: chunked\r\n\r\n" + _chunks(*small) + b"0\r\n\r\n") as port,
        pool_of(port) as pool,
    ):
        response = await get(pool)
        received: list[bytes] = []
        ended = asyncio.Event()
        response.attach(received.append, lambda _: ended.set())
        await asyncio.wait_for(ended.wait(), 10)
        assert b"".join(received) == b"".join(small)
        assert len(received) < len(small) / 4


LARGE = (b"a" * 20_000, b"b" * 20_000)


def _chunks(*parts: bytes) -> bytes:
    return b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts)


async def test_a_body_larger_than_the_reader_wants_is_an_error() -> None:
    body = b"x" * 1_000_000
    async with (
        serving(Routes({b"/": lambda _, reply: reply.send(200, (), body)})) as (_, port),
        pool_of(port) as pool,
    ):
        assert len(await read(pool, max_bytes=1_000_000)) == 1_000_000
        with pytest.raises(ResponseTooLarge):
            await read(pool, max_bytes=999_999)
        assert await read(pool) == body


async def test_a_small_body_larger_than_the_reader_wants_is_an_error() -> None:
    async with (
        serving(Routes({b"/": lambda _, reply: reply.send(200, (), b"x" * 11)})) as (_, port),
        pool_of(port) as pool,
    ):
        with pytest.raises(ResponseTooLarge):
            await read(pool, max_bytes=10)


@pytest.mark.parametrize("size", [1_001, 1_000_000])
async def test_a_body_larger_than_the_pool_allows_is_an_error(size: int) -> None:
    body = b"x" * size
    async with (
        serving(Routes({b"/": lambda _, reply: reply.send(200, (), body)})) as (_, port),
        pool_of(port, max_body_bytes=1_000) as pool,
    ):
        for _ in range(3):
            with pytest.raises(ResponseTooLarge):
                await read(pool)
        assert pool.open_count == 0


# Packed bodies.


PACKERS = {
    b"gzip": gzip.compress,
    b"deflate": zlib.compress,
    b"zstd": zstandard.ZstdCompressor().compress,
}


@pytest.mark.parametrize("coding", PACKERS)
async def test_a_packed_body_is_unpacked(coding: bytes) -> None:
    body = b"some text " * 100_000
    packed = PACKERS[coding](body)
    answer = OK + b"content-encoding: %b\r\nx: y\r\ncontent-length: %d\r\n\r\n%b" % (
        coding,
        len(packed),
        packed,
    )
    async with answering(answer, answer, then_close=False) as port, pool_of(port) as pool:
        for _ in range(2):
            response = await get(pool)
            assert response.headers == [(b"x", b"y")]
            assert await response.read(2_000_000) == body
        assert pool.open_count == 1


@pytest.mark.parametrize("coding", PACKERS)
async def test_a_small_packed_body_is_complete_at_once(coding: bytes) -> None:
    packed = PACKERS[coding](b"small")
    answer = OK + b"content-encoding: %b\r\ncontent-length: %d\r\n\r\n%b" % (coding, len(packed), packed)
    async with answering(answer) as port, pool_of(port) as pool:
        response = await get(pool)
        await until(lambda: response.complete)
        assert response.body() == b"small"


async def test_an_unknown_coding_is_left_alone() -> None:
    async with (
        answering(OK + b"content-encoding: br\r\ncontent-length: 3\r\n\r\nabc") as port,
        pool_of(port) as pool,
    ):
        response = await get(pool)
        assert (response.header(b"content-encoding"), response.body()) == (b"br", b"abc")


@pytest.mark.parametrize("coding", PACKERS)
async def test_a_bomb_is_an_error_before_it_has_grown(coding: bytes) -> None:
    packed = PACKERS[coding](bytes(40 << 20))
    answer = OK + b"content-encoding: %b\r\ncontent-length: %d\r\n\r\n%b" % (coding, len(packed), packed)
    received = 0
    ended: asyncio.Future[TransportError | None] = asyncio.get_running_loop().create_future()

    def on_data(data: bytes) -> None:
        nonlocal received
        received += len(data)

    async with answering(answer) as port, pool_of(port) as pool:
        response = await get(pool)
        response.attach(on_data, ended.set_result)
        async with asyncio.timeout(10):
            assert isinstance(await ended, ResponseTooLarge)
    assert received < 10 << 20


@pytest.mark.parametrize("coding", PACKERS)
async def test_damaged_packed_bytes_are_a_lost_connection(coding: bytes) -> None:
    answer = OK + b"content-encoding: %b\r\ncontent-length: 9\r\n\r\nnot that!" % coding
    async with answering(answer) as port, pool_of(port) as pool:
        with pytest.raises(ConnectionLost, match="malformed"):
            await read(pool)


async def test_packed_events_arrive_one_by_one() -> None:
    events: asyncio.Queue[bytes] = asyncio.Queue()
    replies: list[Reply] = []
    routes = Routes({b"/s": lambda _, reply: replies.append(reply)})
    async with serving(routes) as (_, port), pool_of(port) as pool:
        asking = asyncio.ensure_future(pool.request(b"GET", b"/s", b"accept-encoding: zstd, gzip\r\n", b""))
        await until(lambda: bool(replies))
        replies[0].start(200, ((b"content-type", b"text/event-stream"),))
        response = await asking
        response.attach(events.put_nowait, lambda _: None)
        for index in range(20):
            replies[0].write(b"data: %d\n\n" % index)
            async with asyncio.timeout(5):
                assert await events.get() == b"data: %d\n\n" % index
        response.abort()


async def test_pausing_a_packed_body_stops_unpacking() -> None:
    body = b"".join(b"some text %d " % index for index in range(500_000))
    packed = gzip.compress(body, 1)
    answer = OK + b"content-encoding: gzip\r\ncontent-length: %d\r\n\r\n%b" % (len(packed), packed)
    received = 0
    ended: asyncio.Future[TransportError | None] = asyncio.get_running_loop().create_future()

    async with answering(answer, then_close=False) as port, pool_of(port) as pool:
        response = await get(pool)

        def on_data(data: bytes) -> None:
            nonlocal received
            received += len(data)
            response.pause()

        response.attach(on_data, ended.set_result)
        steps = 0
        while not ended.done():
            before = received
            response.resume()
            steps += 1
            if received == before:
                await asyncio.sleep(0.001)
            assert received - before <= 65_536
            assert response.flow is not None
            assert response.flow._buffered < 5_000_000
            assert steps < 100_000
        assert (await ended, received) == (None, len(body))
