"""Arguments of a tool as somebody types them: one JSON object, or `key=value` and `key:=JSON`."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, cast

from mooring.interfaces.cli.failure import Failed

_FORMS = "write key=value, key:=JSON, or one JSON object"


def tool_arguments(words: list[str], schema: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """The arguments; the tool's schema is asked for only where it decides what a value is."""
    if not words:
        return {}
    if words[0].lstrip().startswith("{"):
        return _json_object(words)
    properties: dict[str, Any] | None = None
    values: dict[str, Any] = {}
    for word in words:
        key, value, is_json = _split(word)
        if not is_json and properties is None:
            properties = schema().get("properties") or {}
        values[key] = _decoded(key, value) if is_json else _by_schema(key, value, (properties or {}).get(key))
    return values


def words_as_texts(words: list[str]) -> dict[str, str]:
    """Arguments of a prompt, which are always texts."""
    return {key: value for key, value, _ in map(_split, words)}


def _split(word: str) -> tuple[str, str, bool]:
    key, equals, value = word.partition("=")
    if not equals or not key:
        raise Failed(f"`{word}` is not an argument: {_FORMS}")
    if key.endswith(":") and len(key) > 1:
        return key[:-1], value, True
    return key, value, False


def _json_object(words: list[str]) -> dict[str, Any]:
    if len(words) > 1:
        raise Failed("give either one JSON object in quotes or key=value arguments, not both")
    value = _decoded("the argument", words[0])
    return cast("dict[str, Any]", value)


def _decoded(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise Failed(f"`{name}` is not JSON: {error}") from error


def _by_schema(key: str, value: str, schema: Any) -> Any:
    """A typed word is a text unless the tool wants something else there."""
    kinds = cast("dict[str, Any]", schema).get("type") if isinstance(schema, dict) else None
    wanted = set(cast("list[str]", kinds)) if isinstance(kinds, list) else {kinds}
    if kinds is None or "string" in wanted:
        return value
    return _decoded(key, value)
