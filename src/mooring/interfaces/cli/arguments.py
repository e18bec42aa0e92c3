"""Arguments of a tool as somebody types them: a JSON object, or `key=value`, `key:=JSON` and `key@=FILE`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, cast

from mooring.interfaces.cli.failure import Failed, Misused

_FORMS = "write key=value, key:=JSON, key@=FILE, or one JSON object"


def _no_files(path: Path) -> str:
    raise Failed(f"`{path}` cannot be sent: no tool is called here")


def tool_arguments(
    words: list[str], schema: Callable[[], dict[str, Any]], send: Callable[[Path], str] = _no_files
) -> dict[str, Any]:
    """The arguments; the tool's schema is asked for only where it decides what a value is.

    `send` hands a file over and says what the tool gets in its place.
    """
    if not words:
        return {}
    if words[0].lstrip().startswith("{"):
        return _json_object(words)
    properties: dict[str, Any] | None = None
    values: dict[str, Any] = {}
    for word in words:
        key, value, form = _split(word)
        if form == "json":
            values[key] = _decoded(key, value)
            continue
        if properties is None:
            properties = cast("dict[str, Any]", schema().get("properties") or {})
        if form == "file":
            values[key] = _with_file(values.get(key), send(Path(value)), properties.get(key))
        else:
            values[key] = _by_schema(key, value, properties.get(key))
    return values


def _with_file(before: Any, handle: str, schema: Any) -> Any:
    """One file, or one more where the tool takes several."""
    if isinstance(before, list):
        return [*cast("list[Any]", before), handle]
    if before is not None:
        return [before, handle]
    takes_several = isinstance(schema, dict) and cast("dict[str, Any]", schema).get("type") == "array"
    return [handle] if takes_several else handle


def words_as_texts(words: list[str]) -> dict[str, str]:
    """Arguments of a prompt, which are always texts."""
    return {key: value for key, value, _ in map(_split, words)}


def _split(word: str) -> tuple[str, str, Literal["text", "json", "file"]]:
    key, equals, value = word.partition("=")
    if not equals or not key:
        raise Misused(f"`{word}` is not an argument: {_FORMS}")
    if key.endswith(":") and len(key) > 1:
        return key[:-1], value, "json"
    if key.endswith("@") and len(key) > 1:
        return key[:-1], value, "file"
    return key, value, "text"


def _json_object(words: list[str]) -> dict[str, Any]:
    if len(words) > 1:
        raise Misused("give either one JSON object in quotes or key=value arguments, not both")
    value = _decoded(words[0], words[0])
    return cast("dict[str, Any]", value)


def _decoded(name: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise Misused(f"`{name}` is not JSON: {error}") from error


def _by_schema(key: str, value: str, schema: Any) -> Any:
    """A typed word is a text unless the tool wants something else there."""
    kinds = cast("dict[str, Any]", schema).get("type") if isinstance(schema, dict) else None
    wanted = set(cast("list[str]", kinds)) if isinstance(kinds, list) else {kinds}
    if kinds is None or "string" in wanted:
        return value
    return _decoded(key, value)
