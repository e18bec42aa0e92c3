"""What a JSON value can be, part one: everything that is not made of other values.

A shape knows two things about one Python type: the schema that describes it, and how to read a value of that
schema into the type. Both stand side by side, so that what the schema accepts is what the reader takes.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from fractions import Fraction
from typing import Any, Final, Protocol

import jsonschema_rs

from mooring.authoring import docstrings
from mooring.authoring.metadata import Check, Facts
from mooring.authoring.problems import Invalid, Path, invalid, shown, wrong_type
from mooring.authoring.schema import Definitions, Schema


class Shape(Protocol):
    def read(self, value: Any, path: Path) -> Any:
        """The Python value that a JSON value stands for; raises `Invalid`."""
        ...

    def schema(self, definitions: Definitions) -> Schema: ...


class Anything:
    """`Any` and `object`."""

    def read(self, value: Any, path: Path) -> Any:
        del path
        return value

    def schema(self, definitions: Definitions) -> Schema:
        del definitions
        return {}


class Null:
    def read(self, value: Any, path: Path) -> None:
        if value is not None:
            raise wrong_type(path, "null", value)

    def schema(self, definitions: Definitions) -> Schema:
        del definitions
        return {"type": "null"}


class Boolean:
    def read(self, value: Any, path: Path) -> bool:
        if not isinstance(value, bool):
            raise wrong_type(path, "true or false", value)
        return value

    def schema(self, definitions: Definitions) -> Schema:
        del definitions
        return {"type": "boolean"}


@dataclass(frozen=True, slots=True)
class Number:
    """`int` or `float`, perhaps within limits."""

    facts: Facts
    integer: bool

    def read(self, value: Any, path: Path) -> int | float:
        # bool is an int: without this, true would be 1.
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise wrong_type(path, "an integer" if self.integer else "a number", value)
        if isinstance(value, float):
            if not math.isfinite(value):
                raise wrong_type(path, "a finite number", value)
            if self.integer:
                if not value.is_integer():
                    raise wrong_type(path, "an integer", value)
                value = int(value)
        if self.facts.has_number_limits:
            self._check(value, path)
        if not self.integer:
            try:
                return float(value)
            except OverflowError:
                raise invalid(path, "is too large for a floating-point number") from None
        return value

    def _check(self, value: float, path: Path) -> None:
        facts = self.facts
        if facts.ge is not None and value < facts.ge:
            raise invalid(path, f"must be at least {facts.ge}, not {value}")
        if facts.gt is not None and value <= facts.gt:
            raise invalid(path, f"must be greater than {facts.gt}, not {value}")
        if facts.le is not None and value > facts.le:
            raise invalid(path, f"must be at most {facts.le}, not {value}")
        if facts.lt is not None and value >= facts.lt:
            raise invalid(path, f"must be less than {facts.lt}, not {value}")
        if facts.multiple_of is not None and _exact(value) % _exact(facts.multiple_of):
            raise invalid(path, f"must be a multiple of {facts.multiple_of}, not {value}")

    def schema(self, definitions: Definitions) -> Schema:
        del definitions
        facts = self.facts
        limits = {
            "minimum": facts.ge,
            "exclusiveMinimum": facts.gt,
            "maximum": facts.le,
            "exclusiveMaximum": facts.lt,
            "multipleOf": facts.multiple_of,
        }
        written = {keyword: limit for keyword, limit in limits.items() if limit is not None}
        return {"type": "integer" if self.integer else "number", **written}


def _exact(number: float) -> Fraction:
    """As it is written in decimal: 0.3 is a multiple of 0.1, whatever binary makes of it."""
    return Fraction(repr(number))


class Text:
    """`str`, perhaps within limits."""

    __slots__ = ("_facts", "_matches")

    def __init__(self, facts: Facts) -> None:
        self._facts = facts
        self._matches: Callable[[Any], bool] | None = None
        if facts.pattern is not None:
            # By the validator that others would use: patterns in schemas are ECMAScript's, not Python's.
            self._matches = jsonschema_rs.Draft202012Validator({"pattern": facts.pattern}).is_valid

    def read(self, value: Any, path: Path) -> str:
        if not isinstance(value, str):
            raise wrong_type(path, "a string", value)
        facts = self._facts
        if facts.has_length_limits:
            check_length(facts, len(value), path, "character")
        if self._matches is not None and not self._matches(value):
            raise invalid(path, f"must match `{facts.pattern}`, not {shown(value)}")
        return value

    def schema(self, definitions: Definitions) -> Schema:
        del definitions
        facts = self._facts
        limits = {"minLength": facts.min_length, "maxLength": facts.max_length, "pattern": facts.pattern}
        return {"type": "string", **{key: limit for key, limit in limits.items() if limit is not None}}


def check_length(facts: Facts, length: int, path: Path, unit: str) -> None:
    least, most = facts.min_length, facts.max_length
    if least is not None and length < least:
        raise invalid(path, f"must have at least {least} {unit}{'s' * (least != 1)}, not {length}")
    if most is not None and length > most:
        raise invalid(path, f"must have at most {most} {unit}{'s' * (most != 1)}, not {length}")


@dataclass(frozen=True, slots=True)
class Spelled:
    """A type that is written as a string of some form: dates, UUIDs, paths, bytes."""

    what: str
    keywords: Schema
    parse: Callable[[str], Any]
    types: tuple[type, ...] = (str,)

    def read(self, value: Any, path: Path) -> Any:
        if not isinstance(value, self.types) or isinstance(value, bool):
            raise wrong_type(path, self.what, value)
        try:
            return self.parse(value)
        except (ValueError, OverflowError) as error:
            reason = f" ({error})" if isinstance(error, Hint) else ""
            raise invalid(path, f"must be {self.what}, not {shown(value)}{reason}") from None

    def schema(self, definitions: Definitions) -> Schema:
        del definitions
        return dict(self.keywords)


class Hint(ValueError):
    """Why a spelling will not do, in words for the reader of the error."""


def parse_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise Hint("not valid base64") from error


@dataclass(frozen=True, slots=True)
class Choice:
    """A `Literal`, or the members of an `Enum`: wire value and Python value of each."""

    options: tuple[tuple[Any, Any], ...]
    note: str = ""

    def read(self, value: Any, path: Path) -> Any:
        for wire, option in self.options:
            if same_json(wire, value):
                return option
        allowed = ", ".join(shown(wire) for wire, _ in self.options)
        raise invalid(path, f"must be {'one of ' * (len(self.options) > 1)}{allowed}, not {shown(value)}")

    def schema(self, definitions: Definitions) -> Schema:
        del definitions
        values = [wire for wire, _ in self.options]
        kinds = list(dict.fromkeys(_kind(value) for value in values))
        types: Schema = {"type": kinds[0]} if len(kinds) == 1 else {}
        described: Schema = {"description": self.note} if self.note else {}
        if len(values) == 1:
            return {**types, "const": values[0], **described}
        return {**types, "enum": values, **described}


def same_json(one: Any, other: Any) -> bool:
    """Equality as JSON has it: true is not 1, and 1.0 is."""
    return isinstance(one, bool) == isinstance(other, bool) and one == other


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case _:
            return "string"


_SCALARS: Final = (str, int, float, bool, type(None))


def members_of(kind: type[Enum]) -> Choice:
    """Members are written by value; by name where a value is not JSON. Bare numbers say what they mean."""
    members = list(kind)
    if not all(isinstance(member.value, _SCALARS) for member in members):
        return Choice(tuple((member.name, member) for member in members))
    opaque = any(not isinstance(member.value, str) for member in members)
    meanings = ", ".join(f"{member.value} = {member.name}" for member in members) if opaque else ""
    note = docstrings.sentences(docstrings.parse(vars(kind).get("__doc__")).summary, meanings)
    return Choice(tuple((member.value, member) for member in members), note)


@dataclass(frozen=True, slots=True)
class Noted:
    """A shape with a description, examples or the like, and with checks that no schema can express."""

    shape: Shape
    notes: Schema
    checks: tuple[Check, ...] = ()

    def read(self, value: Any, path: Path) -> Any:
        found = self.shape.read(value, path)
        for check in self.checks:
            _apply(check, found, path)
        return found

    def schema(self, definitions: Definitions) -> Schema:
        own = self.shape.schema(definitions)
        of_type, of_use = own.get("description", ""), self.notes.get("description", "")
        if of_type in of_use or not of_use:
            return {**own, **self.notes}
        # What an argument is for does not replace what its numbers mean, or the rule of its class.
        return {**own, **self.notes, "description": docstrings.sentences(of_use, of_type)}


def _apply(check: Check, value: Any, path: Path) -> None:
    try:
        verdict = check.function(value)
    except Invalid:
        raise
    except ValueError as error:
        raise invalid(path, f"will not do: {error}") from None
    if verdict is not None and not verdict:
        raise invalid(path, f"must be {check.rule}, not {shown(value)}")
