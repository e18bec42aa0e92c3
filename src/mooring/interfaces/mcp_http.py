"""The MCP endpoint over Streamable HTTP, both eras: parses what a client sent, and refuses what cannot be
meant."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import Final, cast

import msgspec
from msgspec import Raw

from mooring.errors import (
    HEADER_MISMATCH,
    HeaderMismatch,
    InvalidRequest,
    RpcError,
    SessionGone,
    http_status_of,
)
from mooring.gateway.clients import LegacyClient
from mooring.gateway.dispatch import Dispatcher
from mooring.gateway.principal import NOBODY, Caller
from mooring.gateway.server import Server
from mooring.gateway.sessions import SessionTable, TooManySessions
from mooring.gateway.sinks import BatchSink, PostSink
from mooring.protocol import jsonrpc, meta, routing_headers
from mooring.protocol.jsonrpc import Envelope
from mooring.protocol.versions import LEGACY_VERSIONS, V2026_07_28, allows_batches
from mooring.transports.event_streams import EventOutlet, parse_event_id
from mooring.transports.http_reply import Reply
from mooring.transports.http_request import Request

JSON: Final = ((b"content-type", b"application/json"),)
_JSON_TYPE: Final = b"application/json"
NOT_JSON: Final = "the body must be `application/json`"
_ONCE: Final = {
    b"mcp-session-id": "Mcp-Session-Id",
    b"mcp-protocol-version": "MCP-Protocol-Version",
    b"last-event-id": "Last-Event-ID",
}
ALLOW: Final = ((b"allow", b"GET, POST, DELETE, OPTIONS"),)
END_SECONDS: Final = 5.0
"""A server that does not hear of its client's end must not keep the client."""
ALLOW_POST: Final = ((b"allow", b"POST, OPTIONS"),)
Headers = tuple[tuple[bytes, bytes], ...]
Handler = Callable[[Request, Reply], None]
CallerOf = Callable[[Request], Caller | None]
_LEGACY_SPELLED: Final = frozenset(version.encode() for version in LEGACY_VERSIONS)
_MODERN_FROM: Final = V2026_07_28.encode()


