"""What can happen to a workload, and what can be done about it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

# What happened, or what somebody wants. `at` is the time, `process` the attempt it is about.


@dataclass(frozen=True, slots=True)
class StartWanted:
    at: float


@dataclass(frozen=True, slots=True)
class StopWanted:
    at: float


@dataclass(frozen=True, slots=True)
class RestartWanted:
    at: float


@dataclass(frozen=True, slots=True)
class RemoveWanted:
    at: float


@dataclass(frozen=True, slots=True)
class PolicyStopWanted:
    at: float
    reason: str


@dataclass(frozen=True, slots=True)
class CallWaiting:
    """Somebody calls the server."""

    at: float


@dataclass(frozen=True, slots=True)
class Ready:
    at: float
    process: int


@dataclass(frozen=True, slots=True)
class StartFailed:
    """Nothing runs, and why; `final` where trying again cannot help."""

    at: float
    process: int
    reason: str
    final: bool = False


@dataclass(frozen=True, slots=True)
class Exited:
    at: float
    process: int
    reason: str


@dataclass(frozen=True, slots=True)
class Answered:
    """A sign of life: an answered ping or call."""

    at: float
    process: int


@dataclass(frozen=True, slots=True)
class PingFailed:
    at: float
    process: int
    reason: str


@dataclass(frozen=True, slots=True)
class AuthFailed:
    at: float
    process: int
    reason: str
    permanent: bool


@dataclass(frozen=True, slots=True)
class Idled:
    """Nobody has called for as long as the policy says."""

    at: float
    process: int


@dataclass(frozen=True, slots=True)
class Ticked:
    at: float


Event: TypeAlias = (
    StartWanted
    | StopWanted
    | RestartWanted
    | RemoveWanted
    | PolicyStopWanted
    | CallWaiting
    | Ready
    | StartFailed
    | Exited
    | Answered
    | PingFailed
    | AuthFailed
    | Idled
    | Ticked
)


@dataclass(frozen=True, slots=True)
class Spawn:
    process: int


@dataclass(frozen=True, slots=True)
class Terminate:
    """End it in good order; `Exited` follows."""

    process: int


@dataclass(frozen=True, slots=True)
class Kill:
    process: int


@dataclass(frozen=True, slots=True)
class Forget:
    """Nothing of it is left: take it out of the books."""


Action: TypeAlias = Spawn | Terminate | Kill | Forget
