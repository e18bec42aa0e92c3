"""`/metrics`: for Prometheus, from this machine or with a credential."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from mooring.transports.http_reply import Reply
from mooring.transports.http_request import Request

_HEADERS: Final = (
    (b"content-type", b"text/plain; version=0.0.4; charset=utf-8"),
    (b"cache-control", b"no-store"),
)


class MetricsPage:
    """The page; `text` renders it, `may_see` decides who gets it."""

    def __init__(self, text: Callable[[], str], may_see: Callable[[Request], bool]) -> None:
        self._text = text
        self._may_see = may_see

    def handle(self, request: Request, reply: Reply) -> None:
        if not self._may_see(request):
            reply.send(401, ((b"www-authenticate", b'Bearer realm="mooring"'),), b"")
        elif request.method not in (b"GET", b"HEAD"):
            reply.send(405, ((b"allow", b"GET"),), b"")
        else:
            reply.send(200, _HEADERS, self._text().encode())
