"""Claims about event stream framing."""

import re
import time
import tracemalloc

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mooring.protocol.sse import (
    KEEP_ALIVE,
    MAX_FIELD_BYTES,
    Event,
    EventPart,
    EventReader,
    EventTooLarge,
    encode_event,
)

FRAGMENTS = [
    *(b"\n", b"\r\n", b"\r", b"\n\n", b"\r\n\r\n", b"\r\r", b":", b" ", b"\0", b"\xef\xbb\xbf", "é".encode()),
    *(
        b"data",
        b"data:",
        b"data: ",
        b"data: x\n",
        b"data:y\n",
        b"dat",
        b"event",
        b"event: note\n",
        b"event:\n",
    ),
    *(b"event: message\ndata: ", b"event: message\ndata: {}\n\n", b"id: 7\n", b"id:\n", b"id: a\0b\n", b"id"),
    *(b"retry: 15\n", b"retry: x\n", b"retry:\n", b"retry: 007\n", b": comment\n", b"other: field\n", b"{}"),
]
streams = st.lists(st.sampled_from(FRAGMENTS) | st.binary(max_size=4), max_size=30).map(b"".join)
cuts = st.lists(st.integers(0, 9), min_size=1)
Outcome = tuple[list[Event | EventPart], str | None, bool]


def pieces(stream: bytes, sizes: list[int]) -> list[bytes]:
    """Cut the stream into pieces of the given sizes, over and over; zero gives an empty piece."""
    result, start, turn = [], 0, 0
    while start < len(stream):
        size = sizes[turn % len(sizes)] if any(sizes) else 1
        result.append(stream[start : start + size])
        start, turn = start + size, turn + 1
    return result


def read(parts: list[bytes], max_event_bytes: int = 1 << 20, spill_at: int | None = None) -> Outcome:
    """The events, the last id, and whether the reader gave up on an event over the limit."""
    reader = EventReader(max_event_bytes, spill_at)
    events: list[Event | EventPart] = []
    for part in parts:
        try:
            events += reader.feed(part)
        except EventTooLarge as error:
            return events + error.events, reader.last_id, True
    return events, reader.last_id, False


def expected(stream: bytes) -> tuple[list[Event], str | None]:
    """The rules of the standard, and our two exceptions, in the slow and obvious way."""
    events, last_id = [], None
    data, name, identity, retry = [], "", None, None
    *lines, _ = re.split(rb"\r\n|\n|\r", stream.removeprefix(b"\xef\xbb\xbf"))
    for line in lines:
        if not line:
            if data or identity is not None or retry is not None:
                events.append(Event(b"\n".join(data), name or "message", identity, retry))
            last_id = last_id if identity is None else identity
            data, name, identity, retry = [], "", None, None
            continue
        field, _, value = line.partition(b":")
        value = value[1:] if value[:1] == b" " else value
        if field == b"data":
            data.append(value)
        elif field == b"event":
            name = value.decode(errors="replace")
        elif field == b"id" and b"\0" not in value:
            identity = value.decode(errors="replace")
        elif field == b"retry" and re.fullmatch(rb"[0-9]{1,15}", value):
            retry = int(value)
    return events, last_id


def joined(events: list[Event | EventPart]) -> list[Event]:
    """Put the parts of each event together again, checking their order."""
    result: list[Event] = []
    pending: list[bytes] | None = None
    for event in events:
        if isinstance(event, Event):
            assert pending is None, "an event came between the parts of another"
            result.append(event)
            continue
        assert event.first == (pending is None)
        pending = [*(pending or []), event.data]
        if event.last:
            result.append(Event(b"".join(pending), event.event, event.id, event.retry))
            pending = None
    return result


