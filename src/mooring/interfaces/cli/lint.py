"""`mooring lint`: what in a server's tools will trip a model or a client, and how to mend it."""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter

from mooring.interfaces.cli.failure import Failed
from mooring.interfaces.cli.lint_source import read
from mooring.interfaces.cli.output import one_line, styled, wants_colour
from mooring.prompt.findings import Finding
from mooring.prompt.lint import lint

_STYLES = {"error": "red", "warning": "yellow", "note": "dim"}


def run(arguments: argparse.Namespace) -> int:
    """Print every finding; exit 1 if one of them is an error."""
    source = read(arguments)
    try:
        found = lint(source.tools, "" if arguments.after else source.server.removesuffix(".json"))
    except RecursionError as error:
        raise Failed("a schema is nested too deeply to be read, by us and by any model") from error
    counts = Counter(finding.severity for finding in found)
    if arguments.format == "json":
        _print_json(source.server, len(source.tools), found)
    else:
        for finding in found:
            _print(finding)
        print(_summary(counts, len(source.tools)), file=sys.stderr)
    return 1 if counts["error"] else 0


def _print(finding: Finding) -> None:
    colour = wants_colour(sys.stdout)
    place = ": ".join(one_line(part) for part in (finding.tool, finding.where) if part)
    level = styled(finding.severity.ljust(7), _STYLES[finding.severity], colour)
    print(f"{level}  {styled(place or 'the server', 'bold', colour)}  [{finding.rule}]")
    print(f"         {one_line(finding.problem)}")
    print(f"         fix: {one_line(finding.fix)}")


def _print_json(server: str, tools: int, found: list[Finding]) -> None:
    fields = Finding.__struct_fields__
    findings = [{name: getattr(finding, name) for name in fields} for finding in found]
    print(json.dumps({"server": server, "tools": tools, "findings": findings}, indent=2, ensure_ascii=True))


def _summary(counts: Counter[str], tools: int) -> str:
    parts = [f"{counts[level]} {level}{'s' * (counts[level] != 1)}" for level in _STYLES if counts[level]]
    return f"{tools} tool{'s' * (tools != 1)}: {', '.join(parts) or 'nothing to mend'}"
