"""Who asks: a legacy session with its streams, or the sender of one modern request."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from time import monotonic
from typing import Final, Protocol

import msgspec
from msgspec import Raw

from mooring.errors import RpcError
from mooring.gateway.exchange import Exchange
from mooring.gateway.interactions import Interactions
from mooring.gateway.principal import NOBODY, Caller
from mooring.gateway.tracing import Tracer
from mooring.protocol import jsonrpc, lifecycle
from mooring.protocol.jsonrpc import RequestId
from mooring.protocol.lifecycle import Phase
from mooring.protocol.subscriptions import LIST_CHANGES, Filter
from mooring.protocol.versions import Era, allows_priming_events
from mooring.transports.event_streams import EventOutlet, StreamLog
from mooring.transports.http_reply import Reply
from mooring.transports.spool import Kept
from mooring.transports.wire import Answer

LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
FINISHED_STREAMS_KEPT: Final = 8
FINISHED_KEPT_SECONDS: Final = 60.0
"""How long, and how many, streams that ended can still be asked for again."""
STANDALONE: Final = 0

_CAPABILITY_OF: Final = {
    "sampling/createMessage": "sampling",
    "elicitation/create": "elicitation",
    "roots/list": "roots",
}


def can(capabilities: bytes, method: str, params: bytes | Raw) -> bool:
    """Whether a client that declared this may be asked that."""
    name = _CAPABILITY_OF.get(method)
    if name is None:
        return True
    declared = jsonrpc.members(capabilities).get(name)
    if declared is None:
        return False
    if name == "elicitation" and jsonrpc.may_contain(params, b'"url"') and _mode(params) == "url":
        return "url" in jsonrpc.members(declared)
    return True


class _Mode(msgspec.Struct):
    mode: str = "form"


def _mode(params: bytes | Raw) -> str:
    try:
        return msgspec.json.decode(params, type=_Mode).mode
    except msgspec.DecodeError:
        return "form"


def _wants(level: str, threshold: str | None) -> bool:
    if threshold is None or level not in LEVELS or threshold not in LEVELS:
        return True
    return LEVELS.index(level) >= LEVELS.index(threshold)


class ShortWay(Protocol):
    """Where the ordinary calls of a client go without further ado."""

    @property
    def session(self) -> object: ...
    def take(self, reply: Reply, body: bytes, caller: Caller) -> bool: ...


class LegacyClient:
    """A session that began with `initialize`.

    Over Streamable HTTP it has streams, each remembered so that it can be resumed; over HTTP+SSE and stdio
    it has one `channel` that carries everything.
    """

    __slots__ = (
        "_asks",
        "_next_ask",
        "_next_stream",
        "_streams",
        "alias",
        "caller",
        "capabilities",
        "channel",
        "closed",
        "end_channel",
        "era",
        "info",
        "key",
        "lane",
        "last_seen",
        "level",
        "log_level",
        "on_detached",
        "phase",
        "primes",
        "principal",
        "running",
        "session_id",
        "tracer",
        "version",
        "wants",
    )

    def __init__(
        self,
        session_id: bytes,
        tracer: Tracer,
        *,
        alias: str,
        caller: Caller = NOBODY,
        channel: Callable[[bytes | Kept], None] | None = None,
    ) -> None:
        self.era = Era.LEGACY
        self.session_id = session_id
        self.alias = alias
        self.key = f"session:{alias}"
        self.caller = caller
        self.principal = caller.principal.id
        self.tracer = tracer
        self.channel = channel
        self.end_channel: Callable[[], None] | None = None
        """Hangs up, where the channel is a stream that ends with the session."""
        self.phase = Phase.CONNECTED
        self.version = ""
        self.capabilities = b"{}"
        self.info = b""
        self.level: str | None = None
        self.log_level = b""
        self.primes = False
        self.running: dict[RequestId, Exchange] = {}
        self.wants: Filter = LIST_CHANGES
        self.last_seen = 0.0
        self.lane: ShortWay | None = None
        self.closed = False
        self.on_detached: Callable[[], None] | None = None
        self._asks: dict[int, asyncio.Future[Answer]] | None = None
        self._next_ask = 1
        self._streams: dict[int, StreamLog] | None = None
        self._next_stream = 1

    def introduce(self, version: str, capabilities: bytes, info: bytes) -> None:
        self.version = version
        self.capabilities = capabilities
        self.info = info
        self.primes = allows_priming_events(version) and self.channel is None

    def set_level(self, level: str) -> None:
        self.level = level
        self.log_level = msgspec.json.encode(level)

    def wants_log(self, level: str) -> bool:
        return _wants(level, self.level)

    def can(self, method: str, params: bytes | Raw) -> bool:
        return can(self.capabilities, method, params)

    # Requests of servers

    async def ask(self, exchange: Exchange | None, method: str, params: bytes | Raw) -> Answer:
        """Pass on a server's request, on the stream of the call that it belongs to, and wait for the
        answer."""
        if self.closed:  # a task lives on without the session that it was started in
            raise RpcError("the client has gone")
        number = self._next_ask
        self._next_ask += 1
        if self._asks is None:
            self._asks = {}
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self._asks[number] = future
        request = jsonrpc.request(b"%d" % number, method, params)
        on_input = exchange.on_input if exchange is not None else None
        try:
            if exchange is not None:
                exchange.wait_for_client()
            if on_input is not None:
                on_input(True)
            self._tell(exchange, request)
            return await future
        except asyncio.CancelledError:
            notice = jsonrpc.notification("notifications/cancelled", b'{"requestId":%d}' % number)
            self._tell(exchange, notice)
            raise
        finally:
            del self._asks[number]
            if exchange is not None:
                exchange.client_answered(monotonic())
                if on_input is not None and not exchange.questions:
                    on_input(False)

    def answered(self, envelope: jsonrpc.Envelope) -> bool:
        """The client's answer to such a request; False if nobody asked."""
        raw = bytes(envelope.id)
        future = self._asks.get(int(raw)) if self._asks and raw.isdigit() and len(raw) < 19 else None
        if future is None or future.done():
            return False
        future.set_result(Answer(version=self.version, result=envelope.result, error=envelope.error))
        return True

    def _tell(self, exchange: Exchange | None, message: bytes) -> None:
        if exchange is not None:
            exchange.emit(message)
        else:
            self.push(message)

    # Changes

    def deliver(self, method: str, params: Raw | bytes) -> None:
        self.push(jsonrpc.notification(method, params))

    def end(self, reason: str) -> None:
        """The session upstream is gone. The client need not know, but somebody must subscribe again for
        it."""
        del reason
        if self.on_detached is not None and not self.closed:
            self.on_detached()

    @property
    def is_listening(self) -> bool:
        """Whether there is a place to tell this client of changes."""
        if self.channel is not None:
            return True
        log = self.known_stream(STANDALONE)
        return log is not None and log.live is not None and not log.live.closed

    def push(self, message: bytes) -> None:
        """Something that belongs to no call."""
        if self.closed:
            return
        if self.tracer.active:
            self.tracer.message("client", "out", self.alias, message)
        if self.channel is not None:
            self.channel(message)
        else:
            self.stream(STANDALONE).send(message)

    # Streams

    def stream(self, number: int) -> StreamLog:
        if self._streams is None:
            self._streams = {}
        log = self._streams.get(number)
        if log is None:
            log = self._streams[number] = StreamLog(number)
        return log

    def new_stream(self) -> StreamLog:
        return self.stream(self.number_stream())

    def number_stream(self) -> int:
        """A number for a stream, so that its events have names."""
        number = self._next_stream
        self._next_stream += 1
        return number

    def known_stream(self, number: int) -> StreamLog | None:
        return self._streams.get(number) if self._streams is not None else None

    def open_standalone(self, outlet: EventOutlet) -> None:
        """The stream for what belongs to no call; what had to wait for it comes first."""
        log = self.stream(STANDALONE)
        if self.primes:
            outlet.write(b"id: %d-%d\ndata: \n\n" % (STANDALONE, log.undelivered - 1))
        log.attach(outlet, log.undelivered - 1)

    @property
    def has_open_streams(self) -> bool:
        return self._streams is not None and any(
            log.live is not None and not log.live.closed for log in self._streams.values()
        )

    @property
    def is_waiting(self) -> bool:
        """Whether it is owed an answer; `initialize` may take as long as its server takes to start."""
        return bool(self.running) or self.phase is Phase.INITIALIZING

    def forget_old_streams(self, now: float) -> None:
        if self._streams is None:
            return
        finished = [log for log in self._streams.values() if log.done]
        for index, log in enumerate(reversed(finished)):
            if index >= FINISHED_STREAMS_KEPT or now - log.ended_at > FINISHED_KEPT_SECONDS:
                self._streams.pop(log.number).forget()
        if not self._streams:
            self._streams = None

    def keep_alive(self) -> None:
        log = self.known_stream(STANDALONE)
        if log is not None and log.live is not None:
            log.live.keep_alive()

    def hang_up(self) -> None:
        """End the stream for what belongs to no call; its client may open another one."""
        log = self.known_stream(STANDALONE)
        if log is not None and log.live is not None:
            log.live.end()
            log.live = None

    def close(self) -> None:
        """The session ends: its calls are cancelled, its streams closed."""
        if self.closed:
            return
        self.closed = True
        self.lane = None
        self.phase = Phase.SHUTDOWN
        for exchange in list(self.running.values()):
            exchange.cancel()
        for future in list((self._asks or {}).values()):
            if not future.done():
                future.set_exception(RpcError("the client has gone"))
        for log in list((self._streams or {}).values()):
            log.finish(0.0)
            log.forget()
        self._streams = None
        if self.end_channel is not None:
            self.end_channel()


