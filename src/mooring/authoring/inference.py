"""From a type annotation to its shape."""

from __future__ import annotations

import collections
import collections.abc as abstract
import dataclasses
import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterable
from enum import Enum
from functools import partial
from typing import Any, Final

import msgspec

from mooring.authoring import foreign
from mooring.authoring.containers import Array, Either, Named, Row, Table
from mooring.authoring.hints import Undescribable
from mooring.authoring.metadata import NO_FACTS, Facts, gather, is_foreign_validator
from mooring.authoring.records import dataclass_shape, named_tuple_shape, struct_shape, typed_dict_shape
from mooring.authoring.schema import Definitions, References, Schema
from mooring.authoring.shapes import Anything, Boolean, Choice, Noted, Null, Number, Shape, Text, members_of
from mooring.authoring.spellings import spelling_of

_LISTS: Final[dict[Any, Callable[[list[Any]], Any]]] = {
    list: list,
    collections.deque: collections.deque,
    abstract.Sequence: list,
    abstract.MutableSequence: list,
    abstract.Collection: list,
    abstract.Iterable: list,
}
_SETS: Final[dict[Any, Callable[[list[Any]], Any]]] = {
    set: set,
    frozenset: frozenset,
    abstract.Set: frozenset,
    abstract.MutableSet: set,
}
_TABLES: Final[dict[Any, Callable[[dict[Any, Any]], Any]]] = {
    dict: dict,
    collections.OrderedDict: collections.OrderedDict,
    abstract.Mapping: dict,
    abstract.MutableMapping: dict,
}
_ANYTHING: Final = Anything()
_REMARKS: Final = (typing.Required, typing.NotRequired, typing.Final, typing.ClassVar)


def shape_of(annotation: Any) -> Shape:
    return Inference().shape(annotation)


def schema_of(annotation: Any, *, references: References = "inline") -> Schema:
    """The JSON Schema (2020-12) of a type."""
    return write(shape_of(annotation), references)


def write(shape: Shape, references: References) -> Schema:
    definitions = Definitions(references)
    return definitions.finish(shape.schema(definitions))


class Inference:
    """One walk over a type; remembers the named types that it is inside of."""

    def __init__(self) -> None:
        self._named: dict[Any, Named] = {}
        self._open: list[Any] = []

    def shape(self, annotation: Any, facts: Facts = NO_FACTS) -> Shape:
        """The shape of a type, with what was said about it."""
        base, metadata = _unwrap(annotation)
        if any(map(is_foreign_validator, metadata)):
            facts = gather(metadata, facts)
            notes = dataclasses.replace(facts, checks=foreign.rules_of(metadata)).described()
            return Noted(foreign.shape_of(annotation), notes)
        facts = gather(metadata, facts)
        # Notes and checks are about the whole type; limits go down to what they limit.
        shape = self._limited(base, dataclasses.replace(facts, checks=(), notes={}))
        notes = facts.described()
        return Noted(shape, notes, facts.checks) if notes or facts.checks else shape

    def _limited(self, base: Any, facts: Facts) -> Shape:
        if base in (int, float):
            shape: Shape = Number(facts, integer=base is int)
        elif base is str:
            shape = Text(facts)
        elif _is_union(base):
            return self._union(typing.get_args(base), facts)
        elif (container := self._container(base, facts)) is not None:
            shape = container
        else:
            shape = self._plain(base)
            _refuse(facts, base, number=True, length=True, pattern=True)
            return shape
        _refuse(
            facts, base, number=base not in (int, float), length=base in (int, float), pattern=base is not str
        )
        return shape

    def _union(self, branches: Iterable[Any], facts: Facts) -> Shape:
        limited = facts.has_number_limits or facts.has_length_limits or facts.pattern is not None
        shapes: list[Shape] = []
        used = False
        for branch in branches:
            try:
                shapes.append(self.shape(branch, facts))
                used = True
            except _DoesNotApply:
                shapes.append(self.shape(branch))
        if limited and not used:
            raise _DoesNotApply("limits that apply to no member of a union")
        return Either(tuple(shapes))

    def _container(self, base: Any, facts: Facts) -> Shape | None:
        origin = typing.get_origin(base) or base
        arguments = typing.get_args(base)
        if not isinstance(origin, abstract.Hashable):
            return None
        if origin in _LISTS:
            return Array(self._argument(arguments, 0), _LISTS[origin], facts=facts)
        if origin in _SETS:
            return Array(self._argument(arguments, 0), _SETS[origin], unique=True, facts=facts)
        if origin in _TABLES:
            key = self._key(arguments[0]) if arguments else None
            return Table(key, self._argument(arguments, 1), _TABLES[origin], facts=facts)
        if origin is tuple:
            if not arguments or (len(arguments) == 2 and arguments[1] is Ellipsis):
                return Array(self._argument(arguments, 0), tuple, facts=facts)
            if not facts.has_length_limits:
                return Row(tuple(self.shape(argument) for argument in arguments))
        return None

    def _argument(self, arguments: tuple[Any, ...], index: int) -> Shape:
        return self.shape(arguments[index]) if len(arguments) > index else _ANYTHING

    def _key(self, annotation: Any) -> Shape | None:
        """Keys are strings in JSON: str and what is spelled as one, choices, and integers in digits."""
        base, _ = _unwrap(annotation)
        if base in (str, Any):
            shape = self.shape(annotation)
            return (
                shape
                if isinstance(shape, Noted) or shape.schema(_NO_DEFINITIONS) != {"type": "string"}
                else None
            )
        if base is int:
            return _DIGITS
        shape = self.shape(annotation)
        kind = shape.schema(_NO_DEFINITIONS).get("type")
        if kind != "string":
            raise Undescribable(
                f"the keys of a JSON object are strings, not {_name(base)}; use `dict[str, …]`"
            )
        return shape

    def _plain(self, base: Any) -> Shape:
        if base in (Any, object) or isinstance(base, typing.TypeVar):
            bound = base.__bound__ if isinstance(base, typing.TypeVar) else None
            return self.shape(bound) if bound is not None else _ANYTHING
        if base is None or base is types.NoneType:
            return Null()
        if base is bool:
            return Boolean()
        if typing.get_origin(base) is typing.Literal:
            return _literal(typing.get_args(base))
        kind = typing.get_origin(base) or base
        if inspect.isclass(kind):
            return self._class(kind, base)
        raise Undescribable(
            f"{_name(base)} has no counterpart in JSON; use another type, or give a schema of your own"
        )

    def _class(self, kind: type, base: Any) -> Shape:
        spelled = spelling_of(kind)
        if spelled is not None:
            return spelled
        if foreign.is_model(kind):
            return foreign.shape_of(base)
        builder = self._builder(kind)
        if builder is None:
            for scalar in (str, int, float):  # subclasses are read, then made
                if issubclass(kind, scalar) and kind is not bool:
                    return _Made(self.shape(scalar), kind)
            raise Undescribable(
                f"{_name(base)} has no counterpart in JSON; make it a dataclass, or give a schema of your own"
            )
        return self._name_and_fill(base, kind, builder)

    def _builder(self, kind: Any) -> Callable[[Any], Shape] | None:
        if issubclass(kind, Enum):
            return members_of
        if issubclass(kind, msgspec.Struct):
            return partial(struct_shape, infer=self.shape)
        if dataclasses.is_dataclass(kind):
            return partial(dataclass_shape, infer=self.shape)
        if typing.is_typeddict(kind) or hasattr(kind, "__required_keys__"):  # typing_extensions has its own
            return partial(typed_dict_shape, infer=self.shape)
        if hasattr(kind, "_fields") and issubclass(kind, tuple):
            return partial(named_tuple_shape, infer=self.shape)
        return None

    def _name_and_fill(self, base: Any, kind: type, builder: Callable[[Any], Shape]) -> Shape:
        known = self._named.get(base)
        if known is not None:
            known.recursive = known.recursive or base in self._open
            return known
        named = self._named[base] = Named(base, kind.__name__)
        self._open.append(base)
        try:
            named.shape = builder(base)
        finally:
            self._open.pop()
        return named


