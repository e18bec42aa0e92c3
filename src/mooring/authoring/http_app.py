"""A server over HTTP: Streamable HTTP of both eras on one path, HTTP+SSE beside it."""

from __future__ import annotations

import asyncio
import secrets
from time import monotonic
from typing import Final

from mooring.authoring.channel import BatchSink
from mooring.authoring.engine import Engine
from mooring.authoring.http_settings import HttpSettings
from mooring.authoring.http_sink import PostSink, accepts_streams, refuse
from mooring.authoring.http_sse import SseEndpoint
from mooring.authoring.peers import Session
from mooring.authoring.session_streams import Headers, SessionStreams, open_stream
from mooring.authoring.web_guard import WebGuard
from mooring.errors import HeaderMismatch, InvalidRequest, RpcError, http_status_of
from mooring.protocol import jsonrpc, meta, routing_headers
from mooring.protocol.jsonrpc import Envelope
from mooring.protocol.lifecycle import Phase
from mooring.protocol.versions import LEGACY_VERSIONS, V2026_07_28, allows_batches, allows_priming_events
from mooring.transports.http_endpoint import Buffered, Endpoint
from mooring.transports.http_reply import Reply
from mooring.transports.http_request import Request

MAX_SESSIONS: Final = 10_000
"""Sessions cost memory before their client has proved anything."""
TICK_SECONDS: Final = 0.25
_MODERN_META: Final = meta.PROTOCOL_VERSION.encode()
_MODERN_FROM: Final = V2026_07_28.encode()
_LEGACY: Final = frozenset(version.encode() for version in LEGACY_VERSIONS)


class _HttpClient:
    """A legacy session over Streamable HTTP."""

    def __init__(self, engine: Engine) -> None:
        self.id = secrets.token_urlsafe(24).encode()
        self.streams = SessionStreams()
        self.session: Session = engine.open_session(self.streams.push)
        self.last_seen = monotonic()


