"""The request reader without sockets: the same requests whatever the split, and never an exception."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from mooring.transports.http_endpoint import Buffered, Endpoint, Streaming
from mooring.transports.http_limits import ListenerLimits
from mooring.transports.http_reader import RequestReader
from mooring.transports.http_request import BodyStream, Client, Request


class Source:
    def body_wanted(self) -> None: ...
    def body_full(self) -> None: ...


def new_reader(limits: ListenerLimits | None = None) -> RequestReader:
    buffered = Buffered(lambda _, __: None, 10_000)
    streaming = Streaming(lambda _, __, ___: None)

    def accept(request: Request) -> Endpoint:
        return streaming if request.path == b"/stream" else buffered

    return RequestReader(
        accept, limits or ListenerLimits(max_pipelined=100), Source(), Client("127.0.0.1", None, False)
    )


def streamed(body: BodyStream | None) -> tuple[bytes, bool] | None:
    return None if body is None else (b"".join(body._chunks), body.finished)


def read(pieces: list[bytes]) -> tuple[list[object], int | None]:
    """Every request that came out, and the status of the refusal; bytes behind an upgrade are fed again."""
    reader = new_reader()
    for piece in pieces:
        if reader.refusal is None:
            reader.feed(piece)
        while reader.unread:
            rest, reader.unread = reader.unread, b""
            reader.feed(rest)
    requests: list[object] = [
        (r.method, r.target, r.headers, r.body, streamed(body), keep_alive, old, upgrade)
        for r, _, body, keep_alive, old, upgrade in reader.arrived
    ]
    return requests, reader.refusal.status if reader.refusal else None


tokens = st.sampled_from([b"a", b"x-long-name", b"Accept", b"Accept-Language", b"X-Y"])
values = st.sampled_from([b"", b"v", b"text/plain", b"  padded\t", b"\xff\x80", b"q" * 200])
bodies = st.binary(max_size=60)


@st.composite
def messages(draw: st.DrawFn) -> bytes:
    target = draw(st.sampled_from([b"/", b"/a?b=c", b"/stream", b"/very/long/" + b"x" * 100]))
    headers = b"".join(
        b"%b:%b%b\r\n" % (name, draw(st.sampled_from([b" ", b""])), value)
        for name, value in draw(st.lists(st.tuples(tokens, values), max_size=4))
    )
    head = b"%b %b HTTP/1.1\r\nHost: a\r\n" % (draw(st.sampled_from([b"GET", b"POST", b"PUT"])), target)
    offer = draw(st.sampled_from([b"", b"", b"Connection: Upgrade\r\nUpgrade: h2c\r\n"]))
    kind = draw(st.integers(0, 2))
    if kind == 0:
        return head + headers + offer + b"\r\n"
    body = draw(bodies)
    if kind == 1:
        return head + headers + offer + b"Content-Length: %d\r\n\r\n%b" % (len(body), body)
    chunks = b"".join(
        b"%x%b\r\n%b\r\n" % (len(chunk), draw(st.sampled_from([b"", b";ext=1"])), chunk)
        for chunk in draw(st.lists(st.binary(min_size=1, max_size=30), max_size=4))
    )
    trailers = draw(st.sampled_from([b"", b"X-Trailer: t\r\n"]))
    return (
        head
        + headers
        + offer
        + b"Transfer-Encoding: chunked\r\n\r\n"
        + chunks
        + b"0\r\n"
        + trailers
        + b"\r\n"
    )


def cut(data: bytes, places: list[int]) -> list[bytes]:
    edges = [0, *sorted({place % (len(data) + 1) for place in places}), len(data)]
    return [data[start:end] for start, end in pairwise(edges)]


@given(st.lists(messages(), min_size=1, max_size=5), st.lists(st.integers(0, 5_000), max_size=12))
def test_the_same_requests_come_out_however_the_bytes_are_cut(parts: list[bytes], places: list[int]) -> None:
    data = b"".join(parts)
    whole = read([data])
    assert len(whole[0]) == len(parts)
    assert whole[1] is None
    assert read(cut(data, places)) == whole
    assert read([data[position : position + 1] for position in range(len(data))]) == whole


@given(
    st.lists(messages(), min_size=1, max_size=3),
    st.integers(0, 5_000),
    st.binary(min_size=1, max_size=3),
    st.lists(st.integers(0, 5_000), max_size=6),
)
def test_damaged_requests_give_the_same_outcome_however_they_are_cut(
    parts: list[bytes], position: int, damage: bytes, places: list[int]
) -> None:
    data = b"".join(parts)
    position %= len(data)
    data = data[:position] + damage + data[position + len(damage) :]
    whole, refused = read([data])
    pieces, refused_in_pieces = read(cut(data, places))
    assert refused_in_pieces == refused
    assert pieces == whole


@given(st.lists(st.binary(max_size=100), max_size=8))
def test_random_bytes_are_refused_or_unfinished_but_never_crash(pieces: list[bytes]) -> None:
    requests, refused = read(pieces)
    assert requests == [] or refused is None or refused >= 400


def test_the_head_of_a_request_may_be_at_most_as_large_as_allowed() -> None:
    limits = ListenerLimits(max_header_bytes=1_000)
    for size, status in ((900, None), (1_000, 431), (5_000, 431)):
        for step in (10, 100, 10_000):
            reader = new_reader(limits)
            data = b"GET / HTTP/1.1\r\nhost: a\r\nx: " + b"y" * size + b"\r\n\r\n"
            for start in range(0, len(data), step):
                if reader.refusal is None:
                    reader.feed(data[start : start + step])
            assert (reader.refusal.status if reader.refusal else None) == status
