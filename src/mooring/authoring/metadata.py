"""What `Annotated` says about a type: descriptions, limits, checks; from our markers and from those of
msgspec, annotated-types and pydantic.

Foreign markers are recognised by what they are called and carry, so that neither package has to be installed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final, cast

import msgspec

from mooring.authoring import docstrings

MISSING: Final = msgspec.UNSET


@dataclass(frozen=True, slots=True)
class Check:
    """A rule that a schema cannot express: `Annotated[int, Check(is_even, "even")]`.

    The function gets the value and returns false, or raises `ValueError`, for one that will not do. The
    description goes into the schema, where a model can read it, and into the error; without one, the
    function's docstring does.
    """

    function: Callable[[Any], object]
    description: str = ""

    @property
    def rule(self) -> str:
        return self.description or rule_of(self.function)


def rule_of(function: Callable[..., Any]) -> str:
    """What a function that checks values wants: its docstring says so, or else its name."""
    summary = docstrings.parse(function.__doc__).summary.rstrip(".")
    name = getattr(function, "__name__", "")
    return summary or f"accepted by {f'`{name}`' if name.isidentifier() else 'a check of the server'}"


@dataclass(frozen=True, slots=True)
class Header:
    """Repeat this argument in the header `Mcp-Param-<name>`, for routing (2026-07-28)."""

    name: str


@dataclass(frozen=True, slots=True)
class Facts:
    """Everything that was said about one type, in one form."""

    ge: float | None = None
    gt: float | None = None
    le: float | None = None
    lt: float | None = None
    multiple_of: float | None = None
    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None
    checks: tuple[Check, ...] = ()
    notes: dict[str, Any] = field(default_factory=dict[str, Any])
    """Keywords that only inform: description, examples, deprecated, x-mcp-header, and what an author adds."""
    default: Any = MISSING
    alias: str | None = None

    @property
    def has_number_limits(self) -> bool:
        return any(limit is not None for limit in (self.ge, self.gt, self.le, self.lt, self.multiple_of))

    @property
    def has_length_limits(self) -> bool:
        return self.min_length is not None or self.max_length is not None

    def described(self) -> dict[str, Any]:
        """The notes, with the rules of the checks added to the description."""
        rules = [check.rule for check in self.checks]
        if not rules:
            return self.notes
        text = docstrings.sentences(self.notes.get("description"), f"Must be: {'; '.join(rules)}.")
        return {**self.notes, "description": text}


NO_FACTS: Final = Facts()
_LIMITS: Final = ("ge", "gt", "le", "lt", "multiple_of", "min_length", "max_length")


def gather(metadata: Iterable[Any], known: Facts = NO_FACTS) -> Facts:
    """Read the metadata of one `Annotated`, in order; what comes later wins."""
    for item in metadata:
        known = _add(known, item)
    return known


def is_foreign_validator(item: Any) -> bool:
    """A marker that only pydantic itself understands (`AfterValidator`, `Strict`, `Discriminator` …), or a
    `Field` that holds one (`Field(max_digits=4)`)."""
    kind = type(item).__name__
    if not type(item).__module__.startswith("pydantic"):
        return False
    if kind == "FieldInfo":
        return any(map(is_foreign_validator, cast("list[Any]", item.metadata)))
    if not kind.endswith("GeneralMetadata"):
        return True
    # How pydantic keeps `Field(pattern=…)`, which we know ourselves.
    return set(cast("dict[str, Any]", vars(item))) != {"pattern"}


def _add(known: Facts, item: Any) -> Facts:
    match item:
        case str():
            return _note(known, description=item)
        case Check():
            return replace(known, checks=(*known.checks, item))
        case Header():
            return _note(known, **{"x-mcp-header": item.name})
        case msgspec.Meta():
            return _add_meta(known, item)
        case dict():
            return _note(known, **cast("dict[str, Any]", item))
        case _:
            return _add_foreign(known, item)


def _note(known: Facts, **notes: Any) -> Facts:
    return replace(known, notes={**known.notes, **notes})


def _limits_of(item: object) -> dict[str, Any]:
    return {name: value for name in _LIMITS if (value := getattr(item, name, None)) is not None}


def _add_meta(known: Facts, item: msgspec.Meta) -> Facts:
    notes = {
        name: value for name in ("description", "examples") if (value := getattr(item, name)) is not None
    }
    limits = _limits_of(item)
    if item.pattern is not None:
        limits["pattern"] = item.pattern
    return replace(known, **limits, notes={**known.notes, **notes, **(item.extra_json_schema or {})})


def _add_foreign(known: Facts, item: Any) -> Facts:
    kind = type(item).__name__
    if kind == "FieldInfo":
        return _add_field(known, item)
    if kind == "Doc" and isinstance(getattr(item, "documentation", None), str):
        return _note(known, description=item.documentation)
    if kind in ("Predicate", "Not") and callable(getattr(item, "func", None)):
        return replace(known, checks=(*known.checks, _predicate(item)))
    if kind in ("Ge", "Gt", "Le", "Lt", "MultipleOf", "MinLen", "MaxLen", "Len", "Interval"):
        return replace(known, **_limits_of(item))
    if kind.endswith("GeneralMetadata"):  # how pydantic keeps `Field(pattern=…)`
        pattern = cast("Any", getattr(item, "pattern", None))
        return replace(known, pattern=_text_of(pattern)) if pattern is not None else known
    return known


def _predicate(item: Any) -> Check:
    function = item.func
    if type(item).__name__ == "Not":
        return Check(lambda value: not function(value), f"not {Check(function).rule}")
    return Check(function)


def _add_field(known: Facts, item: Any) -> Facts:
    """`pydantic.Field(…)`, which people also put on plain functions."""
    known = gather(item.metadata, known)
    notes: dict[str, Any] = {
        name: value for name in ("description", "examples") if (value := getattr(item, name)) is not None
    }
    extra: Any = item.json_schema_extra
    if isinstance(extra, dict):
        notes.update(cast("dict[str, Any]", extra))
    default = MISSING if item.is_required() or item.default_factory else item.default
    return replace(known, notes={**known.notes, **notes}, default=default, alias=item.alias or known.alias)


def _text_of(pattern: str | re.Pattern[str]) -> str:
    return pattern if isinstance(pattern, str) else pattern.pattern
