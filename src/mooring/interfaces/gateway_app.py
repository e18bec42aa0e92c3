"""Every address of the gateway, and who answers it."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from time import monotonic
from typing import Any, Final

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from mooring.gateway.dispatch import Dispatcher
from mooring.gateway.health import State
from mooring.gateway.principal import ANONYMOUS, NOBODY, Caller
from mooring.gateway.server import Server
from mooring.gateway.sessions import SessionTable
from mooring.interfaces import mcp_http, mcp_sse
from mooring.interfaces.door import Door, Place
from mooring.interfaces.mcp_http import McpEndpoint, names_modern, refuse
from mooring.interfaces.mcp_sse import SseEndpoint
from mooring.interfaces.metrics import MetricsPage
from mooring.interfaces.way_out import WayOut
from mooring.interfaces.web_guard import WebGuard
from mooring.transports.event_streams import EventOutlet
from mooring.transports.http_endpoint import Buffered, Endpoint
from mooring.transports.http_forwarded import parse_forwarded
from mooring.transports.http_reply import Reply
from mooring.transports.http_request import Request
from mooring.transports.loopback import is_loopback

JSON: Final = ((b"content-type", b"application/json"),)
Headers = tuple[tuple[bytes, bytes], ...]
Handler = Callable[[Request, Reply, Headers, Caller], None]


API: Final = b"/api/"
ADMIN_SCOPE: Final = "mooring:admin"
"""What a caller over TCP must hold for the API: whoever may run commands here may do everything."""


class Rules(Struct, frozen=True):
    """What the configuration says about requests, whatever server they are for."""

    guard: WebGuard
    max_body_bytes: int
    trust_proxy_headers: bool
    api_over_tcp: bool = False
    """Only where callers prove who they are: whoever uses the API can run commands."""
    metrics: Callable[[], str] | None = None
    door: Door | None = None
    place_of: Callable[[str], Place] | None = None
    links_need_credentials: bool = False
    """Whoever follows a signed link must also prove to be the one it was given to."""
    documents: dict[bytes, Buffered] = field(default_factory=dict[bytes, Buffered])
    mounts: dict[bytes, bytes] = field(default_factory=dict[bytes, bytes])
    """Further paths of servers, and the ones they stand for."""
    doors: dict[str, Door] = field(default_factory=dict[str, Door])
    """Servers that have a door of their own."""
    guards: dict[bytes, WebGuard] = field(default_factory=dict[bytes, WebGuard])
    """Paths of servers that more web pages may call."""

    def door_of(self, server_id: str) -> Door | None:
        return self.doors.get(server_id, self.door)


class _Endpoints(Struct, frozen=True):
    """Who answers for one server; they outlive a change of the rules."""

    server: Server
    mcp: McpEndpoint
    sse: SseEndpoint


class GatewayApp:
    """Routes by exact path, found in one look-up however many servers there are."""

    def __init__(
        self,
        sessions: SessionTable,
        dispatcher: Dispatcher,
        rules: Rules,
        api: Callable[[Request, Reply, Caller], None],
    ) -> None:
        self._sessions = sessions
        self._dispatcher = dispatcher
        self._api = api
        self._endpoints: dict[str, _Endpoints] = {}
        self._outgoing: dict[str, _Endpoints] = {}
        """Servers that others have taken the place of, or none, while their last calls end."""
        self._outgoing_mounts: dict[bytes, bytes] = {}
        self._streams: set[EventOutlet] = set()
        self._not_found = Buffered(_not_found, rules.max_body_bytes)
        self._foreign = Buffered(_another_users, rules.max_body_bytes)
        self._own_users = frozenset({0, os.getuid()}) if hasattr(os, "getuid") else frozenset[int]()
        self._preflight = Buffered(self._answer_preflight, 0)
        self._prefixes: list[tuple[bytes, Endpoint]] = []
        self._routes: dict[bytes, Buffered] = {}
        self.use(rules)

    def use(self, rules: Rules) -> None:
        """From now on these rules hold, for every server there is."""
        self._rules = rules
        self._guard = rules.guard
        self._refused = Buffered(self._refuse, rules.max_body_bytes)
        self._api_endpoint = Buffered(self._serve_api, rules.max_body_bytes)
        for route in self._routes.values():
            route.repeats = False  # open connections must ask again
        self._routes = dict(rules.documents)
        for name in self._endpoints.keys() | self._outgoing.keys():
            self._route(name)
        self._routes[b"/healthz"] = Buffered(self._health, 0)
        self._routes[b"/readyz"] = Buffered(_ready, 0)
        if rules.metrics is not None:
            self._routes[b"/metrics"] = Buffered(MetricsPage(rules.metrics, self._may_see_more).handle, 0)

    @property
    def rules(self) -> Rules:
        return self._rules

    def add_prefix(self, prefix: bytes, endpoint: Endpoint) -> None:
        """Everything below this path is answered there."""
        self._prefixes.append((prefix, endpoint))

    def add(self, server: Server, document: tuple[bytes, Buffered] | None = None) -> None:
        """Serve one more."""
        endpoints = _Endpoints(
            server,
            McpEndpoint(server, self._sessions, self._dispatcher),
            SseEndpoint(server, self._sessions, self._dispatcher, self._streams),
        )
        self._endpoints[server.id] = endpoints
        self._route(server.id)
        if document is not None:
            self._routes[document[0]] = document[1]

    def remove(self, server_id: str) -> None:
        """Serve it no more: its addresses are as if they had never been."""
        if self._endpoints.pop(server_id, None) is not None:
            self._unroute(server_id)
            if server_id in self._outgoing:
                self._route(server_id)

    def see_out(self, server_id: str) -> None:
        """Nothing new begins there. Until they part, its clients can answer and cancel what still runs."""
        self._outgoing[server_id] = self._endpoints[server_id]
        own = b"/mcp/" + server_id.encode()
        self._outgoing_mounts |= {path: to for path, to in self._rules.mounts.items() if to == own}
        self.remove(server_id)

    def part(self, server: Server) -> None:
        """What ran there has ended."""
        outgoing = self._outgoing.get(server.id)
        if outgoing is not None and outgoing.server is server:
            del self._outgoing[server.id]
            own = b"/mcp/" + server.id.encode()
            self._outgoing_mounts = {path: to for path, to in self._outgoing_mounts.items() if to != own}
            self._route(server.id)

    def _unroute(self, server_id: str) -> None:
        path = b"/mcp/" + server_id.encode()
        for route in [found for found in self._routes if found == path or found.endswith(path)]:
            self._routes.pop(route).repeats = False
        for end in (b"/sse", b"/messages"):
            del self._routes[path + end]

    def _route(self, server_id: str) -> None:
        endpoints, outgoing = self._endpoints.get(server_id), self._outgoing.get(server_id)
        if outgoing is not None:
            self._route_at_length(server_id, self._handlers_beside(outgoing, endpoints))
        elif endpoints is None:
            self._unroute(server_id)
        elif endpoints.server.forwards or endpoints.server.requires:
            self._route_at_length(server_id, _handlers_of(endpoints))
        else:
            self._route_shortly(endpoints)

    def _route_shortly(self, endpoints: _Endpoints) -> None:
        mcp, sse, rules = endpoints.mcp, endpoints.sse, self._rules
        path, most = b"/mcp/" + endpoints.server.id.encode(), rules.max_body_bytes
        door = rules.door_of(endpoints.server.id)
        if door is not None and rules.place_of is not None:
            place = rules.place_of(endpoints.server.id)
            handle = mcp.shortened(
                partial(self._admit, door, place, mcp.handle), partial(door.readmits, place)
            )
            self._routes[path] = Buffered(handle, most, repeats=True)
            for end, handle in ((b"/sse", sse.open), (b"/messages", sse.post)):
                self._routes[path + end] = Buffered(partial(self._admit, door, place, handle), most)
            return
        self._routes[path] = Buffered(mcp.shortened(partial(self._serve, mcp.handle)), most, repeats=True)
        self._routes[path + b"/sse"] = Buffered(partial(self._serve, sse.open), 0)
        self._routes[path + b"/messages"] = Buffered(partial(self._serve, sse.post), most)

    def _route_at_length(self, server_id: str, handlers: dict[bytes, Handler]) -> None:
        """As above, where every request has to be looked at."""
        path, rules = b"/mcp/" + server_id.encode(), self._rules
        door = rules.door_of(server_id)
        for end, inner in handlers.items():
            handle = partial(self._serve, inner)
            if door is not None and rules.place_of is not None:
                handle = partial(self._admit, door, rules.place_of(server_id), inner)
            self._routes[path + end] = Buffered(handle, rules.max_body_bytes)

    def _handlers_beside(self, outgoing: _Endpoints, current: _Endpoints | None) -> dict[bytes, Handler]:
        """What concerns the last calls of a server goes there; the rest to its successor, if it has one."""
        way_out, own = WayOut(outgoing.server, self._sessions), _handlers_of(outgoing)
        if current is not None:
            others = _handlers_of(current)
        else:
            others = {**dict.fromkeys(own, _nothing), b"": way_out.for_retries(own[b""], _nothing)}
        for end, session_of in ((b"", mcp_http.session_of), (b"/messages", mcp_sse.session_of)):
            others[end] = way_out.for_sessions(session_of, own[end], others[end])
        return others

    def accept(self, request: Request) -> Endpoint:
        if request.peer_uid is not None and request.peer_uid not in self._own_users:
            return self._foreign
        if self._guard.refusal(request) is not None and not self._is_excused(request):
            return self._refused
        route = self._routes.get(request.path) or self._mounted(request.path)
        if route is not None:
            if request.method == b"OPTIONS":
                return self._preflight
            return route
        if request.path.startswith(API) and (request.peer == "unix" or self._rules.api_over_tcp):
            return self._api_endpoint
        for prefix, endpoint in self._prefixes:
            if request.path.startswith(prefix):
                return self._preflight if _is_preflight(request) else endpoint
        return self._not_found

    def _mounted(self, path: bytes) -> Buffered | None:
        stands_for = self._rules.mounts.get(path) or self._outgoing_mounts.get(path)
        return None if stands_for is None else self._routes.get(stands_for)

    def _is_excused(self, request: Request) -> bool:
        """Whether this server lets in a web page that others do not."""
        own = self._rules.guards.get(request.path)
        return own is not None and own.refusal(request) is None

    def route(self, path: bytes) -> Buffered | None:
        """Who answers at exactly this path."""
        return self._routes.get(path)

    def _serve_api(self, request: Request, reply: Reply) -> None:
        """On the socket for its own user, over TCP for whoever proves to be an administrator."""
        door, place_of = self._rules.door, self._rules.place_of
        if request.peer == "unix":
            self._api(request, reply, NOBODY)
        elif door is None or place_of is None:
            _not_found(request, reply)
        else:
            place = replace(place_of("api"), scopes=(ADMIN_SCOPE,))
            door.admit(place, request, reply, (), partial(self._api, request, reply))

    def keep_alive(self, now: float) -> None:
        """Called several times a second: what it costs is a matter of the streams, not of the servers."""
        for stream in self._streams:
            stream.tick(now)

    def _serve(self, handler: Handler, request: Request, reply: Reply) -> None:
        extra = self._guard.headers_for(request) if request.header(b"origin") else ()
        handler(request, reply, extra, self._stranger(request))

    def _stranger(self, request: Request) -> Caller:
        """Who sends a request where nobody asks who it is. What a modern client leaves with us is counted by
        address; a legacy one has a session."""
        if not names_modern(request):
            return NOBODY
        known = request.memo.admitted
        if not isinstance(known, Caller):
            known = request.memo.admitted = Caller(ANONYMOUS, self._address_of(request))
        return known

    def _address_of(self, request: Request) -> str:
        return parse_forwarded(request)[0] if self._rules.trust_proxy_headers else request.peer

    def _admit(self, door: Door, place: Place, handler: Handler, request: Request, reply: Reply) -> None:
        extra = self._guard.headers_for(request)
        door.admit(place, request, reply, extra, partial(handler, request, reply, extra))

    def _refuse(self, request: Request, reply: Reply) -> None:
        why = self._guard.refusal(request) or "refused"
        reply.send(403, JSON, msgspec.json.encode({"error": why}))

    def _answer_preflight(self, request: Request, reply: Reply) -> None:
        reply.send(204, self._guard.preflight(request), b"")

    @property
    def _servers(self) -> list[Server]:
        return [endpoints.server for endpoints in self._endpoints.values()]

    def _health(self, request: Request, reply: Reply) -> None:
        """Alive; and for authenticated callers (or on this machine, without it) how each server is."""
        now = monotonic()
        states = {server.id: server.upstream.health.state(now) for server in self._servers}
        reasons = {server.id: server.reasons(now) for server in self._servers}
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
        if self._rules.door is not None and not self._rules.door.is_open:
            return self._rules.door.recognises(request)
        return is_loopback(self._address_of(request))


def _handlers_of(endpoints: _Endpoints) -> dict[bytes, Handler]:
    """Who answers at each of its paths, with the headers of its clients that it sees or wants to be there."""
    server, mcp, sse = endpoints.server, endpoints.mcp, endpoints.sse
    handlers: dict[bytes, Handler] = {b"": mcp.handle, b"/sse": sse.open, b"/messages": sse.post}
    if server.forwards or server.requires:
        return {end: partial(_forwarding, server, handle) for end, handle in handlers.items()}
    return handlers


def _forwarding(
    server: Server, handle: Handler, request: Request, reply: Reply, extra: Headers, caller: Caller
) -> None:
    """With the headers that go on to the server; a value that could be more than one line does not."""
    names = server.forwards
    for required in server.requires:
        if not request.header(required.lower().encode()):
            refuse(
                reply, 400, f"`{server.id}` needs the header `{required}`: send it with every request", extra
            )
            return
    lines = [
        b"%b: %b\r\n" % (name, value)
        for name, value in request.headers
        if name in names and not any(byte in value for byte in b"\r\n\0")
    ]
    handle(request, reply, extra, replace(caller, forwarded=b"".join(lines)))


def _is_preflight(request: Request) -> bool:
    return request.method == b"OPTIONS" and request.header(b"access-control-request-method") is not None


def _ready(_request: Request, reply: Reply) -> None:
    reply.send(200, JSON, b'{"status":"ready"}')


def _another_users(_request: Request, reply: Reply) -> None:
    reply.send(403, JSON, b'{"error":{"code":"forbidden","message":"this is another user\'s gateway"}}')


def _nothing(request: Request, reply: Reply, _extra: Headers, _caller: Caller) -> None:
    _not_found(request, reply)


def _not_found(_request: Request, reply: Reply) -> None:
    reply.send(404, JSON, b'{"error":"nothing here; servers are at /mcp/<id>"}')
