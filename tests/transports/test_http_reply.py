"""Replies over real sockets: framing, truncation, back-pressure, compression."""

from __future__ import annotations

import asyncio
import gzip
import random
import zlib
from collections.abc import Callable

import pytest
import zstandard
from http_edge_tools import (
    BACKEND_NAMES,
    BACKENDS,
    JSON,
    TEXT,
    Peer,
    Routes,
    connected,
    request,
    serving,
    until,
)

from mooring.transports.http_listener import ListenerLimits, Reply, Request
from mooring.transports.http_reply import encode_headers
from mooring.transports.patient_body import PatientBody

pytestmark = pytest.mark.anyio

EVENTS = ((b"content-type", b"text/event-stream"),)


@pytest.fixture(params=BACKENDS, ids=BACKEND_NAMES)
def anyio_backend(request: pytest.FixtureRequest) -> object:
    return request.param


def held(replies: list[Reply]) -> Routes:
    """A route whose replies the test gives itself."""
    return Routes({b"/": lambda _, reply: replies.append(reply)})


async def asked(peer: Peer, replies: list[Reply], data: bytes) -> Reply:
    count = len(replies)
    peer.send(data)
    await until(lambda: len(replies) > count)
    return replies[-1]


# Framing.


async def test_a_stream_is_chunked_and_each_write_arrives_at_once() -> None:
    replies: list[Reply] = []
    async with serving(held(replies)) as (_, port), connected(port) as peer:
        reply = await asked(peer, replies, request())
        reply.start(200, EVENTS)
        assert (await peer.head()).header(b"transfer-encoding") == b"chunked"
        for event in (b"one", bytearray(b"two"), memoryview(b"three"), b"x" * 100_000):
            reply.write(event)
            assert await peer.chunk() == bytes(event)
        reply.write(b"")  # nothing, and above all not the end
        reply.end()
        assert await peer.chunk() == b""
        await asked(peer, replies, request())


async def test_a_stream_of_known_length_is_counted() -> None:
    replies: list[Reply] = []
    async with serving(held(replies)) as (_, port), connected(port) as peer:
        reply = await asked(peer, replies, request())
        reply.start(200, TEXT, length=6)
        reply.write(b"abc")
        reply.write(b"def")
        reply.end()
        answer = await peer.answer()
        assert (answer.header(b"content-length"), answer.body) == (b"6", b"abcdef")
        await asked(peer, replies, request())


async def test_a_stream_to_http_1_0_ends_with_the_connection() -> None:
    replies: list[Reply] = []
    async with serving(held(replies)) as (_, port), connected(port) as peer:
        reply = await asked(peer, replies, request(version=b"1.0"))
        reply.start(200, EVENTS)
        reply.write(b"abc")
        reply.end()
        answer = await peer.answer()
        assert (answer.header(b"transfer-encoding"), answer.body) == (None, b"abc")


async def test_a_stream_in_answer_to_head_has_no_body() -> None:
    replies: list[Reply] = []
    async with serving(held(replies)) as (_, port), connected(port) as peer:
        reply = await asked(peer, replies, request(method=b"HEAD"))
        reply.start(200, TEXT, length=3)
        reply.write(b"abc")
        reply.end()
        assert (await peer.answer(to_head=True)).header(b"content-length") == b"3"
        (await asked(peer, replies, request())).send(200, TEXT, b"next")
        assert (await peer.answer()).body == b"next"


@pytest.mark.parametrize("status", [204, 304])
async def test_some_statuses_have_no_body(status: int) -> None:
    replies: list[Reply] = []
    async with serving(held(replies)) as (_, port), connected(port) as peer:
        (await asked(peer, replies, request())).send(status, (), b"")
        answer = await peer.answer()
        assert (answer.status, answer.header(b"content-length")) == (status, None)
        streamed = await asked(peer, replies, request())
        streamed.start(status, ())
        streamed.end()
        assert (await peer.answer()).header(b"transfer-encoding") is None
        (await asked(peer, replies, request())).send(200, TEXT, b"next")
        assert (await peer.answer()).body == b"next"


async def test_framing_headers_of_the_caller_are_left_out() -> None:
    replies: list[Reply] = []
    passed_on = [
        (b"content-length", b"999"),
        (b"transfer-encoding", b"chunked"),
        (b"connection", b"close"),
        (b"date", b"yesterday"),
        (b"etag", b"x"),
    ]
    async with serving(held(replies)) as (_, port), connected(port) as peer:
        (await asked(peer, replies, request())).send(200, passed_on, b"abc")
        answer = await peer.answer()
    assert [name for name, _ in answer.headers] == [b"date", b"etag", b"content-length"]
    assert answer.body == b"abc"


