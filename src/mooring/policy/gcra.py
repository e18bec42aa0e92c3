"""The generic cell rate algorithm: so many per time, with a burst, in one number per key."""

from __future__ import annotations

import itertools
from typing import Final

MAX_KEYS: Final = 100_000
"""Keys remembered at most; the ones that are full again are forgotten first."""
FORGET_FROM: Final = MAX_KEYS * 9 // 10


class Gcra:
    """Allows `burst` at once and `count` per `seconds` in the long run, for each key apart."""

    def __init__(self, count: float, seconds: float, burst: int) -> None:
        self.interval = seconds / count
        self.tolerance = self.interval * (burst - 1)
        self._arrivals: dict[str, float] = {}

    def wait(self, key: str, now: float) -> float:
        """0, and one of the key's allowance is spent; or how long until there is one again."""
        due = max(self._arrivals.get(key, now), now)
        wait = due - self.tolerance - now
        if wait > 1e-9:
            return wait
        self._arrivals[key] = due + self.interval
        if len(self._arrivals) > MAX_KEYS:
            self._forget(now)
        return 0.0

    def would_wait(self, key: str, now: float) -> float:
        """The same, without spending anything."""
        due = self._arrivals.get(key)
        return 0.0 if due is None else max(0.0, due - self.tolerance - now)

    def give_back(self, key: str) -> None:
        """What was spent for something that another limit refused."""
        if key in self._arrivals:
            self._arrivals[key] -= self.interval

    def _forget(self, now: float) -> None:
        self._arrivals = {key: due for key, due in self._arrivals.items() if due > now}
        # All of them busy: the oldest may start afresh. Many at a time, since looking at all of them is work.
        if len(self._arrivals) > FORGET_FROM:
            for key in list(itertools.islice(self._arrivals, len(self._arrivals) - FORGET_FROM)):
                del self._arrivals[key]