class _DoesNotApply(Undescribable):
    """A limit on a type that cannot have it."""


def _refuse(facts: Facts, base: Any, *, number: bool, length: bool, pattern: bool) -> None:
    if (
        (number and facts.has_number_limits)
        or (length and facts.has_length_limits)
        or (pattern and facts.pattern is not None)
    ):
        raise _DoesNotApply(
            f"a limit in `Annotated` does not apply to {_name(base)}; remove it, or use `Check`"
        )


@dataclasses.dataclass(frozen=True, slots=True)
class _Made:
    """A subclass of str, int or float."""

    shape: Shape
    kind: Callable[[Any], Any]

    def read(self, value: Any, path: tuple[str | int, ...]) -> Any:
        return self.kind(self.shape.read(value, path))

    def schema(self, definitions: Definitions) -> Schema:
        return self.shape.schema(definitions)


def _integer_key(text: str) -> int:
    if len(text) > 4_000:
        raise ValueError(text)
    return int(text)


_NO_DEFINITIONS: Final = Definitions("inline")


class _Digits:
    """An integer as the key of an object."""

    _text: Final = Text(Facts(pattern="^-?[0-9]+$"))

    def read(self, value: Any, path: tuple[str | int, ...]) -> int:
        return _integer_key(self._text.read(value, path))

    def schema(self, definitions: Definitions) -> Schema:
        return {"pattern": self._text.schema(definitions)["pattern"]}


_DIGITS: Final = _Digits()


def _unwrap(annotation: Any) -> tuple[Any, tuple[Any, ...]]:
    """A type without the wrappings that do not change its values, and the metadata they carried."""
    metadata: tuple[Any, ...] = ()
    while True:
        origin = typing.get_origin(annotation)
        if origin is typing.Annotated:
            metadata = (*annotation.__metadata__, *metadata)
            annotation = annotation.__origin__
        elif origin in _REMARKS or (origin is not None and getattr(origin, "__name__", "") == "ReadOnly"):
            annotation = typing.get_args(annotation)[0]
        elif isinstance(annotation, typing.NewType):
            annotation = annotation.__supertype__
        elif type(annotation).__name__ == "TypeAliasType":
            annotation = annotation.__value__
        else:
            return annotation, metadata


def _is_union(base: Any) -> bool:
    return typing.get_origin(base) in (typing.Union, types.UnionType)


def _literal(values: tuple[Any, ...]) -> Shape:
    options = [(value.value if isinstance(value, Enum) else value, value) for value in values]
    if any(isinstance(wire, bytes) for wire, _ in options):
        raise Undescribable("a `Literal` of bytes has no counterpart in JSON; use strings")
    return Choice(tuple(options))


def _name(kind: Any) -> str:
    name = getattr(kind, "__qualname__", None) or str(kind)
    module = sys.modules.get(getattr(kind, "__module__", ""), None)
    return f"`{name}`" if module is not typing else f"`{kind}`"
