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
from typing import Protocol

import msgspec

from mooring.gateway.exchange import Exchange, Posted
from mooring.gateway.health import Health
from mooring.gateway.upstream_session import UpstreamSession
from mooring.protocol import jsonrpc
from mooring.protocol.versions import Era
from mooring.transports.http_errors import TransportError
from mooring.transports.http_response import Response
from mooring.transports.http_upstream import UpstreamConnection

log = logging.getLogger(__name__)


class Home(Protocol):
    """The server that an exchange is for."""

    id: str

    def take_over(self, exchange: Exchange) -> None:
        """Run this exchange in the ordinary way from here on."""
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
        return False

    def set_result(self, response: Response) -> None:
        """The answer is here, or at least its head."""
        exchange = self.exchange
        data = self._plain_answer(response)
        if data is None:
            self._hand_over().set_result(response)
            return
        sink = exchange.sink
        assert sink is not None
        del self.session.calls[exchange]
        exchange.direct = None
        self.health.succeeded(monotonic())
        self.home.forget(exchange)
        try:
            sink.answer(data)
        except Exception:
            log.exception("%s: `%s` could not be answered", self.home.id, exchange.method)
            sink.drop()

    def _plain_answer(self, response: Response) -> bytes | None:
        """The body, if it is nothing but the result of this request."""
        if response.flow is not None or response.status != 200 or len(response.chunks) != 1:
            return None
        if response.first.get(b"content-type") != b"application/json":
            return None
        data = response.chunks[0]
        envelope = jsonrpc.decode_result(data)
        if envelope is None or envelope.id != self.exchange.envelope.id:
            return None
        if self.session.era is Era.MODERN and b"input_required" in data:
            return None  # questions instead of a result
        return data

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
