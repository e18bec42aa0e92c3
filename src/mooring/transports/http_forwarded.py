"""Who a request came from when a trusted proxy stands in front of us."""

from __future__ import annotations

import ipaddress
import re

from mooring.transports.http_request import Request

_PAIR = re.compile(rb'\s*([A-Za-z]+)\s*=\s*("[^"]*"|[^\s;,"]*)\s*')


def parse_forwarded(request: Request) -> tuple[str, bool]:
    """Client address and whether it used TLS, as the nearest proxy saw them.

    Only the rightmost hop is read: everything to its left was sent by the client and can be made up. Call
    this only when the operator has said that every request comes through a proxy (`trust_proxy_headers`).

    X-Forwarded-For wins over Forwarded: most proxies write the former and pass the latter on untouched. What
    is not an address (`unknown`, `_hidden`) gives "unknown".
    """
    addresses = request.header_values(b"x-forwarded-for")
    schemes = request.header_values(b"x-forwarded-proto")
    if addresses or schemes:
        address = _address(_last(addresses)) if addresses else request.peer
        return address, _last(schemes).lower() in (b"https", b"wss") if schemes else request.secure
    forwarded = request.header_values(b"forwarded")
    if not forwarded:
        return request.peer, request.secure
    pairs = {
        name.lower(): value.strip(b'"') for name, value in _PAIR.findall(_last_element(b",".join(forwarded)))
    }
    address = _address(pairs[b"for"]) if b"for" in pairs else request.peer
    return address, pairs[b"proto"].lower() == b"https" if b"proto" in pairs else request.secure


def _last(values: list[bytes]) -> bytes:
    return values[-1].rpartition(b",")[2].strip()


def _last_element(value: bytes) -> bytes:
    """What follows the last comma outside quotes."""
    quoted = False
    start = 0
    for position, character in enumerate(value):
        if character == ord('"'):
            quoted = not quoted
        elif character == ord(",") and not quoted:
            start = position + 1
    return value[start:]


def _address(text: bytes) -> str:
    """The address without brackets and port."""
    host = text.decode("latin-1")
    if host.startswith("["):
        host = host[1:].partition("]")[0]
    elif host.count(":") == 1:
        host = host.partition(":")[0]
    try:
        return str(ipaddress.ip_address(host))
    except ValueError:
        return "unknown"
