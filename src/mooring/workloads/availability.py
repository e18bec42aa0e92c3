"""Whether a workload can be called, and what to say when it cannot. Pure: a status and the time in."""

from __future__ import annotations

from typing import Final

from mooring.gateway.health import Absence, State
from mooring.workloads.lifecycle import Phase, Status, Wanted, may_be_called

RETRY_PATIENCE_SECONDS: Final = 10.0
"""A call waits for a restart that is due within this time; for a later one it is sent away."""


def is_coming(status: Status, now: float) -> bool:
    """Whether a call does well to wait."""
    if may_be_called(status) or (status.phase is Phase.STOPPING and status.wanted is Wanted.UP):
        return True
    return status.retry_at is not None and status.retry_at - now < RETRY_PATIENCE_SECONDS


def why_not(name: str, status: Status, now: float) -> str:
    """Why a call cannot be served, and what to do about it."""
    why = f" ({status.context})" if status.context else ""
    match status.phase:
        case Phase.STOPPED | Phase.STOPPING:
            return f"`{name}` is stopped: start it with `mooring start {name}`"
        case Phase.ERROR:
            return f"`{name}` cannot run{why}: mend it, then `mooring start {name}`"
        case Phase.STARTING | Phase.UNHEALTHY if status.retry_at is not None:
            left = max(0.0, status.retry_at - now)
            return f"`{name}` is down{why}; it is tried again in {left:.0f} s"
        case _:
            return f"`{name}` is {status.phase.value}{why}"


def is_put_down(status: Status) -> bool:
    """Stopped because somebody wanted it so: no illness, but nothing to call either."""
    return status.wanted is Wanted.DOWN


def absence_of(name: str, status: Status, now: float) -> Absence | None:
    """What the health report says in place of what the last calls told; None while they may speak."""
    match status.phase:
        case Phase.STOPPED | Phase.STOPPING | Phase.REMOVING | Phase.UNKNOWN:
            return Absence(State.IDLE, asleep=status.asleep)
        case Phase.STARTING if status.retry_at is None:
            return Absence(State.IDLE)
        case Phase.STARTING | Phase.UNHEALTHY | Phase.ERROR | Phase.POLICY_STOPPED:
            return Absence(State.DOWN, why_not(name, status, now))
        case Phase.RUNNING | Phase.UNAUTHENTICATED | Phase.AUTH_RETRYING:
            return None
