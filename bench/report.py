"""What a run found, as tables for the terminal, as JSON, and as the generated part of docs/performance.md."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bench import programs
from bench.figures import Record, Spread
from bench.goals import Verdict, judge
from bench.processes import LOAD_CPU, TARGET_CPU
from bench.suites.suite import Figure, Suite

RESULTS = programs.HERE / "results"
DOCUMENT = programs.ROOT / "docs" / "performance.md"
BEGIN = "<!-- {part}: written by `make bench` with --write-docs, do not edit -->"
END = "<!-- end of {part} -->"
Row = tuple[str, ...]


def environment(scale: str, load_before: float) -> dict[str, Any]:
    """What a reader needs to know to weigh the figures."""
    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "mode": scale,
        "cpu": _cpu_model(),
        "cpus": os.cpu_count(),
        "target_cpu": TARGET_CPU,
        "load_cpu": LOAD_CPU,
        "load_average_before": round(load_before, 2),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "mooring": _distribution_version("mooring"),
        "commit": _commit(),
        "nginx": programs.version_of([programs.debian_program("nginx"), "-v"]).rpartition("/")[2],
        "wrk": programs.version_of([programs.debian_program("wrk"), "-v"]).partition("[")[0].strip(),
        "fastmcp": _pinned("fastmcp", "fastmcp"),
        "mcp-proxy": _pinned("mcp-proxy", "mcp-proxy"),
    }


def show(console: Console, suites: list[Suite], record: Record) -> None:
    for suite in suites:
        header, rows = table_of(suite, record)
        if not rows:
            continue
        table = Table(title=f"{suite.name}: {suite.title}", title_justify="left", header_style="bold")
        for number, name in enumerate(header):
            table.add_column(escape(name), justify="left" if number == 0 else "right", overflow="fold")
        for row in rows:
            table.add_row(*map(escape, row))
        console.print(table)
    show_goals(console, suites, record)
    for failure in record.failures:
        console.print(f"[bold red]FAILED[/] {escape(failure)}", highlight=False)


def show_goals(console: Console, suites: list[Suite], record: Record) -> None:
    ran = {suite.name for suite in suites}
    table = Table(title="goals", title_justify="left", header_style="bold")
    for name, side in (("goal", "left"), ("limit", "right"), ("figure", "right"), ("verdict", "left")):
        table.add_column(name, justify="right" if side == "right" else "left")
    for verdict in judge(record):
        if verdict.goal.suite not in ran:
            continue
        colour = "green" if verdict.reached else "red"
        table.add_row(*map(escape, goal_row(verdict)[:3]), f"[{colour}]{verdict.word}[/]")
    console.print(table)


def goal_row(verdict: Verdict) -> Row:
    goal = verdict.goal
    sign = "≤" if goal.sense == "at most" else "≥"
    figure = "–" if verdict.figure is None else number_with_spread(verdict.figure, goal.unit)
    return goal.text, f"{sign} {number(goal.limit)} {goal.unit}", figure, verdict.word


def table_of(suite: Suite, record: Record) -> tuple[Row, list[Row]]:
    """One row per figure, one column per target, with its ratio to the base in brackets after it."""
    targets = record.targets(suite.name)
    rows = [
        (figure.label, *(_cell(record, suite, figure, target) for target in targets))
        for figure in suite.figures
        if any(record.values(suite.name, target, figure.metric) for target in targets)
    ]
    return (f"median [min–max]{_base_note(suite)}", *targets), rows


def number(value: float) -> str:
    """Three significant digits, without powers of ten."""
    if value == 0:
        return "0"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    if abs(value) >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if abs(value) >= 0.1 else f"{value:.3f}"


def number_with_spread(figure: Spread, unit: str) -> str:
    middle = f"{number(figure.median)} {unit}".strip()
    if figure.rounds == 1:
        return middle
    return f"{middle} [{number(figure.low)}–{number(figure.high)}]"


def save(record: Record, about: dict[str, Any]) -> Path:
    """Everything observed, under bench/results/."""
    RESULTS.mkdir(exist_ok=True)
    place = RESULTS / f"{datetime.now(UTC).strftime('%Y%m%d-%H%M%S')}-{about['mode']}.json"
    verdicts = [
        {
            "goal": verdict.goal.text,
            "sense": verdict.goal.sense,
            "limit": verdict.goal.limit,
            "unit": verdict.goal.unit,
            "figure": None if verdict.figure is None else asdict(verdict.figure),
            "verdict": verdict.word,
        }
        for verdict in judge(record)
    ]
    document = {
        "environment": about,
        "goals": verdicts,
        "failures": record.failures,
        "observations": [asdict(each) for each in record.observations],
    }
    place.write_text(json.dumps(document, indent=1) + "\n")
    return place


def write_document(
    suites: list[Suite], record: Record, about: dict[str, Any], document: Path = DOCUMENT
) -> None:
    """Replaces the part of docs/performance.md that these suites fill; what people wrote around it stays."""
    begin, end = (mark.format(part=suites[0].part) for mark in (BEGIN, END))
    before, found, rest = document.read_text().partition(begin)
    _, found_end, after = rest.partition(end)
    if not found or not found_end:
        raise ValueError(
            f"`{document.name}` has lost its markers; put `{begin}` and `{end}` back around the figures"
        )
    document.write_text(before + begin + "\n\n" + markdown(suites, record, about) + "\n" + end + after)


def markdown(suites: list[Suite], record: Record, about: dict[str, Any]) -> str:
    parts = [
        _about_line(about),
        "",
        "### Goals",
        "",
        _markdown_table(("goal", "limit", "figure", "verdict"), _goal_rows(suites, record)),
    ]
    for suite in suites:
        header, rows = table_of(suite, record)
        if rows:
            parts += ["", f"### {suite.name}: {suite.title}", "", _markdown_table(header, rows)]
    names = tuple(suite.name for suite in suites)
    failures = [failure.splitlines()[0] for failure in record.failures if failure.startswith(names)]
    if failures:
        parts += ["", "### What failed in this run", "", *(f"- {failure}" for failure in failures)]
    return "\n".join(parts) + "\n"


def _goal_rows(suites: list[Suite], record: Record) -> list[Row]:
    names = {suite.name for suite in suites}
    return [goal_row(verdict) for verdict in judge(record) if verdict.goal.suite in names]


def _cell(record: Record, suite: Suite, figure: Figure, target: str) -> str:
    found = record.spread(suite.name, target, figure.metric)
    if found is None:
        return "–"
    text = number_with_spread(found, figure.unit)
    ratio = record.ratio(suite.name, target, suite.base, figure.metric) if figure.compared else None
    if ratio is None or target == suite.base:
        return text
    return f"{text} · {number(ratio.median)}×"


def _base_note(suite: Suite) -> str:
    compared = any(figure.compared for figure in suite.figures)
    return f" · ratio to {suite.base}" if compared and suite.base else ""


def _markdown_table(header: Row, rows: list[Row]) -> str:
    rule = ["---", *("---:" for _ in header[1:])]
    return "\n".join("| " + " | ".join(row) + " |" for row in (header, rule, *rows))


def _about_line(about: dict[str, Any]) -> str:
    machine = f"{about['cpus']} × {about['cpu']}, Linux {about['kernel']}, Python {about['python']}"
    peers = (
        f"nginx {about['nginx']}, FastMCP {about['fastmcp']}, mcp-proxy {about['mcp-proxy']}, {about['wrk']}"
    )
    return (
        f"{about['date']}, {about['mode']} run at commit {about['commit']}: {machine}, "
        f"load average before {about['load_average_before']}; {peers}."
    )


def _cpu_model() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _commit() -> str:
    said = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"],
        cwd=programs.ROOT,
        capture_output=True,
        text=True,
        timeout=10,
        check=False,
    )
    return said.stdout.strip() or "unknown"


def _distribution_version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


def _pinned(environment_name: str, package: str) -> str:
    for line in (programs.HERE / f"requirements-{environment_name}.txt").read_text().splitlines():
        if line.startswith(f"{package}=="):
            return line.partition("==")[2]
    return "unknown"


assert sys.platform == "linux", "the benchmark reads /proc; run it on Linux"
