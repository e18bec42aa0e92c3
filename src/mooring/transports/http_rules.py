"""The rules a request head must pass beyond what the parser checks: framing, Host, target, sizes.

llhttp (strict, as httptools configures it) already refuses content-length with transfer-encoding, repeated or
malformed lengths, folded lines, a space before the colon, control characters, bare CR or LF, and bad chunk
sizes. What it lets through and a gateway must not is checked here; the tests hold both to it.
"""

from __future__ import annotations

import re

from mooring.transports.http_limits import ListenerLimits

# Two of these would let two readers of one request disagree about where it ends, whom it is for, where it
# comes from or what is in it.
_SINGLE = frozenset(
    (b"host", b"content-length", b"transfer-encoding", b"expect", b"upgrade", b"origin", b"content-type")
)
# reg-name, IPv4 or bracketed IPv6, with an optional port (RFC 9110 section 7.2).
_HOST = re.compile(rb"(?:[A-Za-z0-9._~%!$&'()*+,;=-]*|\[[0-9A-Fa-f:.%A-Za-z]+\])(?::[0-9]{0,5})?")


class Refusal(Exception):
    """The request cannot be served: a status and a short reason for the client. Status 0: just close."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


CHUNKED = -1


def first_values(headers: list[tuple[bytes, bytes]]) -> dict[bytes, bytes]:
    """First value per name, for requests that repeat a header; some may not be repeated."""
    first: dict[bytes, bytes] = {}
    for name, value in headers:
        if name not in first:
            first[name] = value
        elif name in _SINGLE:
            raise Refusal(400, f"more than one {name.decode('latin-1')} header")
    return first


def check_sizes(target: bytes, headers: list[tuple[bytes, bytes]], limits: ListenerLimits) -> None:
    """Exact sizes; only needed when more bytes than `max_header_bytes` were read so far."""
    total = len(target) + sum(len(name) + len(value) + 4 for name, value in headers)
    if total > limits.max_header_bytes:
        raise Refusal(431, "request headers are too large")


def check_version(version: str) -> None:
    if version not in ("1.1", "1.0"):
        raise Refusal(505, "only HTTP/1.1 and HTTP/1.0 are spoken here")


def check_host(host: bytes | None, *, required: bool) -> None:
    if host is None:
        if required:
            raise Refusal(400, "the Host header is missing")
    elif _HOST.fullmatch(host) is None:
        raise Refusal(400, "the Host header is malformed")


def checked_target(method: bytes, target: bytes, limits: ListenerLimits) -> bytes:
    """Only origin-form (`/path`), and `*` for OPTIONS: this is not a forward proxy.

    Returns the target if it is fine with every method, so that it need not be checked again.
    """
    if len(target) > limits.max_target_bytes:
        raise Refusal(414, "the request target is too long")
    if b"#" in target:
        raise Refusal(400, "the request target has a fragment")
    if target.startswith(b"/"):
        return target
    if target == b"*" and method == b"OPTIONS":
        return b""
    raise Refusal(400, "the request target must be a path that begins with /")


def body_length(first: dict[bytes, bytes], *, speaks_1_0: bool) -> int:
    """The announced length of the body, or `CHUNKED`."""
    coding = first.get(b"transfer-encoding")
    if coding is not None:
        # Not from HTTP/1.0, whose proxies may not know it and would see another end of the message.
        if coding.lower() != b"chunked" or speaks_1_0:
            raise Refusal(400, "the only transfer-encoding taken is chunked, with HTTP/1.1")
        return CHUNKED
    return int(first.get(b"content-length", 0))  # digits only: llhttp has counted with it already


def check_expectation(value: bytes) -> None:
    if value.lower() != b"100-continue":
        raise Refusal(417, "the only expectation met is 100-continue")
