"""Pydantic models, understood by pydantic itself. It is never imported here: whoever has a model has it
already."""

from __future__ import annotations

import sys
import typing
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

import msgspec

from mooring.authoring import docstrings
from mooring.authoring.metadata import Check, rule_of
from mooring.authoring.problems import Invalid, Path, Problem
from mooring.authoring.schema import Definitions, Schema
from mooring.authoring.shapes import Shape


def is_model(kind: type) -> bool:
    """A `BaseModel`, a pydantic dataclass, or a type that tells pydantic itself how to read it (`AnyUrl`)."""
    if "pydantic" not in sys.modules:
        return False
    return hasattr(kind, "__pydantic_core_schema__") or hasattr(kind, "__get_pydantic_core_schema__")


def shape_of(annotation: Any) -> Shape:
    pydantic: Any = sys.modules["pydantic"]
    return _Model(pydantic.TypeAdapter(annotation), annotation)


def rules_of(metadata: tuple[Any, ...]) -> tuple[Check, ...]:
    """The rules of pydantic's validators; pydantic itself applies them."""
    functions = [getattr(item, "func", None) for item in metadata]
    return tuple(Check(bool, rule_of(function)) for function in functions if function)


def encode(value: Any) -> Any:
    """For values that msgspec does not know: models, paths, and what has no counterpart in JSON."""
    kind = cast("type[Any]", type(value))
    if is_model(kind):
        pydantic: Any = sys.modules["pydantic"]
        return pydantic.TypeAdapter(kind).dump_python(value, mode="json", by_alias=True)
    if hasattr(value, "__fspath__"):
        return str(value)
    raise TypeError(f"a `{kind.__name__}` has no counterpart in JSON")


@dataclass(frozen=True, slots=True)
class _Model:
    adapter: Any
    annotation: Any

    def read(self, value: Any, path: Path) -> Any:
        # As JSON: a date in a string is a date there, even to a strict model.
        try:
            return self.adapter.validate_json(msgspec.json.encode(value))
        except ValueError as error:
            raise Invalid(_problems(error, path)) from None

    def schema(self, definitions: Definitions) -> Schema:
        written = cast("Schema", _untitled(self.adapter.json_schema(by_alias=True)))
        own = cast("dict[str, Schema]", written.pop("$defs", {}))
        models = _models_in(self.annotation)
        for name, schema in own.items():
            _describe_validators(models.get(name), schema)
        _describe_validators(self.annotation, written)
        rehomed = _Rehomed(own, definitions)
        if isinstance(self.annotation, type) and "$ref" not in written:
            return rehomed.named(self.annotation.__name__, written)
        return cast("Schema", rehomed.rewrite(written))


def _problems(error: Any, path: Path) -> list[Problem]:
    """Pydantic's own findings, with their places."""
    return [
        Problem((*path, *_steps(found["loc"])), f"will not do: {_lowered(found['msg'])}")
        for found in error.errors(include_url=False, include_context=False, include_input=False)
    ]


def _steps(location: tuple[Any, ...]) -> tuple[str | int, ...]:
    return tuple(step if isinstance(step, int) else str(step) for step in location)


def _lowered(message: str) -> str:
    message = message.removeprefix("Value error, ")
    return message[:1].lower() + message[1:]


def _models_in(annotation: Any) -> dict[str, type]:
    """The models that a type is made of, by the names that pydantic gives their definitions."""
    found: dict[str, type] = {}
    waiting = [annotation]
    while waiting:
        each = waiting.pop()
        waiting += typing.get_args(each)
        if isinstance(each, type) and is_model(each) and each.__name__ not in found:
            found[each.__name__] = each
            fields = cast("dict[str, Any]", getattr(each, "__pydantic_fields__", {}))
            waiting += [field.annotation for field in fields.values()]
    return found


def _untitled(value: Any, *, names: bool = False) -> Any:
    """A schema without the titles that pydantic derives from names; a property called `title` stays."""
    if isinstance(value, list):
        return [_untitled(item) for item in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    kept: Schema = {}
    if not names and "type" in value:
        kept["type"] = value["type"]
    for key, item in cast("Schema", value).items():
        if key == "title" and not names and isinstance(item, str):
            continue
        if key == "default" and item is None and not names:
            continue
        data = not names and key in ("default", "const", "enum", "examples")
        kept[key] = item if data else _untitled(item, names=not names and key in ("properties", "$defs"))
    return kept


def _describe_validators(annotation: Any, schema: Schema) -> None:
    """Validators cannot be seen in a schema: their docstrings can."""
    found: Any = getattr(annotation, "__pydantic_decorators__", None)
    properties = cast("Schema | None", schema.get("properties"))
    if found is None or properties is None:
        return
    for validator in found.model_validators.values():
        _add_rule(schema, validator.func)
    for validator in found.field_validators.values():
        for name in _written_names(annotation, validator.info.fields):
            target = cast("Schema | None", properties.get(name))
            if target is not None:
                _add_rule(target, validator.func)


def _written_names(annotation: Any, names: tuple[str, ...]) -> list[str]:
    """What these fields of a model are called in JSON; `*` is every field."""
    fields: dict[str, Any] = getattr(annotation, "__pydantic_fields__", {})
    wanted = list(fields) if "*" in names else [name for name in names if name in fields]
    aliases = {name: fields[name].validation_alias for name in wanted}
    return [alias if isinstance(alias, str) else name for name, alias in aliases.items()]


def _add_rule(schema: Schema, function: Any) -> None:
    rule = docstrings.parse(function.__doc__).summary or f"Must be {rule_of(function)}."
    schema["description"] = docstrings.sentences(schema.get("description"), rule)


class _Rehomed:
    """Moves a model's own definitions into those of the schema that it becomes a part of."""

    def __init__(self, own: dict[str, Schema], definitions: Definitions) -> None:
        self._own = own
        self._definitions = definitions
        self._recursive = set(_circles(own))

    def rewrite(self, value: Any) -> Any:
        if isinstance(value, list):
            return [self.rewrite(item) for item in cast("list[Any]", value)]
        if not isinstance(value, dict):
            return value
        schema = cast("Schema", value)
        reference = schema.get("$ref")
        rest = {key: self.rewrite(item) for key, item in schema.items() if key != "$ref"}
        if not isinstance(reference, str):
            return rest
        return {**self._resolved(reference), **rest}

    def _resolved(self, reference: str) -> Schema:
        name = reference.rpartition("/")[2]
        return self.named(name, self._own[name])

    def named(self, name: str, schema: Schema) -> Schema:
        key = (name, msgspec.json.encode(schema, order="deterministic"))
        return self._definitions.named(
            key, name, lambda: self.rewrite(schema), recursive=name in self._recursive
        )


def _circles(own: dict[str, Schema]) -> Iterator[str]:
    """The definitions that lead back to themselves."""
    reached = {name: set(_references(schema)) for name, schema in own.items()}
    for name in own:
        seen: set[str] = set()
        waiting = list(reached[name])
        while waiting:
            each = waiting.pop()
            if each not in seen:
                seen.add(each)
                waiting += reached.get(each, ())
        if name in seen:
            yield name


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, list):
        for item in cast("list[Any]", value):
            yield from _references(item)
    elif isinstance(value, dict):
        schema = cast("Schema", value)
        reference = schema.get("$ref")
        if isinstance(reference, str):
            yield reference.rpartition("/")[2]
        for item in schema.values():
            yield from _references(item)
