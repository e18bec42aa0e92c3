"""HTTP+SSE (2024-11-05): a stream that is the session, and an address to POST to."""

from __future__ import annotations

import secrets
from typing import Final

from mooring.authoring.channel import Channel
from mooring.authoring.engine import Engine
from mooring.authoring.http_sink import refuse
from mooring.authoring.session_streams import Headers, open_stream
from mooring.errors import InvalidRequest, RpcError
from mooring.protocol import jsonrpc
from mooring.protocol.sse import encode_event
from mooring.transports.event_streams import EventOutlet, encode_kept
from mooring.transports.http_reply import Reply
from mooring.transports.http_request import Request

MAX_SESSIONS: Final = 10_000
_SESSION: Final = b"session="


class SseEndpoint:
    """The clients of the oldest HTTP transport."""

    def __init__(self, engine: Engine, messages_path: str) -> None:
        self._engine = engine
        self._messages_path = messages_path.encode()
        self._channels: dict[bytes, tuple[Channel, EventOutlet]] = {}

    def open(self, request: Request, reply: Reply, headers: Headers) -> None:
        """The stream is the session: when it ends, so does everything that runs in it."""
        if request.method != b"GET":
            reply.send(405, ((b"allow", b"GET, OPTIONS"), *headers), b"")
            return
        if len(self._channels) >= MAX_SESSIONS:
            refuse(reply, 503, InvalidRequest("too many sessions are open; try again later"), headers)
            return
        stream = open_stream(reply, headers)
        channel = Channel(self._engine, lambda message: stream.write(encode_kept(message)))
        name = secrets.token_urlsafe(24).encode()
        self._channels[name] = (channel, stream)

        def closed() -> None:
            self._channels.pop(name, None)
            channel.close()

        reply.on_closed = closed
        address = b"%b?%b%b" % (self._messages_path, _SESSION, name)
        stream.write(encode_event(address, event=b"endpoint"))

    def post(self, request: Request, reply: Reply, headers: Headers) -> None:
        if request.method != b"POST":
            reply.send(405, ((b"allow", b"POST, OPTIONS"), *headers), b"")
            return
        name = request.query[len(_SESSION) :] if request.query.startswith(_SESSION) else b""
        found = self._channels.get(name)
        if found is None:
            refuse(reply, 404, InvalidRequest("no such session; open the stream again"), headers)
            return
        try:
            jsonrpc.check_text(request.body)
        except RpcError as error:
            refuse(reply, 400, error, headers)
            return
        reply.send(202, headers, b"")
        found[0].receive(request.body)

    def keep_alive(self, now: float) -> None:
        for _, stream in self._channels.values():
            stream.tick(now)

    def close(self) -> None:
        for channel, stream in list(self._channels.values()):
            channel.close()
            stream.end()
        self._channels.clear()
