"""What changed between two definitions of a tool, in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

Json = dict[str, Any]
SHOWN: Final = 60
_NAMES: Final = {
    "description": "description",
    "title": "title",
    "inputSchema": "input schema",
    "outputSchema": "output schema",
    "annotations": "hints",
}


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
    """Only the part of two texts that differs, with a little before it."""
    start = 0
    while start < min(len(old), len(new)) and old[start] == new[start]:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end] == new[-1 - end]:
        end += 1
    before, after = old[start : len(old) - end], new[start : len(new) - end]
    lead = old[max(0, start - 12) : start]
    if not before:
        return f"after {_shown(lead)} was added {_shown(after)}"
    if not after:
        return f"after {_shown(lead)} was removed {_shown(before)}"
    return f"{_shown(before)} is now {_shown(after)}"


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else repr(value)
    text = "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text)
    return f"`{text if len(text) <= SHOWN else text[:SHOWN] + '…'}`"


def fields(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """The names of the parts that differ."""
    return [
        _NAMES.get(key, key) for key in dict.fromkeys((*before, *after)) if before.get(key) != after.get(key)
    ]
