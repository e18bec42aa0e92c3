"""Small HTTP requests to services that we depend on: identity providers, webhooks. Bounded in every way."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import msgspec
from msgspec import Struct

from mooring.errors import MooringError
from mooring.transports.http_client import ClientPool, Origin
from mooring.transports.http_errors import TransportError
from mooring.transports.http_limits import ClientLimits
from mooring.transports.loopback import is_loopback

MAX_BYTES: Final = 1024 * 1024
SECONDS: Final = 10.0
JSON: Final = {"accept": "application/json"}
FORM: Final = {"accept": "application/json", "content-type": "application/x-www-form-urlencoded"}


class FetchFailed(MooringError):
    """The service did not answer, or not in a usable way."""


class Fetched(Struct, frozen=True):
    """An answer, whatever its status."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> dict[str, Any]:
        try:
            return msgspec.json.decode(self.body, type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise FetchFailed(f"the answer is not a JSON object: {error}") from None


async def fetch(
    url: str,
    *,
    method: str = "GET",
    headers: Mapping[str, str] = JSON,
    body: bytes = b"",
    seconds: float = SECONDS,
    max_bytes: int = MAX_BYTES,
    tls: ssl.SSLContext | None = None,
) -> Fetched:
    """One request on a connection of its own. Redirects are not followed: they could lead anywhere."""
    parts = urlsplit(url)
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    block = b"".join(
        b"%b: %b\r\n" % (_checked(name.lower()), _checked(value)) for name, value in headers.items()
    )
    pool = ClientPool(Origin.of(url), ClientLimits(connect_seconds=seconds, head_seconds=None))
    if tls is not None:
        pool = ClientPool(pool.origin, pool.limits, lambda: tls)
    try:
        async with asyncio.timeout(seconds):
            response = await pool.request(method.encode(), _checked(target), block, body)
            data = await response.read(max_bytes)
    except TimeoutError:
        raise FetchFailed(f"`{parts.netloc}` did not answer within {seconds:g} s") from None
    except (TransportError, OSError) as error:
        raise FetchFailed(str(error)) from error
    finally:
        pool.close()
    found = {name.decode("latin-1"): value.decode("latin-1") for name, value in response.headers}
    return Fetched(response.status, found, data)


async def post_form(
    url: str,
    form: Mapping[str, str],
    headers: Mapping[str, str] | None = None,
    seconds: float = SECONDS,
    tls: ssl.SSLContext | None = None,
) -> Fetched:
    body, given = urlencode(form).encode(), {**FORM, **(headers or {})}
    return await fetch(url, method="POST", headers=given, body=body, seconds=seconds, tls=tls)


def basic(user: str, password: str) -> str:
    """The value of an `Authorization` header (RFC 7617), escaped as OAuth wants it (RFC 6749 §2.3.1)."""
    escaped = urlencode({"": user})[1:] + ":" + urlencode({"": password})[1:]
    return "Basic " + base64.b64encode(escaped.encode()).decode()


def is_safe(url: str, *, allow_http: bool) -> bool:
    """HTTPS; plain HTTP only to this machine, or when the operator says so."""
    parts = urlsplit(url)
    if parts.scheme == "https":
        return bool(parts.hostname)
    if parts.scheme != "http" or not parts.hostname:
        return False
    return allow_http or is_loopback(parts.hostname)


def _checked(text: str) -> bytes:
    if any(character in text for character in "\r\n\0"):
        raise FetchFailed("a line break in an address or a header")
    return text.encode("latin-1", "replace")
