"""Guards that were replaced: what only they used is closed when nobody is on the way through it any more."""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from mooring.config import guarding
from mooring.config.guard_part import Part
from mooring.gateway.exchange import Exchange
from mooring.gateway.server import Server


class _Outgoing(Struct, frozen=True):
    """Parts of an earlier guard, and who was on the way through it when it was replaced."""

    parts: list[Part]
    users: list[tuple[Server, Exchange]]

    @property
    def is_done(self) -> bool:
        if any(exchange in server.exchanges for server, exchange in self.users):
            return False
        return not any(part.is_busy is not None and part.is_busy() for part in self.parts)


class OutgoingGuards:
    """Those of one gateway, the oldest first."""

    def __init__(self) -> None:
        self._all: list[_Outgoing] = []

    def add(self, parts: list[Part], servers: Iterable[Server]) -> None:
        """These parts are in force no longer; who of these servers is being served may still need them."""
        if parts:
            users = [(server, exchange) for server in servers for exchange in server.exchanges]
            self._all.append(_Outgoing(parts, users))

    @property
    def any_done(self) -> bool:
        return any(outgoing.is_done for outgoing in self._all)

    async def close_done(self) -> None:
        for outgoing in [each for each in self._all if each.is_done]:
            self._all.remove(outgoing)
            await guarding.close_parts(outgoing.parts)

    async def close(self) -> None:
        for outgoing in self._all:
            await guarding.close_parts(outgoing.parts)
