"""Claims about which names and pages may talk to the gateway."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.interfaces.web_guard import WebGuard
from mooring.transports.http_request import Client, Request

PEER = Client("127.0.0.1", None, False)
UNIX = Client("unix", 0, False)


def request(
    host: bytes | None,
    origin: bytes | None = None,
    client: Client = PEER,
    method: bytes = b"POST",
    **more: bytes,
) -> Request:
    first = {name.replace("_", "-").encode(): value for name, value in more.items()}
    if host is not None:
        first[b"host"] = host
    if origin is not None:
        first[b"origin"] = origin
    return Request.of(method, b"/", list(first.items()), first, client)


LOCAL = WebGuard("127.0.0.1", 7433, None, [])


def knows(guard: WebGuard, host: bytes | None) -> bool:
    return guard.refusal(request(host)) is None


def allows(guard: WebGuard, origin: bytes, host: bytes = b"127.0.0.1:7433") -> bool:
    return guard.refusal(request(host, origin)) is None


@pytest.mark.parametrize(
    "host", [b"127.0.0.1:7433", b"localhost:7433", b"LocalHost:7433", b"[::1]:7433", b"LOCALHOST:7433"]
)
@pytest.mark.parametrize("listening", ["127.0.0.1", "localhost", "::1"])
def test_a_local_gateway_answers_to_every_local_name(listening: str, host: bytes) -> None:
    assert knows(WebGuard(listening, 7433, None, []), host)


@pytest.mark.parametrize(
    "host",
    [
        *(None, b"", b"evil.example", b"evil.example:7433", b"localhost", b"localhost:7434", b"127.0.0.1"),
        *(
            b"127.0.0.1:7433.evil.example",
            b"evil.example:7433@127.0.0.1:7433",
            b"[::1]",
            b"::1:7433",
            b"\xff:7433",
        ),
        *(b"localhost.:7433", b"localhost:07433", b"127.1:7433", b" localhost:7433"),
    ],
)
def test_a_local_gateway_answers_to_no_other_name(host: bytes | None) -> None:
    assert not knows(LOCAL, host)


@pytest.mark.parametrize("host", [b"localhost", b"localhost:80", b"127.0.0.1", b"[::1]"])
def test_the_default_port_may_be_left_out(host: bytes) -> None:
    assert knows(WebGuard("127.0.0.1", 80, None, []), host)


@pytest.mark.parametrize(
    ("public_url", "known", "unknown"),
    [
        ("https://gw.example", [b"gw.example", b"GW.example:443"], [b"gw.example:80", b"gw.example:7433"]),
        ("https://gw.example:443/base", [b"gw.example", b"gw.example:443"], [b"gw.example:80"]),
        ("http://gw.example", [b"gw.example", b"gw.example:80"], [b"gw.example:443"]),
        ("https://gw.example:8443", [b"gw.example:8443"], [b"gw.example", b"gw.example:443"]),
        ("https://[2001:db8::1]", [b"[2001:db8::1]", b"[2001:DB8::1]:443"], [b"2001:db8::1"]),
        ("https://user@gw.example", [b"gw.example"], [b"user@gw.example"]),
    ],
)
def test_a_public_url_is_one_more_name(public_url: str, known: list[bytes], unknown: list[bytes]) -> None:
    guard = WebGuard("0.0.0.0", 7433, public_url, [])
    assert all(knows(guard, host) for host in known)
    assert not any(knows(guard, host) for host in unknown)
    assert not knows(guard, b"evil.example")
    assert not knows(guard, None)


@pytest.mark.parametrize("host", [b"anything.example", b"10.0.0.5:7433", None])
def test_a_gateway_for_the_network_without_a_public_url_cannot_know_its_names(host: bytes | None) -> None:
    assert knows(WebGuard("0.0.0.0", 7433, None, []), host)


@pytest.mark.parametrize(
    "origin",
    [b"http://127.0.0.1:7433", b"http://localhost:7433", b"http://LOCALHOST:7433", b"http://[::1]:7433"],
)
def test_our_own_pages_may_call_us(origin: bytes) -> None:
    assert allows(LOCAL, origin)


@pytest.mark.parametrize(
    "origin",
    [
        *(
            b"null",
            b"",
            b"http://evil.example",
            b"http://evil.example:7433",
            b"http://localhost",
            b"https://localhost",
        ),
        *(b"http://localhost:3000", b"http://localhost:7433.evil.example", b"http://x@localhost:7433"),
        *(b"localhost:7433", b"http://[::1", b"http://]", b"file://", b"\xff\xfe", b"http://[::1]x:7433"),
    ],
)
def test_no_other_page_may_call_us(origin: bytes) -> None:
    assert not allows(LOCAL, origin)


@given(st.binary(max_size=40), st.binary(max_size=40))
def test_any_bytes_may_come_as_host_and_origin(host: bytes, origin: bytes) -> None:
    answer = LOCAL.refusal(request(host, origin))
    assert answer is None or "gateway" in answer or "not ours" in answer


def test_listed_pages_may_call_us_and_others_still_may_not() -> None:
    guard = WebGuard("127.0.0.1", 7433, None, ["https://app.example/", "http://localhost:3000"])
    assert allows(guard, b"https://app.example")
    assert allows(guard, b"http://localhost:3000")
    assert not allows(guard, b"http://app.example")
    assert not allows(guard, b"https://app.example:8443")
    assert not allows(guard, b"null")
    assert not allows(guard, b"https://app.example", host=b"evil.example"), "the host is checked all the same"


def test_a_star_allows_every_page_but_no_foreign_name() -> None:
    guard = WebGuard("127.0.0.1", 7433, None, ["*"])
    assert allows(guard, b"https://anything.example")
    assert allows(guard, b"null")
    assert not allows(guard, b"https://anything.example", host=b"evil.example:7433")


def test_programs_on_the_socket_of_the_data_directory_have_no_names() -> None:
    assert LOCAL.refusal(request(None, client=UNIX)) is None
    assert LOCAL.refusal(request(b"mooring", b"http://evil.example", client=UNIX)) is None


def test_a_refusal_says_what_to_do() -> None:
    assert "public_url" in (LOCAL.refusal(request(b"evil.example")) or "")
    assert "cors.allowed_origins" in (LOCAL.refusal(request(b"localhost:7433", b"http://evil.example")) or "")


def test_only_requests_of_pages_get_cors_headers_and_caches_are_told() -> None:
    assert LOCAL.headers_for(request(b"localhost:7433")) == ()
    headers = dict(LOCAL.headers_for(request(b"localhost:7433", b"http://localhost:7433")))
    assert headers[b"access-control-allow-origin"] == b"http://localhost:7433"
    assert headers[b"vary"] == b"origin"
    assert b"Mcp-Session-Id" in headers[b"access-control-expose-headers"]


def test_each_page_gets_its_own_origin_back_however_many_there_are() -> None:
    guard = WebGuard("127.0.0.1", 7433, None, ["*"])
    for number in [*range(1500), 3, 1499]:
        origin = b"https://%d.example" % number
        assert dict(guard.headers_for(request(None, origin)))[b"access-control-allow-origin"] == origin


def test_a_preflight_repeats_the_wanted_headers_and_nothing_else() -> None:
    wanted = b"content-type, Mcp-Session-Id,authorization\r\nset-cookie: a=b\xe9\x00"
    asked = request(b"localhost:7433", b"http://localhost:7433", access_control_request_headers=wanted)
    headers = dict(LOCAL.preflight(asked))
    allowed = headers[b"access-control-allow-headers"]
    assert allowed.startswith(b"content-type, Mcp-Session-Id,authorization")
    assert allowed.isascii()
    assert not set(allowed) & set(b"\r\n:\x00=")
    assert headers[b"access-control-allow-methods"] == b"GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"
    assert headers[b"access-control-allow-origin"] == b"http://localhost:7433"
    assert int(headers[b"access-control-max-age"]) > 0


def test_a_preflight_knows_every_character_of_a_header_name() -> None:
    wanted = b"mcp-param-a.b,mcp-param-!#$%&'*+-.^_`|~1"  # RFC 9110, section 5.6.2
    asked = request(b"localhost:7433", PAGE, access_control_request_headers=wanted)
    assert dict(LOCAL.preflight(asked))[b"access-control-allow-headers"] == wanted


def test_a_preflight_of_any_length_has_a_bounded_answer() -> None:
    asked = request(b"localhost:7433", b"http://x", access_control_request_headers=b"a" * 60_000)
    assert len(dict(LOCAL.preflight(asked))[b"access-control-allow-headers"]) <= 1000


PAGE = b"https://app.example"
NARROW = WebGuard("127.0.0.1", 7433, None, [PAGE.decode()], ["POST", "OPTIONS"], ["Mcp-Session-Id"])


def may(guard: WebGuard, method: bytes, origin: bytes | None, host: bytes = b"127.0.0.1:7433") -> bool:
    return guard.refusal(request(host, origin, method=method)) is None


def may_ask(guard: WebGuard, method: bytes) -> bool:
    asked = request(b"127.0.0.1:7433", PAGE, method=b"OPTIONS", access_control_request_method=method)
    return guard.refusal(asked) is None


def test_pages_use_the_listed_methods_and_no_others() -> None:
    assert may(NARROW, b"POST", PAGE)
    assert may_ask(NARROW, b"POST")
    for method in (b"GET", b"DELETE", b"PUT", b"post"):
        assert not may(NARROW, method, PAGE)
        # A browser goes on with GET and POST whatever the answer lists: it has to be refused.
        assert not may_ask(NARROW, method)
    why = NARROW.refusal(request(b"127.0.0.1:7433", PAGE, method=b"GET"))
    assert why is not None
    assert "`cors.allowed_methods`" in why


def test_whoever_is_no_foreign_page_may_use_every_method() -> None:
    for origin in (None, b"http://127.0.0.1:7433", b"http://localhost:7433"):
        assert may(NARROW, b"DELETE", origin)
    assert NARROW.refusal(request(None, PAGE, UNIX, b"DELETE")) is None
    anywhere = WebGuard("0.0.0.0", 7433, None, ["*"], ["POST"])
    assert may(anywhere, b"PUT", b"http://Here.example:7433", host=b"here.example:7433"), (
        "our own upload page"
    )
    assert not may(anywhere, b"PUT", b"http://there.example:7433", host=b"here.example:7433")
    assert not may(anywhere, b"PUT", b"http://[::1", host=b"here.example:7433")


def test_a_preflight_lists_what_is_allowed_whatever_was_wanted() -> None:
    asked = request(b"localhost:7433", PAGE, access_control_request_headers=b"authorization")
    headers = dict(NARROW.preflight(asked))
    assert headers[b"access-control-allow-methods"] == b"POST, OPTIONS"
    names = headers[b"access-control-allow-headers"].lower().split(b", ")
    assert b"mcp-session-id" in names
    assert b"content-type" in names, "without it nobody can call"
    assert b"authorization" not in names


@pytest.mark.parametrize("some", [["*"], ["POST", "*"]])
def test_a_star_is_all_that_we_answer(some: list[str]) -> None:
    guard = WebGuard("127.0.0.1", 7433, None, [PAGE.decode()], some, some)
    assert may(guard, b"DELETE", PAGE)
    asked = request(b"localhost:7433", PAGE, access_control_request_headers=b"authorization")
    assert guard.preflight(asked) == WebGuard("127.0.0.1", 7433, None, [PAGE.decode()]).preflight(asked)
