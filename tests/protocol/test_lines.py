"""Claims about newline-delimited framing."""

import json
import time
import tracemalloc

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from mooring.protocol.lines import (
    NOISE_HEAD_BYTES,
    NOT_JSON,
    NOT_UTF8,
    TOO_LONG,
    UNFINISHED,
    Line,
    LinePart,
    LineReader,
    Message,
    Noise,
    encode_line,
)

FRAGMENTS = [
    *(
        b"\n",
        b"\r\n",
        b"\r",
        b"\n\n",
        b" ",
        b"\t",
        b"\xef\xbb\xbf",
        b"\xff",
        b"\xc3",
        b"\xa9",
        "é€😀".encode(),
    ),
    *(b'{"id":1}', b"[1]", b"{", b"}", b"Traceback (most recent call last):", b"x" * 40),
]
streams = st.lists(st.sampled_from(FRAGMENTS) | st.binary(max_size=6), max_size=40).map(b"".join)
cuts = st.lists(st.integers(0, 12), min_size=1)


def pieces(stream: bytes, sizes: list[int]) -> list[bytes]:
    """Cut the stream into pieces of the given sizes, over and over; zero gives an empty piece."""
    result, start, turn = [], 0, 0
    while start < len(stream):
        size = sizes[turn % len(sizes)] if any(sizes) else 1
        result.append(stream[start : start + size])
        start, turn = start + size, turn + 1
    return result


def read(parts: list[bytes], max_bytes: int = 1000) -> list[Line]:
    reader = LineReader(max_bytes)
    lines = [line for part in parts for line in reader.feed(part)]
    return lines + reader.finish()


def expected(stream: bytes, max_bytes: int) -> list[Line]:
    """The rules, said again in the slow and obvious way."""
    lines: list[Line] = []
    for line in stream.split(b"\n"):
        text = line.strip(b" \t\r").removeprefix(b"\xef\xbb\xbf").lstrip(b" \t\r")
        if len(line) > max_bytes:
            lines.append(Noise(line[: min(NOISE_HEAD_BYTES, max_bytes)], TOO_LONG))
        elif text and text[:1] not in (b"{", b"["):
            lines.append(Noise(line, NOT_JSON))
        elif text:
            try:
                text.decode()
            except UnicodeDecodeError:
                lines.append(Noise(line, NOT_UTF8))
            else:
                lines.append(Message(text))
    return lines


@settings(deadline=None)
@given(streams, cuts, st.sampled_from([5, 30, 1000]))
@example(b"\xef\xbb\xbf{}\r\n", [1], 1000)
def test_bytes_cut_anywhere_give_the_lines_of_the_whole(
    stream: bytes, sizes: list[int], max_bytes: int
) -> None:
    assert read(pieces(stream, sizes), max_bytes) == expected(stream, max_bytes)
    assert read([stream], max_bytes) == expected(stream, max_bytes)


@settings(deadline=None)
@given(
    st.recursive(st.none() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)),
    cuts,
)
def test_what_is_encoded_is_read_back_as_one_message(value: object, sizes: list[int]) -> None:
    for indent in (None, 2):
        for ensure_ascii in (True, False):
            text = json.dumps([value], indent=indent, ensure_ascii=ensure_ascii)
            (line,) = read(pieces(encode_line(text.encode()), sizes), max_bytes=1 << 20)
            assert isinstance(line, Message)
            assert json.loads(line.data) == [value]


def test_carriage_returns_of_a_pretty_printed_message_do_not_cut_it() -> None:
    assert encode_line(b'{\r\n "a": 1\n}') == b'{   "a": 1 }\n'


def test_a_message_with_every_kind_of_stray_output_around_it_is_still_read() -> None:
    before = b'listening on stdio\n\n{"id":1}\nTraceback (most recent call last):\n'
    stream = before + b'  File "x"\n \n\xff\xfe{\n{"id":2}\n'
    messages = [line.data for line in read([stream]) if isinstance(line, Message)]
    noise = [line.why for line in read([stream]) if isinstance(line, Noise)]
    assert messages == [b'{"id":1}', b'{"id":2}']
    assert noise == [NOT_JSON] * 4


def test_a_message_in_another_encoding_is_noise() -> None:
    assert read(['{"name":"é"}\n'.encode("latin-1")]) == [Noise(b'{"name":"\xe9"}', NOT_UTF8)]


