"""The listener over real sockets: order, keep-alive, vanished clients, uploads, Unix sockets, upgrades."""

from __future__ import annotations

import asyncio
import os
import socket
import stat
from pathlib import Path

import pytest
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

from mooring.transports.http_errors import BodyInterrupted
from mooring.transports.http_listener import BodyStream, Listener, ListenerLimits, Reply, Request, Upgraded

pytestmark = pytest.mark.anyio


@pytest.fixture(params=BACKENDS, ids=BACKEND_NAMES)
def anyio_backend(request: pytest.FixtureRequest) -> object:
    return request.param


async def test_a_request_reaches_its_handler_whole_and_the_connection_is_kept() -> None:
    routes = Routes()
    async with serving(routes) as (_, port), connected(port) as peer:
        first = await peer.ask(request(b"/a?b=c&d", b"hello", b"X-One: 1\r\nx-two:2 \r\nX-One: again\r\n"))
        second = await peer.ask(request(b"/a"))
    assert first.body == b"POST\n/a?b=c&d\nhello"
    assert second.body == b"GET\n/a\n"
    seen = routes.seen[0]
    assert (seen.path, seen.query, seen.peer, seen.peer_uid, seen.secure) == (
        b"/a",
        b"b=c&d",
        "127.0.0.1",
        None,
        False,
    )
    assert seen.headers == [
        (b"host", b"localhost"),
        (b"x-one", b"1"),
        (b"x-two", b"2"),
        (b"x-one", b"again"),
        (b"content-length", b"5"),
    ]
    assert seen.header(b"x-one") == b"1"
    assert seen.header_values(b"x-one") == [b"1", b"again"]
    assert seen.header(b"absent") is None


async def test_every_answer_has_a_date_and_a_length() -> None:
    async with serving(Routes()) as (_, port), connected(port) as peer:
        answer = await peer.ask(request())
    assert answer.header(b"content-length") == b"%d" % len(answer.body)
    assert (answer.header(b"date") or b"").endswith(b" GMT")


async def test_head_is_answered_without_a_body_but_with_its_length() -> None:
    async with serving(Routes()) as (_, port), connected(port) as peer:
        peer.send(request(b"/x", method=b"HEAD"))
        head = await peer.answer(to_head=True)
        after = await peer.ask(request(b"/y"))
    assert head.header(b"content-length") == b"8"
    assert after.body == b"GET\n/y\n"


async def test_http_1_0_is_answered_and_closed() -> None:
    async with serving(Routes()) as (_, port), connected(port) as peer:
        answer = await peer.ask(request(version=b"1.0", headers=b"Connection: keep-alive\r\n"))
        assert answer.header(b"connection") == b"close"
        assert await peer.is_closed_by_peer()


async def test_http_1_0_needs_no_host() -> None:
    async with serving(Routes()) as (_, port), connected(port) as peer:
        assert (await peer.ask(b"GET / HTTP/1.0\r\n\r\n")).status == 200


async def test_connection_close_is_honoured() -> None:
    async with serving(Routes()) as (_, port), connected(port) as peer:
        answer = await peer.ask(request(headers=b"Connection: close\r\n"))
        assert answer.header(b"connection") == b"close"
        assert await peer.is_closed_by_peer()


async def test_a_client_that_asks_first_is_told_to_continue() -> None:
    async with serving(Routes()) as (_, port), connected(port) as peer:
        peer.send(b"POST / HTTP/1.1\r\nhost: a\r\nexpect: 100-Continue\r\ncontent-length: 2\r\n\r\n")
        assert (await peer.head()).status == 100
        assert (await peer.ask(b"hi")).body == b"POST\n/\nhi"