@settings(deadline=None)
@given(streams, cuts)
@example(b"data: a\r\n\r\ndata: b\r\n\r\n", [1])
@example(b"\xef\xbb\xbfdata: a\n\n", [1])
@example(b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\n", [2])
@example(b"event:\ndata: a\n\n", [3])
@example(b"xevent: message\ndata: a\n\ndata: b\n\n", [1, 100])
@example(b"id: a\0b\ndata: a\n\n", [100])
@example(b"id: 1\ndata: a\n\ndata: b\n\n", [100])
@example(b"id: 1\nevent: message\ndata: a\n\n", [6, 100])
def test_bytes_cut_anywhere_give_the_events_of_the_standard(stream: bytes, sizes: list[int]) -> None:
    events, last_id = expected(stream)
    assert read(pieces(stream, sizes)) == (events, last_id, False)
    assert read([stream]) == (events, last_id, False)


@settings(deadline=None)
@given(streams, cuts, st.integers(0, 40))
def test_the_limit_strikes_at_the_same_event_however_the_bytes_are_cut(
    stream: bytes, sizes: list[int], limit: int
) -> None:
    assert read(pieces(stream, sizes), limit) == read([stream], limit)


@settings(deadline=None)
@given(streams, cuts, st.integers(0, 12))
@example(b"data: abcdef\ndata: g\n\n", [4], 2)
@example(b"data: abcdef\ndata: g\n\n", [13], 2)
def test_the_parts_of_a_spilled_event_are_the_event(stream: bytes, sizes: list[int], spill_at: int) -> None:
    events, last_id, _ = read(pieces(stream, sizes), spill_at=spill_at)
    complete = joined([*events, EventPart(b"", False, True)]) if _unfinished(events) else joined(events)
    if _unfinished(events):
        complete.pop()
    assert (complete, last_id) == expected(stream)


def _unfinished(events: list[Event | EventPart]) -> bool:
    return bool(events) and isinstance(events[-1], EventPart) and not events[-1].last


@settings(deadline=None)
@given(
    st.binary(max_size=60),
    st.none() | st.text(min_size=1).map(str.encode).filter(lambda name: not re.search(rb"[\r\n]", name)),
    st.none() | st.text().map(str.encode).filter(lambda identity: not re.search(rb"[\r\n\0]", identity)),
    st.none() | st.integers(0, 10**15 - 1),
    cuts,
)
def test_what_is_encoded_is_read_back(
    data: bytes, event: bytes | None, identity: bytes | None, retry: int | None, sizes: list[int]
) -> None:
    stream = encode_event(data, event, identity, retry)
    (result,), _, _ = read(pieces(b":\n" + stream, sizes))
    assert result == Event(
        re.sub(rb"\r\n?", b"\n", data),
        "message" if event is None else event.decode(),
        None if identity is None else identity.decode(),
        retry,
    )


def test_the_common_event_has_the_common_form() -> None:
    assert encode_event(b"{}") == b"event: message\ndata: {}\n\n"
    assert encode_event(b"{}", event=None) == b"data: {}\n\n"
    assert encode_event(b"", None, b"4", 50) == b"id: 4\nretry: 50\ndata: \n\n"


@pytest.mark.parametrize("field", [{"event": b"a\nb"}, {"event": b"a\rb"}, {"id": b"a\nb"}, {"id": b"a\0b"}])
def test_a_name_or_id_that_would_break_the_framing_is_refused(field: dict[str, bytes]) -> None:
    with pytest.raises(ValueError, match="cannot hold"):
        encode_event(b"{}", **field)  # pyright: ignore[reportArgumentType]


def test_a_priming_event_without_data_is_delivered() -> None:
    assert read([b"id: 9\n\n"]) == ([Event(b"", id="9")], "9", False)
    assert read([b"id: 9\ndata:\n\n"]) == ([Event(b"", id="9")], "9", False)
    assert read([b"retry: 500\n\n"]) == ([Event(b"", retry=500)], None, False)
    assert read([b"event: only\n\n"]) == ([], None, False)


def test_keep_alive_comments_are_no_events_and_do_not_add_up() -> None:
    assert read([KEEP_ALIVE, b"data: 1\n", b": still here\n" * 500, b"\n"], 40) == (
        [Event(b"1")],
        None,
        False,
    )


def test_an_id_counts_only_once_its_event_is_complete_and_an_empty_one_forgets() -> None:
    reader = EventReader(1000)
    reader.feed(b"id: 1\ndata: a\n\nid: 2\ndata: b\n")
    assert reader.last_id == "1"
    reader.feed(b"\nid\n\n")
    assert reader.last_id == ""


def test_the_line_feed_of_a_cut_line_end_is_not_a_blank_line() -> None:
    reader = EventReader(1000)
    assert reader.feed(b"data: a\r") == []
    assert reader.feed(b"\ndata: b\r") == []
    assert reader.feed(b"\n\r") == [Event(b"a\nb")]
    assert reader.feed(b"\n") == []


def test_a_large_event_after_others_gives_those_before_it_fails() -> None:
    reader = EventReader(100)
    with pytest.raises(EventTooLarge, match="100 bytes") as caught:
        reader.feed(b"data: 1\n\ndata: 2\n\ndata: " + b"x" * 200)
    assert caught.value.events == [Event(b"1"), Event(b"2")]


def test_an_event_of_exactly_the_limit_is_read_and_one_byte_more_is_not() -> None:
    for head in (b"event: message\ndata: ", b"id: 1\ndata: ", b"data: "):
        exact = 100 - len(head) + head.count(b"\n")
        assert not read([head + b"x" * exact + b"\n\n"], 100)[2]
        assert read([head + b"x" * (exact + 1) + b"\n\n"], 100)[2]


def test_a_field_that_is_not_data_cannot_be_long_even_where_data_can() -> None:
    assert read([b"id: " + b"x" * MAX_FIELD_BYTES + b"\n"], 1 << 30)[2]
    assert read([b"id: "] + [b"x" * 100] * (MAX_FIELD_BYTES // 100 + 1), 1 << 30)[2]


@pytest.mark.parametrize("head", [b":", b"data: "])
def test_an_endless_comment_or_spilled_event_takes_no_memory(head: bytes) -> None:
    reader, chunk = EventReader(1 << 30, spill_at=1 << 14), b"x" * 4096
    reader.feed(head)
    tracemalloc.start()
    for _ in range(4096):
        reader.feed(chunk)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1 << 17


def test_an_event_that_is_never_complete_takes_no_more_memory_than_the_limit() -> None:
    line = b"data: x\n" * 100
    tracemalloc.start()
    _, _, too_large = read([line] * 4096, 1 << 16)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert too_large
    assert peak < 3 << 16


@pytest.mark.parametrize("end", [b"\n\n", b"\r\n\r\n"])
def test_a_large_event_in_small_pieces_costs_time_in_proportion(end: bytes) -> None:
    reader, piece = EventReader(1 << 23), b"x" * 64
    began = time.process_time()
    reader.feed(b"event: message\ndata: ")
    for _ in range(1 << 16):
        assert reader.feed(piece) == []
    (event,) = reader.feed(end[:-1]) + reader.feed(end[-1:])
    # Copied or searched anew for each piece it would be 130 GB.
    assert time.process_time() - began < 5
    assert len(event.data) == 1 << 22


def test_an_event_that_is_complete_in_one_feed_is_not_spilled() -> None:
    assert read([b"data: " + b"x" * 500 + b"\n\n"], spill_at=10)[0] == [Event(b"x" * 500)]


def test_a_line_over_the_limit_fails_before_it_ends() -> None:
    assert read([b"id: 1\nid: 1"], 10)[2] is False
    assert read([b"id: 1\nid: 12"], 10)[2] is True
    assert read([b"id: 1\ndata: "], 10)[2] is True


def test_a_wait_too_long_to_mean_anything_is_ignored() -> None:
    assert read([b"retry: " + b"9" * 5000 + b"\ndata: a\n\n"]) == ([Event(b"a")], None, False)
    assert read([b"retry: " + b"9" * 15 + b"\ndata: a\n\n"])[0] == [Event(b"a", retry=10**15 - 1)]


def test_the_last_part_carries_the_fields_that_came_after_the_data() -> None:
    reader = EventReader(1000, spill_at=2)
    assert reader.feed(b"data: abc") == [EventPart(b"abc", True, False)]
    assert reader.feed(b"d\nid: 5\nevent: late\n") == [EventPart(b"d", False, False, "late", "5")]
    assert reader.feed(b"\n") == [EventPart(b"", False, True, "late", "5")]
    assert reader.feed(b"data: z\n\n") == [Event(b"z")]
