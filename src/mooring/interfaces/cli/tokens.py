"""`mooring tokens`: what a server's tools cost a model on every turn, and what could be saved."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from dataclasses import replace
from typing import Any, cast

from mooring.interfaces.cli.failure import Failed
from mooring.interfaces.cli.lint_source import Read, read, read_all
from mooring.interfaces.cli.output import one_line, print_table, printable
from mooring.prompt.counting import ENCODING, TURNS, count_block, count_frame, count_tool
from mooring.prompt.layouts import FIELDS, FRAME, LAYOUTS, Layout, render
from mooring.prompt.savings import Savings

_BAR_WIDTH = 24
Json = dict[str, Any]


def run(arguments: argparse.Namespace) -> int:
    """Count, and print; exit 1 if a server could not be read."""
    everything = arguments.source == "all" and not arguments.after
    sources, failed = read_all(arguments) if everything else ([read(arguments)], [])
    try:
        if arguments.show:
            for source in sources:
                print(printable(render(LAYOUTS[arguments.layout], _tools(source.tools))), end="")
        else:
            _report(arguments, [_count(arguments, source) for source in sources])
    except RecursionError as error:
        raise Failed("a schema is nested too deeply to be counted") from error
    for reason in failed:
        print(f"error: {reason}", file=sys.stderr)
    return 1 if failed else 0


def _report(arguments: argparse.Namespace, reports: list[Json]) -> None:
    if arguments.format == "json":
        print(json.dumps({"encoding": ENCODING, "turns": TURNS, "servers": reports}, indent=2))
        return
    for report in reports:
        _print(report)
    if len(reports) > 1:
        _print_servers(reports)


# Counting


def _count(arguments: argparse.Namespace, source: Read) -> Json:
    layout = LAYOUTS[arguments.layout]
    tools, unsaved = _tools(source.tools), _tools(source.unsaved)
    counts = [(tool, count_tool(layout, tool)) for tool in tools]
    fields = sum((count for _, count in counts), Counter({FRAME: count_frame(layout)}))
    return {
        "server": source.server,
        "layout": arguments.layout,
        "tokens_per_turn": fields.total(),
        "tokens_over_ten_turns": fields.total() * TURNS,
        "tokens_without_configured_savings": count_block(layout, unsaved),
        "layouts": {name: count_block(entry, tools) for name, entry in LAYOUTS.items()},
        "fields": {field: fields[field] for field in FIELDS},
        "tools": [
            {"name": str(tool.get("name")), "tokens": count.total(), "fields": dict(count)}
            for tool, count in sorted(counts, key=lambda pair: -pair[1].total())
        ],
        "savings": _savings(arguments, layout, tools, fields.total()),
    }


def _savings(arguments: argparse.Namespace, layout: Layout, tools: list[Json], now: int) -> dict[str, int]:
    """What each measure would take off what clients get now."""
    limit = arguments.description_limit
    all_of_them = Savings(
        strip_titles=True, collapse_whitespace=True, description_limit=limit, drop_unused_defs=True
    )
    measures = {
        "strip_titles": Savings(strip_titles=True),
        "collapse_whitespace": Savings(collapse_whitespace=True),
        f"description_limit: {limit}": Savings(description_limit=limit),
        "drop_unused_defs": Savings(drop_unused_defs=True),
        "all of these": all_of_them,
        "all without description_limit": replace(all_of_them, description_limit=None),
    }
    saved = {
        name: now - count_block(layout, [measure.applied(tool) for tool in tools])
        for name, measure in measures.items()
    }
    if arguments.allow or arguments.deny:
        saved["filter"] = now - count_block(layout, _filtered(arguments, tools))
    return saved


def _filtered(arguments: argparse.Namespace, tools: list[Json]) -> list[Json]:
    from mooring.policy.tools import ToolRules  # noqa: PLC0415 - only where a filter is asked about

    rules = ToolRules(arguments.allow, arguments.deny, {})
    return [tool for tool in tools if rules.shown(str(tool.get("name"))) is not None]


def _tools(values: list[Any]) -> list[Json]:
    return [cast("Json", value) for value in values if isinstance(value, dict)]


# Printing


def _print(report: Json) -> None:
    total: int = report["tokens_per_turn"]
    print(f"{one_line(report['server'])}: {total:,} tokens per turn, {total * TURNS:,} over {TURNS} turns")
    before: int = report["tokens_without_configured_savings"]
    if before != total:
        print(
            f"configured savings: {before:,} before, {total:,} after ({_share(before - total, before)} less)"
        )
    print()
    _bars("tool", {entry["name"]: entry["tokens"] for entry in report["tools"]}, total)
    _bars("field", {name: count for name, count in report["fields"].items() if count}, total)
    _bars("would save", report["savings"], total)
    rows = [
        [name, f"{count:,}", f"{count * TURNS:,}", LAYOUTS[name].about]
        for name, count in report["layouts"].items()
    ]
    print_table(("layout", "per turn", f"{TURNS} turns", "what it is"), rows)
    print()


def _print_servers(reports: list[Json]) -> None:
    total = sum(report["tokens_per_turn"] for report in reports)
    _bars("server", {report["server"]: report["tokens_per_turn"] for report in reports}, total)
    print(f"all: {total:,} tokens per turn, {total * TURNS:,} over {TURNS} turns")


def _bars(head: str, counts: dict[str, int], total: int) -> None:
    if not counts:
        return
    largest = max(*counts.values(), 1)
    block = "█" if (sys.stdout.encoding or "").lower().replace("-", "") == "utf8" else "#"
    rows = [
        [
            one_line(name),
            f"{count:,}".rjust(9),
            _share(count, total).rjust(6),
            block * round(_BAR_WIDTH * max(count, 0) / largest),
        ]
        for name, count in counts.items()
    ]
    print_table((head, "tokens".rjust(9), "share".rjust(6), ""), rows)
    print()


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f}%" if whole else "-"
