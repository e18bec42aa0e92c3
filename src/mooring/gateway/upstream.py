"""Our side of one server: calls go to the session that serves their client, and are made again only if that
cannot do harm."""

from __future__ import annotations

import asyncio
from time import monotonic

from mooring.errors import (
    LoginNeeded,
    SessionDied,
    UpstreamFailed,
    UpstreamTimedOut,
)
from mooring.gateway.clients import LegacyClient
from mooring.gateway.direct import DIRECT_BYTES, Direct, Home, Lane
from mooring.gateway.exchange import Client, Exchange
from mooring.gateway.repeating import is_harmless
from mooring.gateway.session_pool import SessionPool, UpstreamPolicy, is_interactive
from mooring.protocol import meta
from mooring.protocol.versions import Era
from mooring.transports.dialing import Transport
from mooring.transports.streamable_wire import HttpRefused
from mooring.transports.wire import Answer, SessionLost


class Upstream(SessionPool):
    """A server, as those see it who call it."""

    # Calls

    def begin_directly(self, home: Home, exchange: Exchange) -> bool:
        """Send a request at once, if its session and a connection are ready and nothing stands against it."""
        session = self._sessions.get(exchange.client.key or "stateless")
        if session is None or session.lost is not None or self.health.tripped:
            return False
        body = exchange.body
        head = session.lane_for(exchange)
        if head is None or len(body) > DIRECT_BYTES:
            return False
        connection = session.take_idle()
        if connection is None:
            return False
        client = exchange.client
        if isinstance(client, LegacyClient) and (client.lane is None or client.lane.session is not session):
            policy = self.policy
            client.lane = Lane(
                home, client, session, self.health, head, policy.call_seconds, policy.total_seconds
            )
        direct = exchange.direct = Direct(home, self.health, exchange, session, connection)
        exchange.begun = True
        session.calls[exchange] = None
        session.last_used = exchange.started
        connection.send(b"%bcontent-length: %d\r\n\r\n%b" % (head, len(body), body), b"", direct)
        return True

    async def call(self, exchange: Exchange) -> Answer:
        """Hand a request to the right session. It is tried again only if it provably never started, or if
        its tool is declared to do no harm by running twice."""
        client = exchange.client
        retries = self.policy.session_retries
        while True:
            posted = exchange.posted
            if self.health.tripped and posted is None:
                self.refuse_if_down(monotonic())
            try:
                if posted is not None:
                    answer = await posted.session.call(exchange)
                elif self._is_special(client):
                    answer = await self._call_specially(exchange)
                else:
                    session = self._sessions.get(client.key)
                    if session is None or session.owner is not client or session.lost is not None:
                        since = self._give_time_to_open(exchange)
                        session = await self.session_for(client)
                        self._begin_to_count(exchange, since)
                    session.last_used = exchange.started
                    answer = await session.call(exchange)
            except asyncio.CancelledError:
                if isinstance(exchange.failure, UpstreamTimedOut):
                    self.health.failed(monotonic(), str(exchange.failure))
                raise
            except LoginNeeded:
                raise  # it says something about the user, not about the server
            except UpstreamFailed as error:
                retries -= await self._price_of_repeating(exchange, error, retries)
                continue
            finally:
                if self._lease_waiters:
                    self._wake_lease_waiters()
            if answer.error and await self.became_another(client, answer.status):
                continue
            self.health.succeeded(monotonic())
            return answer

    async def _price_of_repeating(self, exchange: Exchange, error: UpstreamFailed, retries: int) -> int:
        """How many of the retries it takes to try again; the error itself where that may not be."""
        self._take_note(error)
        if isinstance(error, HttpRefused) and await self.became_another(exchange.client, error.http_status):
            return 0
        if retries <= 0 or (error.started and not await self._may_repeat(exchange, error)):
            raise error
        return 1

    async def _may_repeat(self, exchange: Exchange, error: UpstreamFailed) -> bool:
        """Whether a call that may have run can run again without harm, and without its client noticing."""
        if exchange.method != "tools/call" or not isinstance(error, SessionDied) or exchange.heard_of:
            return False
        tool = meta.text(exchange.read_params().name) or ""
        try:
            if self.policy.share == "call":
                async with self._own_session(exchange.client) as session:
                    return await is_harmless(session, tool)
            return await is_harmless(await self.session_for(exchange.client), tool)
        except UpstreamFailed:
            return False

    def _take_note(self, error: UpstreamFailed) -> None:
        if isinstance(error, SessionLost):
            self._forget_lost(error)
        if not (isinstance(error, HttpRefused) and error.http_status < 500):
            # A refusal says something about the request, not about the server.
            self.health.failed_with(error, monotonic())

    def _forget_lost(self, error: SessionLost) -> None:
        """The server has forgotten one of our sessions; `error` comes from its wire."""
        for session in list(self._sessions.values()):
            if session.wire is error.wire:
                self.discard(session, str(error))

    def _is_special(self, client: Client) -> bool:
        """Whether a call needs a session that no other call uses meanwhile."""
        if self.policy.share == "call":
            return not self._is_stateless(client)
        return client.era is Era.MODERN and self._is_ambiguous(client) and is_interactive(client)

    async def _call_specially(self, exchange: Exchange) -> Answer:
        since = self._give_time_to_open(exchange)
        special = self._own_session if self.policy.share == "call" else self._leased
        async with special(exchange.client) as session:
            session.last_used = self._begin_to_count(exchange, since)
            return await session.call(exchange)

    # To open a session has a limit of its own; only then does the time begin in which to answer.

    def _give_time_to_open(self, exchange: Exchange) -> float:
        now = monotonic()
        exchange.final_deadline += self.policy.connect_seconds
        until = now + self.policy.connect_seconds + exchange.patience
        exchange.deadline = min(until, exchange.final_deadline)
        return now

    def _begin_to_count(self, exchange: Exchange, since: float) -> float:
        now = monotonic()
        exchange.final_deadline -= max(0.0, self.policy.connect_seconds - (now - since))
        exchange.progressed(now)
        return now

    def checks_headers(self, client: Client) -> bool:
        """Whether the server itself sees, and so checks, the headers of this client's requests."""
        return self._is_stateless(client)

    def _is_ambiguous(self, client: Client) -> bool:
        """Whether what this server says cannot be tied to a call while several are in flight."""
        verdict = self._detector.verdict(client.era)
        if verdict.era is Era.MODERN:
            return False
        possible = (verdict.transport,) if verdict.transport else self._dialer.transports
        return possible != (Transport.STREAMABLE_HTTP,)


__all__ = ["Upstream", "UpstreamPolicy"]
