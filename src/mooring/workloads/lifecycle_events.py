"""What can happen to a workload, and what can be done about it."""

from __future__ import annotations

from typing import TypeAlias

from msgspec import Struct

# What happened, or what somebody wants. `at` is the time, `process` the attempt it is about.


class StartWanted(Struct, frozen=True):
    at: float


class StopWanted(Struct, frozen=True):
    at: float


class RestartWanted(Struct, frozen=True):
    at: float


class RemoveWanted(Struct, frozen=True):
    at: float


class PolicyStopWanted(Struct, frozen=True):
    at: float
    reason: str


class CallWaiting(Struct, frozen=True):
    """Somebody calls the server."""

    at: float


class Ready(Struct, frozen=True):
    at: float
    process: int


class StartFailed(Struct, frozen=True):
    """Nothing runs, and why; `final` where trying again cannot help."""

    at: float
    process: int
    reason: str
    final: bool = False


class Exited(Struct, frozen=True):
    at: float
    process: int
    reason: str


class Answered(Struct, frozen=True):
    """A sign of life: an answered ping or call."""

    at: float
    process: int


class PingFailed(Struct, frozen=True):
    at: float
    process: int
    reason: str


class AuthFailed(Struct, frozen=True):
    at: float
    process: int
    reason: str
    permanent: bool


class Idled(Struct, frozen=True):
    """Nobody has called for as long as the policy says."""

    at: float
    process: int


class Ticked(Struct, frozen=True):
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


class Spawn(Struct, frozen=True):
    process: int


class Terminate(Struct, frozen=True):
    """End it in good order; `Exited` follows."""

    process: int


class Kill(Struct, frozen=True):
    process: int


class Forget(Struct, frozen=True):
    """Nothing of it is left: take it out of the books."""


Action: TypeAlias = Spawn | Terminate | Kill | Forget