class McpEndpoint:
    """`/mcp/<id>` of one server."""

    def __init__(self, server: Server, sessions: SessionTable, dispatcher: Dispatcher) -> None:
        self._server = server
        self._sessions = sessions
        self._dispatcher = dispatcher

    def handle(self, request: Request, reply: Reply, extra: Headers, caller: Caller = NOBODY) -> None:
        """`extra` are headers for whatever we answer (CORS)."""
        if len(request.first) != len(request.listed) and (twice := _given_twice(request)):
            refuse_rpc(reply, HeaderMismatch(f"`{twice}` is given more than once"), extra)
            return
        method = request.method
        if method == b"POST":
            self._post(request, reply, extra, caller)
        elif method == b"GET":
            self._get(request, reply, extra, caller)
        elif method == b"DELETE":
            self._delete(request, reply, extra, caller)
        else:
            reply.send(405, ALLOW + extra, b"")

    # POST

    def shortened(self, otherwise: Handler, caller_of: CallerOf | None = None) -> Handler:
        """A handler that does not look at a head again which it has seen to be of an open session.

        `caller_of` says who sends it, if the same is still let in; without a door everybody is.
        """

        def handle(request: Request, reply: Reply) -> None:
            seen = cast("tuple[LegacyClient, Caller] | None", request.memo.value)
            if seen is not None:
                client, caller = seen
                same = caller is (NOBODY if caller_of is None else caller_of(request))
                if same and client.lane is not None and client.lane.take(reply, request.body, caller):
                    return
            otherwise(request, reply)

        return handle

    def _post(self, request: Request, reply: Reply, extra: Headers, caller: Caller) -> None:
        body = request.body
        if not is_json(request):
            refuse(reply, 415, NOT_JSON, extra)
            return
        version = request.header(b"mcp-protocol-version")
        if not extra and self._goes_directly(request, reply, version, caller):
            return
        try:
            jsonrpc.check_text(body)
            if jsonrpc.is_batch(body):
                self._batch(request, reply, body, extra, caller)
                return
            envelope = jsonrpc.decode(body)
        except RpcError as error:
            refuse_rpc(reply, error, extra)
            return
        if _is_modern(request, version, envelope):
            self._modern(request, reply, envelope, extra, caller)
        else:
            self._legacy(request, reply, envelope, version, extra, caller)

    def _goes_directly(self, request: Request, reply: Reply, version: bytes | None, caller: Caller) -> bool:
        """Whether it is a small request of an open session that could be sent on at once, as one whose head
        was seen before. Connections that a proxy shares among clients bring another head each time."""
        session_id = request.header(b"mcp-session-id")
        if session_id is None or (version is not None and version not in _LEGACY_SPELLED):
            return False
        try:
            client = self._sessions.find(session_id, self._server, caller, monotonic())
        except SessionGone:
            return False
        if client.lane is None or not client.lane.take(reply, request.body, caller):
            return False
        request.memo.value = client, caller  # the next request with this head is of this session too
        return True

    def _legacy(
        self,
        request: Request,
        reply: Reply,
        envelope: Envelope,
        version: bytes | None,
        extra: Headers,
        caller: Caller,
    ) -> None:
        session_id = request.header(b"mcp-session-id")
        if envelope.method == "initialize" and (session_id is None or not self._is_open(session_id, caller)):
            self._initialize(request, reply, envelope, extra, caller)
            return
        client = self._find(session_id, reply, envelope, extra, caller)
        if client is None:
            return
        if version is not None and version not in _LEGACY_SPELLED:
            refuse(reply, 400, f"unsupported `MCP-Protocol-Version`: {_shown(version)}", extra)
            return
        tracer = self._server.tracer
        if tracer.active:
            tracer.message("client", "in", client.alias, request.body)
        if envelope.method is None:
            self._dispatcher.legacy_response(client, envelope)
            reply.send(202, extra, b"")
        elif not envelope.id:
            self._dispatcher.legacy_notification(self._server, client, envelope, request.body)
            reply.send(202, extra, b"")
        else:
            if not extra:  # the next request with this head is of this session too
                request.memo.value = client, caller
            sink = PostSink(reply, tracer, client.alias, client, extra)
            self._dispatcher.legacy_request(self._server, client, envelope, request.body, sink)

    def _is_open(self, session_id: bytes, caller: Caller) -> bool:
        try:
            self._sessions.find(session_id, self._server, caller, monotonic())
        except SessionGone:
            return False
        return True

    def _initialize(
        self, request: Request, reply: Reply, envelope: Envelope, extra: Headers, caller: Caller
    ) -> None:
        if not envelope.id:
            refuse(reply, 400, "`initialize` is a request and needs an `id`", extra)
            return
        try:
            client = self._sessions.create(self._server, monotonic(), caller=caller)
        except TooManySessions as error:
            refuse(reply, 503, str(error), extra, envelope.id)
            return
        tracer = self._server.tracer
        if tracer.active:
            tracer.message("client", "in", client.alias, request.body, "new session")
        sink = InitializeSink(
            reply,
            client.tracer,
            client.alias,
            None,
            extra,
            _sessions=self._sessions,
            _dispatcher=self._dispatcher,
            _client=client,
        )
        self._dispatcher.legacy_request(self._server, client, envelope, request.body, sink)

    def _find(
        self,
        session_id: bytes | None,
        reply: Reply,
        envelope: Envelope | None,
        extra: Headers,
        caller: Caller,
    ) -> LegacyClient | None:
        request_id = envelope.id if envelope is not None and envelope.method is not None else b""
        if session_id is None:
            refuse(reply, 400, "`Mcp-Session-Id` is missing; start with `initialize`", extra, request_id)
            return None
        try:
            return self._sessions.find(session_id, self._server, caller, monotonic())
        except SessionGone as error:
            refuse(reply, 404, str(error), extra, request_id)
            return None

    def _batch(self, request: Request, reply: Reply, body: bytes, extra: Headers, caller: Caller) -> None:
        if names_modern(request):
            raise InvalidRequest("this revision has no batches; send one message per POST")
        client = self._find(request.header(b"mcp-session-id"), reply, None, extra, caller)
        if client is None:
            return
        if not allows_batches(client.version):
            raise InvalidRequest(f"revision {client.version} has no batches; send one message per POST")
        messages = [(jsonrpc.decode(raw), bytes(raw)) for raw in jsonrpc.split_batch(body)]
        if any(envelope.method == "initialize" for envelope, _ in messages):
            raise InvalidRequest("`initialize` cannot be part of a batch")
        tracer = self._server.tracer
        requests = sum(1 for envelope, _ in messages if envelope.is_request)
        if not requests:
            reply.send(202, extra, b"")
        sink = BatchSink(
            PostSink(reply, tracer, client.alias, client, extra),
            requests,
        )
        for envelope, data in messages:
            if tracer.active:
                tracer.message("client", "in", client.alias, data)
            if envelope.method is None:
                self._dispatcher.legacy_response(client, envelope)
            elif not envelope.id:
                self._dispatcher.legacy_notification(self._server, client, envelope, data)
            else:
                self._dispatcher.legacy_request(self._server, client, envelope, data, sink)

    def _modern(
        self, request: Request, reply: Reply, envelope: Envelope, extra: Headers, caller: Caller
    ) -> None:
        tracer = self._server.tracer
        if tracer.active:
            tracer.message("client", "in", request.peer, request.body)
        if envelope.method is None:
            refuse(reply, 400, "a client sends requests and notifications, not responses", extra)
            return
        if not envelope.id:
            reply.send(202, extra, b"")
            return
        try:
            params = meta.read_params(envelope.params)
            read = meta.read_meta(params)
            head = _checked_head(request, envelope.method, params, read)
        except RpcError as error:
            refuse_rpc(reply, error, extra, envelope.id)
            return
        sink = PostSink(reply, tracer, request.peer, None, extra)
        self._dispatcher.modern_request(
            self._server,
            envelope,
            request.body,
            sink,
            {},
            params=params,
            read=read,
            version=head.version,
            headers=head.given,
            caller=caller,
        )

    # GET and DELETE: legacy sessions only

    def _get(self, request: Request, reply: Reply, extra: Headers, caller: Caller) -> None:
        if names_modern(request):
            reply.send(405, ALLOW_POST + extra, b"")
            return
        accepted = request.header(b"accept") or b""
        if b"text/event-stream" not in accepted and b"*/*" not in accepted:
            refuse(reply, 406, "a GET here opens a stream: accept `text/event-stream`", extra)
            return
        client = self._find(request.header(b"mcp-session-id"), reply, None, extra, caller)
        if client is None:
            return
        last = request.header(b"last-event-id")
        if last is not None:
            self._resume(client, last, reply, extra)
            return
        self._dispatcher.attach(self._server, client)  # first: it is written down before anybody is answered
        client.open_standalone(EventOutlet(reply, extra))

    def _resume(self, client: LegacyClient, last: bytes, reply: Reply, extra: Headers) -> None:
        place = parse_event_id(last)
        log = client.known_stream(place[0]) if place is not None else None
        if place is None or log is None or not log.can_replay_after(place[1]):
            refuse(
                reply, 400, "that event is not known (any more); open a stream without `Last-Event-ID`", extra
            )
            return
        if place[0] == 0:
            self._dispatcher.attach(self._server, client)
        log.attach(EventOutlet(reply, extra), place[1])

    def _delete(self, request: Request, reply: Reply, extra: Headers, caller: Caller) -> None:
        if names_modern(request):
            reply.send(405, ALLOW_POST + extra, b"")
            return
        client = self._find(request.header(b"mcp-session-id"), reply, None, extra, caller)
        if client is not None:
            closing = self._dispatcher.spawn(self._sessions.close(client))
            self._dispatcher.spawn(_say_ended(closing, reply, extra))


