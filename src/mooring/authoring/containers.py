"""What a JSON value can be, part two: arrays, objects, unions, and types that contain themselves."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import msgspec

from mooring.authoring.metadata import MISSING, NO_FACTS, Facts
from mooring.authoring.problems import Invalid, Path, Problem, invalid, shown, wrong_type
from mooring.authoring.schema import Definitions, Schema
from mooring.authoring.shapes import Choice, Noted, Shape, check_length


@dataclass(frozen=True, slots=True)
class Array:
    """Any number of values of one shape."""

    item: Shape
    make: Callable[[list[Any]], Any] = list
    unique: bool = False
    facts: Facts = NO_FACTS

    def read(self, value: Any, path: Path) -> Any:
        if not isinstance(value, list):
            raise wrong_type(path, "an array", value)
        if self.facts.has_length_limits:
            check_length(self.facts, len(value), path, "item")  # pyright: ignore[reportUnknownArgumentType]
        if self.unique:
            _refuse_repetitions(value, path)  # pyright: ignore[reportUnknownArgumentType]
        return self.make(_read_each([self.item] * len(value), value, path))  # pyright: ignore[reportUnknownArgumentType]

    def schema(self, definitions: Definitions) -> Schema:
        written: Schema = {"type": "array"}
        items = self.item.schema(definitions)
        if items:
            written["items"] = items
        if self.unique:
            written["uniqueItems"] = True
        limits = {"minItems": self.facts.min_length, "maxItems": self.facts.max_length}
        return written | {key: limit for key, limit in limits.items() if limit is not None}


def _read_each(shapes: list[Shape], values: list[Any], path: Path) -> list[Any]:
    found: list[Any] = []
    problems: list[Problem] = []
    for index, (shape, value) in enumerate(zip(shapes, values, strict=True)):
        try:
            found.append(shape.read(value, (*path, index)))
        except Invalid as error:
            problems += error.problems
    if problems:
        raise Invalid(problems)
    return found


def _refuse_repetitions(values: list[Any], path: Path) -> None:
    seen: set[bytes] = set()
    for index, value in enumerate(values):
        key = msgspec.json.encode(_whole(value), order="deterministic")
        if key in seen:
            raise invalid((*path, index), "is there twice, and every item must be different")
        seen.add(key)


def _whole(value: Any) -> Any:
    """1.0 and 1 are one value in JSON."""
    match value:
        case float() if value.is_integer():
            return int(value)
        case list():
            return [_whole(item) for item in value]  # pyright: ignore[reportUnknownVariableType]
        case dict():
            return {key: _whole(item) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType]
        case _:
            return value


@dataclass(frozen=True, slots=True)
class Row:
    """A tuple with a shape for each place."""

    items: tuple[Shape, ...]
    make: Callable[[list[Any]], Any] = tuple
    least: int | None = None
    """How many there must be, where the last ones may be left out."""

    def read(self, value: Any, path: Path) -> Any:
        if not isinstance(value, list):
            raise wrong_type(path, "an array", value)
        length = len(value)  # pyright: ignore[reportUnknownArgumentType]
        least = len(self.items) if self.least is None else self.least
        if not least <= length <= len(self.items):
            count = f"{least} to {len(self.items)}" if least != len(self.items) else str(least)
            raise invalid(path, f"must have {count} item{'s' * (count != '1')}, not {length}")
        return self.make(_read_each(list(self.items[:length]), value, path))  # pyright: ignore[reportUnknownArgumentType]

    def schema(self, definitions: Definitions) -> Schema:
        if not self.items:
            return {"type": "array", "maxItems": 0}
        least = len(self.items) if self.least is None else self.least
        places = [item.schema(definitions) for item in self.items]
        return {
            "type": "array",
            "prefixItems": places,
            "items": False,
            **({"minItems": least} if least else {}),
        }


@dataclass(frozen=True, slots=True)
class Table:
    """A `dict`: any keys of one shape, any values of another."""

    key: Shape | None
    value: Shape
    make: Callable[[dict[Any, Any]], Any] = dict
    facts: Facts = NO_FACTS

    def read(self, value: Any, path: Path) -> Any:
        if not isinstance(value, dict):
            raise wrong_type(path, "an object", value)
        entries = cast("dict[str, Any]", value)
        if self.facts.has_length_limits:
            check_length(self.facts, len(entries), path, "member")
        found: dict[Any, Any] = {}
        problems: list[Problem] = []
        for key, item in entries.items():
            try:
                name = key if self.key is None else self.key.read(key, (*path, key))
                found[name] = self.value.read(item, (*path, key))
            except Invalid as error:
                problems += error.problems
        if problems:
            raise Invalid(problems)
        return self.make(found)

    def schema(self, definitions: Definitions) -> Schema:
        written: Schema = {"type": "object"}
        names = self.key.schema(definitions) if self.key is not None else {}
        if names:
            written["propertyNames"] = names
        values = self.value.schema(definitions)
        if values:
            written["additionalProperties"] = values
        limits = {"minProperties": self.facts.min_length, "maxProperties": self.facts.max_length}
        return written | {key: limit for key, limit in limits.items() if limit is not None}


@dataclass(frozen=True, slots=True)
class Member:
    """One member of an object: its name on the wire, the name it has in Python, and its shape."""

    name: str
    attribute: str
    shape: Shape
    required: bool
    default: Any = MISSING
    """What the schema shows as default; absent where JSON cannot say it, or where it says nothing."""

    def schema(self, definitions: Definitions) -> Schema:
        written = self.shape.schema(definitions)
        return written if self.default is MISSING else {**written, "default": self.default}


@dataclass(frozen=True, slots=True)
class Record:
    """An object with known members: the arguments of a function, a dataclass, a TypedDict, a Struct."""

    members: tuple[Member, ...]
    make: Callable[[dict[str, Any]], Any]
    others: Shape | None = None
    """The shape of members that have no name here; None: there may be none."""
    ignores_others: bool = False
    """Whether unnamed members are allowed but not read."""
    tag: tuple[str, Any] | None = None
    """A member that only tells this type from others."""
    description: str = ""
    wire_names: Mapping[str, Member] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "wire_names", {member.name: member for member in self.members})

    def read(self, value: Any, path: Path) -> Any:
        if not isinstance(value, dict):
            raise wrong_type(path, "an object", value)
        given = cast("dict[str, Any]", value)
        found: dict[str, Any] = {}
        problems: list[Problem] = []
        seen = 0
        for member in self.members:
            if member.name in given:
                seen += 1
                try:
                    found[member.attribute] = member.shape.read(given[member.name], (*path, member.name))
                except Invalid as error:
                    problems += error.problems
            elif member.required:
                problems.append(Problem((*path, member.name), "is missing"))
        if seen != len(given) or self.tag is not None:
            self._read_others(given, found, path, problems)
        if problems:
            raise Invalid(problems)
        return self._make(found, path)

    def _read_others(
        self, given: dict[str, Any], found: dict[str, Any], path: Path, problems: list[Problem]
    ) -> None:
        for name, value in given.items():
            if name in self.wire_names:
                continue
            if self.tag is not None and name == self.tag[0]:
                if value != self.tag[1]:
                    problems.append(Problem((*path, name), f"must be {shown(self.tag[1])}"))
            elif self.others is not None:
                try:
                    found[name] = self.others.read(value, (*path, name))
                except Invalid as error:
                    problems += error.problems
            elif not self.ignores_others:
                problems.append(Problem((*path, name), self._unknown(name)))
        if self.tag is not None and self.tag[0] not in given:
            problems.append(Problem((*path, self.tag[0]), "is missing"))

    def _unknown(self, name: str) -> str:
        near = difflib.get_close_matches(name, self.wire_names, n=1)
        if near:
            return f"is not known here; did you mean `{near[0]}`?"
        known = ", ".join(f"`{each}`" for each in self.wire_names)
        return f"is not known here; there {'is ' + known if known else 'are no members'}"

    def _make(self, found: dict[str, Any], path: Path) -> Any:
        try:
            return self.make(found)
        except Invalid:
            raise
        except ValueError as error:  # what the author's own `__post_init__` says
            raise invalid(path, f"will not do: {error}") from None

    def schema(self, definitions: Definitions) -> Schema:
        written: Schema = {"type": "object"}
        if self.description:
            written["description"] = self.description
        properties: Schema = {}
        required: list[str] = []
        if self.tag is not None:
            properties[self.tag[0]] = {"const": self.tag[1]}
            required.append(self.tag[0])
        for member in self.members:
            properties[member.name] = member.schema(definitions)
            if member.required:
                required.append(member.name)
        written["properties"] = properties
        if required:
            written["required"] = required
        if self.others is not None:
            others = self.others.schema(definitions)
            if others:
                written["additionalProperties"] = others
        elif not self.ignores_others:
            written["additionalProperties"] = False
        return written


class Named:
    """A type with a name, which may contain itself; filled in once its parts are known."""

    __slots__ = ("_key", "_name", "recursive", "shape")

    def __init__(self, key: object, name: str) -> None:
        self._key = key
        self._name = name
        self.shape: Shape | None = None
        self.recursive = False

    def read(self, value: Any, path: Path) -> Any:
        assert self.shape is not None
        return self.shape.read(value, path)

    def schema(self, definitions: Definitions) -> Schema:
        shape = self.shape
        assert shape is not None
        return definitions.named(
            self._key, self._name, lambda: shape.schema(definitions), recursive=self.recursive
        )


@dataclass(frozen=True, slots=True)
class Either:
    """A union: the first shape that takes the value."""

    shapes: tuple[Shape, ...]

    def read(self, value: Any, path: Path) -> Any:
        failures: list[Invalid] = []
        for shape in self.shapes:
            try:
                return shape.read(value, path)
            except Invalid as error:
                failures.append(error)
        raise _most_telling(failures, path)

    def schema(self, definitions: Definitions) -> Schema:
        branches: list[Schema] = []
        for shape in self.shapes:
            branch = shape.schema(definitions)
            if branch not in branches:
                branches.append(branch)
        if len(branches) == 1:
            return branches[0]
        if all(branch.keys() == {"type"} and isinstance(branch["type"], str) for branch in branches):
            return {"type": [branch["type"] for branch in branches]}
        return _nullable(branches) or {"anyOf": branches}


def _nullable(branches: list[Schema]) -> Schema | None:
    """`X | None` where X has one plain type: `"type": ["string", "null"]` says it shorter than `anyOf`."""
    others = [branch for branch in branches if branch != {"type": "null"}]
    if len(others) != 1 or len(branches) != 2 or not isinstance(others[0].get("type"), str):
        return None
    branch = others[0]
    if "const" in branch:
        return None
    widened = {**branch, "type": [branch["type"], "null"]}
    return {**widened, "enum": [*branch["enum"], None]} if "enum" in branch else widened


def _most_telling(failures: list[Invalid], path: Path) -> Invalid:
    """Of the branches that failed, the one that got deepest into the value; else all, as alternatives."""
    deeper = [error for error in failures if any(len(problem.path) > len(path) for problem in error.problems)]
    if deeper:
        return min(deeper, key=_misfit)
    reasons = list(dict.fromkeys(problem.reason for error in failures for problem in error.problems))
    heads = [reason.partition(", not ") for reason in reasons]
    if all(middle and head.startswith("must be ") for head, middle, _ in heads):
        wanted = " or ".join(head.removeprefix("must be ") for head, _, _ in heads)
        return invalid(path, f"must be {wanted}, not {heads[0][2]}")
    return invalid(path, "; or ".join(reasons))


def _misfit(error: Invalid) -> tuple[bool, int]:
    """A branch whose tag does not match was not meant; after that, fewer problems are a better fit."""
    tagged = any(problem.reason.startswith('must be "') for problem in error.problems)
    return tagged, len(error.problems)


def base_of(shape: Shape) -> Shape:
    """The shape beneath names and notes."""
    while isinstance(shape, Named | Noted):
        inner = shape.shape
        assert inner is not None
        shape = inner
    return shape


def choices_of(shape: Shape) -> list[str]:
    """The strings that can be chosen from, where a shape is a choice."""
    base = base_of(shape)
    if isinstance(base, Choice):
        return [wire for wire, _ in base.options if isinstance(wire, str)]
    if isinstance(base, Either):
        return [choice for branch in base.shapes for choice in choices_of(branch)]
    return []
