"""A server at an address of its own, with the paths of ToolHive's proxies: `/mcp`, `/sse`, `/messages`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import msgspec

from mooring.interfaces.web_guard import WebGuard
from mooring.interfaces.well_known import PREFIX
from mooring.transports.http_endpoint import Buffered, Endpoint
from mooring.transports.http_reply import Reply
from mooring.transports.http_request import Request

Route: TypeAlias = Callable[[bytes], Buffered | None]
"""Who answers at a path of the gateway, if anybody."""
JSON: Final = ((b"content-type", b"application/json"),)


class OwnAddress:
    """Every path leads to one of the gateway's own; nothing of other servers is to be had here."""

    def __init__(self, server_id: str, guard: WebGuard, route: Route, max_body_bytes: int) -> None:
        own, described = f"/mcp/{server_id}".encode(), PREFIX.encode()
        self._guard = guard
        self._route = route
        self._paths = {
            b"/mcp": own,
            b"/sse": own + b"/sse",
            b"/messages": own + b"/messages",
            own: own,
            own + b"/sse": own + b"/sse",
            own + b"/messages": own + b"/messages",  # what the stream tells its clients
            b"/health": b"/healthz",
            b"/metrics": b"/metrics",
            described: described + own,
            described + b"/mcp": described + own,
            described + own: described + own,
        }
        self._refused = Buffered(self._refuse, max_body_bytes)
        self._preflight = Buffered(self._answer_preflight, 0)
        self._nothing = Buffered(_not_found, max_body_bytes)

    def use(self, guard: WebGuard) -> None:
        """From now on this says which web pages may call."""
        self._guard = guard

    def accept(self, request: Request) -> Endpoint:
        if self._guard.refusal(request) is not None:
            return self._refused
        path = self._paths.get(request.path)
        route = None if path is None else self._route(path)
        if route is None:
            return self._nothing
        return self._preflight if request.method == b"OPTIONS" else route

    def _refuse(self, request: Request, reply: Reply) -> None:
        reply.send(403, JSON, msgspec.json.encode({"error": self._guard.refusal(request) or "refused"}))

    def _answer_preflight(self, request: Request, reply: Reply) -> None:
        reply.send(204, self._guard.preflight(request), b"")


def _not_found(_request: Request, reply: Reply) -> None:
    reply.send(404, JSON, b'{"error":"nothing here; the server is at /mcp"}')
