"""The legacy sessions of this gateway: made, found, expired. Their ids are sealed, so that none can be
guessed."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from typing import Final

from msgspec import Struct

from mooring.errors import MooringError, SessionGone
from mooring.gateway.clients import LegacyClient
from mooring.gateway.exchange import Client
from mooring.gateway.principal import NOBODY, Caller, Principal
from mooring.gateway.server import Server
from mooring.protocol.lifecycle import Phase
from mooring.transports.sealing import Seal, SealBroken
from mooring.transports.spool import Kept

PURPOSE: Final = "mooring:session"
SESSION_ID_SECONDS: Final = 30 * 24 * 3600.0
"""How long another worker or replica could recognise an id as one of ours; the session itself ends much
earlier."""
LOOKS_PER_SECOND: Final = 4
BUSY_LOOK_SECONDS: Final = 0.5
"""How soon a session is looked at again that outlived its time only because something was going on in it."""
MAX_SESSIONS: Final = 50_000
"""Sessions cost memory before their client has proved anything; a flood of them must stop somewhere."""
CLOSE_SECONDS: Final = 5.0
KEEP_ALIVE_SECONDS: Final = 15.0
"""How long a round takes in which every session is visited once."""


class Remembered(Struct, frozen=True):
    """What is known of a session from before a restart."""

    version: str
    capabilities: bytes
    info: bytes


class TooManySessions(MooringError):
    """The gateway is full."""


class SessionTable:
    """Every open legacy session, by its id."""

    def __init__(self, seal: Seal, idle_ttl_seconds: float, most: int | None = None) -> None:
        self._seal = seal
        self._ttl = idle_ttl_seconds
        self._most = most or MAX_SESSIONS
        self.recall: Callable[[str, str], Remembered | None] | None = None
        """Knows sessions from before a restart, by their alias and server."""
        self._sessions: dict[bytes, tuple[LegacyClient, Server, int]] = {}
        self._due: dict[int, dict[LegacyClient, None]] = {}
        self._swept = 0
        self._round: list[LegacyClient] = []
        self._round_began = 0.0
        self._visited = 0

    def __len__(self) -> int:
        return len(self._sessions)

    def create(
        self,
        server: Server,
        now: float,
        *,
        caller: Caller = NOBODY,
        channel: Callable[[bytes | Kept], None] | None = None,
    ) -> LegacyClient:
        """A new session, not yet initialized. Its id names server and principal to whoever holds the key."""
        if len(self._sessions) >= self._most:
            raise TooManySessions("too many sessions are open; end some, or try again later")
        alias = secrets.token_hex(6)
        values = {"server": server.id, "principal": caller.principal.id, "alias": alias}
        session_id = self._seal.wrap(PURPOSE, values, ttl_seconds=SESSION_ID_SECONDS).encode()
        client = LegacyClient(session_id, server.tracer, alias=alias, caller=caller, channel=channel)
        client.last_seen = now
        self._watch(client, server, now + self._ttl_of(server))
        return client

    def find(self, session_id: bytes, server: Server, caller: Caller, now: float) -> LegacyClient:
        """The session with this id, if it is of this server and principal; anything else does not exist."""
        entry = self._sessions.get(session_id) or self._recalled(session_id, server, caller, now)
        if entry is None or entry[1] is not server or entry[0].principal != caller.principal.id:
            raise SessionGone("no such session; start again with `initialize`")
        client = entry[0]
        client.caller = caller
        client.last_seen = now
        return client

    def _recalled(
        self, session_id: bytes, server: Server, caller: Caller, now: float
    ) -> tuple[LegacyClient, Server, int] | None:
        """A session from before a restart, if somebody knows it; its client notices nothing."""
        if self.recall is None or len(self._sessions) >= self._most:
            return None
        try:
            values = self._seal.unwrap(PURPOSE, session_id.decode("latin-1"))
        except SealBroken:
            return None
        if values["server"] != server.id or values["principal"] != caller.principal.id:
            return None
        found = self.recall(values["alias"], server.id)
        if found is None:
            return None
        client = LegacyClient(session_id, server.tracer, alias=values["alias"], caller=caller)
        client.introduce(found.version, found.capabilities, found.info)
        client.phase = Phase.READY
        self._watch(client, server, now + self._ttl_of(server))
        return self._sessions[session_id]

    def alias_of(self, session_id: bytes, server: Server) -> str | None:
        """What a session is called where its id must not be shown; to ask does not keep it alive."""
        entry = self._sessions.get(session_id)
        return None if entry is None or entry[1] is not server else entry[0].alias

    async def close(self, client: LegacyClient) -> None:
        """End a session: its calls are cancelled, its streams closed, its own session upstream given up."""
        entry = self._sessions.pop(client.session_id, None)
        if entry is None:
            return
        self._due.get(entry[2], {}).pop(client, None)
        client.close()
        if client.tracer.active:
            client.tracer.noted("client", client.alias, "session ended")
        await entry[1].detach(client)

    async def end(self, client: Client) -> None:
        """End the session of this client, if it has one."""
        if isinstance(client, LegacyClient):
            await self.close(client)

    async def close_all(self) -> None:
        closing = [
            asyncio.ensure_future(self.close(client)) for client, _, _ in list(self._sessions.values())
        ]
        if closing:
            await asyncio.wait(closing, timeout=CLOSE_SECONDS)

    async def close_of(self, server: Server) -> None:
        """End the sessions of one server."""
        closing = [asyncio.ensure_future(self.close(client)) for client in self.clients_of(server)]
        if closing:
            await asyncio.wait(closing, timeout=CLOSE_SECONDS)

    def clients_of(self, server: Server) -> list[LegacyClient]:
        """Who has a session with one server."""
        return [client for client, owner, _ in self._sessions.values() if owner is server]

    def of_server(self, server: Server) -> int:
        return sum(1 for _, owner, _ in self._sessions.values() if owner is server)

    def part_with(self, is_welcome: Callable[[Server, Principal], bool]) -> list[LegacyClient]:
        """End the streams of those whose credential no longer counts; their requests end at the door. Returns
        the sessions that are a stream, and so have to end with it."""
        known: dict[tuple[Server, Principal], bool] = {}
        parted: list[LegacyClient] = []
        for client, server, _ in self._sessions.values():
            key = (server, client.caller.principal)
            if key not in known:
                known[key] = is_welcome(*key)
            if known[key]:
                continue
            client.hang_up()
            if client.end_channel is not None:
                parted.append(client)
        return parted

    def sweep(self, now: float) -> list[LegacyClient]:
        """Keep streams alive, forget old ones, and name the sessions that have been idle for too long."""
        self._visit_some(now)
        return [client for client in self._those_due(now) if self._is_expired(client, now)]

    def _visit_some(self, now: float) -> None:
        """As many as the time asks for: thousands of streams that all speak at once would hold up calls."""
        share = (now - self._round_began) / KEEP_ALIVE_SECONDS
        due = min(len(self._round), int(len(self._round) * share))
        for client in self._round[self._visited : due]:
            client.keep_alive()
            client.forget_old_streams(now)
        self._visited = due
        if share >= 1:
            self._round = [client for client, _, _ in self._sessions.values()]
            self._round_began, self._visited = now, 0

    # Every session is noted for the moment at which it would expire if nothing happened. Only then is it
    # looked at again: ten thousand idle sessions cost nothing meanwhile, and a request costs no bookkeeping.

    def _watch(self, client: LegacyClient, server: Server, when: float) -> None:
        due = int(when * LOOKS_PER_SECOND) + 1
        self._sessions[client.session_id] = (client, server, due)
        self._due.setdefault(due, {})[client] = None

    def _those_due(self, now: float) -> list[LegacyClient]:
        reached = int(now * LOOKS_PER_SECOND)
        if len(self._due) < reached - self._swept:  # the first look, or one after a long sleep
            passed = [moment for moment in self._due if moment <= reached]
        else:
            passed = [moment for moment in range(self._swept + 1, reached + 1) if moment in self._due]
        self._swept = reached
        return [client for moment in passed for client in self._due.pop(moment)]

    def _is_expired(self, client: LegacyClient, now: float) -> bool:
        server = self._sessions[client.session_id][1]
        if client.is_waiting or client.channel is not None or client.has_open_streams:
            client.last_seen = now  # whoever waits for an answer or listens is not idle
            self._watch(client, server, now + min(self._ttl_of(server), BUSY_LOOK_SECONDS))
            return False
        left = client.last_seen + self._ttl_of(server) - now
        if left <= 0:
            return True
        self._watch(client, server, now + left)
        return False

    def _ttl_of(self, server: Server) -> float:
        return self._ttl if server.session_idle_seconds is None else server.session_idle_seconds
