"""The life of a workload as a pure function: `step(status, event, policy)` answers what it is and what to do.

A workload has one slot for a process (a remote one has a connection in its place). `Spawn` fills the slot,
and only `Exited` or `StartFailed` of that very process empties it; nothing is spawned while it is taken.
What the person wants (`Wanted`) is kept apart from what is (`Phase`), so that an exit means different things
at different times:

STOPPED ──start──▶ STARTING ──ready──▶ RUNNING ◀──▶ UNHEALTHY, UNKNOWN, AUTH_RETRYING, UNAUTHENTICATED
   ▲                  │  ▲                │
   └──── STOPPING ◀───┘  └── back-off ◀───┘ exit        too many exits in a row: ERROR
"""

from __future__ import annotations

from enum import Enum
from typing import TypeAlias, assert_never

from msgspec import Struct
from msgspec.structs import replace

from mooring.workloads.lifecycle_events import (
    Action,
    Answered,
    AuthFailed,
    CallWaiting,
    Event,
    Exited,
    Forget,
    Idled,
    Kill,
    PingFailed,
    PolicyStopWanted,
    Ready,
    RemoveWanted,
    RestartWanted,
    Spawn,
    StartFailed,
    StartWanted,
    StopWanted,
    Terminate,
    Ticked,
)


class Phase(Enum):
    """What a workload is doing, in the words that people see."""

    STARTING = "starting"
    RUNNING = "running"
    STOPPING = "stopping"
    STOPPED = "stopped"
    REMOVING = "removing"
    ERROR = "error"
    UNHEALTHY = "unhealthy"
    UNAUTHENTICATED = "unauthenticated"
    AUTH_RETRYING = "auth_retrying"
    UNKNOWN = "unknown"
    POLICY_STOPPED = "policy_stopped"


class Wanted(Enum):
    """What the person asked for last."""

    UP = "up"
    DOWN = "down"
    REMOVED = "removed"
    FORBIDDEN = "forbidden"
    """A policy asked, not a person."""


class RestartPolicy(Struct, frozen=True):
    """How patient the supervisor is. All times in seconds."""

    first_delay_seconds: float = 1.0
    longest_delay_seconds: float = 60.0
    flap_count: int = 5
    """So many ends in a row, and it is not tried again before somebody asks."""
    gives_up: bool = True
    """False for remote servers: they come back without us."""
    stable_seconds: float = 30.0
    """A run this long was a success, whatever ended it."""
    start_seconds: float = 120.0
    stop_seconds: float = 15.0
    """To end by itself and by the runtime's own steps, before it is killed without ceremony."""
    kill_seconds: float = 10.0
    missed_pings: int = 3
    """So many failed pings in a row make it unhealthy, and twice as many restart it."""
    recent_seconds: float = 90.0
    """A sign of life older than this does not count as one."""
    auth_ceiling_seconds: float = 24 * 3600.0
    idle_stop_seconds: float | None = None
    lazy: bool = False
    """Started by calls and not kept up between them: an end is no reason to start it again."""


class Status(Struct, frozen=True):
    """Everything there is to know about a workload's life."""

    phase: Phase = Phase.STOPPED
    wanted: Wanted = Wanted.DOWN
    context: str = ""
    process: int | None = None
    """The number of the attempt whose process may exist."""
    attempts: int = 0
    asleep: bool = False
    """Stopped for want of calls; the next one starts it."""
    failures: int = 0
    missed: int = 0
    since: float = 0.0
    """When this process was started, or when stopping began."""
    alive_at: float | None = None
    retry_at: float | None = None
    auth_since: float | None = None
    killed: bool = False


Step: TypeAlias = tuple[Status, list[Action]]

_ENDING = (Phase.STOPPING, Phase.REMOVING)
_ALIVE = (Phase.RUNNING, Phase.UNHEALTHY, Phase.UNKNOWN, Phase.AUTH_RETRYING, Phase.UNAUTHENTICATED)


def step(status: Status, event: Event, policy: RestartPolicy) -> Step:
    """What becomes of a workload by this event."""
    match event:
        case StartWanted():
            return _start(status, event.at)
        case RestartWanted():
            return _restart(status, event.at)
        case StopWanted() | RemoveWanted() | PolicyStopWanted():
            return _stop_as_wanted(status, event)
        case CallWaiting():
            return _start(status, event.at) if status.asleep and status.wanted is Wanted.UP else (status, [])
        case Ticked():
            return _tick(status, event.at, policy)
        case Ready() | Answered() | PingFailed() | AuthFailed() | Idled() | StartFailed() | Exited():
            if event.process != status.process:
                return status, []  # news of a process that is no longer ours
            return _heard(status, event, policy)
        case _:
            assert_never(event)


