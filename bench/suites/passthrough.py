"""Mooring, nginx and FastMCP's proxy before one upstream: calls, latency, set-up, large results, progress."""

from __future__ import annotations

import time
from functools import partial

from bench import load, wire
from bench.run import Run
from bench.suites.suite import Figure, Suite
from bench.targets import Target
from bench.wire import Connection, Session

MEGABYTE = 1_000_000
PROGRESS_EVENTS = 100
PACE_MS = 16
STALL_SECONDS = 0.5
_COMPARED = ("nginx", "mooring", "fastmcp")
_SLOW_COUNT = 4


def calls(run: Run) -> None:
    """32 connections as fast as they go; every call has one of 32 sessions."""
    opened: dict[str, list[Session]] = {}

    def visit(name: str, number: int) -> None:
        target = run.stage.kept(name)
        if name not in opened:
            opened[name] = _checked_sessions(target)
        burst, cost = run.calls(target, opened[name])
        run.record.add(
            "calls",
            name,
            number,
            cpu_us=cost / burst.calls * 1e6,
            per_second=burst.per_second,
            per_core_second=burst.calls / cost,
            p50_us=burst.p50_us,
            p99_us=burst.p99_us,
        )

    run.rounds("calls", ("direct", *_COMPARED, "fastmcp-shared"), visit)
    _add_latency_over_direct(run, "calls", ("p50_us", "p99_us"))
    for name, sessions in opened.items():
        run.attempt("calls", name, partial(load.end_sessions, sessions))


def latency(run: Run) -> None:
    """One connection, call after call; and 32 connections that pause, so that nobody is saturated."""

    def visit(name: str, number: int) -> None:
        target = run.stage.kept(name)
        alone = load.one_by_one(target.endpoint, run.scale.latency_calls, 2.0)
        run.record.add("latency", name, number, c1_p50_us=alone.p50_us, c1_p99_us=alone.p99_us)
        if not target.fast:
            return
        sessions = _checked_sessions(target)
        paced = load.with_wrk(sessions, run.scale.burst_seconds, pace_ms=PACE_MS)
        load.end_sessions(sessions)
        run.record.add("latency", name, number, c32_p50_us=paced.p50_us, c32_p99_us=paced.p99_us)

    run.rounds("latency", ("direct", *_COMPARED), visit)
    _add_latency_over_direct(run, "latency", ("c1_p50_us", "c1_p99_us", "c32_p50_us", "c32_p99_us"))


def setup(run: Run) -> None:
    """initialize, initialized, tools/list: what a client does before its first call."""

    def visit(name: str, number: int) -> None:
        target = run.stage.kept(name)
        count = run.scale.setup_sessions if target.fast else _SLOW_COUNT
        before = target.process.cpu_seconds()
        burst, sessions = load.set_up_sessions(target.endpoint, count, 5.0)
        cost = target.process.cpu_seconds() - before
        load.end_sessions(sessions)
        run.record.add("setup", name, number, cpu_us=cost / burst.calls * 1e6, per_second=burst.per_second)

    run.rounds("setup", _COMPARED, visit)


def results(run: Run) -> None:
    """Results of 1 MB and 10 MB; the latter also with its id last, and for a client that stops reading."""

    def visit(name: str, number: int) -> None:
        target = run.stage.kept(name)
        for label, size, id_last in (("1mb", 1, False), ("10mb", 10, False), ("10mb_id_last", 10, True)):
            count = run.scale.large_results * (4 if size == 1 else 1) if target.fast else _SLOW_COUNT
            target.process.forget_peak()
            before = target.process.memory().resident_kb
            ask = partial(load.large_results, target.endpoint, size * MEGABYTE, count, 3.0, id_last=id_last)
            burst, cost = run.charged(target, ask)
            growth = target.process.memory().peak_kb - before
            values = {
                f"cpu_ms_{label}": cost / burst.calls * 1e3,
                f"mb_per_second_{label}": size * burst.per_second,
                f"peak_kb_{label}": max(0, growth),
            }
            run.record.add("results", name, number, **values)
        run.record.add("results", name, number, peak_kb_stalled=_stalled_growth(target))

    run.rounds("results", _COMPARED, visit)


