"""Runs the official suite directly and through the gateway, and compares them check by check."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from tests.conformance.configurations import CONFIGURATIONS, Configuration, Reference
from tests.conformance.coverage import Run
from tests.conformance.processes import ProcessFailed, gateway_program
from tests.conformance.report import (
    Impossible,
    Outcome,
    as_text,
    compare,
    read_impossible,
    unknown_names,
    write_page,
)
from tests.conformance.setup import SetupFailed, ensure
from tests.conformance.suites import run_configuration, run_directly

# The suite waits more than it works, but some of its scenarios look at the clock.
_AT_ONCE = 3


def main() -> int:
    options = _options()
    chosen = _chosen(options.only)
    if options.list:
        print("\n".join(configuration.name for configuration in chosen))
        return 0
    try:
        ensure()
        impossible = _checked_impossible()
    except (SetupFailed, ValueError) as problem:
        print(problem, file=sys.stderr)
        return 1
    folder = Path(tempfile.mkdtemp(prefix="mooring-conformance-"))
    try:
        outcomes = _run_all(chosen, impossible, folder, options.jobs)
    finally:
        if options.keep:
            print(f"everything the runs wrote is in {folder}", file=sys.stderr)
        else:
            shutil.rmtree(folder)
    print(as_text(outcomes))
    if options.write_docs:
        write_page(outcomes)
    return 0 if all(outcome.is_good for outcome in outcomes) else 1


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="run the official conformance suite through the gateway")
    parser.add_argument(
        "--only", action="append", default=[], metavar="NAME", help="part of a name; repeatable"
    )
    parser.add_argument("--list", action="store_true", help="print the configurations and stop")
    parser.add_argument("--keep", action="store_true", help="keep results and logs, and say where")
    parser.add_argument("--jobs", type=int, default=_AT_ONCE, help="how many to run at once")
    parser.add_argument(
        "--write-docs", action="store_true", help="write docs/conformance.md (needs a full run)"
    )
    options = parser.parse_args()
    if options.write_docs and options.only:
        parser.error("`--write-docs` writes the whole table: run it without `--only`")
    return options


def _chosen(parts: Sequence[str]) -> list[Configuration]:
    chosen = [each for each in CONFIGURATIONS if not parts or any(part in each.name for part in parts)]
    if not chosen:
        sys.exit(f"no configuration is called {' or '.join(f'`{part}`' for part in parts)}: see `--list`")
    return chosen


def _checked_impossible() -> list[Impossible]:
    if not gateway_program().exists():
        raise ValueError(
            f"there is no gateway to test: install the package so that {gateway_program()} exists"
        )
    impossible = read_impossible()
    if unknown := unknown_names(impossible, {each.name for each in CONFIGURATIONS}):
        raise ValueError(
            f"impossible.yaml names configurations that do not exist: {', '.join(sorted(unknown))}"
        )
    return impossible


def _run_all(
    chosen: Sequence[Configuration], impossible: Sequence[Impossible], folder: Path, jobs: int
) -> list[Outcome]:
    with ThreadPoolExecutor(jobs) as pool:
        references: dict[Reference, Future[Run]] = {}
        for configuration in chosen:
            reference = configuration.reference
            if reference not in references:
                references[reference] = pool.submit(run_directly, reference, folder / reference.name)
        comparisons = [
            pool.submit(_compare_one, each, references[each.reference], impossible, folder) for each in chosen
        ]
        outcomes = [comparison.result() for comparison in comparisons]
    # Several scenarios look at the clock: what was lost beside other runs is tried once more, alone.
    again = folder / "again"
    return [
        outcome
        if outcome.is_good
        else _compare_one(
            outcome.configuration, references[outcome.configuration.reference], impossible, again
        )
        for outcome in outcomes
    ]


def _compare_one(
    configuration: Configuration, reference: Future[Run], impossible: Sequence[Impossible], folder: Path
) -> Outcome:
    started = time.monotonic()
    # References were submitted first, so this waits for a run in progress, never for one behind it.
    direct = reference.result()
    try:
        through = run_configuration(configuration, folder / configuration.name)
        outcome = compare(configuration, direct, through, impossible)
    except (ProcessFailed, subprocess.TimeoutExpired) as problem:
        required = compare(configuration, direct, {}, []).required
        outcome = Outcome(configuration, required, {}, {}, broken=str(problem))
    seconds = time.monotonic() - started
    verdict = "ok" if outcome.is_good else f"{len(outcome.lost)} lost"
    print(f"{configuration.name}: {verdict} ({seconds:.0f} s)", file=sys.stderr)
    return outcome


if __name__ == "__main__":
    sys.exit(main())