async def test_a_client_that_asks_first_behind_another_request_is_told_to_continue() -> None:
    waiting: list[Reply] = []
    routes = Routes({b"/slow": lambda _, reply: waiting.append(reply)})
    async with serving(routes) as (_, port), connected(port) as peer:
        peer.send(
            request(b"/slow")
            + b"POST / HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n"
        )
        await until(lambda: bool(waiting))
        waiting[0].send(200, TEXT, b"first")
        assert (await peer.answer()).body == b"first"
        assert (await peer.head()).status == 100
        assert (await peer.ask(b"hi")).body == b"POST\n/\nhi"


async def test_a_client_that_asks_first_with_too_large_a_body_is_not_told_to_continue() -> None:
    async with serving(Routes(max_body_bytes=10)) as (_, port), connected(port) as peer:
        peer.send(b"POST / HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 11\r\n\r\n")
        assert (await peer.answer()).status == 413


async def test_requests_sent_ahead_are_answered_one_after_the_other() -> None:
    waiting: list[Reply] = []
    routes = Routes({b"/slow": lambda _, reply: waiting.append(reply)})
    async with serving(routes) as (_, port), connected(port) as peer:
        peer.send(request(b"/slow") + request(b"/two", b"2") + request(b"/three"))
        await until(lambda: bool(waiting))
        peer.send(request(b"/four"))
        waiting[0].send(200, TEXT, b"one")
        bodies = [(await peer.answer()).body for _ in range(4)]
    assert bodies == [b"one", b"POST\n/two\n2", b"GET\n/three\n", b"GET\n/four\n"]


async def test_only_one_request_of_a_connection_is_in_progress() -> None:
    waiting: list[Reply] = []
    routes = Routes({b"/slow": lambda _, reply: waiting.append(reply)})
    async with serving(routes) as (_, port), connected(port) as peer:
        peer.send(request(b"/slow") + request(b"/slow"))
        await until(lambda: bool(waiting))
        assert len(waiting) == 1, "both came in one piece"
        peer.send(request(b"/slow"))
        waiting[0].send(200, TEXT, b"")
        await peer.answer()
        await until(lambda: len(waiting) == 2)
        waiting[1].send(200, TEXT, b"")
        await peer.answer()
        await until(lambda: len(waiting) == 3)


async def test_a_failing_handler_gives_500_and_the_connection_goes_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(_: Request, __: Reply) -> None:
        raise ZeroDivisionError

    async with serving(Routes({b"/fail": fail})) as (_, port), connected(port) as peer:
        failed = await peer.ask(request(b"/fail"))
        after = await peer.ask(request(b"/x"))
    assert (failed.status, failed.body) == (500, b'{"error":"internal error"}')
    assert after.status == 200
    assert "the handler of /fail failed" in caplog.text


async def test_a_failing_choice_of_endpoint_gives_500(caplog: pytest.LogCaptureFixture) -> None:
    class Broken(Routes):
        def accept(self, request: Request):
            raise ZeroDivisionError

    async with serving(Broken()) as (_, port), connected(port) as peer:
        assert (await peer.ask(request())).status == 500
        assert await peer.is_closed_by_peer()


async def test_a_vanished_client_is_noticed_while_its_request_is_in_progress() -> None:
    gone = asyncio.Event()
    replies: list[Reply] = []

    def wait(_: Request, reply: Reply) -> None:
        reply.on_closed = gone.set
        replies.append(reply)

    async with serving(Routes({b"/wait": wait})) as (listener, port):
        async with connected(port) as peer:
            peer.send(request(b"/wait"))
            await until(lambda: bool(replies))
            peer.close()
            async with asyncio.timeout(5):
                await gone.wait()
        assert replies[0].closed
        replies[0].send(200, TEXT, b"nobody")  # does nothing
        await until(lambda: listener.connection_count == 0)


async def test_a_client_that_half_closes_counts_as_gone() -> None:
    gone = asyncio.Event()
    routes = Routes({b"/wait": lambda _, reply: setattr(reply, "on_closed", gone.set)})
    async with serving(routes) as (_, port), connected(port) as peer:
        peer.send(request(b"/wait"))
        peer.writer.write_eof()
        async with asyncio.timeout(5):
            await gone.wait()
        assert len(routes.seen) == 1


