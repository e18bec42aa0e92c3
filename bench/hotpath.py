"""`python -m bench.hotpath`: which functions a request runs, how often, and what each of them takes.

The numbers of calls are exact whatever else the machine does, so they show a gain that a busy machine hides.
The times are inflated by the profiler: compare them with each other, not with the benchmark's.
"""

from __future__ import annotations

import argparse
import os
import pstats
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench import load, programs
from bench.processes import LOAD_CPU, pin_here
from bench.suites import guard
from bench.suites.passthrough import MEGABYTE, PROGRESS_EVENTS
from bench.targets import SERVER, Stage, Target
from bench.wire import Endpoint, Era

_SECONDS = 20.0
_ERAS: tuple[Era, ...] = ("legacy", "modern")


@dataclass(frozen=True, slots=True)
class Line:
    """One function: how often a request calls it, and its own microseconds there."""

    calls: float
    microseconds: float
    name: str


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    pin_here(LOAD_CPU)
    with Stage() as stage:
        place = stage.folder / "profile"
        launcher = programs.HERE / "profiled.py"
        os.environ["BENCH_MOORING"] = f"{sys.executable} {launcher} {place}"
        with _started(stage, options) as target:
            requests = (
                _LOADS[options.what](target.endpoint)
                if options.sessions is None
                else _spread(target.endpoint, options.sessions)
            )
        stage.end(target)
        lines = read(pstats.Stats(str(place)), requests)
    _show(lines, requests, options.lines)
    return 0


@contextmanager
def _started(stage: Stage, options: argparse.Namespace) -> Iterator[Target]:
    if options.guarded:
        with guard.provider() as (keys_url, issuer, token):
            yield guard.guarded(stage, "guarded", guard.PLAIN, keys_url, issuer, token)
    else:
        yield stage.mooring([stage.remote(SERVER, f"/{options.server}")], options.client)


def read(stats: pstats.Stats, requests: int) -> list[Line]:
    """What ran at least every other request, the most expensive first."""
    found: list[Line] = []
    for (file, line, function), (_, calls, own, *_) in stats.stats.items():  # type: ignore[attr-defined]
        if calls * 2 >= requests:
            where = function if file == "~" else f"{Path(file).name}:{line} {function}"
            found.append(Line(calls / requests, own / requests * 1e6, where))
    return sorted(found, key=lambda each: -each.microseconds)


def _show(lines: list[Line], requests: int, count: int) -> None:
    total = sum(line.calls for line in lines)
    print(f"{requests} requests, {total:.1f} function calls each")
    for line in lines[:count]:
        print(f"{line.calls:8.2f} calls {line.microseconds:9.2f} µs  {line.name}")


def _calls(endpoint: Endpoint) -> int:
    sessions = load.open_sessions(endpoint, load.CONNECTIONS)
    return load.with_event_loop(sessions, 10_000, _SECONDS).calls


def _spread(endpoint: Endpoint, count: int) -> int:
    """Calls of so many sessions that take turns on the connections, as in the suite `growth`."""
    sessions = load.open_sessions(endpoint, count)
    load.use_sessions(sessions)
    return load.with_wrk(sessions, _SECONDS).calls


def _setup(endpoint: Endpoint) -> int:
    return load.set_up_sessions(endpoint, 2_000, _SECONDS)[0].calls


def _large(endpoint: Endpoint) -> int:
    return load.large_results(endpoint, 10 * MEGABYTE, 50, _SECONDS).calls


def _progress(endpoint: Endpoint) -> int:
    return load.progress_calls(endpoint, PROGRESS_EVENTS, 200, _SECONDS)[0].calls


_LOADS: dict[str, Callable[[Endpoint], int]] = {
    "calls": _calls,
    "setup": _setup,
    "large": _large,
    "progress": _progress,
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench.hotpath", description=__doc__)
    parser.add_argument("what", nargs="?", choices=list(_LOADS), default="calls")
    parser.add_argument("--client", choices=_ERAS, default="legacy", help="the era the client speaks")
    parser.add_argument("--server", choices=_ERAS, default="legacy", help="the era the server speaks")
    parser.add_argument(
        "--guarded", action="store_true", help="with tokens, policies, audit, metrics, filter"
    )
    parser.add_argument(
        "--sessions", type=int, metavar="N", help="small calls of so many sessions that share the connections"
    )
    parser.add_argument("--lines", type=int, default=40, help="how many functions to show")
    return parser


if __name__ == "__main__":
    sys.exit(main())
