"""Arguments of a tool as somebody types them: a JSON object, or `key=value`, `key:=JSON` and `key@=FILE`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, cast

from mooring.interfaces.cli.failure import Failed, Misused
from mooring.interfaces.cli.words import advice, closest

_KINDS = {
    "integer": "an integer",
    "number": "a number",
    "boolean": "`true` or `false`",
    "array": "an array in JSON",
    "object": "an object in JSON",
    "null": "`null`",
}
_SAYS_MORE = {"additionalProperties", "patternProperties", "allOf", "anyOf", "oneOf", "$ref", "if"}
"""With one of these a tool says more about what it takes than its `properties` do."""
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
            values[key] = _as_json(key, value)
            continue
        if properties is None:
            found = schema()
            properties = cast("dict[str, Any]", found.get("properties") or {})
            _check_names(words, found)
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


def _check_names(words: list[str], schema: dict[str, Any]) -> None:
    """A mistyped name is told, and no file is sent for a name that is not there.

    Other names go to the server, which may know more of them than it says; so does everything given as JSON.
    """
    known = list(cast("dict[str, Any]", schema.get("properties") or {}))
    if not known or _SAYS_MORE & schema.keys():
        return
    for key, _, form in map(_split, words):
        if key not in known and form != "json" and (form == "file" or closest(key, known)):
            raise Misused(f"there is no argument `{key}`: {advice(key, known)}")


def _json_object(words: list[str]) -> dict[str, Any]:
    if len(words) > 1:
        raise Misused("give either one JSON object in quotes or key=value arguments, not both")
    try:
        return cast("dict[str, Any]", json.loads(words[0]))
    except json.JSONDecodeError as error:
        why = f"{error.msg[:1].lower()}{error.msg[1:]}, column {error.colno}"
        raise Misused(f"`{words[0]}` is not JSON ({why}): {_FORMS}") from error


def _as_json(key: str, value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError as error:
        raise Misused(f"`{value}` is not JSON: a text is given as {key}={value}") from error


def _by_schema(key: str, value: str, schema: Any) -> Any:
    """A typed word is a text unless the tool wants something else there."""
    kinds = cast("dict[str, Any]", schema).get("type") if isinstance(schema, dict) else None
    wanted = cast("list[str]", kinds) if isinstance(kinds, list) else [str(kinds)]
    if kinds is None or "string" in wanted:
        return value
    try:
        return json.loads(value)
    except ValueError as error:
        names = " or ".join(_KINDS.get(kind, f"`{kind}`") for kind in wanted)
        raise Misused(f"`{key}` must be {names}, not `{value}`") from error