async def test_a_vanished_client_is_noticed_even_if_it_sent_so_much_that_reading_is_paused() -> None:
    gone = asyncio.Event()
    replies: list[Reply] = []

    def wait(_: Request, reply: Reply) -> None:
        reply.on_closed = gone.set
        replies.append(reply)

    limits = ListenerLimits(max_held_bytes=1_000)
    async with serving(Routes({b"/wait": wait}), limits) as (listener, port), connected(port) as peer:
        peer.send(request(b"/wait"))
        await until(lambda: bool(replies))
        for _ in range(3):
            peer.send(request(b"/more", b"x" * 5_000))
        connection = next(iter(listener._connections))
        await until(lambda: not connection.transport.is_reading())
        assert not gone.is_set()
        peer.close()
        async with asyncio.timeout(5):
            await gone.wait()
        assert replies[0].closed


async def test_what_a_client_sends_during_its_request_is_bounded_and_then_answered() -> None:
    waiting: list[Reply] = []
    limits = ListenerLimits(max_held_bytes=1000)
    routes = Routes({b"/wait": lambda _, reply: waiting.append(reply)}, max_body_bytes=1 << 24)
    async with serving(routes, limits) as (listener, port), connected(port) as peer:
        peer.send(request(b"/wait"))
        await until(lambda: bool(waiting))
        body = b"x" * 8_000_000
        peer.send(request(b"/big", body))
        connection = next(iter(listener._connections))
        await until(lambda: not connection.transport.is_reading())
        assert connection._held is not None
        assert len(connection._held) < 600_000
        waiting[0].send(200, TEXT, b"ok")
        assert (await peer.answer()).body == b"ok"
        assert (await peer.answer()).body == b"POST\n/big\n" + body


# Uploads.


async def test_an_upload_is_streamed_with_back_pressure() -> None:
    may_read = asyncio.Event()
    sizes: list[int] = []

    async def receive(_: Request, reply: Reply, body: BodyStream) -> None:
        await may_read.wait()
        async for chunk in body:
            sizes.append(len(chunk))
        reply.send(200, TEXT, b"%d of %d" % (sum(sizes), body.length or -1))

    total = 12_000_000
    async with serving(Routes(streaming={b"/up": receive})) as (listener, port), connected(port) as peer:
        peer.send(request(b"/up", b"x" * total))
        await until(lambda: listener.connection_count == 1)
        connection = next(iter(listener._connections))
        await until(lambda: not connection.transport.is_reading())
        assert connection._reader.stream is not None
        assert connection._reader.stream._buffered < 1_000_000
        may_read.set()
        assert (await peer.answer()).body == b"%d of %d" % (total, total)
        assert (await peer.ask(request(b"/x"))).status == 200


async def test_a_chunked_upload_has_no_length() -> None:
    async def receive(_: Request, reply: Reply, body: BodyStream) -> None:
        data = b"".join([chunk async for chunk in body])
        reply.send(200, TEXT, b"%b %r" % (data, body.length) if body.length else data)

    async with serving(Routes(streaming={b"/up": receive})) as (_, port), connected(port) as peer:
        answer = await peer.ask(
            b"POST /up HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n"
            b"3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
        )
    assert answer.body == b"abcde"


async def test_requests_may_follow_an_upload_before_it_is_answered() -> None:
    go = asyncio.Event()

    async def receive(_: Request, reply: Reply, body: BodyStream) -> None:
        data = b"".join([chunk async for chunk in body])
        await go.wait()
        reply.send(200, TEXT, data)

    async with serving(Routes(streaming={b"/up": receive})) as (_, port), connected(port) as peer:
        peer.send(b"POST /up HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\n\r\nab")
        await asyncio.sleep(0.05)
        peer.send(b"cd")
        await asyncio.sleep(0.05)
        for index in range(40):
            peer.send(request(b"/%d" % index))
        await asyncio.sleep(0.05)
        go.set()
        answer = await peer.answer()
        assert (answer.body, answer.header(b"connection")) == (b"abcd", None)
        for index in range(40):
            assert (await peer.answer()).body == b"GET\n/%d\n" % index


