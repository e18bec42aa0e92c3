"""A client that can only start a command: its lines arrive here through `mooring proxy stdio`, in either
era."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Final

from mooring.errors import InvalidRequest, RpcError
from mooring.gateway.clients import LegacyClient
from mooring.gateway.dispatch import Dispatcher, cancel
from mooring.gateway.exchange import Exchange
from mooring.gateway.principal import NOBODY, Caller
from mooring.gateway.server import Server
from mooring.gateway.sessions import SessionTable
from mooring.gateway.sinks import BatchSink, ChannelSink
from mooring.protocol import jsonrpc, meta
from mooring.protocol.jsonrpc import Envelope, RequestId
from mooring.protocol.lifecycle import Phase
from mooring.protocol.lines import LineReader, Message, Noise, encode_line
from mooring.protocol.versions import allows_batches
from mooring.transports.http_upgrade import Upgraded
from mooring.transports.outflow import Outflow
from mooring.transports.spool import Kept

LAST_ANSWERS_SECONDS: Final = 2.0
"""Long enough for a server to start and say hello; a client that leaves must not keep its calls running."""
LOOK_AGAIN_SECONDS: Final = 0.02
BACKLOG_BYTES: Final = 64 * 1024 * 1024
EARLY_BYTES: Final = 1024 * 1024
"""What a client may say after `initialize` without waiting for the answer."""
_NEVER_EARLY: Final = (None, "ping", "initialize", "notifications/cancelled")
"""What has its place before the answer to `initialize`, or none; None is the method of an answer."""


class _Lines(Outflow):
    """Large lines that come from disk, and what has to wait for them."""

    __slots__ = ("_channel",)

    def __init__(self, channel: Upgraded) -> None:
        super().__init__()
        self._channel = channel

    def put_out(self, data: bytes) -> None:
        self._channel.write(data)

    @property
    def takes_more(self) -> bool:
        return self._channel.writable and not self._channel.closed

    def caught_up(self) -> None:
        """Nobody waits for that."""

    def broke(self) -> None:
        self._channel.close()


class StdioConnection:
    """One such client. `initialize` makes it legacy; a request with modern metadata stands alone, at any
    time."""

    def __init__(
        self,
        channel: Upgraded,
        server: Server,
        sessions: SessionTable,
        dispatcher: Dispatcher,
        max_bytes: int,
        caller: Caller = NOBODY,
    ) -> None:
        self._channel = channel
        self._server = server
        self._sessions = sessions
        self._dispatcher = dispatcher
        self._lines = LineReader(max_bytes)
        self._running: dict[RequestId, Exchange] = {}
        self._client: LegacyClient = sessions.create(server, monotonic(), caller=caller, channel=self._send)
        self._client.end_channel = channel.close
        self._sink = ChannelSink(self._send, server.tracer, self._client.alias)
        self._behind = 0
        self._early: list[bytes] = []
        self._lines_out = _Lines(channel)
        channel.on_data = self._on_data
        channel.on_writable_changed = self._on_writable
        channel.on_closed = self._on_closed
        channel.on_end = self._on_end

    def _send(self, message: bytes | Kept) -> None:
        self._write(message)
        if self._early and self._client.phase is not Phase.INITIALIZING:
            early, self._early = self._early, []
            for line in early:
                self._on_line(line)

    def _write(self, message: bytes | Kept) -> None:
        """Write a line. A client that stops reading is let go before its backlog becomes our problem."""
        if isinstance(message, Kept):
            self._lines_out.queue(message.as_line(b"", b"\n"))
            return
        if self._behind + self._lines_out.queued_bytes > BACKLOG_BYTES:
            self._channel.close()
            return
        if self._lines_out.is_behind:
            self._lines_out.queue(encode_line(message))
            return
        if not self._channel.writable:
            self._behind += len(message)
        self._channel.write(encode_line(message))

    def _on_writable(self, writable: bool) -> None:
        if writable:
            self._behind = 0
            self._lines_out.pump()

    def _on_data(self, data: bytes) -> None:
        for line in self._lines.feed(data):
            if isinstance(line, Message):
                self._on_line(line.data)
            elif isinstance(line, Noise):
                self._refuse(InvalidRequest(f"a line is not a message: {line.why}"))

    def _on_line(self, data: bytes) -> None:
        try:
            if self._client.phase is Phase.INITIALIZING and self._waits(data):
                self._early.append(data)
            elif jsonrpc.is_batch(data):
                if not allows_batches(self._client.version):
                    raise InvalidRequest("this revision has no batches; send one message per line")
                messages = [(jsonrpc.decode(part), bytes(part)) for part in jsonrpc.split_batch(data)]
                gathered = BatchSink(self._sink, sum(1 for envelope, _ in messages if envelope.is_request))
                for envelope, part in messages:
                    self._on_message(envelope, part, gathered)
            else:
                self._on_message(jsonrpc.decode(data), data, self._sink)
        except RpcError as error:
            self._refuse(error)

    def _waits(self, data: bytes) -> bool:
        """Whoever sends everything at once means it in this order; a server of its own would take it so."""
        if sum(map(len, self._early)) + len(data) > EARLY_BYTES:
            return False
        if jsonrpc.is_batch(data):
            return True
        envelope = jsonrpc.decode(data)
        return envelope.method not in _NEVER_EARLY and not meta.names_revision(envelope.params)

    def _refuse(self, error: RpcError, request_id: bytes = b"") -> None:
        self._send(jsonrpc.error(request_id, error.encode()))

    def _on_message(self, envelope: Envelope, data: bytes, sink: ChannelSink | BatchSink) -> None:
        tracer = self._server.tracer
        if tracer.active:
            tracer.message("client", "in", self._client.alias, data)
        if envelope.method is None:
            self._dispatcher.legacy_response(self._client, envelope)
        elif not envelope.id:
            if envelope.method == "notifications/cancelled":
                cancel(self._running, envelope)
            self._dispatcher.legacy_notification(self._server, self._client, envelope, data)
        elif sink is self._sink and envelope.method != "initialize" and meta.names_revision(envelope.params):
            self._on_modern(envelope, data)
        else:
            self._dispatcher.legacy_request(self._server, self._client, envelope, data, sink)

    def _on_modern(self, envelope: Envelope, data: bytes) -> None:
        try:
            params = meta.read_params(envelope.params)
            read = meta.read_meta(params)
            version = meta.require_modern(read)
            meta.require_spoken(version)
            if jsonrpc.id_key(envelope.id) in self._running:
                raise InvalidRequest("`id` is in use by another request that is still running")
        except RpcError as error:
            self._refuse(error, bytes(envelope.id))
            return
        self._dispatcher.modern_request(
            self._server,
            envelope,
            data,
            self._sink,
            self._running,
            params=params,
            read=read,
            version=version,
            caller=self._client.caller,
        )

    def _on_end(self) -> None:
        """The client has said all it had to say: answer what is still open, then hang up."""
        self._dispatcher.spawn(self._answer_and_leave())

    async def _answer_and_leave(self) -> None:
        until = monotonic() + LAST_ANSWERS_SECONDS
        while monotonic() < until and not self._channel.closed:
            if not self._owes_an_answer:
                break
            await asyncio.sleep(LOOK_AGAIN_SECONDS)
        self._channel.close()

    @property
    def _owes_an_answer(self) -> bool:
        """A stream of changes does not count: it is answered when it ends, with its client."""
        if self._client.running or self._client.phase is Phase.INITIALIZING or self._lines_out.is_behind:
            return True
        return any(exchange.method != "subscriptions/listen" for exchange in self._running.values())

    def _on_closed(self) -> None:
        self._lines_out.forget_queue()
        for exchange in list(self._running.values()):
            exchange.cancel()
        self._dispatcher.spawn(self._sessions.close(self._client))
