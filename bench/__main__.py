"""`python -m bench`: runs the suites, prints the tables and the goals, keeps everything as JSON."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from dataclasses import replace
from types import FrameType

from rich.console import Console

from bench import report
from bench.figures import Record
from bench.processes import LOAD_CPU, allow_open_files, pin_here
from bench.programs import MissingProgramError, debian_program
from bench.run import FULL, QUICK, Run, Scale
from bench.suites import crossings, crowd, files, guard, passthrough, running
from bench.suites.suite import Suite
from bench.targets import Stage

_BEGAN = time.monotonic()
SUITES: tuple[Suite, ...] = (
    *passthrough.SUITES,
    *guard.SUITES,
    *crowd.SUITES,
    *crossings.SUITES,
    *running.SUITES,
    *files.SUITES,
)


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    suites = [suite for suite in SUITES if not options.only or suite.name in options.only]
    if options.write_docs and not _whole_parts(suites):
        print("`--write-docs` needs all suites of a part: leave out `--only`, or name them", file=sys.stderr)
        return 2
    scale = QUICK if options.quick else FULL
    if options.rounds is not None:
        scale = replace(scale, rounds=options.rounds, memory_rounds=min(options.rounds, scale.memory_rounds))
    try:
        debian_program("nginx")
        debian_program("wrk")
        record = _measure(suites, scale)
    except MissingProgramError as error:
        print(f"cannot run the benchmark: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped; nothing was left running", file=sys.stderr)
        return 130
    return _conclude(suites, record, options.write_docs)


def _measure(suites: list[Suite], scale: Scale) -> tuple[Record, dict[str, object]]:
    about = report.environment(scale.name, os.getloadavg()[0])
    signal.signal(signal.SIGTERM, _interrupt)
    allow_open_files()
    pin_here(LOAD_CPU)
    record = Record()
    with Stage() as stage:
        run = Run(stage, scale, record, _say)
        for suite in suites:
            if time.monotonic() - _BEGAN > scale.total_seconds:
                record.failures.append(f"{suite.name}: left out, the time of a {scale.name} run was used up")
                continue
            suite.run(run)
    about["seconds"] = round(time.monotonic() - _BEGAN)
    return record, about


def _conclude(suites: list[Suite], measured: tuple[Record, dict[str, object]], write_docs: bool) -> int:
    record, about = measured
    console = Console(width=None if sys.stdout.isatty() else 180)
    report.show(console, suites, record)
    place = report.save(record, about)
    print(f"{about['seconds']} s; everything observed is in {place.relative_to(report.programs.ROOT)}")
    if write_docs:
        for part in _whole_parts(suites):
            report.write_document([suite for suite in suites if suite.part == part], record, about)
        print(f"wrote {report.DOCUMENT.relative_to(report.programs.ROOT)}")
    return 1 if record.failures else 0


def _whole_parts(suites: list[Suite]) -> list[str]:
    """The parts of the document of which every suite runs."""
    parts = dict.fromkeys(suite.part for suite in suites)
    return [part for part in parts if all(suite in suites for suite in SUITES if suite.part == part)]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="three short rounds, under two minutes")
    parser.add_argument("--rounds", type=_positive, metavar="N", help="rounds per suite (quick: 3, full: 7)")
    names = [suite.name for suite in SUITES]
    parser.add_argument(
        "--only",
        action="append",
        choices=names,
        metavar="SUITE",
        help=f"one of {', '.join(names)}; repeatable",
    )
    parser.add_argument("--write-docs", action="store_true", help="put the figures into docs/performance.md")
    return parser


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return value


def _say(line: str) -> None:
    print(f"{time.monotonic() - _BEGAN:5.0f} s  {line}", file=sys.stderr, flush=True)


def _interrupt(_signal: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
