"""Every address of the gateway, and who answers it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import Any, Final

import msgspec

from mooring.config.rules import is_loopback
from mooring.gateway.dispatch import Dispatcher
from mooring.gateway.health import State
from mooring.gateway.principal import NOBODY, Caller
from mooring.gateway.server import Server
from mooring.gateway.sessions import SessionTable
from mooring.interfaces.control import ControlApi
from mooring.interfaces.door import Door, Place
from mooring.interfaces.mcp_http import McpEndpoint
from mooring.interfaces.mcp_sse import SseEndpoint
from mooring.interfaces.web_guard import WebGuard
from mooring.transports.http_endpoint import Buffered, Endpoint
from mooring.transports.http_forwarded import parse_forwarded
from mooring.transports.http_reply import Reply
from mooring.transports.http_request import Request

JSON: Final = ((b"content-type", b"application/json"),)
Headers = tuple[tuple[bytes, bytes], ...]
Handler = Callable[[Request, Reply, Headers, Caller], None]


class GatewayApp:
    """Routes by exact path, found in one look-up however many servers there are."""

    def __init__(
        self,
        servers: dict[str, Server],
        sessions: SessionTable,
        dispatcher: Dispatcher,
        guard: WebGuard,
        control: ControlApi,
        *,
        max_body_bytes: int,
        trust_proxy_headers: bool,
        door: Door | None = None,
        places: dict[str, Place] | None = None,
        documents: dict[bytes, Buffered] | None = None,
    ) -> None:
        self._guard = guard
        self._control = control
        self._servers = servers
        self._trusts_proxy = trust_proxy_headers
        self._sse: list[SseEndpoint] = []
        self._door = door
        self._routes: dict[bytes, Buffered] = dict(documents or {})
        self._not_found = Buffered(_not_found, max_body_bytes)
        self._refused = Buffered(self._refuse, max_body_bytes)
        self._control_endpoint = Buffered(control.handle, max_body_bytes)
        self._preflight = Buffered(self._answer_preflight, 0)
        for server in servers.values():
            path = b"/mcp/" + server.id.encode()
            endpoint = McpEndpoint(server, sessions, dispatcher)
            sse = SseEndpoint(server, sessions, dispatcher)
            self._sse.append(sse)
            handler = endpoint.shortened(partial(self._serve, endpoint.handle))
            self._routes[path] = Buffered(handler, max_body_bytes, repeats=True)
            self._routes[path + b"/sse"] = Buffered(partial(self._serve, sse.open), 0)
            self._routes[path + b"/messages"] = Buffered(partial(self._serve, sse.post), max_body_bytes)
            if door is not None and places is not None:
                for end, handle in ((b"", endpoint.handle), (b"/sse", sse.open), (b"/messages", sse.post)):
                    behind = partial(self._admit, door, places[server.id], handle)
                    self._routes[path + end] = Buffered(behind, max_body_bytes)
        self._routes[b"/healthz"] = Buffered(self._health, 0)
        self._routes[b"/readyz"] = Buffered(_ready, 0)

    def accept(self, request: Request) -> Endpoint:
        if self._guard.refusal(request) is not None:
            return self._refused
        route = self._routes.get(request.path)
        if route is not None:
            if request.method == b"OPTIONS":
                return self._preflight
            return route
        if request.peer == "unix" and request.path.startswith(b"/api/v1/"):
            return self._control_endpoint
        return self._not_found

    def keep_alive(self, now: float) -> None:
        for sse in self._sse:
            sse.keep_alive(now)

    def _serve(self, handler: Handler, request: Request, reply: Reply) -> None:
        handler(request, reply, self._guard.headers_for(request) if request.header(b"origin") else (), NOBODY)

    def _admit(self, door: Door, place: Place, handler: Handler, request: Request, reply: Reply) -> None:
        extra = self._guard.headers_for(request)
        door.admit(place, request, reply, extra, partial(handler, request, reply, extra))

    def _refuse(self, request: Request, reply: Reply) -> None:
        why = self._guard.refusal(request) or "refused"
        reply.send(403, JSON, msgspec.json.encode({"error": why}))

    def _answer_preflight(self, request: Request, reply: Reply) -> None:
        reply.send(204, self._guard.preflight(request), b"")

    def _health(self, request: Request, reply: Reply) -> None:
        """Alive; and for authenticated callers (or on this machine, without it) how each server is."""
        now = monotonic()
        states = {server.id: server.upstream.health.state(now) for server in self._servers.values()}
        reasons = {server.id: server.reasons(now) for server in self._servers.values()}
        degraded = any(state is State.DOWN or reasons[name] for name, state in states.items())
        body: dict[str, Any] = {"status": "degraded" if degraded else "ok"}
        if self._may_see_more(request):
            body["servers"] = {
                name: {"state": state.value, "reasons": reasons[name]} for name, state in states.items()
            }
        reply.send(200, JSON, msgspec.json.encode(body))

    def _may_see_more(self, request: Request) -> bool:
        if request.peer == "unix":
            return True
        if self._door is not None:
            return self._door.recognises(request)
        address = parse_forwarded(request)[0] if self._trusts_proxy else request.peer
        return is_loopback(address)


def _ready(_request: Request, reply: Reply) -> None:
    reply.send(200, JSON, b'{"status":"ready"}')


def _not_found(_request: Request, reply: Reply) -> None:
    reply.send(404, JSON, b'{"error":"nothing here; servers are at /mcp/<id>"}')
