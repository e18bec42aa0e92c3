"""Names of tools: what protocols, models and clients accept, and what can be told apart."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

from mooring.prompt.findings import Finding
from mooring.prompt.schemas import Json

MODEL_LIMIT: Final = 64
"""Several model APIs refuse longer names of functions; the protocol itself allows 128."""
_SAFE: Final = re.compile(r"[A-Za-z0-9_-]+")
_ALLOWED: Final = re.compile(r"[A-Za-z0-9_.-]+")


def name_of(tool: Json) -> str:
    name = tool.get("name")
    return name if isinstance(name, str) else ""


def of(tool: Json, server: str) -> Iterator[Finding]:
    name = name_of(tool)
    if not name:
        yield Finding("error", "name-missing", "?", "name", "has no name", "give it a short name with a verb")
        return
    if len(name) > MODEL_LIMIT:
        problem = f"has {len(name)} characters; several model APIs refuse more than {MODEL_LIMIT}"
        yield Finding("error", "name-too-long", name, "name", problem, "shorten it, or set `tools.override`")
    elif server and len(name) + len(prefix := f"mcp__{server}__") > MODEL_LIMIT:
        problem = f"has {len(name) + len(prefix)} characters with the prefix `{prefix}` that some hosts add"
        yield Finding(
            "warning", "name-too-long", name, "name", problem, f"keep it within {MODEL_LIMIT - len(prefix)}"
        )
    if not _SAFE.fullmatch(name):
        severity = "warning" if _ALLOWED.fullmatch(name) else "error"
        problem = "has characters that model APIs refuse in names of functions"
        yield Finding(
            severity, "name-characters", name, "name", problem, "use only letters, digits, `_` and `-`"
        )


def between(tools: Sequence[Json]) -> Iterator[Finding]:
    """Names that collide."""
    counts = Counter(name_of(tool) for tool in tools)
    first: dict[str, str] = {}
    for name in filter(None, counts):
        if counts[name] > 1:
            problem = f"stands on the list {counts[name]} times"
            yield Finding("error", "name-duplicate", name, "name", problem, "rename all but one of them")
        other = first.setdefault(_folded(name), name)
        if other != name:
            yield Finding(
                "warning",
                "name-alike",
                name,
                "name",
                f"differs from `{other}` only by case or separators",
                "rename one so that a model cannot mix them up",
            )


def _folded(name: str) -> str:
    return re.sub(r"[_.\-]", "", name).lower()
