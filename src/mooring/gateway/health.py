"""Whether a server can be used: a circuit breaker, and a report that never says `up` without a recent
success.

CLOSED ──failures in a row──▶ OPEN ──open_seconds pass──▶ HALF_OPEN ──probe succeeds──▶ CLOSED
                                ▲──────────── probe fails ───────┘
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from msgspec import Struct

from mooring.errors import UpstreamFailed

RECENT_SECONDS: Final = 300.0
"""How long a success counts as a sign of life."""


class State(Enum):
    IDLE = "idle"
    UP = "up"
    DOWN = "down"


class BreakerPolicy(Struct, frozen=True):
    failures: int = 5
    open_seconds: float = 10.0


class Absence(Struct, frozen=True):
    """Somebody who knows better than the last calls: there is nothing to call now."""

    state: State
    reason: str = ""
    asleep: bool = False
    """The next call starts it: that the last one failed still counts."""


class Health:
    """What the last calls told about a server; time is always an argument."""

    __slots__ = (
        "_failures",
        "_last_failure",
        "_last_success",
        "_opened_at",
        "_policy",
        "_probing_since",
        "absence",
        "calls",
        "errors",
        "tripped",
    )

    def __init__(self, policy: BreakerPolicy) -> None:
        self._policy = policy
        self._failures = 0
        self._opened_at: float | None = None
        self._probing_since: float | None = None
        self._last_success: float | None = None
        self._last_failure: tuple[float, str] | None = None
        self.calls = 0
        self.errors = 0
        self.tripped = False
        """Whether the breaker is anything but closed."""
        self.absence: Absence | None = None

    def succeeded(self, now: float) -> None:
        self.calls += 1
        self._last_success = now
        if self._failures:
            self._failures = 0
            self._opened_at = None
            self._probing_since = None
            self.tripped = False

    def failed(self, now: float, reason: str) -> None:
        self.calls += 1
        self.errors += 1
        self._failures += 1
        self._last_failure = (now, reason)
        if self._failures >= self._policy.failures or self._probing_since is not None:
            self._opened_at = now
            self._probing_since = None
            self.tripped = True

    def failed_with(self, error: UpstreamFailed, now: float) -> None:
        """A start that fails, or a death, is one failure, however many calls it costs."""
        if error.noted:
            self.calls += 1
            self.errors += 1
        else:
            error.noted = True
            self.failed(now, str(error))

    def blocked_for(self, now: float) -> float:
        """Seconds until a call may be tried again; 0 lets this one through (as the probe, when half open)."""
        if self._opened_at is None:
            return 0.0
        left = self._opened_at + self._policy.open_seconds - now
        if left > 0:
            return left
        if self._probing_since is not None:
            waited = now - self._probing_since
            if waited < self._policy.open_seconds:  # a probe that was given up must not block for ever
                return self._policy.open_seconds - waited
        self._probing_since = now
        return 0.0

    def state(self, now: float) -> State:
        """Never `up` where nothing runs, however recently it did."""
        failed = self._last_failure is not None and (
            self._last_success is None or self._last_failure[0] > self._last_success
        )
        if self.absence is not None and not (self.absence.asleep and failed):
            return self.absence.state
        if failed:
            return State.DOWN
        if self._last_success is not None and now - self._last_success <= RECENT_SECONDS:
            return State.UP
        return State.IDLE

    def reasons(self, now: float) -> list[str]:
        if self.state(now) is not State.DOWN:
            return []
        if self.absence is not None and self.absence.reason:
            return [self.absence.reason]
        if self._last_failure is None:
            return []
        reasons = [self._last_failure[1]]
        if self._opened_at is not None:
            left = max(0.0, self._opened_at + self._policy.open_seconds - now)
            reasons.append(f"not tried for another {left:.0f} s after {self._failures} failures in a row")
        return reasons

    def since_success(self, now: float) -> float | None:
        return None if self._last_success is None else now - self._last_success
