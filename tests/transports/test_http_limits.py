"""Every bound of the listener, seen from a client that goes beyond it."""

from __future__ import annotations

import asyncio
import json

import pytest
from http_edge_tools import BACKEND_NAMES, BACKENDS, TEXT, Routes, connected, request, serving, until

from mooring.transports.http_errors import BodyInterrupted
from mooring.transports.http_listener import BodyStream, ListenerLimits, Reply, Request

pytestmark = pytest.mark.anyio

CHUNKED = b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.fixture(params=BACKENDS, ids=BACKEND_NAMES)
def anyio_backend(request: pytest.FixtureRequest) -> object:
    return request.param


# Sizes.


@pytest.mark.parametrize("pieces", [1, 7])
async def test_headers_beyond_their_bytes_are_refused_with_431(pieces: int) -> None:
    limits = ListenerLimits(max_header_bytes=2_000)
    data = request(headers=b"x: %b\r\n" % (b"y" * 2_100))
    async with serving(Routes(), limits) as (_, port), connected(port) as peer:
        assert (await peer.ask(request(headers=b"x: %b\r\n" % (b"y" * 1_500)))).status == 200
        step = len(data) // pieces + 1
        for start in range(0, len(data), step):
            peer.send(data[start : start + step])
            await peer.writer.drain()
        assert (await peer.answer()).status == 431
        assert await peer.is_closed_by_peer()


async def test_a_head_that_never_ends_is_refused_with_431() -> None:
    async with (
        serving(Routes(), ListenerLimits(max_header_bytes=2_000)) as (_, port),
        connected(port) as peer,
    ):
        peer.send(b"GET / HTTP/1.1\r\nhost: a\r\n")
        for index in range(1_000):
            peer.send(b"x-%d: y\r\n" % index)
        assert (await peer.answer()).status == 431


async def test_empty_lines_for_ever_are_not_a_request() -> None:
    limits = ListenerLimits(max_header_bytes=2_000, header_seconds=0.3)
    routes = Routes()
    async with serving(routes, limits) as (listener, port), connected(port) as peer:
        peer.send(b"\r\n" * 500)
        await until(lambda: listener.connection_count == 1)
        await until(lambda: listener.connection_count == 0)
        assert routes.seen == []


async def test_too_many_headers_are_refused_with_431() -> None:
    async with serving(Routes(), ListenerLimits(max_header_count=10)) as (_, port), connected(port) as peer:
        assert (await peer.ask(request(headers=b"x: y\r\n" * 9))).status == 200
        assert (await peer.ask(request(headers=b"x: y\r\n" * 10))).status == 431


@pytest.mark.parametrize("pieces", [1, 5])
async def test_a_long_target_is_refused_with_414(pieces: int) -> None:
    limits = ListenerLimits(max_target_bytes=100)
    data = request(b"/" + b"x" * 100)
    async with serving(Routes(), limits) as (_, port), connected(port) as peer:
        assert (await peer.ask(request(b"/" + b"x" * 99))).status == 200
        step = len(data) // pieces + 1
        for start in range(0, len(data), step):
            peer.send(data[start : start + step])
            await asyncio.sleep(0)
        assert (await peer.answer()).status == 414


