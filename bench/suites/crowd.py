"""What Mooring costs when there is much of something: sessions, streams, servers, tools; and its start."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial

from bench import load, wire
from bench.figures import rotated
from bench.run import Run
from bench.suites.suite import Figure, Suite
from bench.targets import SERVER, Target
from bench.wire import Endpoint, Session, WireError

_SLOW_SESSIONS = 100
_CROWDS = ("empty", "full", "streaming")
_TURNS = 3
_GROWTH_TURNS = 2
_IDLE_SECONDS = 2.0
_KIND_NAMES = ("servers", "tools", "sessions", "nginx")
"""nginx has as many locations as the gateway has servers: what the machine makes of it, it shows, too."""


def startup(run: Run) -> None:
    """From the start of the process to the first answered initialize, and the memory it then has."""
    starts: dict[str, Callable[[], Target]] = {
        "nginx": run.stage.nginx,
        "mooring": lambda: run.stage.mooring([run.stage.remote(SERVER)]),
        "fastmcp": lambda: run.stage.fastmcp("default"),
    }

    def visit(name: str, number: int) -> None:
        target = starts[name]()
        run.record.add(
            "startup",
            name,
            number,
            ready_seconds=target.ready_seconds,
            cpu_seconds=target.process.cpu_seconds(),
            resident_mb=target.process.memory().resident_kb / 1000,
        )
        run.stage.end(target)

    run.rounds("startup", tuple(starts), visit)


def memory(run: Run) -> None:
    """Memory with many open sessions, and what a call costs meanwhile, against a Mooring without them."""
    for number in range(run.scale.memory_rounds):
        run.say(f"memory: round {number + 1} of {run.scale.memory_rounds}")
        run.attempt("memory", "mooring", lambda number=number: _crowded(run, number))
    run.attempt("memory", "fastmcp", lambda: _slow_peer(run))


def _crowded(run: Run, number: int) -> None:
    started = {name: run.stage.mooring([run.stage.remote(SERVER)]) for name in _CROWDS}
    streams = load.Streams()
    try:
        workers = {name: _warm(run, target) for name, target in started.items()}
        _fill_sessions(run, started["full"], number)
        _fill_streams(run, started["streaming"], streams, number)
        _measure_idle(run, started, number)
        for turn in range(_TURNS):
            for name in rotated(_CROWDS, turn):
                burst, cost = run.calls(started[name], workers[name])
                run.record.add("memory", name, number * _TURNS + turn, cpu_us=cost / burst.calls * 1e6)
    finally:
        streams.close()
        for target in started.values():
            run.stage.end(target)


def _measure_idle(run: Run, started: dict[str, Target], number: int) -> None:
    for name, milliseconds in _idle_cost(started).items():
        run.record.add("memory", name, number, idle_cpu_ms=milliseconds)


def _idle_cost(started: dict[str, Target]) -> dict[str, float]:
    """CPU milliseconds per second that each gateway spends while nobody asks it for anything."""
    before = {name: target.process.cpu_seconds() for name, target in started.items()}
    began = time.perf_counter()
    time.sleep(_IDLE_SECONDS)
    spent = time.perf_counter() - began
    return {
        name: (target.process.cpu_seconds() - before[name]) * 1e3 / spent for name, target in started.items()
    }


def _warm(run: Run, target: Target) -> list[Session]:
    """Memory is counted from a gateway that has already worked."""
    sessions = load.open_sessions(target.endpoint, load.CONNECTIONS)
    run.calls(target, sessions, seconds=1)
    return sessions


def _fill_sessions(run: Run, target: Target, number: int) -> None:
    base = target.process.memory().resident_kb
    run.record.add("memory", "mooring", number, resident_mb_0=base / 1000)
    opened = 0
    for count, word in zip(run.scale.open_sessions, ("some", "many"), strict=True):
        _open_and_use(target.endpoint, count - opened)
        opened = count
        resident = target.process.memory().resident_kb
        values = {f"resident_mb_{word}": resident / 1000, f"kb_per_session_{word}": (resident - base) / count}
        run.record.add("memory", "mooring", number, **values)


def _fill_streams(run: Run, target: Target, streams: load.Streams, number: int) -> None:
    base = target.process.memory().resident_kb
    count = run.scale.open_streams
    streams.open(_open_and_use(target.endpoint, count))
    resident = target.process.memory().resident_kb
    run.record.add(
        "memory",
        "mooring",
        number,
        resident_mb_streams=resident / 1000,
        kb_per_session_streams=(resident - base) / count,
    )


def _open_and_use(endpoint: Endpoint, count: int) -> list[Session]:
    """As many sessions as asked for, each with a call behind it."""
    sessions = load.open_sessions(endpoint, count)
    if len(sessions) < count:
        raise WireError(f"only {len(sessions)} of {count} sessions could be opened in time")
    load.use_sessions(sessions)
    return sessions


def _slow_peer(run: Run) -> None:
    target = run.stage.fastmcp("default")
    load.use_sessions(load.open_sessions(target.endpoint, 1))
    base = target.process.memory().resident_kb
    sessions = load.open_sessions(target.endpoint, _SLOW_SESSIONS, 10.0)
    load.use_sessions(sessions)
    resident = target.process.memory().resident_kb
    run.record.add(
        "memory",
        "fastmcp",
        0,
        resident_mb_0=base / 1000,
        kb_per_session_some=(resident - base) / len(sessions),
    )
    run.stage.end(target)


def growth(run: Run) -> None:
    """CPU per call with 10, 100 and 1,000 servers, tools or sessions; each as a ratio to the smallest.

    Every round starts them anew: where a process happens to lie in memory makes a difference for as long as
    it runs, and one that is as large as what is looked for here.
    """
    began = time.monotonic()
    for number in range(run.scale.rounds):
        if number and time.monotonic() - began > run.scale.suite_seconds:
            run.say(f"growth: {number} of {run.scale.rounds} rounds, to stay within the time")
            break
        run.say(f"growth: round {number + 1} of {run.scale.rounds}")
        _grow(run, number)
    for kind in _KIND_NAMES:
        for number, smallest in run.record.values("growth", kind, f"cpu_us_{run.scale.growth[0]}").items():
            for count in run.scale.growth[1:]:
                here = run.record.values("growth", kind, f"cpu_us_{count}").get(number)
                if here is not None:
                    run.record.add("growth", kind, number, **{f"ratio_{count}": here / smallest})
    for count in run.scale.growth[1:]:
        _compare_with_nginx(run, count)


def _grow(run: Run, number: int) -> None:
    ready: dict[tuple[str, int], tuple[Target, list[Session]]] = {}
    started: list[Target] = []

    def prepare(kind: str, count: int) -> None:
        started.append(target := _grown(run, kind, count))
        ready[kind, count] = (target, _spread_sessions(target, kind, count))

    def visit(kind: str, count: int, turn: int) -> None:
        target, sessions = ready[kind, count]
        load.use_sessions(sessions)  # what was idle since the last turn may have been closed
        burst, cost = run.calls(target, sessions, seconds=1)
        value = {f"cpu_us_{count}": cost / burst.calls * 1e6}
        run.record.add("growth", kind, number * _GROWTH_TURNS + turn, **value)

    try:
        for kind in _KIND_NAMES:
            for count in run.scale.growth:
                run.attempt("growth", f"{kind} {count}", partial(prepare, kind, count))
        if not number:
            _measure_idle_growth(run, ready)
        for turn in range(_GROWTH_TURNS):
            for kind, count in rotated(tuple(ready), number + turn):
                run.attempt("growth", f"{kind} {count}", partial(visit, kind, count, turn))
    finally:
        for target in started:
            run.stage.end(target)


def _measure_idle_growth(run: Run, ready: dict[tuple[str, int], tuple[Target, list[Session]]]) -> None:
    idle = _idle_cost({f"{kind} {count}": target for (kind, count), (target, _) in ready.items()})
    for name, milliseconds in idle.items():
        kind, _, count = name.partition(" ")
        run.record.add("growth", kind, 0, **{f"idle_cpu_ms_{count}": milliseconds})


def _compare_with_nginx(run: Run, count: int) -> None:
    theirs = run.record.values("growth", "nginx", f"ratio_{count}")
    for number, ours in run.record.values("growth", "servers", f"ratio_{count}").items():
        if number in theirs:
            run.record.add("growth", "servers", number, **{f"beside_{count}": ours / theirs[number]})


def _grown(run: Run, kind: str, count: int) -> Target:
    if kind == "nginx":
        return run.stage.nginx(*map(_path, range(count)))
    if kind == "servers":
        return run.stage.mooring([run.stage.remote(f"bench-{number}") for number in range(count)])
    path = f"/legacy/{count}" if kind == "tools" else "/legacy"
    return run.stage.mooring([run.stage.remote(SERVER, path)])


def _path(number: int) -> str:
    return f"/mcp/bench-{number}"


def _spread_sessions(target: Target, kind: str, count: int) -> list[Session]:
    """Sessions that use all there is: every server, a client that has listed every tool, every session."""
    if kind in ("servers", "nginx"):
        endpoints = [target.at(_path(number)) for number in range(count)]
        return [session for endpoint in endpoints for session in _open_and_use(endpoint, 1)]
    if kind == "tools":
        return [_listed(session, count) for session in _open_and_use(target.endpoint, load.CONNECTIONS)]
    return _open_and_use(target.endpoint, count)


def _listed(session: Session, count: int) -> Session:
    endpoint: Endpoint = session.endpoint
    with wire.Connection(endpoint.port) as connection:
        answer = connection.exchange(wire.rpc_request(endpoint, session.identifier, "tools/list", {}))
    tools = wire.result_of(answer, 1)["tools"]
    if len(tools) != count:
        raise WireError(f"{len(tools)} of {count} tools were listed")
    return session


def _growth_figures(sizes: Sequence[int]) -> tuple[Figure, ...]:
    costs = [Figure(f"cpu_us_{size}", f"CPU per call with {size:,}", "µs", compared=False) for size in sizes]
    ratios = [
        Figure(f"ratio_{size}", f"{size:,} against {sizes[0]:,}", "×", compared=False) for size in sizes[1:]
    ]
    beside = [
        Figure(f"beside_{size}", f"{size:,} against {sizes[0]:,}, over that of nginx", "×", compared=False)
        for size in sizes[1:]
    ]
    most = f"idle_cpu_ms_{sizes[-1]}"
    idle = Figure(most, f"CPU per second while nobody calls, {sizes[-1]:,}", "ms", compared=False)
    return (*costs, *ratios, *beside, idle)


SUITES = (
    Suite(
        "startup",
        "start until the first answered initialize",
        "nginx",
        (
            Figure("ready_seconds", "ready after", "s"),
            Figure("cpu_seconds", "CPU until ready", "s"),
            Figure("resident_mb", "idle RSS", "MB"),
        ),
        startup,
    ),
    Suite(
        "memory",
        "open legacy sessions",
        "empty",
        (
            Figure("resident_mb_0", "RSS, none open", "MB", compared=False),
            Figure("resident_mb_some", "RSS, 1,000 open", "MB", compared=False),
            Figure("resident_mb_many", "RSS, 10,000 open", "MB", compared=False),
            Figure("kb_per_session_some", "per session, 1,000 open (FastMCP: 100)", "kB", compared=False),
            Figure("kb_per_session_many", "per session, 10,000 open", "kB", compared=False),
            Figure("resident_mb_streams", "RSS, 5,000 open with a GET stream each", "MB", compared=False),
            Figure(
                "kb_per_session_streams", "per session with a GET stream, 5,000 open", "kB", compared=False
            ),
            Figure("cpu_us", "CPU per call meanwhile", "µs"),
            Figure("idle_cpu_ms", "CPU per second while nobody calls", "ms", compared=False),
        ),
        memory,
    ),
    Suite(
        "growth",
        "CPU per call as there is more of something",
        "",
        _growth_figures((10, 100, 1_000)),
        growth,
    ),
)