def progress(run: Run) -> None:
    """A call that reports 100 times in a burst before its result."""

    def visit(name: str, number: int) -> None:
        target = run.stage.kept(name)
        count = run.scale.progress_calls if target.fast else _SLOW_COUNT
        before = target.process.cpu_seconds()
        burst, delivered = load.progress_calls(target.endpoint, PROGRESS_EVENTS, count, 3.0)
        cost = target.process.cpu_seconds() - before
        run.record.add(
            "progress",
            name,
            number,
            cpu_us=cost / burst.calls * 1e6,
            delivered=delivered,
            p50_us=burst.p50_us,
        )

    run.rounds("progress", (*_COMPARED, "fastmcp-shared"), visit)


def _add_latency_over_direct(run: Run, suite: str, metrics: tuple[str, ...]) -> None:
    """What a target adds is its latency less that of the bare upstream in the same round."""
    for metric in metrics:
        direct = run.record.values(suite, "direct", metric)
        for name in _COMPARED:
            for number, value in run.record.values(suite, name, metric).items():
                if number in direct:
                    run.record.add(suite, name, number, **{f"added_{metric}": value - direct[number]})


def _checked_sessions(target: Target) -> list[Session]:
    sessions = load.open_sessions(target.endpoint, load.CONNECTIONS)
    load.use_sessions(sessions)
    return sessions


def _stalled_growth(target: Target) -> float:
    """How far a target's memory rises while the client of a 10 MB result does not read."""
    with Connection(target.endpoint.port) as connection:
        session = wire.open_session(connection, target.endpoint)
        target.process.forget_peak()
        before = target.process.memory().resident_kb
        connection.send(wire.tool_call(session, "large", {"size": 10 * MEGABYTE}, identifier=9))
        time.sleep(STALL_SECONDS)
        growth = target.process.memory().peak_kb - before
        load.check_large(connection.receive(), 10 * MEGABYTE, 9)
        connection.exchange(wire.end_session(session))
    return max(0, growth)


SUITES = (
    Suite(
        "calls",
        "tools/call, 100 B, 32 connections",
        "nginx",
        (
            Figure("cpu_us", "CPU per call", "µs"),
            Figure("per_second", "calls per second", "/s"),
            Figure("per_core_second", "calls per CPU second", "/s"),
            Figure("added_p50_us", "added p50, saturated", "µs"),
            Figure("added_p99_us", "added p99, saturated", "µs"),
        ),
        calls,
    ),
    Suite(
        "latency",
        "added latency of a tools/call",
        "nginx",
        (
            Figure("added_c1_p50_us", "added p50, 1 connection", "µs"),
            Figure("added_c1_p99_us", "added p99, 1 connection", "µs"),
            Figure("added_c32_p50_us", "added p50, 32 connections, 2,000/s", "µs"),
            Figure("added_c32_p99_us", "added p99, 32 connections, 2,000/s", "µs"),
            Figure("c1_p50_us", "p50, 1 connection", "µs"),
            Figure("c32_p50_us", "p50, 32 connections, 2,000/s", "µs"),
        ),
        latency,
    ),
    Suite(
        "setup",
        "session set-up: initialize, initialized, tools/list",
        "nginx",
        (Figure("cpu_us", "CPU per session", "µs"), Figure("per_second", "sessions per second", "/s")),
        setup,
    ),
    Suite(
        "results",
        "large results",
        "nginx",
        (
            Figure("cpu_ms_1mb", "1 MB: CPU", "ms"),
            Figure("mb_per_second_1mb", "1 MB: rate", "MB/s"),
            Figure("peak_kb_1mb", "1 MB: peak memory growth", "kB", compared=False),
            Figure("cpu_ms_10mb", "10 MB: CPU", "ms"),
            Figure("mb_per_second_10mb", "10 MB: rate", "MB/s"),
            Figure("peak_kb_10mb", "10 MB: peak memory growth", "kB", compared=False),
            Figure("cpu_ms_10mb_id_last", "10 MB, id after the result: CPU", "ms"),
            Figure("peak_kb_10mb_id_last", "10 MB, id after the result: peak growth", "kB", compared=False),
            Figure("peak_kb_stalled", "10 MB, client does not read: peak growth", "kB", compared=False),
        ),
        results,
    ),
    Suite(
        "progress",
        "100 progress events in a burst",
        "nginx",
        (
            Figure("cpu_us", "CPU per call with 100 events", "µs"),
            Figure("delivered", "events delivered in order", "of 100", compared=False),
            Figure("p50_us", "call p50", "µs"),
        ),
        progress,
    ),
)