@pytest.mark.parametrize("value", [b"a\r\nset-cookie: b", b"a\nb", b"a\rb", b"a\0b"])
@pytest.mark.parametrize("shape", [tuple, list])
def test_a_line_break_in_a_header_is_refused(value: bytes, shape: Callable[..., object]) -> None:
    for _ in range(2):  # the second time must not come from a cache
        with pytest.raises(ValueError, match="line break"):
            encode_headers(shape([(b"x", value)]))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="line break"):
        encode_headers(shape([(value, b"x")]))  # type: ignore[arg-type]


async def test_a_refused_header_leaves_the_reply_usable() -> None:
    replies: list[Reply] = []
    async with serving(held(replies)) as (_, port), connected(port) as peer:
        reply = await asked(peer, replies, request())
        with pytest.raises(ValueError, match="line break"):
            reply.send(200, [(b"x", b"a\r\nb")], b"")
        reply.send(500, TEXT, b"sorry")
        assert (await peer.answer()).status == 500


async def test_a_reply_is_given_once() -> None:
    replies: list[Reply] = []
    async with serving(held(replies)) as (_, port), connected(port) as peer:
        reply = await asked(peer, replies, request())
        for misuse in (lambda: reply.write(b"x"), reply.end):
            with pytest.raises(RuntimeError):
                misuse()
        reply.send(200, TEXT, b"x")
        for misuse in (
            lambda: reply.send(200, (), b""),
            lambda: reply.start(200, ()),
            lambda: reply.write(b"x"),
        ):
            with pytest.raises(RuntimeError):
                misuse()
        with pytest.raises(RuntimeError):
            reply.upgrade(b"x")
        assert (await peer.answer()).body == b"x"


# Truncation.


async def test_an_aborted_stream_shows_as_truncated() -> None:
    replies: list[Reply] = []
    async with serving(held(replies)) as (_, port), connected(port) as peer:
        reply = await asked(peer, replies, request())
        reply.start(200, EVENTS)
        reply.write(b"abc")
        reply.abort()
        await peer.head()
        assert await peer.rest() == b"3\r\nabc\r\n"  # delivered, but without the last chunk


async def test_an_aborted_stream_to_http_1_0_is_reset() -> None:
    replies: list[Reply] = []
    async with serving(held(replies)) as (_, port), connected(port) as peer:
        reply = await asked(peer, replies, request(version=b"1.0"))
        reply.start(200, EVENTS)
        await peer.head()
        reply.abort()
        with pytest.raises(ConnectionError):
            async with asyncio.timeout(5):
                await peer.reader.read()


async def test_a_body_shorter_than_announced_shows_as_truncated() -> None:
    replies: list[Reply] = []
    async with serving(held(replies)) as (_, port), connected(port) as peer:
        reply = await asked(peer, replies, request())
        reply.start(200, TEXT, length=10)
        reply.write(b"abc")
        reply.end()
        await peer.head()
        assert await peer.rest() == b"abc"


async def test_a_body_longer_than_announced_is_an_error_and_not_sent() -> None:
    replies: list[Reply] = []
    async with serving(held(replies)) as (_, port), connected(port) as peer:
        reply = await asked(peer, replies, request())
        reply.start(200, TEXT, length=3)
        with pytest.raises(ValueError, match="more bytes"):
            reply.write(b"abcdef")
        await peer.head()
        assert await peer.rest() == b""


async def test_a_handler_that_fails_in_mid_stream_shows_as_truncated() -> None:
    def fail(_: Request, reply: Reply) -> None:
        reply.start(200, EVENTS)
        raise ZeroDivisionError

    async with serving(Routes({b"/": fail})) as (_, port), connected(port) as peer:
        peer.send(request())
        assert (await peer.head()).status == 200
        assert await peer.rest() == b""


# Back-pressure.


async def test_a_slow_reader_costs_the_high_water_mark_and_no_more() -> None:
    replies: list[Reply] = []
    changes: list[bool] = []
    async with serving(held(replies)) as (listener, port), connected(port, receive_buffer=8_192) as peer:
        reply = await asked(peer, replies, request())
        reply.on_writable_changed = changes.append
        reply.start(200, EVENTS)
        peer.reader._transport.pause_reading()  # type: ignore[attr-defined]
        sent = 0
        while reply.writable:
            reply.write(b"x" * 10_000)
            sent += 10_000
            await asyncio.sleep(0)
            assert sent < 50_000_000
        connection = next(iter(listener._connections))
        assert connection.transport.get_write_buffer_size() < 65_536 + 2 * 10_020
        assert changes == [False]
        peer.reader._transport.resume_reading()  # type: ignore[attr-defined]
        draining = asyncio.ensure_future(reply.drain())
        await peer.head()
        received = 0
        while received < sent:
            received += len(await peer.chunk())
        async with asyncio.timeout(5):
            await draining
        assert changes == [False, True]
        assert reply.writable


