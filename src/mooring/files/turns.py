"""Who may do something costly now: a few at the same time, fewer of one scope; the others wait their turn.

Scopes take turns, not callers: who asks a hundred times waits behind itself, and not everybody behind it.
"""

from __future__ import annotations

import asyncio
from collections import Counter, OrderedDict, deque
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from mooring.files.faults import TooMany


@dataclass(frozen=True, slots=True)
class TurnRules:
    """How many at the same time, in all and of one scope; and how many may wait, and how long."""

    running: int
    running_per_scope: int
    waiting: int
    waiting_per_scope: int
    wait_seconds: float


class Turns:
    """The places, and the queues before them."""

    def __init__(self, rules: TurnRules) -> None:
        self.rules = rules
        self._running: Counter[str] = Counter()
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()

    @property
    def running(self) -> int:
        return self._running.total()

    @property
    def waiting(self) -> int:
        return sum(map(len, self._waiting.values()))

    @asynccontextmanager
    async def turn(self, scope: str) -> AsyncGenerator[None]:
        """A place while the block runs; `TooMany` if there is no room to wait, or it took too long."""
        if self._is_free(scope):
            self._running[scope] += 1
        else:
            await self._wait(scope)
        try:
            yield
        finally:
            self._leave(scope)

    def _is_free(self, scope: str) -> bool:
        """Nobody waits for a place that is free: whoever could take it was called when it became so."""
        return self.running < self.rules.running and self._running[scope] < self.rules.running_per_scope

    async def _wait(self, scope: str) -> None:
        queue = self._waiting.get(scope, deque[asyncio.Future[None]]())
        if len(queue) >= self.rules.waiting_per_scope:
            raise TooMany(f"{len(queue)} searches of this session wait already: wait for their answers first")
        if self.waiting >= self.rules.waiting:
            raise TooMany("too many searches wait in the gateway: try again in a minute")
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(scope, queue).append(place)
        try:
            async with asyncio.timeout(self.rules.wait_seconds):
                await place
        except BaseException as error:
            self._give_up(scope, place)
            if isinstance(error, TimeoutError):
                raise TooMany("other searches take all the time: try again in a minute") from None
            raise

    def _give_up(self, scope: str, place: asyncio.Future[None]) -> None:
        if place.done() and not place.cancelled():  # it was called at the same moment
            self._leave(scope)
            return
        queue = self._waiting.get(scope)
        if queue is not None and place in queue:
            queue.remove(place)
            if not queue:
                del self._waiting[scope]

    def _leave(self, scope: str) -> None:
        self._running[scope] -= 1
        if not self._running[scope]:
            del self._running[scope]
        while (called := self._next()) is not None:
            queue = self._waiting.pop(called)
            place = queue.popleft()
            if queue:
                self._waiting[called] = queue  # behind all others
            if not place.done():  # else it was cancelled, and has not yet got round to leaving
                self._running[called] += 1
                place.set_result(None)

    def _next(self) -> str | None:
        return next((scope for scope in self._waiting if self._is_free(scope)), None)