async def test_an_upload_that_expects_is_told_to_continue_when_it_is_read() -> None:
    async def receive(_: Request, reply: Reply, body: BodyStream) -> None:
        reply.send(200, TEXT, b"".join([chunk async for chunk in body]))

    async with serving(Routes(streaming={b"/up": receive})) as (_, port), connected(port) as peer:
        peer.send(b"POST /up HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\n")
        assert (await peer.head()).status == 100
        assert (await peer.ask(b"hi")).body == b"hi"


async def test_an_upload_that_is_refused_unread_is_answered_and_closed() -> None:
    async def refuse(_: Request, reply: Reply, __: BodyStream) -> None:
        reply.send(403, JSON, b"{}")

    async with serving(Routes(streaming={b"/up": refuse})) as (_, port), connected(port) as peer:
        peer.send(b"POST /up HTTP/1.1\r\nhost: a\r\ncontent-length: 100000000\r\n\r\n" + b"x" * 500_000)
        answer = await peer.answer()
        assert (answer.status, answer.header(b"connection")) == (403, b"close")
        assert await peer.is_closed_by_peer()


async def test_an_interrupted_upload_is_an_error_to_its_reader() -> None:
    outcome: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def receive(_: Request, __: Reply, body: BodyStream) -> None:
        try:
            async for _chunk in body:
                pass
        except BodyInterrupted as error:
            outcome.set_result(str(error))

    async with serving(Routes(streaming={b"/up": receive})) as (_, port), connected(port) as peer:
        peer.send(b"POST /up HTTP/1.1\r\nhost: a\r\ncontent-length: 10\r\n\r\nabc")
        await until(lambda: bool(peer.writer.transport.get_write_buffer_size() == 0))
        peer.close()
        async with asyncio.timeout(5):
            assert "closed the connection" in await outcome


async def test_what_arrived_before_an_interruption_can_still_be_read() -> None:
    go = asyncio.Event()
    outcome: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def receive(_: Request, __: Reply, body: BodyStream) -> None:
        await go.wait()
        total = 0
        try:
            async for chunk in body:
                total += len(chunk)
        except BodyInterrupted:
            outcome.set_result(total)

    limits = ListenerLimits(body_buffer_bytes=1_000)
    async with serving(Routes(streaming={b"/up": receive}), limits) as (listener, port):
        async with connected(port) as peer:
            peer.send(b"POST /up HTTP/1.1\r\nhost: a\r\ncontent-length: 100000\r\n\r\n" + b"x" * 5_000)
            await until(lambda: listener.connection_count == 1)
            connection = next(iter(listener._connections))
            await until(lambda: not connection.transport.is_reading())
            peer.close()
            await until(lambda: listener.connection_count == 0)
        go.set()
        async with asyncio.timeout(5):
            assert await outcome == 5_000


async def test_a_broken_chunk_in_an_upload_is_refused_and_an_error_to_its_reader() -> None:
    outcome: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def receive(_: Request, __: Reply, body: BodyStream) -> None:
        try:
            async for _chunk in body:
                pass
        except BodyInterrupted as error:
            outcome.set_result(str(error))

    async with serving(Routes(streaming={b"/up": receive})) as (_, port), connected(port) as peer:
        peer.send(b"POST /up HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n")
        peer.send(b"nonsense\r\n")
        assert (await peer.answer()).status == 400
        async with asyncio.timeout(5):
            assert "malformed" in await outcome
        assert await peer.is_closed_by_peer()


# Unix sockets.


async def test_a_unix_socket_is_private_and_knows_its_peer(tmp_path: Path) -> None:
    path = tmp_path / "s"
    routes = Routes()
    async with Listener(routes) as listener:
        await listener.listen_unix(path)
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        reader, writer = await asyncio.open_unix_connection(str(path))
        assert (await Peer(reader, writer).ask(request())).status == 200
        writer.close()
    assert (routes.seen[0].peer, routes.seen[0].peer_uid) == ("unix", os.getuid())
    assert not path.exists()


