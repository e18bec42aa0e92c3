"""Servers that the gateway runs: what a sandbox adds to their start, and what each costs the daemon."""

from __future__ import annotations

import statistics

from bench.run import Run
from bench.sandbox import Starts
from bench.suites.suite import Figure, Suite
from bench.workloads import measure

_WAYS = ("plain", "bwrap", "sandboxed")


def sandbox(run: Run) -> None:
    """The three ways in turn within each round, so that all see the same machine."""
    with Starts() as starts:

        def visit(_name: str, number: int) -> None:
            found: dict[str, list[float]] = {way: [] for way in _WAYS}
            for _ in range(run.scale.starts):
                for way in _WAYS:
                    found[way].append(starts.milliseconds(way))
            plain = statistics.median(found["plain"])
            for way, times in found.items():
                taken = statistics.median(times)
                run.record.add("sandbox", way, number, start_ms=taken)
                if way != "plain":
                    run.record.add("sandbox", way, number, added_ms=taken - plain)

        run.rounds("sandbox", ("starts",), visit)


def workloads(run: Run) -> None:
    def visit(_name: str, number: int) -> None:
        costs = measure(run.scale.workloads)
        run.record.add(
            "workloads",
            "mooring",
            number,
            kb_per_running=costs.per_running / 1e3,
            kb_per_stopped=costs.per_stopped / 1e3,
            run_ms=costs.start_seconds * 1e3,
        )

    run.rounds("workloads", ("mooring",), visit, rounds=run.scale.memory_rounds)


SUITES = (
    Suite(
        "sandbox",
        "start of a server until its first answer",
        "plain",
        (
            Figure("start_ms", "until the first answer", "ms"),
            Figure("added_ms", "more than a plain process", "ms", compared=False),
        ),
        sandbox,
    ),
    Suite(
        "workloads",
        "servers run by the daemon",
        "mooring",
        (
            Figure("kb_per_running", "memory of the daemon per running workload", "kB", compared=False),
            Figure("kb_per_stopped", "per stopped one", "kB", compared=False),
            Figure("run_ms", "`POST /api/v1/workloads`, until it answered", "ms", compared=False),
        ),
        workloads,
    ),
)
