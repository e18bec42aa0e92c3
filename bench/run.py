"""One run of the benchmark: how large it is, what it has seen so far, and how its rounds are walked."""

from __future__ import annotations

import functools
import json
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import httptools

from bench import load
from bench.figures import Record, rotated
from bench.load import Burst
from bench.programs import MissingProgramError
from bench.targets import Stage, StartError, Target
from bench.wire import Session, WireError

SLOW = frozenset({"fastmcp", "fastmcp-shared", "mcp-proxy"})
# What a target can do to us; anything else is a defect of the benchmark and ends it.
_THEIR_FAULTS = (
    WireError,
    StartError,
    MissingProgramError,
    OSError,
    subprocess.TimeoutExpired,
    httptools.HttpParserError,
    json.JSONDecodeError,
    KeyError,
)


@dataclass(frozen=True, slots=True)
class Scale:
    """How long and how often.

    `suite_seconds` ends a suite's rounds early and `total_seconds` leaves out whole suites rather than
    letting a run grow.

    Slow peers lie so far off that their ratio needs fewer rounds than the others: `slow_rounds`.
    """

    name: str
    rounds: int
    slow_rounds: int
    suite_seconds: float
    total_seconds: float
    burst_seconds: int
    latency_calls: int
    slow_calls: int
    setup_sessions: int
    large_results: int
    progress_calls: int
    memory_rounds: int
    open_sessions: tuple[int, int]
    open_streams: int
    growth: tuple[int, ...]
    starts: int
    workloads: int


QUICK = Scale(
    name="quick",
    rounds=3,
    slow_rounds=1,
    suite_seconds=10.0,
    total_seconds=90.0,
    burst_seconds=1,
    latency_calls=200,
    slow_calls=32,
    setup_sessions=200,
    large_results=8,
    progress_calls=10,
    memory_rounds=1,
    open_sessions=(1_000, 10_000),
    open_streams=5_000,
    growth=(10, 1_000),
    starts=3,
    workloads=10,
)
FULL = Scale(
    name="full",
    rounds=7,
    slow_rounds=7,
    suite_seconds=115.0,
    total_seconds=1_100.0,
    burst_seconds=2,
    latency_calls=500,
    slow_calls=64,
    setup_sessions=500,
    large_results=20,
    progress_calls=30,
    memory_rounds=3,
    open_sessions=(1_000, 10_000),
    open_streams=5_000,
    growth=(10, 100, 1_000),
    starts=7,
    workloads=50,
)


@dataclass(slots=True)
class Run:
    stage: Stage
    scale: Scale
    record: Record
    say: Callable[[str], None]
    _broken: set[tuple[str, str]] = field(default_factory=set)

    def rounds(
        self, suite: str, targets: Sequence[str], visit: Callable[[str, int], None], rounds: int | None = None
    ) -> None:
        """Visits every target once a round, in rotating order; one that failed is not visited again."""
        began = time.monotonic()
        wanted = self.scale.rounds if rounds is None else rounds
        for number in range(wanted):
            if number and time.monotonic() - began > self.scale.suite_seconds:
                self.say(f"{suite}: {number} of {wanted} rounds, to stay within the time")
                return
            self.say(f"{suite}: round {number + 1} of {wanted}")
            for name in rotated(targets, number):
                if name in SLOW and number >= self.scale.slow_rounds:
                    continue
                self.attempt(suite, name, functools.partial(visit, name, number))

    def attempt(self, suite: str, target: str, work: Callable[[], None]) -> None:
        """What a target does wrong is noted and costs it the rest of the suite, not the run."""
        if (suite, target) in self._broken:
            return
        try:
            work()
        except _THEIR_FAULTS as error:
            self._broken.add((suite, target))
            self.record.failures.append(f"{suite}, {target}: {type(error).__name__}: {error}")
            self.say(f"{suite}, {target}: failed: {error}")

    def calls(
        self, target: Target, sessions: Sequence[Session], seconds: int | None = None
    ) -> tuple[Burst, float]:
        """A burst of echo calls with what it cost; the upstream must have seen every one of them."""
        seen = self.stage.upstream_calls()
        burst, cost = self.burst(target, sessions, seconds)
        reached = self.stage.upstream_calls() - seen
        if reached < burst.calls:
            raise WireError(f"{burst.calls} calls were answered, but only {reached} reached the upstream")
        return burst, cost

    def burst(
        self, target: Target, sessions: Sequence[Session], seconds: int | None = None
    ) -> tuple[Burst, float]:
        seconds = seconds or self.scale.burst_seconds
        if target.fast:
            return self.charged(target, lambda: load.with_wrk(sessions, seconds))
        return self.charged(
            target, lambda: load.with_event_loop(sessions, self.scale.slow_calls, 2.0 * seconds)
        )

    def charged(self, target: Target, work: Callable[[], Burst]) -> tuple[Burst, float]:
        """Runs the work and returns it with the CPU seconds it cost the target."""
        before = target.process.cpu_seconds()
        burst = work()
        return burst, target.process.cpu_seconds() - before
