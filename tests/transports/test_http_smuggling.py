"""Requests that two readers could understand differently are refused, whatever the parser would allow."""

from __future__ import annotations

import json

import pytest
from http_edge_tools import BACKEND_NAMES, BACKENDS, Routes, connected, request, serving

pytestmark = pytest.mark.anyio


@pytest.fixture(params=BACKENDS, ids=BACKEND_NAMES)
def anyio_backend(request: pytest.FixtureRequest) -> object:
    return request.param


POST = b"POST / HTTP/1.1\r\nhost: a\r\n"
GET = b"GET / HTTP/1.1\r\nhost: a\r\n"
CHUNKED = POST + b"transfer-encoding: chunked\r\n\r\n"
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nhost: a\r\n\r\n"

REFUSED: dict[str, tuple[bytes, int]] = {
    "length and chunked": (POST + b"content-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    "chunked and length": (POST + b"transfer-encoding: chunked\r\ncontent-length: 5\r\n\r\n0\r\n\r\n", 400),
    "two lengths": (POST + b"content-length: 0\r\ncontent-length: 5\r\n\r\n", 400),
    "the same length twice": (POST + b"content-length: 0\r\ncontent-length: 0\r\n\r\n", 400),
    "a list of lengths": (POST + b"content-length: 0, 0\r\n\r\n", 400),
    "a length with a sign": (POST + b"content-length: +5\r\n\r\nhello", 400),
    "a negative length": (POST + b"content-length: -1\r\n\r\n", 400),
    "a hexadecimal length": (POST + b"content-length: 0x5\r\n\r\nhello", 400),
    "an empty length": (POST + b"content-length: \r\n\r\n", 400),
    "a length beyond 64 bits": (POST + b"content-length: 99999999999999999999\r\n\r\n", 400),
    "a length in two halves": (POST + b"content-length: 1 2\r\n\r\nhello hello!", 400),
    "gzip and chunked": (POST + b"transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400),
    "chunked and identity": (POST + b"transfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n", 400),
    "identity": (POST + b"transfer-encoding: identity\r\n\r\n", 400),
    "chunked twice": (
        POST + b"transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
    ),
    "chunked in two lines": (
        POST + b"transfer-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
    ),
    "chunked with a vertical tab": (POST + b"transfer-encoding: \x0bchunked\r\n\r\n0\r\n\r\n", 400),
    "xchunked": (POST + b"transfer-encoding: xchunked\r\n\r\n0\r\n\r\n", 400),
    "chunked from HTTP/1.0": (b"POST / HTTP/1.0\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    "a folded header": (GET + b"x: a\r\n b\r\n\r\n", 400),
    "a folded transfer-encoding": (POST + b"transfer-encoding:\r\n chunked\r\n\r\n0\r\n\r\n", 400),
    "a space before the colon": (POST + b"content-length : 5\r\n\r\nhello", 400),
    "a tab before the colon": (POST + b"transfer-encoding\t: chunked\r\n\r\n0\r\n\r\n", 400),
    "a space before the first header": (b"GET / HTTP/1.1\r\n host: a\r\n\r\n", 400),
    "a header without a name": (GET + b": a\r\n\r\n", 400),
    "a header without a colon": (GET + b"nonsense\r\n\r\n", 400),
    "NUL in a value": (GET + b"x: a\0b\r\n\r\n", 400),
    "a control character in a value": (GET + b"x: a\x01b\r\n\r\n", 400),
    "DEL in a value": (GET + b"x: a\x7fb\r\n\r\n", 400),
    "NUL in a name": (GET + b"x\0y: a\r\n\r\n", 400),
    "an odd character in a name": (GET + b"x(y): a\r\n\r\n", 400),
    "a bare LF after a header": (GET + b"x: a\ny: b\r\n\r\n", 400),
    "a bare CR in a header": (GET + b"x: a\ry: b\r\n\r\n", 400),
    "bare LF everywhere": (b"GET / HTTP/1.1\nhost: a\n\n", 400),
    "a bare LF at the end of the head": (b"GET / HTTP/1.1\r\nhost: a\r\n\n", 400),
    "a bare CR at the end of the head": (b"GET / HTTP/1.1\r\nhost: a\r\n\r\r\n", 400),
    "a chunk size that is not a number": (CHUNKED + b"x\r\nabc\r\n0\r\n\r\n", 400),
    "a chunk size with a prefix": (CHUNKED + b"0x3\r\nabc\r\n0\r\n\r\n", 400),
    "a negative chunk size": (CHUNKED + b"-1\r\nabc\r\n0\r\n\r\n", 400),
    "a chunk size beyond 64 bits": (CHUNKED + b"fffffffffffffffff\r\nabc\r\n0\r\n\r\n", 400),
    "a space after a chunk size": (CHUNKED + b"3 \r\nabc\r\n0\r\n\r\n", 400),
    "a bare LF after a chunk size": (CHUNKED + b"3\nabc\r\n0\r\n\r\n", 400),
    "a bare LF after a chunk": (CHUNKED + b"3\r\nabc\n0\r\n\r\n", 400),
    "a chunk longer than its size": (CHUNKED + b"3\r\nabcd\r\n0\r\n\r\n", 400),
    "a line break in a chunk extension": (CHUNKED + b"3;a\nb\r\nabc\r\n0\r\n\r\n", 400),
    "a length in the trailers": (CHUNKED + b"0\r\ncontent-length: 5\r\n\r\n", 400),
    "no host": (b"GET / HTTP/1.1\r\n\r\n", 400),
    "two hosts": (GET + b"host: b\r\n\r\n", 400),
    "the same host twice": (GET + b"host: a\r\n\r\n", 400),
    "a host with a path": (b"GET / HTTP/1.1\r\nhost: a/b\r\n\r\n", 400),
    "a host with a user": (b"GET / HTTP/1.1\r\nhost: a@b\r\n\r\n", 400),
    "a host with a space": (b"GET / HTTP/1.1\r\nhost: a b\r\n\r\n", 400),
    "a host with a bad port": (b"GET / HTTP/1.1\r\nhost: a:b\r\n\r\n", 400),
    "an absolute target": (b"GET http://a/ HTTP/1.1\r\nhost: a\r\n\r\n", 400),
    "a target for CONNECT": (b"CONNECT a:443 HTTP/1.1\r\nhost: a\r\n\r\n", 400),
    "an asterisk for GET": (b"GET * HTTP/1.1\r\nhost: a\r\n\r\n", 400),
    "a fragment": (b"GET /a#b HTTP/1.1\r\nhost: a\r\n\r\n", 400),
    "a space in the target": (b"GET /a b HTTP/1.1\r\nhost: a\r\n\r\n", 400),
    "a control character in the target": (b"GET /\x01 HTTP/1.1\r\nhost: a\r\n\r\n", 400),
    "a byte beyond ASCII in the target": (b"GET /\xe9 HTTP/1.1\r\nhost: a\r\n\r\n", 400),
    "an unknown method": (b"BREW / HTTP/1.1\r\nhost: a\r\n\r\n", 400),
    "a method in lower case": (b"get / HTTP/1.1\r\nhost: a\r\n\r\n", 400),
    "HTTP/0.9": (b"GET /\r\n\r\n", 505),
    "HTTP/1.2": (b"GET / HTTP/1.2\r\nhost: a\r\n\r\n", 400),
    "HTTP/2.0": (b"GET / HTTP/2.0\r\nhost: a\r\n\r\n", 505),
    "the preface of HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400),
    "a TLS handshake": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(40), 400),
    "an unknown expectation": (GET + b"expect: a-pony\r\n\r\n", 417),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_it_is_refused_and_what_follows_is_not_read(case: str) -> None:
    data, status = REFUSED[case]
    routes = Routes()
    async with serving(routes) as (_, port), connected(port) as peer:
        peer.send(data + SMUGGLED)
        answer = await peer.answer()
        assert answer.status == status
        assert answer.header(b"connection") == b"close"
        assert answer.header(b"content-type") == b"application/json"
        assert json.loads(answer.body).keys() == {"error"}
        assert await peer.is_closed_by_peer()
    assert not [seen for seen in routes.seen if seen.path == b"/smuggled"]


@pytest.mark.parametrize("case", REFUSED)
async def test_it_is_refused_even_after_good_requests_and_cut_into_bytes(case: str) -> None:
    data, status = REFUSED[case]
    async with serving(Routes()) as (_, port), connected(port) as peer:
        for _ in range(2):  # the second one is recognised by its head
            assert (await peer.ask(request(b"/good", b"body"))).status == 200
        peer.send(request(b"/good", b"body"))
        for position in range(len(data)):
            peer.send(data[position : position + 1])
        assert (await peer.answer()).status == 200
        assert (await peer.answer()).status == status
        assert await peer.is_closed_by_peer()


@pytest.mark.parametrize(
    "host", [b"a", b"a:1", b"localhost:8080", b"127.0.0.1", b"[::1]", b"[::1]:80", b"a.b-c.example:65535"]
)
async def test_ordinary_hosts_pass(host: bytes) -> None:
    async with serving(Routes()) as (_, port), connected(port) as peer:
        assert (await peer.ask(b"GET / HTTP/1.1\r\nhost: %b\r\n\r\n" % host)).status == 200


async def test_an_asterisk_passes_for_options_only() -> None:
    async with serving(Routes()) as (_, port), connected(port) as peer:
        assert (await peer.ask(request(b"*", method=b"OPTIONS"))).status == 200
        assert (await peer.ask(request(b"*", method=b"GET"))).status == 400


async def test_trailers_are_read_and_dropped() -> None:
    routes = Routes()
    async with serving(routes) as (_, port), connected(port) as peer:
        answer = await peer.ask(CHUNKED + b"3;x=y\r\nabc\r\n0\r\nauthorization: smuggled\r\n\r\n")
        assert answer.body == b"POST\n/\nabc"
        assert (await peer.ask(request(b"/next"))).body == b"GET\n/next\n"
    assert all(not seen.header_values(b"authorization") for seen in routes.seen)
    assert all(seen.header(b"authorization") is None for seen in routes.seen)
