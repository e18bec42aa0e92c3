"""Values that cost a request to get: each asked for once at a time, kept until shortly before it expires."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Final, Generic, TypeVar

from mooring.policy.credentials.pool import Clock

EARLY_SECONDS: Final = 30.0
"""A token is not used any more shortly before it expires: it must still count when it arrives."""
YOUNG_SECONDS: Final = 5.0
MOST_KEPT: Final = 10_000

V = TypeVar("V")
Made = tuple[V, float]
"""A value, and for how many seconds it lasts."""


class ExpiringCache(Generic[V]):
    """By key; whoever asks for a key that is being made waits for that one."""

    def __init__(self, clock: Clock = time.monotonic, most: int = MOST_KEPT) -> None:
        self._clock = clock
        self._most = most
        self._kept: OrderedDict[Hashable, tuple[V, float, float]] = OrderedDict()
        self._making: dict[Hashable, asyncio.Task[V]] = {}

    async def get(self, key: Hashable, make: Callable[[], Awaitable[Made[V]]]) -> V:
        found = self._kept.get(key)
        if found is not None and self._clock() < found[1]:
            self._kept.move_to_end(key)
            return found[0]
        task = self._making.get(key)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._make(key, make))
            self._making[key] = task
            task.add_done_callback(lambda done: self._made(key, done))
        return await asyncio.shield(task)

    def drop(self, key: Hashable, *, unless_young: bool = False) -> bool:
        """Forget a value that did not do; a young one would only be had again. Whether it was forgotten."""
        found = self._kept.get(key)
        if found is not None and unless_young and self._clock() - found[2] < YOUNG_SECONDS:
            return False
        self._kept.pop(key, None)
        return True

    def __len__(self) -> int:
        return len(self._kept)

    async def _make(self, key: Hashable, make: Callable[[], Awaitable[Made[V]]]) -> V:
        value, seconds = await make()
        now = self._clock()
        self._kept[key] = (value, now + max(1.0, seconds - EARLY_SECONDS), now)
        self._kept.move_to_end(key)
        while len(self._kept) > self._most:
            self._kept.popitem(last=False)
        return value

    def _made(self, key: Hashable, task: asyncio.Task[V]) -> None:
        del self._making[key]
        if not task.cancelled():
            task.exception()  # whoever waits hears of it