async def test_a_client_that_never_reads_is_cut_off() -> None:
    replies: list[Reply] = []
    gone = asyncio.Event()
    limits = ListenerLimits(write_stall_seconds=0.6)
    async with (
        serving(held(replies), limits) as (listener, port),
        connected(port, receive_buffer=8_192) as peer,
    ):
        reply = await asked(peer, replies, request())
        reply.on_closed = gone.set
        reply.start(200, EVENTS)
        peer.reader._transport.pause_reading()  # type: ignore[attr-defined]
        while reply.writable:
            reply.write(b"x" * 10_000)
            await asyncio.sleep(0)
        async with asyncio.timeout(5):
            await asyncio.gather(gone.wait(), reply.drain())
        assert reply.closed
        reply.write(b"more")  # does nothing
        reply.end()
        await until(lambda: listener.connection_count == 0)


async def test_a_client_that_never_reads_its_last_answer_is_cut_off() -> None:
    replies: list[Reply] = []
    limits = ListenerLimits(write_stall_seconds=0.6, keep_alive_seconds=0.6)
    async with (
        serving(held(replies), limits) as (listener, port),
        connected(port, receive_buffer=8_192) as peer,
    ):
        reply = await asked(peer, replies, request(headers=b"connection: close\r\n"))
        peer.reader._transport.pause_reading()  # type: ignore[attr-defined]
        reply.send(200, TEXT, b"x" * 20_000_000)
        assert listener.connection_count == 1
        await until(lambda: listener.connection_count == 0, 5)


async def test_a_slow_but_steady_reader_is_not_cut_off() -> None:
    replies: list[Reply] = []
    limits = ListenerLimits(write_stall_seconds=0.6)
    size = 20_000_000  # more than the kernel takes off our hands
    async with serving(held(replies), limits) as (_, port), connected(port, receive_buffer=8_192) as peer:
        reply = await asked(peer, replies, request())
        reply.send(200, (), b"x" * size)
        await peer.head()
        received = 0
        deadline = asyncio.get_running_loop().time() + 2.0
        while received < size:
            data = await peer.reader.read(16_384)
            assert data, "cut off"
            received += len(data)
            if asyncio.get_running_loop().time() < deadline:
                await asyncio.sleep(0.05)
        assert received == size


# Compression.


def unpacker(coding: bytes) -> Callable[[bytes], bytes]:
    if coding == b"gzip":
        return zlib.decompressobj(31).decompress
    return zstandard.ZstdDecompressor().decompressobj().decompress


@pytest.mark.parametrize("coding", [b"gzip", b"zstd"])
async def test_each_event_of_a_compressed_stream_can_be_read_while_it_stays_open(coding: bytes) -> None:
    replies: list[Reply] = []
    async with serving(held(replies)) as (_, port), connected(port) as peer:
        reply = await asked(peer, replies, request(headers=b"accept-encoding: %b\r\n" % coding))
        reply.start(200, EVENTS)
        head = await peer.head()
        assert (head.header(b"content-encoding"), head.header(b"vary")) == (coding, b"accept-encoding")
        assert reply._compressor is None  # an idle stream costs no compressor
        unpack = unpacker(coding)
        for index in range(50):
            event = b"event: message\ndata: %d\n\n" % index
            reply.write(event)
            assert unpack(await peer.chunk()) == event
        reply.end()
        assert unpack(b"".join([chunk async for chunk in peer.chunks()])) == b""


