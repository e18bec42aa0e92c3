"""One timer that checks the deadlines of many connections.

A timer per request costs more than the request's own parsing. Here a connection only stores a number
(`deadline`), and a sweep over all of them runs a few times per second while there are any; once a second
while there are thousands, most of which are streams that wait.

The clock is coarse and forgiving: it is read once per sweep and never advances by more than two ticks at a
time, so a stall of our own process does not count against its peers.
"""

from __future__ import annotations

import asyncio
from typing import Protocol
from weakref import WeakKeyDictionary

SWEEP_SECONDS = 0.25
LONGEST_SWEEP_SECONDS = 1.0
LOOKS_PER_SECOND = 5_000
NEVER = float("inf")


class Swept(Protocol):
    """Something with a deadline on the sweep's clock."""

    deadline: float

    def deadline_passed(self) -> None:
        """Act, and set a later `deadline` (or leave the sweep)."""
        ...


class Sweep:
    """The clock and the set of connections it watches; runs only while the set is not empty."""

    __slots__ = ("_elapsed", "_loop", "_pause", "_read_at", "_timer", "clock", "members")

    def __init__(self) -> None:
        self.members: set[Swept] = set()
        self.clock = SWEEP_SECONDS
        self._pause = SWEEP_SECONDS
        self._elapsed = 0.0
        self._read_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def add(self, member: Swept) -> None:
        self.members.add(member)
        if self._timer is None:
            loop = self._loop = asyncio.get_running_loop()
            self._read_at = loop.time()
            self._pause = SWEEP_SECONDS
            self._timer = loop.call_later(SWEEP_SECONDS, self._tick)

    def discard(self, member: Swept) -> None:
        self.members.discard(member)

    def _tick(self) -> None:
        loop = self._loop
        assert loop is not None
        now = loop.time()
        self._elapsed = elapsed = self._elapsed + min(now - self._read_at, 2 * self._pause)
        self._read_at = now
        wanted = len(self.members) / LOOKS_PER_SECOND
        self._pause = pause = min(max(wanted, SWEEP_SECONDS), LONGEST_SWEEP_SECONDS)
        # The clock names the end of the coming tick: a deadline counted from it is never early.
        self.clock = elapsed + pause
        self._timer = loop.call_later(pause, self._tick) if self.members else None
        if self._timer is None:
            self._loop = None
        # Collect first: an expired connection leaves the set while we look at it.
        for member in [member for member in self.members if member.deadline <= elapsed]:
            member.deadline_passed()


_shared: WeakKeyDictionary[asyncio.AbstractEventLoop, Sweep] = WeakKeyDictionary()


def shared_sweep() -> Sweep:
    """The sweep of all clients in this loop: with one for each, a thousand servers are a thousand timers."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:  # made before its loop runs
        return Sweep()
    found = _shared.get(loop)
    if found is None:
        found = _shared[loop] = Sweep()
    return found