def recovered(status: Status, at: float) -> Status:
    """What a stored status means to a new supervisor: whatever ran, ended with the old one."""
    base = Status(wanted=status.wanted, attempts=status.attempts)
    match status.wanted:
        case Wanted.UP if status.asleep:
            return replace(base, asleep=True, context=_ASLEEP)
        case Wanted.UP if status.phase is Phase.ERROR:
            return replace(base, phase=Phase.ERROR, failures=status.failures, context=status.context)
        case Wanted.UP:
            return replace(base, phase=Phase.STARTING, retry_at=at, context="starting again with the daemon")
        case Wanted.REMOVED:
            return replace(base, phase=Phase.REMOVING)
        case Wanted.FORBIDDEN:
            return replace(base, phase=Phase.POLICY_STOPPED, context=status.context)
        case Wanted.DOWN:
            return base


def may_be_called(status: Status) -> bool:
    """Whether a call can be served now, or after a start that the call itself causes."""
    return status.wanted is Wanted.UP and (status.phase in _ALIVE or status.asleep or _starting(status))


def _starting(status: Status) -> bool:
    return status.phase is Phase.STARTING and status.process is not None


_ASLEEP = "idle; the next call starts it"


def _start(status: Status, at: float) -> Step:
    if status.wanted is Wanted.REMOVED:
        return status, []
    if status.process is not None and status.phase in _ENDING:
        # It starts again once it has ended; see `_ended`.
        return replace(status, wanted=Wanted.UP, asleep=False, context="stopping, to start again"), []
    status = replace(status, wanted=Wanted.UP, failures=0, asleep=False)
    if status.process is not None:
        return status, []
    return _spawn(status, at)


def _restart(status: Status, at: float) -> Step:
    if status.process is None or status.phase in _ENDING or status.wanted is Wanted.REMOVED:
        return _start(status, at)
    return _terminate(replace(status, wanted=Wanted.UP, failures=0), at, "stopping, to start again")


def _spawn(status: Status, at: float) -> Step:
    number = status.attempts + 1
    status = Status(Phase.STARTING, Wanted.UP, "", number, number, failures=status.failures, since=at)
    return status, [Spawn(number)]


def _terminate(status: Status, at: float, context: str, phase: Phase = Phase.STOPPING) -> Step:
    process = status.process
    assert process is not None
    status = replace(status, phase=phase, context=context, since=at, retry_at=None, killed=False)
    return status, [Terminate(process)]


def _stop_as_wanted(status: Status, event: StopWanted | RemoveWanted | PolicyStopWanted) -> Step:
    if status.wanted is Wanted.REMOVED and not isinstance(event, RemoveWanted):
        return status, []
    match event:
        case StopWanted():
            status = replace(status, wanted=Wanted.DOWN)
        case RemoveWanted():
            status = replace(status, wanted=Wanted.REMOVED)
        case PolicyStopWanted():
            status = replace(status, wanted=Wanted.FORBIDDEN, context=event.reason)
    if status.process is None:
        return _rest(replace(status, context=status.context if status.wanted is Wanted.FORBIDDEN else ""))
    ending = Phase.REMOVING if status.wanted is Wanted.REMOVED else Phase.STOPPING
    context = status.context if status.wanted is Wanted.FORBIDDEN else ""
    if status.phase in _ENDING:
        return replace(status, phase=ending, context=context, asleep=False), []
    return _terminate(replace(status, asleep=False), event.at, context, ending)


def _rest(status: Status) -> Step:
    """Nothing runs and nothing is to run."""
    quiet = Status(wanted=status.wanted, attempts=status.attempts, context=status.context)
    match status.wanted:
        case Wanted.REMOVED:
            return replace(quiet, phase=Phase.REMOVING), [Forget()]
        case Wanted.FORBIDDEN:
            return replace(quiet, phase=Phase.POLICY_STOPPED), []
        case Wanted.UP:
            return replace(quiet, asleep=True, context=_ASLEEP), []
        case Wanted.DOWN:
            return replace(quiet, context=""), []


def _heard(
    status: Status,
    event: Ready | Answered | PingFailed | AuthFailed | Idled | StartFailed | Exited,
    policy: RestartPolicy,
) -> Step:
    """News of the process that we have."""
    if isinstance(event, StartFailed | Exited):
        return _ended(status, event, policy)
    if status.phase in _ENDING or status.phase is Phase.ERROR:
        return status, []
    match event:
        case Ready():
            status = replace(status, since=event.at) if status.phase is Phase.STARTING else status
            return _alive(status, event.at), []
        case Answered() if status.auth_since is not None and event.at < status.auth_since:
            return status, []  # it answered before it stopped to know us
        case Answered():
            return _alive(status, event.at), []
        case PingFailed():
            return _ping_failed(status, event, policy)
        case AuthFailed():
            return _auth_failed(status, event, policy), []
        case Idled() if status.phase is Phase.RUNNING:
            return _terminate(replace(status, asleep=True), event.at, "nobody has called for a while")
        case Idled():
            return status, []