@pytest.mark.parametrize("position", [0, *range(65_528, 65_538), 131_069, 200_000])
def test_a_character_or_fault_at_any_step_of_a_long_line_is_judged_right(position: int) -> None:
    good = b'{"' + b"x" * position + "é😀".encode() + b"y" * 70_000
    assert read([good + b"\n"], 1 << 20) == [Message(good)]
    bad = b'{"' + b"x" * position + "😀".encode()[:3] + b"y" * 70_000
    assert read([bad + b"\n"], 1 << 20) == [Noise(bad, NOT_UTF8)]
    cut_at_end = b'{"' + b"x" * position + "😀".encode()[:3]
    assert read([cut_at_end + b"\n"], 1 << 20) == [Noise(cut_at_end, NOT_UTF8)]


def test_a_line_of_exactly_the_limit_is_read_and_one_byte_more_is_not() -> None:
    assert read([b"{2345678}\n"], 9) == [Message(b"{2345678}")]
    assert read([b"{23456789}\n"], 9) == [Noise(b"{23456789", TOO_LONG)]
    assert read([b"{23456789}\n{}\n"], 9) == [Noise(b"{23456789", TOO_LONG), Message(b"{}")]


def test_a_line_over_the_limit_is_reported_at_once_and_only_once() -> None:
    reader = LineReader(1000)
    assert reader.feed(b"{" * 1000) == []
    assert reader.feed(b"{") == [Noise(b"{" * NOISE_HEAD_BYTES, TOO_LONG)]
    assert reader.feed(b"{" * 5000) == []
    assert reader.feed(b'}\n{"next":1}\n') == [Message(b'{"next":1}')]


def test_an_endless_line_takes_no_more_memory_than_the_limit() -> None:
    reader, chunk = LineReader(1 << 16), b"{" * 4096
    tracemalloc.start()
    for _ in range(4096):
        reader.feed(chunk)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4 << 16


def test_a_long_line_in_small_pieces_costs_time_in_proportion() -> None:
    reader, piece = LineReader(1 << 23), b"x" * 64
    began = time.process_time()
    reader.feed(b"{")
    for _ in range(1 << 16):
        assert reader.feed(piece) == []
    (line,) = reader.feed(b"}\n")
    # Copied anew for each piece it would be 130 GB.
    assert time.process_time() - began < 5
    assert len(line.data) == (1 << 22) + 2


def test_the_last_line_counts_without_its_newline() -> None:
    reader = LineReader(1000)
    assert reader.feed(b'{"a":1}\n{"b"') == [Message(b'{"a":1}')]
    assert reader.finish() == [Message(b'{"b"')]
    assert reader.finish() == []


@given(
    st.lists(
        st.sampled_from([b'{"a":"bcdefghij"}', b"\xef\xbb\xbf {}", b"[1,2,3,4,5,6]", b"noise noise", b"{}"])
    ),
    cuts,
    st.sampled_from([b"\n", b"\r\n"]),
)
def test_long_objects_come_in_parts_that_add_up_to_the_same_messages(
    lines: list[bytes], sizes: list[int], end: bytes
) -> None:
    stream = b"".join(line + end for line in lines)
    reader, heard, parts = LineReader(1000, 4), [], []
    for piece in pieces(stream, sizes):
        for line in reader.feed(piece):
            if isinstance(line, LinePart):
                parts.append(line.data)
                if line.last:
                    heard.append(Message(b"".join(parts).strip()))
                    parts.clear()
            else:
                heard.append(line)
    assert not parts
    assert heard + reader.finish() == read([stream])


def test_a_long_object_that_gets_too_long_ends_in_noise_and_the_next_line_is_read() -> None:
    reader = LineReader(100, 10)
    heard = [line for _ in range(20) for line in reader.feed(b'{"abcdefg')]
    assert [type(line) for line in heard] == [*[LinePart] * 10, Noise]
    assert heard[-1] == Noise(b'{"abcdefg{"abcdefg', TOO_LONG)
    assert reader.feed(b"\n{}\n") == [Message(b"{}")]
    assert reader.feed(b'{"unfinished": 1') == [LinePart(b'{"unfinished": 1', False)]
    assert reader.finish() == [Noise(b'{"unfinished": 1', UNFINISHED)]
    assert reader.feed(b"{}\n") == [Message(b"{}")]
