"""Where the two sides differ: a stdio server behind HTTP, and clients and servers of different eras."""

from __future__ import annotations

from functools import partial

from bench import load, programs, wire
from bench.run import Run
from bench.suites.passthrough import MEGABYTE, PROGRESS_EVENTS
from bench.suites.suite import Figure, Suite
from bench.targets import SERVER, Target
from bench.wire import Session

_BRIDGE_TARGETS = (
    "nginx",
    "legacy → legacy",
    "modern → modern",
    "modern → legacy",
    "legacy → modern",
)
_SLOW_COUNT = 3


def stdio(run: Run) -> None:
    """One child process for all clients, behind Mooring and behind mcp-proxy; the child's CPU counts too."""
    child = [str(programs.compiled("stdio_upstream"))]
    started: dict[str, Target] = {}
    shared: dict[str, list[Session]] = {}

    def start(name: str) -> Target:
        if name == "mooring":
            workload = {"run": child, "transport": "stdio"}
            return run.stage.mooring([{"id": SERVER, "workload": workload, "share": "global"}])
        return run.stage.mcp_proxy(child)

    def visit(name: str, number: int) -> None:
        if name not in started:
            started[name] = start(name)
            shared[name] = load.open_sessions(started[name].endpoint, load.CONNECTIONS)
            load.use_sessions(shared[name])
        _measure_stdio(run, name, started[name], shared[name], number)

    run.rounds("stdio", ("mooring", "mcp-proxy"), visit)
    for target in started.values():
        run.stage.end(target)


def _measure_stdio(run: Run, name: str, target: Target, sessions: list[Session], number: int) -> None:
    add = partial(run.record.add, "stdio", name, number)
    burst, cost = run.burst(target, sessions)
    add(cpu_us=cost / burst.calls * 1e6, per_second=burst.per_second)
    add(c1_p50_us=load.one_by_one(target.endpoint, 100, 1.0).p50_us)
    before = target.process.cpu_seconds()
    opened, more = load.set_up_sessions(target.endpoint, 40, 2.0)
    add(setup_cpu_us=(target.process.cpu_seconds() - before) / opened.calls * 1e6)
    load.end_sessions(more)
    add(delivered=load.progress_calls(target.endpoint, PROGRESS_EVENTS, _SLOW_COUNT, 3.0)[1])
    large = partial(load.large_results, target.endpoint, 10 * MEGABYTE, _SLOW_COUNT, 3.0)
    burst, cost = run.charged(target, large)
    add(cpu_ms_10mb=cost / burst.calls * 1e3)


def bridges(run: Run) -> None:
    """The same call where client and server speak different eras; nginx relays the legacy one."""
    started: dict[str, Target] = {}
    opened: dict[str, list[Session]] = {}

    def open_for(name: str) -> None:
        if name == "nginx":
            started[name] = run.stage.kept("nginx")
            endpoint = started[name].endpoint
        else:
            client, _, server = name.partition(" → ")
            started[name] = run.stage.mooring([run.stage.remote(SERVER, f"/{server}")], _era(client))
            endpoint = started[name].endpoint
        opened[name] = load.open_sessions(endpoint, load.CONNECTIONS)
        load.use_sessions(opened[name])

    def visit(name: str, number: int) -> None:
        if name not in opened:
            open_for(name)
        burst, cost = run.calls(started[name], opened[name])
        run.record.add(
            "bridges",
            name,
            number,
            cpu_us=cost / burst.calls * 1e6,
            per_second=burst.per_second,
            p50_us=burst.p50_us,
        )

    run.rounds("bridges", _BRIDGE_TARGETS, visit, rounds=max(2, run.scale.rounds - 2))
    for name, target in started.items():
        if name != "nginx":
            run.stage.end(target)


def _era(name: str) -> wire.Era:
    return "modern" if name == "modern" else "legacy"


SUITES = (
    Suite(
        "stdio",
        "stdio server behind HTTP",
        "mooring",
        (
            Figure("cpu_us", "CPU per call, 32 connections", "µs"),
            Figure("per_second", "calls per second", "/s"),
            Figure("c1_p50_us", "p50, 1 connection", "µs"),
            Figure("setup_cpu_us", "CPU per session set-up", "µs"),
            Figure("cpu_ms_10mb", "10 MB result: CPU", "ms"),
            Figure("delivered", "progress events delivered in order", "of 100", compared=False),
        ),
        stdio,
    ),
    Suite(
        "bridges",
        "client → server, 100 B, 32 connections",
        "nginx",
        (
            Figure("cpu_us", "CPU per call", "µs"),
            Figure("per_second", "calls per second", "/s"),
            Figure("p50_us", "p50, saturated", "µs"),
        ),
        bridges,
    ),
)
