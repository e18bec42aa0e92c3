"""Which addresses and web pages may talk to the gateway: Host and Origin checks, and CORS for those
allowed."""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Final
from urllib.parse import urlsplit

from mooring.transports.http_request import Request
from mooring.transports.loopback import is_loopback

Headers = tuple[tuple[bytes, bytes], ...]
_LOOPBACK_NAMES: Final = ("localhost", "127.0.0.1", "[::1]")
_METHODS: Final = b"GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"
_ALWAYS: Final = ("Accept", "Accept-Language", "Content-Language", "Content-Type")
"""Headers that every page may send: browsers allow most of them unasked, and nobody can call without the
last."""
_EXPOSED: Final = (
    b"Mcp-Session-Id, WWW-Authenticate, Location, Tus-Resumable, Upload-Offset, Upload-Length, "
    b"Upload-Expires, Upload-Handle"
)
_PREFLIGHT_SECONDS: Final = b"600"
_NAME_LIST_BYTES: Final = (string.ascii_letters + string.digits + "!#$%&'*+-.^_`|~, ").encode()


class WebGuard:
    """DNS rebinding makes a browser send a page's requests to us under the page's own name; names tell us
    apart."""

    def __init__(
        self,
        host: str,
        port: int,
        public_url: str | None,
        allowed_origins: Sequence[str],
        allowed_methods: Sequence[str] = ("*",),
        allowed_headers: Sequence[str] = ("*",),
    ) -> None:
        self._any_host = not is_loopback(host) and public_url is None
        self._hosts = _known_hosts(host, port, public_url)
        self._origins = {origin.rstrip("/").encode() for origin in allowed_origins}
        self._any_origin = "*" in allowed_origins
        self._methods = None if "*" in allowed_methods else _list(allowed_methods)
        self._headers = None if "*" in allowed_headers else _list([*_ALWAYS, *allowed_headers])
        """What pages may use; None: everything that we answer."""
        self._cors: dict[bytes, Headers] = {}

    def refusal(self, request: Request) -> str | None:
        """Why this request must not be answered, if so."""
        host = request.header(b"host")
        if (
            host not in self._hosts
            and not self._any_host
            and request.peer != "unix"
            and not self._knows(host)
        ):
            return "this name is not ours; use the address that `mooring serve` printed, or set `public_url`"
        origin = request.header(b"origin")
        if origin is None or request.peer == "unix":
            return None
        if not self._allows(origin):
            return "this web page may not call the gateway; add its origin to `cors.allowed_origins`"
        if self._methods is not None and not self._may_use(self._methods, origin, request):
            return "web pages may not use this method; add it to `cors.allowed_methods`"
        return None

    def _knows(self, host: bytes | None) -> bool:
        return host is not None and host.lower() in self._hosts

    def _allows(self, origin: bytes) -> bool:
        return self._any_origin or origin in self._origins or _host_of(origin) in self._hosts

    def _may_use(self, methods: bytes, origin: bytes, request: Request) -> bool:
        """Browsers go on with GET and POST whatever an answer lists, so what is not allowed is refused."""
        wanted = request.method
        if wanted == b"OPTIONS":
            wanted = request.header(b"access-control-request-method") or wanted
        if wanted in methods.split(b", "):
            return True
        own = _host_of(origin)  # our own pages are no strangers, under whatever name they were found
        return own is not None and (own in self._hosts or own == (request.header(b"host") or b"").lower())

    def headers_for(self, request: Request) -> Headers:
        """What lets a page that may call us also read our answers."""
        origin = request.header(b"origin")
        if origin is None:
            return ()
        headers = self._cors.get(origin)
        if headers is None:
            headers = (
                (b"access-control-allow-origin", origin),
                (b"access-control-expose-headers", _EXPOSED),
                (b"vary", b"origin"),
            )
            if len(self._cors) < 1000:
                self._cors[origin] = headers
        return headers

    def preflight(self, request: Request) -> Headers:
        """The answer to a browser that asks before it sends; it carries no credentials and needs none."""
        wanted = request.header(b"access-control-request-headers") or b"content-type"
        return (
            *self.headers_for(request),
            (b"access-control-allow-methods", _METHODS if self._methods is None else self._methods),
            (b"access-control-allow-headers", _clean(wanted) if self._headers is None else self._headers),
            (b"access-control-max-age", _PREFLIGHT_SECONDS),
        )


def _list(names: Sequence[str]) -> bytes:
    return ", ".join(names).encode()


def _host_of(origin: bytes) -> bytes | None:
    try:
        return urlsplit(origin.decode("latin-1")).netloc.lower().encode()
    except ValueError:  # not an address at all, such as a bracket that is never closed
        return None


def _known_hosts(host: str, port: int, public_url: str | None) -> frozenset[bytes]:
    own = (_bracketed(host), *(_LOOPBACK_NAMES if is_loopback(host) else ()))
    names = {f"{name}:{port}" for name in own}
    if port in (80, 443):
        names.update(own)
    if public_url is not None:
        public = urlsplit(public_url)
        name = _bracketed(public.hostname or "")
        default = 443 if public.scheme == "https" else 80
        names.add(f"{name}:{public.port or default}")
        if public.port in (None, default):
            names.add(name)
    return frozenset(name.lower().encode() for name in names)


def _bracketed(host: str) -> str:
    """A host as it stands before a port."""
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def _clean(value: bytes) -> bytes:
    """Only what can be a list of header names is repeated."""
    return bytes(byte for byte in value[:1000] if byte in _NAME_LIST_BYTES)
