"""Recognised heads: what the short cut accepts is exactly what the parser would have made of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.transports.http_endpoint import Buffered, Endpoint
from mooring.transports.http_limits import ListenerLimits
from mooring.transports.http_reader import RequestReader
from mooring.transports.http_request import Client, Request
from mooring.transports.http_template import HeadTemplate

CLIENT = Client("127.0.0.1", None, False)
FIRST = b"POST /mcp?a=b HTTP/1.1\r\nHost: a\r\nX-One: 1\r\nContent-Length:  2\r\nx-two: 2\r\n\r\nhi"
NO_BODY = b"GET /mcp HTTP/1.1\r\nHost: a\r\nX-One: 1\r\n\r\n"


class Source:
    """A streamed body's connection that is never asked for anything."""

    def body_wanted(self) -> None: ...
    def body_full(self) -> None: ...


def new_reader() -> RequestReader:
    endpoint = Buffered(lambda _, __: None, 1_000_000)

    def accept(_: Request) -> Endpoint:
        return endpoint

    return RequestReader(accept, ListenerLimits(), Source(), CLIENT)


def outcome(reader: RequestReader) -> object:
    if reader.refusal is not None:
        return reader.refusal.status
    return [
        (
            request.method,
            request.target,
            request.path,
            request.query,
            request.headers,
            [request.header(name) for name, _ in request.headers],
            request.body,
            keep_alive,
            speaks_1_0,
            upgrade,
        )
        for request, _, _, keep_alive, speaks_1_0, upgrade in reader.arrived
    ]


def after_learning(learnt: bytes, data: bytes) -> object:
    reader = new_reader()
    reader.feed(learnt)
    assert len(reader.arrived) == 1
    assert reader._template is not None
    reader.arrived.clear()
    reader.feed(data)
    return outcome(reader)


def without_learning(data: bytes) -> object:
    reader = new_reader()
    reader.feed(data)
    return outcome(reader)


@given(body=st.binary(max_size=300))
def test_another_body_with_the_same_head_is_recognised(body: bytes) -> None:
    data = FIRST.replace(b"  2", b"  %d" % len(body))[:-2] + body
    template = HeadTemplate.of(FIRST)
    assert template is not None
    assert template.body_start(data) == len(data) - len(body)
    assert after_learning(FIRST, data) == without_learning(data)


@pytest.mark.parametrize("learnt", [FIRST, NO_BODY])
@given(data=st.data())
def test_a_head_that_differs_anywhere_is_understood_as_the_parser_does(
    learnt: bytes, data: st.DataObject
) -> None:
    position = data.draw(st.integers(0, len(learnt)))
    replaced = data.draw(st.integers(0, 3))
    inserted = data.draw(
        st.one_of(st.binary(max_size=4), st.sampled_from([b"\r\n", b"\r\n\r\n", b"0", b"1", b" "]))
    )
    changed = learnt[:position] + inserted + learnt[position + replaced :]
    # A head cut short is unfinished in both: nothing to compare but that neither has a request.
    assert after_learning(learnt, changed) == without_learning(changed)


@given(cut=st.integers(1, len(FIRST) - 1))
def test_a_message_in_two_reads_is_left_to_the_parser(cut: int) -> None:
    reader = new_reader()
    reader.feed(FIRST)
    reader.feed(FIRST[:cut])
    assert len(reader.arrived) == 1
    reader.feed(FIRST[cut:])
    assert len(reader.arrived) == 2
    assert reader.arrived[1][0].body == b"hi"


@pytest.mark.parametrize("learnt", [FIRST, NO_BODY])
@given(tail=st.binary(min_size=1, max_size=50))
def test_bytes_behind_a_message_are_left_to_the_parser(learnt: bytes, tail: bytes) -> None:
    template = HeadTemplate.of(learnt)
    assert template is not None
    assert template.body_start(learnt + tail) == -1


def test_a_body_that_looks_like_a_request_is_a_body() -> None:
    reader = new_reader()
    reader.feed(FIRST)
    reader.feed(b"POST /outer HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(FIRST))
    reader.feed(FIRST)
    assert [arrival[0].target for arrival in reader.arrived] == [b"/mcp?a=b", b"/outer"]
    assert reader.arrived[1][0].body == FIRST


def test_a_request_behind_half_a_head_is_part_of_that_head() -> None:
    reader = new_reader()
    reader.feed(FIRST)
    reader.feed(FIRST + b"GET /half HTTP/1.1\r\nHost: a\r\nX: ")
    reader.feed(FIRST)
    assert [arrival[0].target for arrival in reader.arrived[:2]] == [b"/mcp?a=b"] * 2
    assert all(arrival[0].body == b"hi" for arrival in reader.arrived[:2])
    assert reader.refusal is not None or reader.arrived[2][0].target == b"/half"


@pytest.mark.parametrize(
    "digits",
    [b"", b"+2", b"-2", b"0x2", b" 2", b"2 ", b"2,2", b"\xb2", b"1" * 30, b"2\r\nx: y", b"2\n"],
)
def test_only_digits_are_a_length(digits: bytes) -> None:
    template = HeadTemplate.of(FIRST)
    assert template is not None
    assert template.body_start(FIRST.replace(b"  2", b"  " + digits)) == -1


@given(st.sampled_from([b"", b"A", FIRST, NO_BODY]), st.binary(max_size=200), st.binary(max_size=200))
def test_any_bytes_can_be_looked_at(start: bytes, rest: bytes, data: bytes) -> None:
    template = HeadTemplate.of(start + rest)
    if template is not None:
        assert template.body_start(data) <= len(data)
        assert template.body_start(start + data) <= len(start + data)


def test_the_requests_of_a_connection_do_not_share_their_headers() -> None:
    reader = new_reader()
    for _ in range(3):
        reader.feed(FIRST)
    first, second, third = (arrival[0] for arrival in reader.arrived)
    first.headers.clear()
    second.headers.append((b"x", b"y"))
    assert third.headers == [(b"host", b"a"), (b"x-one", b"1"), (b"content-length", b"2"), (b"x-two", b"2")]


@pytest.mark.parametrize(
    "data",
    [
        b"POST / HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 2\r\n\r\nhi",
        b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n2\r\nhi\r\n0\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: a\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n",
    ],
)
def test_special_requests_are_not_learnt(data: bytes) -> None:
    reader = new_reader()
    reader.feed(data)
    assert len(reader.arrived) == 1
    assert reader._template is None


def test_a_client_whose_heads_always_differ_is_learnt_from_less_and_less() -> None:
    reader = new_reader()
    learnt = set()
    for index in range(200):
        reader.feed(b"GET /%d HTTP/1.1\r\nhost: a\r\n\r\n" % index)
        assert reader.arrived.pop()[0].target == b"/%d" % index
        learnt.add(id(reader._model))
    assert len(learnt) < 40
