"""What changed between two definitions of a tool, in words.

Nothing is cut short: whoever approves a change has to see all of it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final, cast

Json = dict[str, Any]
_NAMES: Final = {
    "description": "description",
    "title": "title",
    "inputSchema": "input schema",
    "outputSchema": "output schema",
    "annotations": "hints",
}


def described(definition: Json) -> list[str]:
    """A definition that nobody has seen yet, part by part."""
    return [
        f"{_NAMES.get(key, f'`{key}`')}: {_shown(value)}"
        for key, value in definition.items()
        if key != "name"
    ]


def changes(before: Json, after: Json) -> list[str]:
    """One line for each thing that differs."""
    found: list[str] = []
    for key in dict.fromkeys((*before, *after)):
        old, new = before.get(key), after.get(key)
        if old == new:
            continue
        name = _NAMES.get(key, f"`{key}`")
        if isinstance(old, dict) and isinstance(new, dict):
            found += _nested(name, cast("Json", old), cast("Json", new))
        else:
            found.append(_one(name, old, new))
    return found


def _nested(name: str, before: Json, after: Json, path: str = "") -> list[str]:
    found: list[str] = []
    for key in dict.fromkeys((*before, *after)):
        old, new = before.get(key), after.get(key)
        place = f"{path}.{key}" if path else key
        if old == new:
            continue
        if isinstance(old, dict) and isinstance(new, dict):
            found += _nested(name, cast("Json", old), cast("Json", new), place)
        else:
            found.append(_one(f"{name}, `{place}`", old, new))
    return found


def _one(name: str, old: Any, new: Any) -> str:
    if old is None:
        return f"{name} is new: {_shown(new)}"
    if new is None:
        return f"{name} is gone: {_shown(old)}"
    if isinstance(old, str) and isinstance(new, str):
        return f"{name} changed: {_text_change(old, new)}"
    return f"{name} changed: {_shown(old)} is now {_shown(new)}"


def _text_change(old: str, new: str) -> str:
    """Only the words of two texts that differ, with a little before them."""
    had, has = (re.findall(r"\s*\S+|\s+$", text) for text in (old, new))
    start = 0
    while start < min(len(had), len(has)) and had[start] == has[start]:
        start += 1
    end = 0
    while end < min(len(had), len(has)) - start and had[-1 - end] == has[-1 - end]:
        end += 1
    before, after = ("".join(words[start : len(words) - end]) for words in (had, has))
    lead = "".join(had[max(0, start - 3) : start])
    where = f"after {_shown(lead)}" if lead else "at its beginning"
    if not before:
        return f"{where}, {_shown(after)} was added"
    if not after:
        return f"{where}, {_shown(before)} was removed"
    return f"{_shown(before)} is now {_shown(after)}"


def _shown(value: Any) -> str:
    text = value.strip() if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return "`" + "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text) + "`"


def fields(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """The names of the parts that differ."""
    return [
        _NAMES.get(key, key) for key in dict.fromkeys((*before, *after)) if before.get(key) != after.get(key)
    ]
