"""Which client a trusted proxy speaks for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.transports.http_forwarded import parse_forwarded
from mooring.transports.http_request import Client, Request


def asked(*headers: tuple[bytes, bytes]) -> Request:
    client = Client("10.0.0.1", None, False)
    return Request.of(b"GET", b"/", list(headers), dict(headers), client)


FOR = b"x-forwarded-for"
PROTO = b"x-forwarded-proto"

CASES: dict[str, tuple[list[tuple[bytes, bytes]], tuple[str, bool]]] = {
    "no header": ([], ("10.0.0.1", False)),
    "one hop": ([(FOR, b"1.2.3.4")], ("1.2.3.4", False)),
    "the rightmost hop counts": ([(FOR, b"127.0.0.1, 1.2.3.4")], ("1.2.3.4", False)),
    "the last line counts": ([(FOR, b"127.0.0.1"), (FOR, b"1.2.3.4")], ("1.2.3.4", False)),
    "with a port": ([(FOR, b"1.2.3.4:5678")], ("1.2.3.4", False)),
    "IPv6": ([(FOR, b"2001:db8::1")], ("2001:db8::1", False)),
    "IPv6 with a port": ([(FOR, b"[2001:db8::1]:80")], ("2001:db8::1", False)),
    "https": ([(FOR, b"1.2.3.4"), (PROTO, b"https")], ("1.2.3.4", True)),
    "the rightmost scheme counts": ([(PROTO, b"https, http")], ("10.0.0.1", False)),
    "nonsense is nobody": ([(FOR, b"1.2.3.4, nonsense")], ("unknown", False)),
    "an empty value is nobody": ([(FOR, b"")], ("unknown", False)),
    "Forwarded": ([(b"forwarded", b"for=1.2.3.4;proto=https")], ("1.2.3.4", True)),
    "Forwarded, quoted": ([(b"forwarded", b'For="[2001:db8::1]:80"; Proto=HTTPS')], ("2001:db8::1", True)),
    "Forwarded, rightmost": ([(b"forwarded", b"for=9.9.9.9;proto=https, for=1.2.3.4")], ("1.2.3.4", False)),
    "Forwarded, a comma in quotes": (
        [(b"forwarded", b'for=1.2.3.4;host="a,for=9.9.9.9"')],
        ("1.2.3.4", False),
    ),
    "Forwarded, hidden": ([(b"forwarded", b"for=_hidden")], ("unknown", False)),
    "a forged Forwarded beside the proxy's own header": (
        [(b"forwarded", b"for=127.0.0.1"), (FOR, b"1.2.3.4")],
        ("1.2.3.4", False),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_nearest_proxy_is_believed_and_nobody_else(case: str) -> None:
    headers, expected = CASES[case]
    assert parse_forwarded(asked(*headers)) == expected


@given(st.sampled_from([FOR, PROTO, b"forwarded"]), st.binary(max_size=80))
def test_any_value_gives_an_address_or_unknown(name: bytes, value: bytes) -> None:
    address, secure = parse_forwarded(asked((name, value)))
    assert address
    assert secure in (True, False)
