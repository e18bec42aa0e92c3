"""The legacy sessions of this gateway: made, found, expired. Their ids are sealed, so that none can be
guessed."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from typing import Final

from mooring.errors import MooringError, SessionGone
from mooring.gateway.clients import LegacyClient
from mooring.gateway.principal import NOBODY, Caller
from mooring.gateway.sealing import Seal
from mooring.gateway.server import Server

PURPOSE: Final = "mooring:session"
SESSION_ID_SECONDS: Final = 30 * 24 * 3600.0
"""How long another worker or replica could recognise an id as one of ours; the session itself ends much
earlier."""
STREAMS_SWEEP_SECONDS: Final = 10.0
MAX_SESSIONS: Final = 50_000
"""Sessions cost memory before their client has proved anything; a flood of them must stop somewhere."""
CLOSE_SECONDS: Final = 5.0
KEEP_ALIVE_SECONDS: Final = 15.0


class TooManySessions(MooringError):
    """The gateway is full."""


class SessionTable:
    """Every open legacy session, by its id."""

    def __init__(self, seal: Seal, idle_ttl_seconds: float) -> None:
        self._seal = seal
        self._ttl = idle_ttl_seconds
        self._sessions: dict[bytes, tuple[LegacyClient, Server]] = {}
        self._next_streams_sweep = 0.0
        self._next_keep_alive = 0.0

    def __len__(self) -> int:
        return len(self._sessions)

    def create(
        self,
        server: Server,
        now: float,
        *,
        caller: Caller = NOBODY,
        channel: Callable[[bytes], None] | None = None,
    ) -> LegacyClient:
        """A new session, not yet initialized. Its id names server and principal to whoever holds the key."""
        if len(self._sessions) >= MAX_SESSIONS:
            raise TooManySessions("too many sessions are open; end some, or try again later")
        alias = secrets.token_hex(6)
        values = {"server": server.id, "principal": caller.principal.id, "alias": alias}
        session_id = self._seal.wrap(PURPOSE, values, ttl_seconds=SESSION_ID_SECONDS).encode()
        client = LegacyClient(session_id, server.tracer, alias=alias, caller=caller, channel=channel)
        client.last_seen = now
        self._sessions[session_id] = (client, server)
        return client

    def find(self, session_id: bytes, server: Server, caller: Caller, now: float) -> LegacyClient:
        """The session with this id, if it is of this server and principal; anything else does not exist."""
        entry = self._sessions.get(session_id)
        if entry is None or entry[1] is not server or entry[0].principal != caller.principal.id:
            raise SessionGone("no such session; start again with `initialize`")
        client = entry[0]
        client.caller = caller
        client.last_seen = now
        return client

    def alias_of(self, session_id: bytes, server: Server) -> str | None:
        """What a session is called where its id must not be shown; to ask does not keep it alive."""
        entry = self._sessions.get(session_id)
        return None if entry is None or entry[1] is not server else entry[0].alias

    async def close(self, client: LegacyClient) -> None:
        """End a session: its calls are cancelled, its streams closed, its own session upstream given up."""
        entry = self._sessions.pop(client.session_id, None)
        if entry is None:
            return
        client.close()
        if client.tracer.active:
            client.tracer.noted("client", client.alias, "session ended")
        await entry[1].detach(client)

    async def close_all(self) -> None:
        closing = [asyncio.ensure_future(self.close(client)) for client, _ in list(self._sessions.values())]
        if closing:
            await asyncio.wait(closing, timeout=CLOSE_SECONDS)

    async def close_of(self, server: Server) -> None:
        """End the sessions of one server."""
        clients = [client for client, owner in self._sessions.values() if owner is server]
        closing = [asyncio.ensure_future(self.close(client)) for client in clients]
        if closing:
            await asyncio.wait(closing, timeout=CLOSE_SECONDS)

    def of_server(self, server: Server) -> int:
        return sum(1 for _, owner in self._sessions.values() if owner is server)

    def sweep(self, now: float) -> list[LegacyClient]:
        """Keep streams alive, forget old ones, and name the sessions that have been idle for too long."""
        if now >= self._next_keep_alive:
            self._next_keep_alive = now + KEEP_ALIVE_SECONDS
            for client, _ in self._sessions.values():
                client.keep_alive()
        if now < self._next_streams_sweep:
            return []
        self._next_streams_sweep = now + STREAMS_SWEEP_SECONDS
        expired: list[LegacyClient] = []
        for client, _ in self._sessions.values():
            client.forget_old_streams(now)
            busy = client.running or client.channel is not None or client.has_open_streams
            if not busy and now - client.last_seen > self._ttl:
                expired.append(client)
        return expired