async def test_a_stale_socket_file_is_replaced_and_a_live_one_is_not(tmp_path: Path) -> None:
    path = tmp_path / "s"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    async with Listener(Routes()) as first:
        await first.listen_unix(path)
        async with Listener(Routes()) as second:
            with pytest.raises(FileExistsError, match="another process"):
                await second.listen_unix(path)
        assert path.exists()


async def test_a_file_in_the_way_of_a_socket_is_not_removed(tmp_path: Path) -> None:
    path = tmp_path / "s"
    path.write_text("precious")
    async with Listener(Routes()) as listener:
        with pytest.raises(FileExistsError, match="not a socket"):
            await listener.listen_unix(path)
    assert path.read_text() == "precious"


async def test_a_port_in_use_is_an_error_that_names_it() -> None:
    async with serving(Routes()) as (_, port), Listener(Routes()) as second:
        with pytest.raises(OSError, match=f"127.0.0.1:{port}"):
            await second.listen_tcp("127.0.0.1", port)


async def test_localhost_is_served_on_one_port_for_all_its_addresses() -> None:
    async with Listener(Routes()) as listener:
        port = await listener.listen_tcp("localhost", 0)
        async with connected(port) as peer:
            assert (await peer.ask(request())).status == 200


# Closing.


async def test_closing_finishes_what_is_in_progress_and_drops_what_is_idle() -> None:
    waiting: list[Reply] = []
    routes = Routes({b"/wait": lambda _, reply: waiting.append(reply)})
    async with serving(routes) as (listener, port), connected(port) as busy, connected(port) as idle:
        await idle.ask(request())
        busy.send(request(b"/wait"))
        await until(lambda: bool(waiting))
        closing = asyncio.ensure_future(listener.close(5))
        assert await idle.is_closed_by_peer()
        waiting[0].send(200, TEXT, b"done")
        answer = await busy.answer()
        assert (answer.body, answer.header(b"connection")) == (b"done", b"close")
        async with asyncio.timeout(2):
            await closing
        with pytest.raises(ConnectionRefusedError):
            async with connected(port):
                pass


async def test_closing_cuts_off_what_does_not_finish_in_time() -> None:
    gone = asyncio.Event()
    routes = Routes({b"/wait": lambda _, reply: setattr(reply, "on_closed", gone.set)})
    async with serving(routes) as (listener, port), connected(port) as peer:
        peer.send(request(b"/wait"))
        await until(lambda: bool(routes.seen))
        async with asyncio.timeout(3):
            await listener.close(0.2)
        assert gone.is_set()
        assert listener.connection_count == 0
        assert await peer.is_closed_by_peer()


# Upgrades.


def _shout(_: Request, reply: Reply) -> None:
    upgraded = reply.upgrade(b"shout")
    upgraded.on_data = lambda data: upgraded.write(data.upper())


async def test_an_upgraded_connection_carries_bytes_both_ways() -> None:
    async with serving(Routes({b"/shout": _shout})) as (_, port), connected(port) as peer:
        peer.send(request(b"/shout", headers=b"Connection: Upgrade\r\nUpgrade: shout\r\n") + b"early ")
        head = await peer.head()
        assert (head.status, head.header(b"upgrade")) == (101, b"shout")
        peer.send(b"late")
        async with asyncio.timeout(5):
            assert await peer.reader.readexactly(10) == b"EARLY LATE"


