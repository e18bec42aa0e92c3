"""A server asks the person at the terminal: questions on stderr, answers from stdin."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any, cast

from mooring.interfaces.cli.output import one_line, printable

Schema = dict[str, Any]
Ask = Callable[[str], str]


class _NotUnderstood(Exception):
    """The answer does not fit; the message says what would."""


def answer(params: dict[str, Any], ask: Ask | None = None) -> dict[str, Any]:
    """The result of `elicitation/create`: what the person typed, or that they would not."""
    ask = ask or _ask
    _say(f"\nthe server asks: {printable(str(params.get('message', '')))}")
    try:
        if params.get("mode") == "url":
            return _visit(params, ask)
        schema: Schema = params.get("requestedSchema") or {}
        if not _agreed(ask, "answer"):
            return {"action": "decline"}
        return {"action": "accept", "content": _fields(schema, ask)}
    except EOFError:
        return {"action": "cancel"}


def _visit(params: dict[str, Any], ask: Ask) -> dict[str, Any]:
    _say(f"it wants you to open: {one_line(str(params.get('url', '')))}")
    return {"action": "accept" if _agreed(ask, "I will open it") else "decline"}


def _agreed(ask: Ask, what: str) -> bool:
    while True:
        typed = ask(f"{what}? [Y/n, Ctrl-D cancels] ").strip().lower()
        if typed in ("", "y", "yes"):
            return True
        if typed in ("n", "no"):
            return False


def _fields(schema: Schema, ask: Ask) -> dict[str, Any]:
    required: list[str] = schema.get("required") or []
    properties: dict[str, Schema] = schema.get("properties") or {}
    content: dict[str, Any] = {}
    for name, field in properties.items():
        value = _field(name, field, name in required, ask)
        if value is not None:
            content[name] = value
    return content


def _field(name: str, field: Schema, required: bool, ask: Ask) -> Any:
    if description := field.get("description"):
        _say(f"  {printable(str(description))}")
    choices = _choices(field)
    for value, title in choices:
        _say(f"    {one_line(str(value))}{'' if title == value else f'  {one_line(str(title))}'}")
    default = field.get("default")
    hint = f" [{one_line(json.dumps(default, ensure_ascii=False))}]" if default is not None else ""
    mark = "" if required or hint else " (optional)"
    while True:
        typed = ask(f"  {one_line(str(field.get('title') or name))}{hint}{mark}: ").strip()
        if not typed and default is not None:
            return default
        if not typed and not required:
            return None
        try:
            return _value(typed, field, [value for value, _ in choices])
        except _NotUnderstood as error:
            _say(f"  {error}")


def _choices(field: Schema) -> list[tuple[Any, Any]]:
    """Value and title of each choice, in the spellings the specification has had."""
    source = cast("Schema", field.get("items") or {}) if field.get("type") == "array" else field
    titled: list[Schema] = source.get("oneOf") or source.get("anyOf") or []
    if titled:
        return [(choice.get("const"), choice.get("title", choice.get("const"))) for choice in titled]
    values: list[Any] = source.get("enum") or []
    titles: list[Any] = source.get("enumNames") or values
    return list(zip(values, titles, strict=False))


def _value(typed: str, field: Schema, choices: list[Any]) -> Any:
    match field.get("type"):
        case "boolean":
            return _boolean(typed)
        case "integer" | "number" as kind:
            return _number(typed, kind, field)
        case "array":
            return [_chosen(part.strip(), choices) for part in typed.split(",") if part.strip()]
        case _:
            if choices:
                return _chosen(typed, choices)
            if len(typed) < field.get("minLength", 0) or len(typed) > field.get("maxLength", len(typed)):
                raise _NotUnderstood("its length does not fit: " + _bounds(field, "minLength", "maxLength"))
            return typed


def _boolean(typed: str) -> bool:
    if typed.lower() in ("y", "yes", "true"):
        return True
    if typed.lower() in ("n", "no", "false"):
        return False
    raise _NotUnderstood("type yes or no")


def _number(typed: str, kind: str, field: Schema) -> int | float:
    try:
        number = int(typed) if kind == "integer" else float(typed)
    except ValueError as error:
        raise _NotUnderstood("type a whole number" if kind == "integer" else "type a number") from error
    if not field.get("minimum", number) <= number <= field.get("maximum", number):
        raise _NotUnderstood("it is out of range: " + _bounds(field, "minimum", "maximum"))
    return number


def _chosen(typed: str, choices: list[Any]) -> Any:
    for choice in choices:
        if typed == str(choice):
            return choice
    raise _NotUnderstood(f"type one of {', '.join(one_line(str(choice)) for choice in choices)}")


def _bounds(field: Schema, low: str, high: str) -> str:
    parts = [f"at least {field[low]}"] if low in field else []
    parts += [f"at most {field[high]}"] if high in field else []
    return ", ".join(parts)


def _ask(question: str) -> str:
    # input() would write the question to stdout, where results go.
    sys.stderr.write(question)
    sys.stderr.flush()
    line = sys.stdin.readline()
    if not line:
        raise EOFError
    return line


def _say(text: str) -> None:
    print(text, file=sys.stderr)
