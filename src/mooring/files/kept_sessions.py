"""Legacy sessions that have files: written down with the first of them, and known again after a restart.

Without this a client would find neither what it sent nor what its tools made once the gateway was started
anew. Sessions that are a connection (HTTP+SSE, stdio) end with it and are not kept.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Callable

from msgspec import Struct

from mooring.files.database import Database
from mooring.files.scopes import Scopes
from mooring.gateway.clients import LegacyClient
from mooring.gateway.exchange import Client
from mooring.gateway.sessions import Remembered


class Waiting(Struct, frozen=True):
    """A session from before a restart that its client has not taken up again."""

    scope: str
    server: str
    remembered: Remembered


class KeptSessions:
    """The sessions of one gateway."""

    def __init__(
        self,
        database: Database,
        scopes: Scopes,
        idle_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._database = database
        self._scopes = scopes
        self._idle_seconds = idle_seconds
        self._clock = clock
        self._opened = 0.0
        self._kept: set[str] = set()
        self._waiting: dict[str, Waiting] = {}

    async def open(self) -> None:
        self._opened = self._clock()
        self._waiting = {found.scope: found for found in await self._database.read(_all)}

    def recall(self, alias: str, server: str) -> Remembered | None:
        """What is known of a session that somebody takes up again; it is theirs from now on."""
        scope = self._scopes.of_session(alias)
        found = self._waiting.get(scope)
        if found is None or found.server != server:
            return None
        del self._waiting[scope]
        self._kept.add(scope)
        return found.remembered

    async def keep(self, client: Client, server: str) -> None:
        """This session has files, or is about to: it is on disk when this returns."""
        if not isinstance(client, LegacyClient) or client.channel is not None:
            return
        scope = self._scopes.of_session(client.alias)
        if scope in self._kept:
            return
        values = (scope, server, client.version, client.capabilities, client.info)
        await self._database.run(
            lambda connection: connection.execute(
                "INSERT OR REPLACE INTO sessions VALUES (?,?,?,?,?)", values
            )
        )
        self._kept.add(scope)

    def has(self, scope: str) -> bool:
        return scope in self._kept

    def forget(self, scope: str) -> None:
        """It has ended; the store removes what stands on disk."""
        self._kept.discard(scope)
        self._waiting.pop(scope, None)

    def unclaimed(self) -> list[Waiting]:
        """Those that nobody took up again for as long as a session may be idle."""
        return list(self._waiting.values()) if self._clock() > self._opened + self._idle_seconds else []


def _all(connection: sqlite3.Connection) -> list[Waiting]:
    rows = connection.execute("SELECT scope, server, version, capabilities, info FROM sessions")
    return [
        Waiting(scope, server, Remembered(version, bytes(capabilities), bytes(info)))
        for scope, server, version, capabilities, info in rows
    ]
