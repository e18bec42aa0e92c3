"""The MCP endpoint over HTTP+SSE (2024-11-05): a stream that is the session, and an address to POST to."""

from __future__ import annotations

from time import monotonic
from typing import Final

from mooring.errors import RpcError, SessionGone
from mooring.gateway.dispatch import Dispatcher
from mooring.gateway.principal import NOBODY, Caller
from mooring.gateway.server import Server
from mooring.gateway.sessions import SessionTable, TooManySessions
from mooring.gateway.sinks import BatchSink, ChannelSink
from mooring.interfaces.mcp_http import NOT_JSON, Headers, is_json, refuse, refuse_rpc
from mooring.protocol import jsonrpc
from mooring.protocol.sse import encode_event
from mooring.protocol.versions import allows_batches
from mooring.transports.event_streams import EventOutlet, encode_kept
from mooring.transports.http_reply import Reply
from mooring.transports.http_request import Request
from mooring.transports.spool import Kept

SESSION_PARAMETER: Final = b"session="


class SseEndpoint:
    """`/mcp/<id>/sse` and `/mcp/<id>/messages` of one server."""

    def __init__(
        self, server: Server, sessions: SessionTable, dispatcher: Dispatcher, outlets: set[EventOutlet]
    ) -> None:
        """`outlets` are the open streams of all servers, which somebody keeps alive."""
        self._server = server
        self._sessions = sessions
        self._dispatcher = dispatcher
        self._outlets = outlets

    def open(self, request: Request, reply: Reply, extra: Headers, caller: Caller = NOBODY) -> None:
        """The stream. When it ends, so does the session, and everything that runs in it."""
        if request.method != b"GET":
            reply.send(405, ((b"allow", b"GET, OPTIONS"), *extra), b"")
            return
        try:
            client = self._sessions.create(self._server, monotonic(), caller=caller, channel=lambda _: None)
        except TooManySessions as error:
            refuse(reply, 503, str(error), extra)
            return
        outlet = EventOutlet(reply, extra)

        def send(message: bytes | Kept) -> None:
            outlet.write(encode_kept(message))

        client.channel = send
        self._outlets.add(outlet)

        def closed() -> None:
            self._outlets.discard(outlet)
            self._dispatcher.spawn(self._sessions.close(client))

        def end() -> None:
            self._outlets.discard(outlet)
            outlet.end()

        reply.on_closed, client.end_channel = closed, end
        own = self._server.endpoint_prefix + b"/mcp/" + self._server.id.encode()
        address = b"%b/messages?%b%b" % (own, SESSION_PARAMETER, client.session_id)
        outlet.write(encode_event(address, event=b"endpoint"))

    def post(self, request: Request, reply: Reply, extra: Headers, caller: Caller = NOBODY) -> None:
        """A message; its answer comes on the stream."""
        if request.method != b"POST":
            reply.send(405, ((b"allow", b"POST, OPTIONS"), *extra), b"")
            return
        if not is_json(request):
            refuse(reply, 415, NOT_JSON, extra)
            return
        try:
            client = self._sessions.find(session_of(request), self._server, caller, monotonic())
            if client.channel is None:  # of the other transport, or from before a restart: no way to answer
                raise SessionGone("no such session; open a stream first")
            jsonrpc.check_text(request.body)
            batch = jsonrpc.is_batch(request.body)
            if batch and client.version and not allows_batches(client.version):
                refuse(
                    reply, 400, f"revision {client.version} has no batches; send one message per POST", extra
                )
                return
            parts = jsonrpc.split_batch(request.body) if batch else [request.body]
            messages = [(jsonrpc.decode(part), bytes(part)) for part in parts]
        except SessionGone as error:
            refuse(reply, 404, str(error), extra)
            return
        except RpcError as error:
            refuse_rpc(reply, error, extra)
            return
        reply.send(202, extra, b"")
        tracer = self._server.tracer
        sink: ChannelSink | BatchSink = ChannelSink(client.channel, tracer, client.alias)
        if batch:
            sink = BatchSink(sink, sum(1 for envelope, _ in messages if envelope.is_request))
        for envelope, data in messages:
            if tracer.active:
                tracer.message("client", "in", client.alias, data)
            if envelope.method is None:
                self._dispatcher.legacy_response(client, envelope)
            elif not envelope.id:
                self._dispatcher.legacy_notification(self._server, client, envelope, data)
            else:
                self._dispatcher.legacy_request(self._server, client, envelope, data, sink)


def session_of(request: Request) -> bytes:
    """The session that a message is for; empty if it names none."""
    return request.query[len(SESSION_PARAMETER) :] if request.query.startswith(SESSION_PARAMETER) else b""