def _alive(status: Status, at: float) -> Status:
    return replace(
        status, phase=Phase.RUNNING, context="", alive_at=at, missed=0, auth_since=None, retry_at=None
    )


def _ping_failed(status: Status, event: PingFailed, policy: RestartPolicy) -> Step:
    if status.phase is Phase.STARTING:
        return status, []
    missed = status.missed + 1
    status = replace(status, missed=missed)
    if missed >= 2 * policy.missed_pings and policy.gives_up:
        status = replace(status, failures=status.failures + 1)
        return _terminate(status, event.at, f"restarting it: {event.reason}")
    if missed >= policy.missed_pings and status.phase in (Phase.RUNNING, Phase.UNKNOWN):
        return replace(status, phase=Phase.UNHEALTHY, context=event.reason), []
    return status, []


def _auth_failed(status: Status, event: AuthFailed, policy: RestartPolicy) -> Status:
    since = event.at if status.auth_since is None else status.auth_since
    over = event.permanent or event.at - since >= policy.auth_ceiling_seconds
    phase = Phase.UNAUTHENTICATED if over else Phase.AUTH_RETRYING
    return replace(status, phase=phase, context=event.reason, auth_since=since)


def _ended(status: Status, event: StartFailed | Exited, policy: RestartPolicy) -> Step:
    """The slot is empty again."""
    lasted = event.at - status.since
    ending = status.phase in _ENDING
    status = replace(status, process=None, killed=False, missed=0, alive_at=None, auth_since=None)
    if status.wanted is not Wanted.UP or status.asleep:
        return _rest(status)
    if ending:
        return (
            _back_off(status, event.at, policy, status.context)
            if status.failures
            else _spawn(status, event.at)
        )
    if policy.lazy:
        resting, _ = _rest(status)
        return replace(resting, context=f"{event.reason}; the next call starts it"), []
    failures = 1 if isinstance(event, Exited) and lasted >= policy.stable_seconds else status.failures + 1
    status = replace(status, failures=failures)
    if isinstance(event, StartFailed) and event.final:
        return replace(status, phase=Phase.ERROR, context=event.reason, retry_at=None), []
    return _back_off(status, event.at, policy, event.reason)


def _back_off(status: Status, at: float, policy: RestartPolicy, reason: str) -> Step:
    flapping = status.failures >= policy.flap_count
    if flapping and policy.gives_up:
        context = f"ended {status.failures} times in a row, the last time: {reason}"
        return replace(status, phase=Phase.ERROR, context=context, retry_at=None), []
    delay = min(
        policy.first_delay_seconds * 2.0 ** min(status.failures - 1, 30), policy.longest_delay_seconds
    )
    phase = Phase.UNHEALTHY if flapping else Phase.STARTING
    return replace(status, phase=phase, context=reason, retry_at=at + delay), []


def _tick(status: Status, at: float, policy: RestartPolicy) -> Step:
    if status.process is None:
        if status.retry_at is not None and at >= status.retry_at and status.wanted is Wanted.UP:
            return _spawn(status, at)
        return status, []
    if status.phase in _ENDING:
        return _tick_ending(status, at, policy)
    if status.phase is Phase.STARTING and at - status.since >= policy.start_seconds:
        status = replace(status, failures=status.failures + 1)
        return _terminate(status, at, f"it was not ready within {policy.start_seconds:g} s")
    heard = max(status.alive_at or 0.0, status.since)
    if status.phase is Phase.RUNNING and at - heard > policy.recent_seconds:
        return replace(status, phase=Phase.UNKNOWN, context=f"no sign of life for {at - heard:.0f} s"), []
    return status, []


def _tick_ending(status: Status, at: float, policy: RestartPolicy) -> Step:
    assert status.process is not None
    if not status.killed:
        if at - status.since < policy.stop_seconds:
            return status, []
        return replace(status, killed=True, since=at), [Kill(status.process)]
    if at - status.since < policy.kill_seconds:
        return status, []
    # The slot stays taken: a second process beside one that cannot be killed would be worse than none.
    context = "it could not be killed: look at it with `ps`, it may hang in the kernel"
    return replace(status, phase=Phase.ERROR, context=context), []
