"""The goals for speed and size, each with the figure that answers it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from bench.figures import Record, Spread, spread

STALLED_KB = 4_000  # well below the payload of 10 MB: what is left is buffers
FLAT_KB = 16_000  # a few blocks of 1 MB in each direction, and what the allocator keeps
NOT_SLOWER = 1.10  # what repeated bursts of the same thing differ by on a busy machine


@dataclass(frozen=True, slots=True)
class Goal:
    suite: str
    text: str
    sense: Literal["at most", "at least"]
    limit: float
    unit: str
    figure: Callable[[Record], Spread | None]


@dataclass(frozen=True, slots=True)
class Verdict:
    goal: Goal
    figure: Spread | None

    @property
    def word(self) -> str:
        if self.figure is None:
            return "not measured"
        return "reached" if self.reached else "not reached"

    @property
    def reached(self) -> bool:
        if self.figure is None:
            return False
        if self.goal.sense == "at most":
            return self.figure.median <= self.goal.limit
        return self.figure.median >= self.goal.limit


def judge(record: Record) -> list[Verdict]:
    return [Verdict(goal, goal.figure(record)) for goal in GOALS]


def _against(
    suite: str, metric: str, target: str = "mooring", other: str = "nginx"
) -> Callable[[Record], Spread | None]:
    return lambda record: record.ratio(suite, target, other, metric)


def _plain(suite: str, metric: str, target: str = "mooring") -> Callable[[Record], Spread | None]:
    return lambda record: record.spread(suite, target, metric)


def _highest(suite: str, *metrics: str) -> Callable[[Record], Spread | None]:
    """Memory must never rise above the limit: the worst round is the figure."""

    def figure(record: Record) -> Spread | None:
        found = [value for metric in metrics for value in record.values(suite, "mooring", metric).values()]
        whole = spread(found)
        return None if whole is None else Spread(whole.high, whole.low, whole.high, whole.rounds)

    return figure


GOALS = (
    Goal("calls", "CPU per call, against nginx (aim 1.5)", "at most", 2.0, "×", _against("calls", "cpu_us")),
    Goal("calls", "calls per second, against nginx", "at least", 0.5, "×", _against("calls", "per_second")),
    Goal(
        "latency",
        "added p50, 1 connection, against nginx",
        "at most",
        1.5,
        "×",
        _against("latency", "added_c1_p50_us"),
    ),
    Goal(
        "latency",
        "added p50, 32 connections at 2,000/s, against nginx",
        "at most",
        1.5,
        "×",
        _against("latency", "added_c32_p50_us"),
    ),
    Goal(
        "calls",
        "CPU per call of FastMCP's proxy, against Mooring",
        "at least",
        100.0,
        "×",
        _against("calls", "cpu_us", "fastmcp", "mooring"),
    ),
    Goal(
        "guard",
        "CPU per call with JWT, Cedar, audit, metrics and filter, against nginx",
        "at most",
        4.0,
        "×",
        _against("guard", "cpu_us", "guarded"),
    ),
    Goal(
        "guard",
        "CPU per call with JWT, Cedar, audit, metrics and filter, against the bare call",
        "at most",
        2.5,
        "×",
        _against("guard", "cpu_us", "guarded", "mooring"),
    ),
    Goal(
        "results", "10 MB result: CPU, against nginx", "at most", 1.5, "×", _against("results", "cpu_ms_10mb")
    ),
    Goal(
        "results",
        "10 MB result: memory bounded by the buffers (worst growth)",
        "at most",
        STALLED_KB,
        "kB",
        _highest("results", "peak_kb_10mb", "peak_kb_stalled"),
    ),
    Goal(
        "memory",
        "per idle legacy session, 10,000 open",
        "at most",
        20.0,
        "kB",
        _plain("memory", "kb_per_session_many"),
    ),
    Goal(
        "memory",
        "per session with an open GET stream, 5,000 open",
        "at most",
        20.0,
        "kB",
        _plain("memory", "kb_per_session_streams"),
    ),
    Goal(
        "memory",
        "CPU per call with 10,000 sessions open, against none",
        "at most",
        NOT_SLOWER,
        "×",
        _against("memory", "cpu_us", "full", "empty"),
    ),
    Goal(
        "memory",
        "CPU per call with 5,000 streams open, against none",
        "at most",
        NOT_SLOWER,
        "×",
        _against("memory", "cpu_us", "streaming", "empty"),
    ),
    Goal(
        "sandbox",
        "start of a sandboxed server, more than a plain process",
        "at most",
        30.0,
        "ms",
        _plain("sandbox", "added_ms", "sandboxed"),
    ),
    Goal(
        "workloads",
        "memory of the daemon per running workload",
        "at most",
        1_000.0,
        "kB",
        _plain("workloads", "kb_per_running"),
    ),
    Goal("startup", "idle RSS", "at most", 60.0, "MB", _plain("startup", "resident_mb")),
    Goal("startup", "ready after", "at most", 0.5, "s", _plain("startup", "ready_seconds")),
    Goal(
        "stdio",
        "stdio: CPU per call of mcp-proxy, against Mooring",
        "at least",
        10.0,
        "×",
        _against("stdio", "cpu_us", "mcp-proxy", "mooring"),
    ),
    Goal(
        "growth",
        "1,000 servers against 10: CPU per call, over that of nginx with as many locations",
        "at most",
        NOT_SLOWER,
        "×",
        _plain("growth", "beside_1000", "servers"),
    ),
    Goal(
        "growth",
        "1,000 tools against 10: CPU per call",
        "at most",
        NOT_SLOWER,
        "×",
        _plain("growth", "ratio_1000", "tools"),
    ),
    Goal(
        "growth",
        "1,000 sessions against 10: CPU per call",
        "at most",
        NOT_SLOWER,
        "×",
        _plain("growth", "ratio_1000", "sessions"),
    ),
    Goal(
        "progress",
        "100 progress events delivered in order",
        "at least",
        100.0,
        "of 100",
        _plain("progress", "delivered"),
    ),
    Goal("transfers", "1 GB upload, against nginx", "at least", 0.7, "×", _against("transfers", "upload")),
    Goal(
        "transfers", "1 GB download, against nginx", "at least", 0.7, "×", _against("transfers", "download")
    ),
    Goal(
        "transfers",
        "1 GB up and down: memory stays flat (worst growth)",
        "at most",
        FLAT_KB,
        "kB",
        _highest("transfers", "growth_kb"),
    ),
    Goal(
        "wired",
        "a call with a handle, against a plain one: CPU",
        "at most",
        1.5,
        "×",
        _against("wired", "cpu_us", "with a handle", "plain"),
    ),
    Goal(
        "wired",
        "a call that makes a file, against a plain one: CPU",
        "at most",
        1.5,
        "×",
        _against("wired", "cpu_us", "makes a file", "plain"),
    ),
)
