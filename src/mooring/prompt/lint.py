"""Reading tools as a model and its clients will, and saying what will trip them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, cast

from mooring.prompt import lint_names, lint_schemas, lint_texts
from mooring.prompt.findings import Finding
from mooring.prompt.schemas import Json

MANY_TOOLS: Final = 40
MOST_TOOLS: Final = 128
_ORDER: Final = {"error": 0, "warning": 1, "note": 2}


def lint(tools: Sequence[Any], server: str = "") -> list[Finding]:
    """Everything there is to say, errors first. `server` is what hosts put before the names."""
    entries = [cast("Json", tool) for tool in tools if isinstance(tool, dict)]
    found = [*_shape(tools), *lint_names.between(entries), *lint_texts.between(entries)]
    for tool in entries:
        found += lint_names.of(tool, server)
        found += lint_texts.of(tool)
        found += lint_schemas.of(tool)
    return sorted(found, key=lambda finding: _ORDER[finding.severity])


def _shape(tools: Sequence[Any]) -> Iterator[Finding]:
    for index, tool in enumerate(tools):
        if not isinstance(tool, dict):
            yield Finding(
                "error", "not-a-tool", f"[{index}]", "", "is not an object", "give each tool as an object"
            )
    if len(tools) > MANY_TOOLS:
        severity = "error" if len(tools) > MOST_TOOLS else "warning"
        yield Finding(
            severity,
            "too-many-tools",
            "",
            "",
            f"{len(tools)} tools: some clients take {MANY_TOOLS}, some models {MOST_TOOLS} in all",
            "show fewer with `tools.allow`, or split the server",
        )