async def test_a_long_announced_body_is_refused_with_413_without_waiting_for_it() -> None:
    async with serving(Routes(max_body_bytes=100)) as (_, port), connected(port) as peer:
        assert (await peer.ask(request(body=b"x" * 100))).status == 200
        peer.send(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 101\r\n\r\n")
        answer = await peer.answer()
        assert (answer.status, json.loads(answer.body)) == (413, {"error": "the request body is too large"})
        assert await peer.is_closed_by_peer()


async def test_a_long_body_is_refused_even_if_its_head_looks_like_the_one_before() -> None:
    async with serving(Routes(max_body_bytes=100)) as (_, port), connected(port) as peer:
        for _ in range(3):
            assert (await peer.ask(request(body=b"x" * 100))).status == 200
        assert (await peer.ask(request(body=b"x" * 101))).status == 413


async def test_a_long_chunked_body_is_refused_with_413() -> None:
    async with serving(Routes(max_body_bytes=100)) as (_, port), connected(port) as peer:
        peer.send(CHUNKED + b"40\r\n%b\r\n40\r\n%b\r\n" % (b"x" * 64, b"x" * 64))
        assert (await peer.answer()).status == 413
        assert await peer.is_closed_by_peer()


async def test_a_refused_client_that_goes_on_sending_reads_its_answer_and_is_cut_off() -> None:
    limits = ListenerLimits(linger_bytes=2_000_000, linger_seconds=60)
    async with serving(Routes(max_body_bytes=100), limits) as (listener, port), connected(port) as peer:
        peer.send(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 1000000000\r\n\r\n" + b"x" * 1_000_000)
        assert (await peer.answer()).status == 413
        peer.send(b"x" * 5_000_000)
        await until(lambda: listener.connection_count == 0, 5)


async def test_a_refused_client_sees_the_end_at_once() -> None:
    limits = ListenerLimits(linger_seconds=60)
    async with serving(Routes(), limits) as (_, port), connected(port) as peer:
        peer.send(b"nonsense\r\n\r\n")
        assert (await peer.answer()).status == 400
        async with asyncio.timeout(2):
            assert await peer.is_closed_by_peer()


async def test_a_refused_client_that_stays_is_dropped() -> None:
    limits = ListenerLimits(linger_seconds=0.3)
    async with serving(Routes(), limits) as (listener, port), connected(port) as peer:
        peer.send(b"nonsense\r\n\r\n")
        assert (await peer.answer()).status == 400
        await until(lambda: listener.connection_count == 0, 3)


async def test_a_flood_of_chunk_extensions_is_refused() -> None:
    limits = ListenerLimits(max_header_bytes=1_000, max_chunk_overhead_bytes=1_000)
    async with serving(Routes(), limits) as (_, port), connected(port) as peer:
        peer.send(CHUNKED + b"3")
        for _ in range(40):
            peer.send(b";extension=" + b"x" * 100)
            await asyncio.sleep(0)
        assert (await peer.answer()).status == 400


async def test_a_flood_of_trailers_is_refused() -> None:
    limits = ListenerLimits(max_header_bytes=1_000, max_chunk_overhead_bytes=1_000)
    async with serving(Routes(), limits) as (_, port), connected(port) as peer:
        peer.send(CHUNKED + b"3\r\nabc\r\n0\r\n")
        for index in range(200):
            peer.send(b"trailer-%d: value\r\n" % index)
            await asyncio.sleep(0)
        assert (await peer.answer()).status == 400


async def test_a_body_in_tiny_chunks_is_fine_and_costs_little_memory() -> None:
    count = 100_000
    routes = Routes()
    async with serving(routes) as (listener, port), connected(port) as peer:
        peer.send(CHUNKED)
        peer.send(b"2\r\nab\r\n" * count)
        await peer.writer.drain()
        await until(lambda: listener.connection_count == 1)
        connection = next(iter(listener._connections))
        await until(lambda: connection._reader._size == 2 * count)
        parts = connection._reader._parts
        assert len(parts) <= 2
        peer.send(b"0\r\n\r\n")
        assert (await peer.answer()).body == b"POST\n/\n" + b"ab" * count


async def test_too_many_requests_ahead_end_the_connection_after_those_answered() -> None:
    waiting: list[Reply] = []
    routes = Routes({b"/slow": lambda _, reply: waiting.append(reply)})
    async with serving(routes, ListenerLimits(max_pipelined=3)) as (_, port), connected(port) as peer:
        peer.send(request(b"/slow") + request(b"/x") * 10)
        await until(lambda: bool(waiting))
        waiting[0].send(200, TEXT, b"")
        data = await peer.rest()
    assert data.count(b"HTTP/1.1 200 OK") == 3


# Numbers of connections.


async def test_too_many_connections_of_one_address_are_refused_with_429() -> None:
    limits = ListenerLimits(max_connections_per_address=2)
    async with serving(Routes(), limits) as (listener, port):
        async with connected(port) as first, connected(port) as second:
            assert (await first.ask(request())).status == 200
            assert (await second.ask(request())).status == 200
            async with connected(port) as third:
                assert (await third.answer()).status == 429
                assert await third.is_closed_by_peer()
        await until(lambda: listener.connection_count == 0)
        async with connected(port) as again:
            assert (await again.ask(request())).status == 200


async def test_too_many_connections_are_refused_with_503() -> None:
    async with serving(Routes(), ListenerLimits(max_connections=1)) as (_, port), connected(port) as first:
        assert (await first.ask(request())).status == 200
        async with connected(port) as second:
            second.send(request())
            assert (await second.answer()).status == 503
            assert await second.is_closed_by_peer()
        assert (await first.ask(request())).status == 200


# Times.


async def test_a_head_that_takes_too_long_is_refused_with_408() -> None:
    async with serving(Routes(), ListenerLimits(header_seconds=0.5)) as (_, port), connected(port) as peer:
        async with asyncio.timeout(4):
            peer.send(b"GET / HTTP/1.1\r\n")
            while True:  # a byte now and then does not help
                peer.send(b"x")
                try:
                    async with asyncio.timeout(0.1):
                        data = await peer.reader.readexactly(12)
                        break
                except TimeoutError:
                    continue
        assert data == b"HTTP/1.1 408"


async def test_the_second_head_of_a_connection_has_the_same_time_limit() -> None:
    limits = ListenerLimits(header_seconds=0.5, keep_alive_seconds=60)
    async with serving(Routes(), limits) as (_, port), connected(port) as peer:
        assert (await peer.ask(request())).status == 200
        peer.send(b"GET / HT")
        async with asyncio.timeout(3):
            assert (await peer.answer()).status == 408


@pytest.mark.parametrize(
    "half", [b"GET / HT", b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\nhalf"]
)
async def test_half_a_request_behind_another_one_has_the_same_time_limits(half: bytes) -> None:
    waiting: list[Reply] = []
    routes = Routes({b"/slow": lambda _, reply: waiting.append(reply)})
    limits = ListenerLimits(header_seconds=0.5, body_gap_seconds=0.5)
    async with serving(routes, limits) as (_, port), connected(port) as peer:
        peer.send(request(b"/slow") + half)
        await until(lambda: bool(waiting))
        waiting[0].send(200, TEXT, b"")
        assert (await peer.answer()).status == 200
        async with asyncio.timeout(4):
            assert (await peer.answer()).status == 408


async def test_a_client_that_connects_and_says_nothing_is_dropped() -> None:
    async with serving(Routes(), ListenerLimits(header_seconds=0.3)) as (_, port), connected(port) as peer:
        async with asyncio.timeout(3):
            assert await peer.rest() == b""


async def test_an_idle_connection_is_closed_after_its_time_and_not_before() -> None:
    async with (
        serving(Routes(), ListenerLimits(keep_alive_seconds=1.0)) as (_, port),
        connected(port) as peer,
    ):
        loop = asyncio.get_running_loop()
        await peer.ask(request())
        start = loop.time()
        assert await peer.is_closed_by_peer()
        assert 0.9 < loop.time() - start < 8


async def test_a_body_that_stops_is_refused_with_408() -> None:
    async with serving(Routes(), ListenerLimits(body_gap_seconds=0.5)) as (_, port), connected(port) as peer:
        peer.send(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\nhalf")
        async with asyncio.timeout(3):
            assert (await peer.answer()).status == 408
        assert await peer.is_closed_by_peer()


async def test_a_body_may_be_slow_but_not_for_ever() -> None:
    limits = ListenerLimits(body_gap_seconds=0.6, body_seconds=1.5)
    async with serving(Routes(), limits) as (_, port), connected(port) as peer:
        loop = asyncio.get_running_loop()
        start = loop.time()
        peer.send(b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n\r\n")
        while peer.reader._buffer == b"" and loop.time() - start < 5:  # type: ignore[attr-defined]
            peer.send(b"x")
            await asyncio.sleep(0.1)
        assert loop.time() - start > 1.2
        assert (await peer.answer()).status == 408


async def test_an_upload_that_stops_is_refused_with_408_and_an_error_to_its_reader() -> None:
    outcome: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def receive(_: Request, __: Reply, body: BodyStream) -> None:
        try:
            async for _chunk in body:
                pass
        except BodyInterrupted as error:
            outcome.set_result(str(error))

    limits = ListenerLimits(body_gap_seconds=0.5)
    async with serving(Routes(streaming={b"/up": receive}), limits) as (_, port), connected(port) as peer:
        peer.send(b"POST /up HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\nhalf")
        async with asyncio.timeout(3):
            assert (await peer.answer()).status == 408
            assert "too long" in await outcome


async def test_an_upload_is_not_timed_while_its_reader_makes_it_wait() -> None:
    go = asyncio.Event()

    async def receive(_: Request, reply: Reply, body: BodyStream) -> None:
        await go.wait()
        total = 0
        async for chunk in body:
            total += len(chunk)
        reply.send(200, TEXT, b"%d" % total)

    limits = ListenerLimits(body_gap_seconds=0.3)
    size = 10_000_000
    async with serving(Routes(streaming={b"/up": receive}), limits) as (_, port), connected(port) as peer:
        peer.send(request(b"/up", b"x" * size))
        await asyncio.sleep(1.2)  # the claim is that nothing happens in this time
        go.set()
        assert (await peer.answer()).body == b"%d" % size


async def test_a_request_in_progress_is_not_timed() -> None:
    waiting: list[Reply] = []
    routes = Routes({b"/slow": lambda _, reply: waiting.append(reply)})
    limits = ListenerLimits(
        header_seconds=0.2, body_gap_seconds=0.2, body_seconds=0.2, keep_alive_seconds=0.2
    )
    async with serving(routes, limits) as (_, port), connected(port) as peer:
        peer.send(request(b"/slow"))
        await asyncio.sleep(1.2)  # the claim is that nothing happens in this time
        waiting[0].send(200, TEXT, b"late")
        assert (await peer.answer()).body == b"late"