class HttpApp:
    """Routes requests, and owns the sessions that come in over HTTP."""

    def __init__(self, engine: Engine, settings: HttpSettings) -> None:
        self._engine = engine
        self._settings = settings
        self._guard = WebGuard(settings.host, 0, settings.public_url, settings.allowed_origins)
        self._clients: dict[bytes, _HttpClient] = {}
        self._sse = SseEndpoint(engine, settings.messages_path)
        self._open: set[PostSink] = set()
        self._ticking: asyncio.TimerHandle | None = None
        self._sweeping: asyncio.TimerHandle | None = None
        limit = settings.max_body_bytes
        self._routes = {
            settings.path.encode(): Buffered(self._serve_mcp, limit),
            settings.sse_path.encode(): Buffered(self._serve_sse, 0),
            settings.messages_path.encode(): Buffered(self._serve_messages, limit),
        }
        self._not_found = Buffered(_send_not_found, limit)
        self._refused = Buffered(self._send_refusal, limit)
        self._preflight = Buffered(self._send_preflight, 0)
        self.url = ""

    def open(self, port: int) -> None:
        """The port is known: from now on requests can come."""
        settings = self._settings
        self._guard = WebGuard(settings.host, port, settings.public_url, settings.allowed_origins)
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        scheme = "https" if settings.tls is not None else "http"
        base = settings.public_url or f"{scheme}://{host}:{port}"
        self.url = base.rstrip("/") + settings.path
        self._sweep()

    def close(self) -> None:
        for timer in (self._ticking, self._sweeping):
            if timer is not None:
                timer.cancel()
        for client in list(self._clients.values()):
            self._end(client)
        self._sse.close()

    def accept(self, request: Request) -> Endpoint:
        if self._guard.refuses(request) is not None:
            return self._refused
        route = self._routes.get(request.path)
        if route is None:
            return self._not_found
        return self._preflight if request.method == b"OPTIONS" else route

    # Streamable HTTP

    def _serve_mcp(self, request: Request, reply: Reply) -> None:
        headers = self._guard.headers_for(request)
        if request.method == b"POST":
            self._post(request, reply, headers)
        elif request.method not in (b"GET", b"DELETE") or _names_modern(request):
            allowed = b"POST, OPTIONS" if _names_modern(request) else b"GET, POST, DELETE, OPTIONS"
            reply.send(405, ((b"allow", allowed), *headers), b"")
        elif request.method == b"GET":
            self._get(request, reply, headers)
        else:
            client = self._find(request, reply, headers)
            if client is not None:
                self._end(client)
                reply.send(200, headers, b"")

    def _post(self, request: Request, reply: Reply, headers: Headers) -> None:
        kind = request.header(b"content-type")
        if kind is None or kind[:16].lower() != b"application/json":
            refuse(reply, 415, InvalidRequest("the body must be `application/json`"), headers)
            return
        try:
            jsonrpc.check_text(request.body)
            if jsonrpc.is_batch(request.body):
                self._batch(request, reply, headers)
                return
            envelope = jsonrpc.decode(request.body)
        except RpcError as error:
            refuse(reply, 400, error, headers)
            return
        if _is_modern(request, envelope):
            self._modern(request, reply, envelope, headers)
        else:
            self._legacy(request, reply, envelope, headers)

    def _legacy(self, request: Request, reply: Reply, envelope: Envelope, headers: Headers) -> None:
        session_id = request.header(b"mcp-session-id")
        if envelope.method == "initialize" and (session_id is None or session_id not in self._clients):
            self._initialize(reply, envelope, headers)
            return
        client = self._find(request, reply, headers, envelope)
        if client is None:
            return
        version = request.header(b"mcp-protocol-version")
        if version is not None and version not in _LEGACY:
            shown = version[:64].decode("latin-1")
            refuse(reply, 400, InvalidRequest(f"unsupported `MCP-Protocol-Version`: {shown}"), headers)
            return
        sink = PostSink(reply, headers, client.streams)
        if self._settings.always_stream and envelope.is_request:
            sink.open()
        self._engine.legacy(client.session, envelope, sink)
        if not envelope.is_request:
            reply.send(202, headers, b"")
        else:
            self._watch(sink)

    def _initialize(self, reply: Reply, envelope: Envelope, headers: Headers) -> None:
        if not envelope.id:
            refuse(reply, 400, InvalidRequest("`initialize` is a request and needs an `id`"), headers)
            return
        if len(self._clients) >= MAX_SESSIONS:
            refuse(
                reply, 503, InvalidRequest("too many sessions are open; try again later"), headers, envelope
            )
            return
        client = _HttpClient(self._engine)
        sink = PostSink(reply, ((b"mcp-session-id", client.id), *headers))
        self._engine.legacy(client.session, envelope, sink)
        if client.session.phase is Phase.INITIALIZED:
            client.streams.primes = allows_priming_events(client.session.version)
            self._clients[client.id] = client
        else:
            self._engine.close_session(client.session)

    def _batch(self, request: Request, reply: Reply, headers: Headers) -> None:
        if _names_modern(request):
            raise InvalidRequest("this revision has no batches; send one message per POST")
        client = self._find(request, reply, headers)
        if client is None:
            return
        if not allows_batches(client.session.version):
            raise InvalidRequest(
                f"revision {client.session.version} has no batches; send one message per POST"
            )
        messages = [jsonrpc.decode(part) for part in jsonrpc.split_batch(request.body)]
        if any(envelope.method == "initialize" for envelope in messages):
            raise InvalidRequest("`initialize` cannot be part of a batch")
        requests = sum(1 for envelope in messages if envelope.is_request)
        inner = PostSink(reply, headers, client.streams)
        sink = BatchSink(inner, requests)
        for envelope in messages:
            self._engine.legacy(client.session, envelope, sink)
        if not requests:
            reply.send(202, headers, b"")
        else:
            self._watch(inner)

    def _modern(self, request: Request, reply: Reply, envelope: Envelope, headers: Headers) -> None:
        if envelope.method is None:
            refusal = InvalidRequest("a client sends requests and notifications, not responses")
            refuse(reply, 400, refusal, headers)
            return
        if not envelope.id:
            reply.send(202, headers, b"")
            return
        try:
            params = meta.read_params(envelope.params)
            read = meta.read_meta(params)
            version = meta.require_modern(read)
            named = routing_headers.NAMED_BY.get(envelope.method, "")
            raw = {"name": params.name, "uri": params.uri}.get(named)
            name = meta.text(raw) if raw else None
            routing_headers.check(request.headers, version, envelope.method, name)
            meta.require_spoken(version)
            given = _param_headers(request)
        except RpcError as error:
            refuse(reply, http_status_of(error.code), error, headers, envelope)
            return
        if envelope.method == "subscriptions/listen" and not accepts_streams(reply):
            refuse(reply, 406, InvalidRequest("accept `text/event-stream` to listen"), headers, envelope)
            return
        sink = PostSink(reply, headers)
        call = self._engine.modern(envelope, read, version, sink, {}, given)
        if call is not None and not sink.done:
            reply.on_closed = call.cancel
            self._watch(sink)

    def _get(self, request: Request, reply: Reply, headers: Headers) -> None:
        accepted = request.header(b"accept") or b""
        if b"text/event-stream" not in accepted and b"*/*" not in accepted:
            advice = InvalidRequest("a GET here opens a stream: accept `text/event-stream`")
            refuse(reply, 406, advice, headers)
            return
        client = self._find(request, reply, headers)
        if client is None:
            return
        last = request.header(b"last-event-id")
        if last is None:
            client.streams.open_standalone(open_stream(reply, headers))
            return
        found = client.streams.find(last)
        if found is None:
            advice = InvalidRequest("that event is not known any more; open a stream without `Last-Event-ID`")
            refuse(reply, 400, advice, headers)
            return
        log, event = found
        log.attach(open_stream(reply, headers), event)

    def _find(
        self, request: Request, reply: Reply, headers: Headers, envelope: Envelope | None = None
    ) -> _HttpClient | None:
        session_id = request.header(b"mcp-session-id")
        client = self._clients.get(session_id) if session_id is not None else None
        if client is not None:
            client.last_seen = monotonic()
            return client
        if session_id is None:
            missing = InvalidRequest("`Mcp-Session-Id` is missing; start with `initialize`")
            refuse(reply, 400, missing, headers, envelope)
        else:
            gone = InvalidRequest("no such session; start again with `initialize`")
            refuse(reply, 404, gone, headers, envelope)
        return None

    def _end(self, client: _HttpClient) -> None:
        self._clients.pop(client.id, None)
        self._engine.close_session(client.session)
        client.streams.close()

    # HTTP+SSE

    def _serve_sse(self, request: Request, reply: Reply) -> None:
        self._sse.open(request, reply, self._guard.headers_for(request))

    def _serve_messages(self, request: Request, reply: Reply) -> None:
        self._sse.post(request, reply, self._guard.headers_for(request))

    # Time

    def _watch(self, sink: PostSink) -> None:
        if not sink.done:
            self._open.add(sink)
            if self._ticking is None:
                self._ticking = asyncio.get_running_loop().call_later(TICK_SECONDS, self._tick)

    def _tick(self) -> None:
        now = monotonic()
        self._ticking = None
        self._open = {sink for sink in self._open if not sink.done}
        for sink in self._open:
            sink.tick(now)
        if self._open:
            self._ticking = asyncio.get_running_loop().call_later(TICK_SECONDS, self._tick)

    def _sweep(self) -> None:
        now = monotonic()
        for client in list(self._clients.values()):
            client.streams.sweep(now)
            busy = client.session.running or client.streams.in_use
            if not busy and now - client.last_seen > self._settings.session_idle_seconds:
                self._end(client)
        self._sse.keep_alive(now)
        self._sweeping = asyncio.get_running_loop().call_later(self._settings.sweep_seconds, self._sweep)

    # Refusals

    def _send_refusal(self, request: Request, reply: Reply) -> None:
        refuse(reply, 403, InvalidRequest(self._guard.refuses(request) or "refused"), ())

    def _send_preflight(self, request: Request, reply: Reply) -> None:
        reply.send(204, self._guard.preflight(request), b"")


def _send_not_found(_: Request, reply: Reply) -> None:
    refuse(reply, 404, InvalidRequest("nothing here"), ())


def _names_modern(request: Request) -> bool:
    version = request.header(b"mcp-protocol-version")
    return version is not None and version >= _MODERN_FROM


def _is_modern(request: Request, envelope: Envelope) -> bool:
    """By its header, or by metadata that only a modern client sends; a legacy session stays one."""
    version = request.header(b"mcp-protocol-version")
    if version is not None:
        return version >= _MODERN_FROM and version not in _LEGACY
    if request.header(b"mcp-session-id") is not None or envelope.method == "initialize":
        return False
    return bool(envelope.params) and _MODERN_META in bytes(envelope.params)


def _param_headers(request: Request) -> bytes:
    """The `Mcp-Param-*` headers; one that is given twice says nothing."""
    given = [header for header in request.headers if header[0].startswith(routing_headers.PARAM_PREFIX)]
    if len({name for name, _ in given}) != len(given):
        raise HeaderMismatch("header mismatch: an `Mcp-Param-*` header is given more than once")
    return b"".join(b"%b: %b\r\n" % header for header in given)
