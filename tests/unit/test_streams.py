"""Claims about event streams: flow control towards the client, and what can be sent again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.gateway.sinks import LEGACY_STREAM_AFTER_SECONDS, PostSink
from mooring.gateway.tracing import Tracer
from mooring.protocol.sse import KEEP_ALIVE, Event, EventReader
from mooring.transports.event_streams import (
    BACKLOG_BYTES,
    LOG_BYTES,
    LOG_EVENTS,
    EventOutlet,
    StreamLog,
    parse_event_id,
)
from mooring.transports.http_reply import Reply, ReplyHeads
from mooring.transports.http_request import Client, Request


class Wire(asyncio.Transport):
    """What was written, instead of a socket."""

    def __init__(self) -> None:
        super().__init__()
        self.data = b""
        self.writes = 0

    def write(self, data: Any) -> None:
        self.writes += 1
        self.data += bytes(data)

    def writelines(self, list_of_data: Any) -> None:
        self.data += b"".join(bytes(data) for data in list_of_data)


class Connection:
    """The connection of one reply, whose client reads or does not."""

    def __init__(self) -> None:
        self.wire = Wire()
        self.transport: asyncio.Transport = self.wire
        self.heads = ReplyHeads()
        self.writable = True
        self.keep_alive = True
        self.speaks_1_0 = False
        self.compression = False
        self.outcome = ""
        request = Request.of(b"GET", b"/", [], {b"accept": b"*/*"}, Client("127.0.0.1", None, False))
        self.reply = Reply(request, self)

    def reply_ended(self) -> None:
        self.outcome = "ended"

    def reply_aborted(self, *, must_reset: bool) -> None:
        self.outcome = "aborted"

    def reply_upgraded(self) -> Any:
        raise AssertionError("nobody upgrades an event stream")

    def writable_again(self) -> asyncio.Future[None]:
        raise AssertionError("streams are told, they do not wait")

    def pause_writing(self) -> None:
        self.writable = False

    def resume_writing(self) -> None:
        self.writable = True
        assert self.reply.on_writable_changed is not None
        self.reply.on_writable_changed(True)

    def body(self) -> bytes:
        """The written body, out of its chunks."""
        _, _, rest = self.wire.data.partition(b"\r\n\r\n")
        body = b""
        while rest:
            size, _, rest = rest.partition(b"\r\n")
            body += rest[: int(size, 16)]
            rest = rest[int(size, 16) + 2 :]
        return body

    def events(self) -> list[Event]:
        events = EventReader(1 << 24).feed(self.body())
        return [event for event in events if isinstance(event, Event)]


def numbers(connection: Connection) -> list[int]:
    ids = [parse_event_id((event.id or "").encode()) for event in connection.events()]
    return [place[1] for place in ids if place is not None]


@pytest.mark.anyio
async def test_events_go_out_at_once_while_the_client_reads() -> None:
    connection = Connection()
    outlet = EventOutlet(connection.reply)
    assert b"content-type: text/event-stream" in connection.wire.data
    assert b"x-accel-buffering: no" in connection.wire.data
    outlet.write(b"data: 1\n\n")
    assert connection.body() == b"data: 1\n\n"


@pytest.mark.anyio
async def test_events_of_one_turn_go_out_in_order_and_together_at_its_end() -> None:
    connection = Connection()
    outlet = EventOutlet(connection.reply)
    for number in range(1, 6):
        outlet.write(b"data: %d\n\n" % number)
    assert [event.data for event in connection.events()] == [b"1"]
    await asyncio.sleep(0)
    assert [event.data for event in connection.events()] == [b"1", b"2", b"3", b"4", b"5"]
    assert connection.wire.writes == 3, "the head, the first event, the others"
    outlet.write(b"data: 6\n\n")
    outlet.write(b"data: 7\n\n")
    outlet.end()
    assert [event.data for event in connection.events()][5:] == [b"6", b"7"]
    assert connection.outcome == "ended"


def test_events_wait_in_order_for_a_slow_client_and_their_source_is_told() -> None:
    connection = Connection()
    outlet = EventOutlet(connection.reply)
    told: list[bool] = []
    outlet.on_congested = told.append
    connection.pause_writing()
    for number in range(5):
        outlet.write(b"data: %d\n\n" % number)
    outlet.keep_alive()
    assert connection.body() == b""
    assert told == [True]
    connection.resume_writing()
    assert [event.data for event in connection.events()] == [b"0", b"1", b"2", b"3", b"4"]
    assert told == [True, False]
    outlet.keep_alive()
    assert connection.body().endswith(KEEP_ALIVE)


def test_a_client_that_never_reads_is_cut_off_before_it_costs_more_than_the_limit() -> None:
    connection = Connection()
    outlet = EventOutlet(connection.reply)
    connection.pause_writing()
    event = b"data: " + b"x" * 65_536 + b"\n\n"
    for _ in range(BACKLOG_BYTES // len(event)):
        outlet.write(event)
    assert connection.outcome == ""
    outlet.write(event)
    assert connection.outcome == "aborted"
    assert outlet.closed


def test_a_stream_ends_after_what_still_waits() -> None:
    connection = Connection()
    outlet = EventOutlet(connection.reply)
    connection.pause_writing()
    outlet.write(b"data: last\n\n")
    outlet.end()
    outlet.write(b"data: too late\n\n")
    assert connection.outcome == ""
    connection.resume_writing()
    assert connection.outcome == "ended"
    assert [event.data for event in connection.events()] == [b"last"]


def test_an_ended_stream_takes_nothing_more_and_does_not_mind() -> None:
    connection = Connection()
    outlet = EventOutlet(connection.reply)
    outlet.end()
    assert outlet.closed
    before = connection.wire.data
    outlet.write(b"data: x\n\n")
    outlet.keep_alive()
    outlet.end()
    assert connection.wire.data == before


@pytest.mark.anyio
async def test_event_ids_name_stream_and_event_and_the_empty_one_primes() -> None:
    connection = Connection()
    log = StreamLog(3)
    log.attach(EventOutlet(connection.reply), 0)
    log.send(b"", retry=500)
    log.send(b'{"a":1}')
    await asyncio.sleep(0)
    priming, message = connection.events()
    assert (priming.id, priming.data, priming.retry) == ("3-1", b"", 500)
    assert (message.id, message.data) == ("3-2", b'{"a":1}')


@given(st.lists(st.sampled_from(["send", "lose", "come back"]), max_size=60))
def test_whoever_loses_a_stream_and_comes_back_misses_nothing_and_hears_nothing_twice(
    steps: list[str],
) -> None:
    asyncio.run(lose_and_come_back(steps))


async def lose_and_come_back(steps: list[str]) -> None:
    log = StreamLog(1)
    seen: list[int] = []
    connection: Connection | None = None
    for step in [*steps, "lose", "come back", "lose"]:
        if step == "send":
            log.send(b"{}")
        elif step == "lose":
            await asyncio.sleep(0)
            if connection is not None:
                seen.extend(numbers(connection))
                connection.reply.client_gone()
                connection = None
        elif connection is None:
            connection = Connection()
            assert log.can_replay_after(len(seen))
            log.attach(EventOutlet(connection.reply), len(seen))
    assert seen == list(range(1, steps.count("send") + 1))
    assert log.undelivered == log.last + 1


class Owner:
    """A session with one stream."""

    primes = True

    def __init__(self) -> None:
        self.log = StreamLog(1)

    def new_stream(self) -> StreamLog:
        return self.log

    def number_stream(self) -> int:
        return 1


@pytest.mark.anyio
async def test_a_call_keeps_the_stream_alive_on_which_its_client_came_back() -> None:
    owner, lost, back = Owner(), Connection(), Connection()
    sink = PostSink(lost.reply, Tracer("files"), "peer", owner)
    sink.tick(LEGACY_STREAM_AFTER_SECONDS)
    owner.log.attach(EventOutlet(back.reply), after=1)
    sink.tick(LEGACY_STREAM_AFTER_SECONDS + 1)
    assert KEEP_ALIVE in back.wire.data
    assert KEEP_ALIVE not in lost.wire.data


@pytest.mark.anyio
async def test_what_was_sent_to_nobody_is_known_as_undelivered() -> None:
    log = StreamLog(1)
    log.send(b"{}")
    log.send(b"{}")
    assert (log.last, log.undelivered) == (2, 1)
    log.attach(EventOutlet(Connection().reply), 0)
    assert log.undelivered == 3


@pytest.mark.parametrize(
    ("size", "count", "kept"),
    [(10, LOG_EVENTS + 100, LOG_EVENTS), (LOG_BYTES // 4, 10, 3), (2 * LOG_BYTES, 3, 1)],
)
def test_the_log_keeps_the_newest_events_within_its_limits_and_always_the_last(
    size: int, count: int, kept: int
) -> None:
    log = StreamLog(1)
    for _ in range(count):
        log.send(b"x" * size)
    oldest = count - kept
    assert not log.can_replay_after(oldest - 1)
    assert log.can_replay_after(oldest)
    assert log.can_replay_after(count)
    assert not log.can_replay_after(count + 1)
    assert asyncio.run(replayed(log, oldest)) == list(range(oldest + 1, count + 1))


async def replayed(log: StreamLog, after: int) -> list[int]:
    """Large events come from disk, a piece per turn of the loop."""
    connection = Connection()
    outlet = EventOutlet(connection.reply)
    log.attach(outlet, after)
    for _ in range(1000):
        await asyncio.sleep(0)
    assert not outlet.is_behind
    return numbers(connection)


@pytest.mark.anyio
async def test_a_finished_stream_can_still_be_sent_again_and_then_ends() -> None:
    first, second = Connection(), Connection()
    log = StreamLog(7)
    log.attach(EventOutlet(first.reply), 0)
    log.send(b'{"a":1}')
    log.send(b'{"a":2}')
    log.finish(12.5)
    assert (first.outcome, log.done, log.ended_at, log.live) == ("ended", True, 12.5, None)
    log.attach(EventOutlet(second.reply), 1)
    assert numbers(second) == [2]
    assert second.outcome == "ended"


@given(st.integers(0, 10**15), st.integers(0, 10**15))
def test_an_event_id_is_read_back(stream: int, event: int) -> None:
    assert parse_event_id(b"%d-%d" % (stream, event)) == (stream, event)


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"-",
        b"1",
        b"1-",
        b"-1",
        b"1-2-3",
        b"a-1",
        b"1-b",
        b" 1-2",
        b"1-+2",
        "²-1".encode(),
        b"9" * 20 + b"-" + b"9" * 20,
    ],
)
def test_ids_that_are_not_ours_are_none(text: bytes) -> None:
    assert parse_event_id(text) is None


@given(st.binary(max_size=50))
def test_any_bytes_may_come_as_an_event_id(text: bytes) -> None:
    place = parse_event_id(text)
    assert place is None or min(place) >= 0