async def test_both_ends_learn_that_an_upgraded_connection_is_closed() -> None:
    closed = asyncio.Event()
    upgrades: list[Upgraded] = []

    def upgrade(_: Request, reply: Reply) -> None:
        upgraded = reply.upgrade(b"x")
        upgraded.on_closed = closed.set
        upgrades.append(upgraded)

    async with serving(Routes({b"/u": upgrade})) as (_, port):
        async with connected(port) as peer:
            peer.send(request(b"/u", headers=b"Connection: Upgrade\r\nUpgrade: x\r\n"))
            await peer.head()
            upgrades[0].close()
            assert await peer.is_closed_by_peer()
        async with asyncio.timeout(5):
            await closed.wait()
        closed.clear()
        async with connected(port) as peer:
            peer.send(request(b"/u", headers=b"Connection: Upgrade\r\nUpgrade: x\r\n"))
            await peer.head()
            peer.close()
            async with asyncio.timeout(5):
                await closed.wait()
        assert upgrades[1].closed


async def test_an_upgraded_client_that_never_reads_is_cut_off_when_closed() -> None:
    upgrades: list[Upgraded] = []
    changes: list[bool] = []
    closed = asyncio.Event()

    def upgrade(_: Request, reply: Reply) -> None:
        upgraded = reply.upgrade(b"x")
        upgraded.on_closed = closed.set
        upgraded.on_writable_changed = changes.append
        upgrades.append(upgraded)

    limits = ListenerLimits(write_stall_seconds=0.5)
    async with (
        serving(Routes({b"/u": upgrade}), limits) as (_, port),
        connected(port, receive_buffer=8_192) as peer,
    ):
        peer.send(request(b"/u", headers=b"Connection: Upgrade\r\nUpgrade: x\r\n"))
        await peer.head()
        peer.reader._transport.pause_reading()  # type: ignore[attr-defined]
        while upgrades[0].writable:
            upgrades[0].write(b"x" * 100_000)
            await asyncio.sleep(0)
        assert changes == [False]
        upgrades[0].close()
        async with asyncio.timeout(5):
            await closed.wait()


async def test_an_upgraded_client_that_vanishes_while_reading_is_paused_is_noticed() -> None:
    upgrades: list[Upgraded] = []
    closed = asyncio.Event()
    received: list[bytes] = []

    def upgrade(_: Request, reply: Reply) -> None:
        upgraded = reply.upgrade(b"x")
        upgraded.on_data = received.append
        upgraded.on_closed = closed.set
        upgrades.append(upgraded)

    async with serving(Routes({b"/u": upgrade})) as (_, port), connected(port) as peer:
        peer.send(request(b"/u", headers=b"Connection: Upgrade\r\nUpgrade: x\r\n"))
        await peer.head()
        upgrades[0].pause_reading()
        peer.send(b"unread")
        await asyncio.sleep(0.2)
        assert received == []
        upgrades[0].resume_reading()
        await until(lambda: received == [b"unread"])
        upgrades[0].pause_reading()
        peer.close()
        async with asyncio.timeout(5):
            await closed.wait()
        upgrades[0].resume_reading()  # does nothing
        upgrades[0].write(b"nobody")
        upgrades[0].close()


async def test_an_offered_upgrade_may_be_ignored_and_the_body_is_not_lost() -> None:
    offer = b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAEAAEAA\r\n"
    async with serving(Routes()) as (_, port), connected(port) as peer:
        for body in (b"one", b"", b"three"):
            assert (await peer.ask(request(b"/j", body, offer, b"POST"))).body == b"POST\n/j\n" + body
        chunked = b"POST /c HTTP/1.1\r\nhost: a\r\n" + offer + b"transfer-encoding: chunked\r\n\r\n"
        assert (await peer.ask(chunked + b"3\r\nabc\r\n0\r\n\r\n" + request(b"/n"))).body == b"POST\n/c\nabc"
        assert (await peer.answer()).body == b"GET\n/n\n"


async def test_only_an_offered_upgrade_can_be_taken(caplog: pytest.LogCaptureFixture) -> None:
    async with serving(Routes({b"/shout": _shout})) as (_, port), connected(port) as peer:
        assert (await peer.ask(request(b"/shout"))).status == 500
    assert "did not offer" in caplog.text
