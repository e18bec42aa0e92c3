"""The short way of the most common call: sent on at once, and answered in the moment its answer arrives.

A small request in a session of its own, over HTTP on both sides and in one revision, needs neither a task
nor a coroutine: it is written to an idle connection, and its answer goes to the client from the callback that
brings it. Whatever else happens (an error, an event stream, a large or a strange answer, a lost connection, a
cancel, a deadline) is left to the ordinary way, which takes over exactly where this one is: nothing is sent
twice, and nothing about such calls is decided here.
"""

from __future__ import annotations

import asyncio
import logging
from time import monotonic
from typing import Final, Protocol

import msgspec
from msgspec import Raw

from mooring.gateway.clients import LegacyClient
from mooring.gateway.exchange import Exchange, Posted, Quick
from mooring.gateway.health import Health
from mooring.gateway.principal import Caller
from mooring.gateway.questions import input_required
from mooring.gateway.sinks import PostSink
from mooring.gateway.tracing import Tracer
from mooring.gateway.upstream_session import UpstreamSession
from mooring.protocol import jsonrpc
from mooring.protocol.lifecycle import Phase
from mooring.protocol.versions import Era
from mooring.transports.http_errors import TransportError
from mooring.transports.http_reply import Reply
from mooring.transports.http_response import Response
from mooring.transports.http_upstream import UpstreamConnection

log = logging.getLogger(__name__)

DIRECT_BYTES: Final = 65_536
"""A larger request is not worth a short way."""


class Home(Protocol):
    """The server that an exchange is for."""

    id: str
    tracer: Tracer
    exchanges: dict[Exchange, None]

    def goes_directly(self, method: str, body: bytes) -> bool:
        """Whether a legacy request concerns nobody but the server at the other end."""
        ...

    def quick_for(self, method: str, body: bytes) -> Quick | None:
        """The chain that it concerns otherwise, if that never waits."""
        ...

    def take_over(self, exchange: Exchange) -> None:
        """Run this exchange in the ordinary way from here on."""
        ...

    def finish_directly(self, exchange: Exchange, data: bytes, result: Raw) -> None:
        """Answer a call that its chain let onto the short way."""
        ...

    def forget(self, exchange: Exchange) -> None:
        """It is over."""
        ...


class Direct(msgspec.Struct, eq=False):
    """One call on the short way; its connection takes it for the future of the response."""

    home: Home
    health: Health
    exchange: Exchange
    session: UpstreamSession
    connection: UpstreamConnection

    def done(self) -> bool:
        """As a future says it: nobody has given up waiting."""
        return False

    def set_result(self, response: Response) -> None:
        """The answer is here, or at least its head."""
        exchange = self.exchange
        result = self._plain_result(response)
        if result is None:
            self._hand_over().set_result(response)
            return
        sink = exchange.sink
        assert sink is not None
        del self.session.calls[exchange]
        exchange.direct = None
        self.health.succeeded(monotonic())
        self.home.forget(exchange)
        try:
            if exchange.guard is not None:
                self.home.finish_directly(exchange, response.chunks[0], result)
            else:
                sink.answer(response.chunks[0])
        except Exception:
            log.exception("%s: `%s` could not be answered", self.home.id, exchange.method)
            sink.drop()

    def _plain_result(self, response: Response) -> Raw | None:
        """The result, if there is nothing in the body but that of this request."""
        if response.flow is not None or response.status != 200 or len(response.chunks) != 1:
            return None
        if response.first.get(b"content-type") != b"application/json":
            return None
        result = jsonrpc.result_of(response.chunks[0], self.exchange.envelope.id)
        if result is None or self.session.era is Era.LEGACY:
            return result
        return result if input_required(result) is None else None

    def set_exception(self, error: TransportError) -> None:
        self._hand_over().set_exception(error)

    def give_up(self) -> None:
        """Cancelled: the ordinary way knows whom to tell."""
        waiter = self._hand_over()
        self.connection.answer_to(waiter, self)
        task = self.exchange.task
        assert task is not None
        asyncio.get_running_loop().call_soon(task.cancel)  # behind its first step, so that it cleans up

    def _hand_over(self) -> asyncio.Future[Response]:
        exchange, session = self.exchange, self.session
        waiter: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        del session.calls[exchange]
        session.last_used = monotonic()
        exchange.direct = None
        exchange.posted = Posted(session, self.connection, waiter)
        self.home.take_over(exchange)
        return waiter


class Lane(msgspec.Struct, eq=False):
    """The short way of one legacy client, with everything on it that is the same for all of its calls."""

    home: Home
    client: LegacyClient
    session: UpstreamSession
    health: Health
    head: bytes
    call_seconds: float
    total_seconds: float

    def take(self, reply: Reply, body: bytes, caller: Caller) -> bool:
        """Send on what the client posted; False, and nothing has happened, if it needs a closer look."""
        client, session, home = self.client, self.session, self.home
        if session.lost is not None or self.health.tripped or home.tracer.active:
            return False
        envelope = jsonrpc.decode_plain_request(body)
        if envelope is None or client.phase is not Phase.READY or len(body) > DIRECT_BYTES:
            return False
        method = envelope.method
        key = int(bytes(envelope.id))
        if method is None or key in client.running:
            return False
        quick = None
        if not home.goes_directly(method, body):
            quick = home.quick_for(method, body)
            if quick is None:
                return False
        now = monotonic()
        exchange = Exchange(
            home,
            client,
            envelope,
            method,
            body,
            PostSink(reply, home.tracer, client.alias, client),
            True,  # relayable
            None,
            key,
            started=now,
            patience=self.call_seconds,
            deadline=now + self.call_seconds,
            final_deadline=now + self.total_seconds,
            caller=caller,
            guard=quick,
        )
        client.caller = caller
        client.last_seen = now
        client.running[key] = exchange
        home.exchanges[exchange] = None
        if quick is not None:
            quick.enter(exchange)
            body = exchange.body
        connection = session.take_idle() if quick is None or exchange.checked else None
        if connection is None:
            home.take_over(exchange)
            return True
        exchange.begun = True
        session.last_used = now
        session.calls[exchange] = None
        direct = exchange.direct = Direct(home, self.health, exchange, session, connection)
        connection.send(b"%bcontent-length: %d\r\n\r\n%b" % (self.head, len(body), body), b"", direct)
        return True