@pytest.mark.parametrize("coding", [b"gzip", b"zstd"])
@pytest.mark.parametrize("size", [1_024, 100_000, 1_500_000])
async def test_a_complete_body_is_compressed(coding: bytes, size: int) -> None:
    replies: list[Reply] = []
    body = (b'{"number": 12345, "text": "some words"}' * (size // 30))[:size]
    async with serving(held(replies)) as (_, port), connected(port) as peer:
        for _ in range(2):
            reply = await asked(peer, replies, request(headers=b"accept-encoding: %b\r\n" % coding))
            reply.send(200, JSON, body)
            answer = await peer.answer()
            assert answer.header(b"content-encoding") == coding
            assert answer.header(b"vary") == b"accept-encoding"
            assert len(answer.body) < size // 2
            assert unpacker(coding)(answer.body) == body


async def test_compressing_a_large_body_does_not_hold_up_the_loop() -> None:
    replies: list[Reply] = []
    body = b"".join(b'{"row": %d, "value": "%x"},' % (n, n * 2654435761) for n in range(300_000))
    async with serving(held(replies)) as (_, port), connected(port) as peer:
        reply = await asked(peer, replies, request(headers=b"accept-encoding: gzip\r\n"))
        turns = 0
        reply.send(200, JSON, body)
        while not reply.ended:
            turns += 1
            await asyncio.sleep(0)
            if turns % 50 == 0:
                await asyncio.sleep(0.001)
        assert turns > len(body) // 65_536 // 2
        assert unpacker(b"gzip")((await peer.answer()).body) == body


PLAIN: dict[str, tuple[bytes, tuple[tuple[bytes, bytes], ...], int, bytes | None]] = {
    "a small body": (b"gzip", JSON, 1_023, None),
    "an image": (b"gzip", ((b"content-type", b"image/png"),), 5_000, None),
    "a body without a type": (b"gzip", (), 5_000, None),
    "a body that is encoded already": (b"gzip", (*JSON, (b"content-encoding", b"br")), 5_000, None),
    "a client that accepts nothing": (b"identity", JSON, 5_000, b"accept-encoding"),
    "a client that accepts something else": (b"br", JSON, 5_000, b"accept-encoding"),
    "a client that refuses gzip": (b"gzip;q=0", JSON, 5_000, b"accept-encoding"),
}


@pytest.mark.parametrize("case", PLAIN)
async def test_it_is_not_compressed(case: str) -> None:
    accepted, headers, size, vary = PLAIN[case]
    replies: list[Reply] = []
    async with serving(held(replies)) as (_, port), connected(port) as peer:
        reply = await asked(peer, replies, request(headers=b"accept-encoding: %b\r\n" % accepted))
        reply.send(200, headers, b"x" * size)
        answer = await peer.answer()
        assert answer.body == b"x" * size
        assert answer.header(b"content-encoding") == dict(headers).get(b"content-encoding")
        assert answer.header(b"vary") == vary


async def test_a_caller_can_forbid_compression_of_a_stream() -> None:
    replies: list[Reply] = []
    async with serving(held(replies)) as (_, port), connected(port) as peer:
        reply = await asked(peer, replies, request(headers=b"accept-encoding: gzip\r\n"))
        reply.start(200, EVENTS, compress=False)
        reply.write(b"plain")
        reply.end()
        answer = await peer.answer()
        assert (answer.header(b"content-encoding"), answer.body) == (None, b"plain")


async def test_a_stream_of_known_length_is_compressed_as_chunks() -> None:
    replies: list[Reply] = []
    async with serving(held(replies)) as (_, port), connected(port) as peer:
        reply = await asked(peer, replies, request(headers=b"accept-encoding: gzip\r\n"))
        reply.start(200, JSON, length=5_000)
        reply.write(b"x" * 5_000)
        reply.end()
        answer = await peer.answer()
        assert (answer.header(b"content-length"), answer.header(b"content-encoding")) == (None, b"gzip")
        assert unpacker(b"gzip")(answer.body) == b"x" * 5_000


async def test_compression_can_be_switched_off() -> None:
    replies: list[Reply] = []
    async with (
        serving(held(replies), ListenerLimits(compression=False)) as (_, port),
        connected(port) as peer,
    ):
        reply = await asked(peer, replies, request(headers=b"accept-encoding: gzip\r\n"))
        reply.send(200, JSON, b"x" * 5_000)
        answer = await peer.answer()
        assert (answer.header(b"content-encoding"), answer.header(b"vary")) == (None, None)


async def test_an_empty_compressed_stream_is_valid() -> None:
    replies: list[Reply] = []
    async with serving(held(replies)) as (_, port), connected(port) as peer:
        reply = await asked(peer, replies, request(headers=b"accept-encoding: gzip\r\n"))
        reply.start(200, EVENTS)
        reply.end()
        assert zlib.decompress((await peer.answer()).body, 31) == b""


@pytest.mark.parametrize("accepted", [b"", b"accept-encoding: gzip\r\n"])
async def test_what_waited_on_disk_arrives_whole_and_the_connection_goes_on(accepted: bytes) -> None:
    replies: list[Reply] = []
    body = random.Random(1).randbytes(6_000_000)
    async with serving(held(replies)) as (_, port), connected(port, receive_buffer=8_192) as peer:
        transport = peer.reader._transport  # type: ignore[attr-defined]
        reply = await asked(peer, replies, request(headers=accepted))
        transport.pause_reading()
        reply.send(200, TEXT, body)
        assert reply.on_closed is not None
        waiting: PatientBody = reply.on_closed.__self__  # type: ignore[attr-defined]
        await until(lambda: waiting._pieces is not None)
        transport.resume_reading()
        answer = await peer.answer()
        whole = gzip.decompress(answer.body) if accepted else answer.body
        assert whole == body
        again = await asked(peer, replies, request())
        again.send(200, TEXT, b"next")
        assert (await peer.answer()).body == b"next"
    assert not waiting._total
