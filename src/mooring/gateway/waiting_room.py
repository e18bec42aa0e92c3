"""How many calls may wait for their clients' input, and what they may weigh: of one caller, and in all.

A call keeps its place until it is over, however often it asks: who was let in once is not turned away in the
middle. Callers who prove nothing are told apart by their addresses.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

from msgspec import Struct

from mooring.errors import TooMuch
from mooring.gateway.principal import ANONYMOUS, Caller

MAX_CALLS: Final = 1_000
"""Fewer than the connections that we open to one server: each such call may hold one."""
MAX_CALLS_PER_CALLER: Final = 100
MAX_BYTES: Final = 256 * 1024 * 1024
MAX_BYTES_PER_CALLER: Final = 64 * 1024 * 1024


class _Place(Struct, frozen=True):
    holder: str
    size: int
    until: float


class WaitingRoom:
    """The places that are taken; time is always an argument."""

    def __init__(self) -> None:
        self._places: dict[str, _Place] = {}
        self._calls: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()

    def enter(self, call: str, caller: Caller, size: int, until: float, now: float) -> None:
        """Take a place, unless the call has one; nobody waits there longer than until then. TooMuch: none is
        free."""
        if call in self._places:
            return
        holder = _holder(caller)
        calls, held = self._calls[holder], self._bytes[holder]
        if calls >= MAX_CALLS_PER_CALLER or (calls and held + size > MAX_BYTES_PER_CALLER):
            raise TooMuch(f"{calls} calls of this caller wait for its input already", self._wait(holder, now))
        if len(self._places) >= MAX_CALLS or (self._places and self._bytes.total() + size > MAX_BYTES):
            raise TooMuch("too many calls wait for input already", self._wait(None, now))
        self._places[call] = _Place(holder, size, until)
        self._calls[holder] += 1
        self._bytes[holder] += size

    def leave(self, call: str) -> None:
        place = self._places.pop(call, None)
        if place is None:
            return
        self._bytes[place.holder] -= place.size
        self._calls[place.holder] -= 1
        if not self._calls[place.holder]:
            del self._calls[place.holder], self._bytes[place.holder]

    def _wait(self, holder: str | None, now: float) -> float:
        """Until the first place is free, if nobody answers before."""
        ends = (each.until for each in self._places.values() if holder is None or each.holder == holder)
        return min(ends) - now


def _holder(caller: Caller) -> str:
    principal = caller.principal.id
    return f"{principal} at {caller.address}" if principal == ANONYMOUS.id else principal