async def _say_ended(closing: asyncio.Task[None], reply: Reply, extra: Headers) -> None:
    """The answer means that nothing of a session comes back, whatever happens to the gateway after it."""
    await asyncio.wait([closing], timeout=END_SECONDS)
    if not reply.closed:
        reply.send(200, extra, b"")


class InitializeSink(PostSink, eq=False, kw_only=True):
    """The answer to `initialize`: it brings the session's id, or the session is taken back."""

    _sessions: SessionTable
    _dispatcher: Dispatcher
    _client: LegacyClient

    def answer(self, message: bytes, status: int = 200) -> None:
        if self._client.version and self._client.phase.value == "initialized":
            self._headers = (*self._headers, (b"mcp-session-id", self._client.session_id))
        else:
            self._dispatcher.spawn(self._sessions.close(self._client))
        super().answer(message, status)


def session_of(request: Request) -> bytes:
    """The session that a request is for; empty if it names none."""
    return request.header(b"mcp-session-id") or b""


def is_json(request: Request) -> bool:
    """Whether the body says to be what we read."""
    kind = request.header(b"content-type")
    if kind is None:
        return False
    return kind == _JSON_TYPE or kind.partition(b";")[0].rstrip().lower() == _JSON_TYPE


def _given_twice(request: Request) -> str | None:
    """A header that says which session or revision this is, if it says so more than once."""
    for name, label in _ONCE.items():
        if sum(1 for given, _ in request.listed if given == name) > 1:
            return label
    return None


