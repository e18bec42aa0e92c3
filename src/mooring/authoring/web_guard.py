"""Which names and web pages may talk to a server: Host and Origin, and CORS for those that may."""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from mooring.transports.http_request import Request
from mooring.transports.loopback import is_loopback

Headers = tuple[tuple[bytes, bytes], ...]
_LOOPBACK: Final = ("localhost", "127.0.0.1", "[::1]")
_HEADER_NAMES: Final = (string.ascii_letters + string.digits + "-_, ").encode()


class WebGuard:
    """A page can make its own name lead to us; the browser then sends its requests here, under that name."""

    def __init__(self, host: str, port: int, public_url: str | None, origins: Sequence[str]) -> None:
        names = {_bracketed(host), *(_LOOPBACK if is_loopback(host) else ())}
        known = {f"{name}:{port}" for name in names}
        if port in (80, 443):
            known |= names
        if public_url is not None:
            known |= _names_of(public_url)
        self._hosts = frozenset(name.lower().encode() for name in known)
        self._any_host = public_url is None and not is_loopback(host)
        self._origins = frozenset(origin.rstrip("/").encode() for origin in origins)

    def refuses(self, request: Request) -> str | None:
        host, origin = request.header(b"host"), request.header(b"origin")
        if not self._any_host and (host is None or host.lower() not in self._hosts):
            return "this name is not ours; use the address that the server listens on, or set `public_url`"
        if origin is not None and not self._allows(origin):
            return "this web page may not call the server; add its origin to `allowed_origins`"
        return None

    def _allows(self, origin: bytes) -> bool:
        if origin in self._origins or b"*" in self._origins:
            return True
        try:
            return urlsplit(origin.decode("latin-1")).netloc.lower().encode() in self._hosts
        except ValueError:
            return False

    def headers_for(self, request: Request) -> Headers:
        """What lets a page that may call us also read the answer."""
        origin = request.header(b"origin")
        if origin is None:
            return ()
        exposed = (b"access-control-expose-headers", b"Mcp-Session-Id")
        return (b"access-control-allow-origin", origin), exposed, (b"vary", b"origin")

    def preflight(self, request: Request) -> Headers:
        wanted = request.header(b"access-control-request-headers") or b"content-type"
        allowed = bytes(byte for byte in wanted[:1000] if byte in _HEADER_NAMES)
        return (
            *self.headers_for(request),
            (b"access-control-allow-methods", b"GET, POST, DELETE, OPTIONS"),
            (b"access-control-allow-headers", allowed),
            (b"access-control-max-age", b"600"),
        )


def _names_of(url: str) -> set[str]:
    parts = urlsplit(url)
    name, usual = _bracketed(parts.hostname or ""), 443 if parts.scheme == "https" else 80
    return {f"{name}:{parts.port or usual}", *((name,) if parts.port in (None, usual) else ())}


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host