class ModernClient:
    """The sender of one modern request. There is nothing to remember of it but what the request says."""

    __slots__ = (
        "_interactions",
        "caller",
        "capabilities",
        "era",
        "info",
        "key",
        "log_level",
        "principal",
        "running",
        "version",
    )

    def __init__(
        self,
        version: str,
        capabilities: bytes,
        info: bytes,
        log_level: bytes,
        interactions: Interactions,
        running: dict[RequestId, Exchange],
        caller: Caller = NOBODY,
    ) -> None:
        self.era = Era.MODERN
        self.version = version
        self.capabilities = capabilities
        self.info = info
        self.log_level = log_level
        self.caller = caller
        self.principal = caller.principal.id
        self.key = ""
        self.running = running
        self._interactions = interactions

    def can(self, method: str, params: bytes | Raw) -> bool:
        return can(self.capabilities, method, params)

    def wants_log(self, level: str) -> bool:
        """Only a request that named a level gets log messages, and only on its own stream."""
        if not self.log_level:
            return False
        try:
            return _wants(level, msgspec.json.decode(self.log_level, type=str))
        except msgspec.DecodeError:
            return False

    async def ask(self, exchange: Exchange | None, method: str, params: bytes | Raw) -> Answer:
        assert exchange is not None, "a modern client can only be asked in the course of its own request"
        return await self._interactions.ask(exchange, method, params)

    def push(self, message: bytes) -> None:
        """There is no channel outside a request."""


__all__ = ["LegacyClient", "ModernClient", "can", "lifecycle"]