def refuse(
    reply: Reply, status: int, message: str, extra: Headers = (), request_id: bytes | object = b""
) -> None:
    """An HTTP error with a JSON-RPC error in its body."""
    raw = InvalidRequest(message).encode()
    reply.send(status, JSON + extra, jsonrpc.error(bytes(request_id), raw))  # type: ignore[call-overload]


def refuse_rpc(reply: Reply, error: RpcError, extra: Headers, request_id: bytes | object = b"") -> None:
    status = http_status_of(error.code)
    body = jsonrpc.error(bytes(request_id), error.encode())  # type: ignore[call-overload]
    reply.send(400 if status == 200 else status, JSON + extra, body)


def _is_modern(request: Request, version: bytes | None, envelope: Envelope) -> bool:
    """By its header, or by metadata that only a modern client sends; a legacy session stays one."""
    if version is not None:
        return version >= _MODERN_FROM and version not in _LEGACY_SPELLED
    if request.header(b"mcp-session-id") is not None or envelope.method == "initialize":
        return False
    return meta.names_revision(envelope.params)


def names_modern(request: Request) -> bool:
    """Whether its head says that it is of a revision without sessions."""
    version = request.header(b"mcp-protocol-version")
    return version is not None and version >= _MODERN_FROM


class _Head(msgspec.Struct, eq=False):
    """What the headers of a modern request say, and what a body must say to agree with them."""

    version: str
    given: bytes
    spelled_version: Raw
    method: str
    named: Raw | None

    def agrees(self, method: str, named: Raw | None, read: meta.Meta) -> bool:
        return method == self.method and named == self.named and read.version == self.spelled_version


def _checked_head(request: Request, method: str, params: meta.Params, read: meta.Meta) -> _Head:
    """The headers, compared with the body; those of a head that was compared before are not read again."""
    by = routing_headers.NAMED_BY.get(method)
    named = {"name": params.name, "uri": params.uri, "taskId": params.task_id}[by] if by else None
    head = request.memo.checked
    if isinstance(head, _Head) and bytes(read.capabilities)[:1] == b"{" and head.agrees(method, named, read):
        return head
    version = meta.require_modern(read)
    routing_headers.check(request.listed, version, method, meta.text(named) if named else None)
    meta.require_spoken(version)
    head = _Head(version, _param_headers(request.listed), read.version, method, named)
    request.memo.checked = head
    return head


def _param_headers(headers: list[tuple[bytes, bytes]]) -> bytes:
    """The `Mcp-Param-*` headers, which an intermediary passes on whether it knows them or not."""
    block = b""
    seen: set[bytes] = set()
    for name, value in headers:
        if name.startswith(routing_headers.PARAM_PREFIX):
            if name in seen:
                raise HeaderMismatch(f"`{_shown(name)}` is given more than once", code=HEADER_MISMATCH)
            seen.add(name)
            block += b"%b: %b\r\n" % (name, value)
    return block


def _shown(value: bytes) -> str:
    return value[:64].decode("latin-1")
