"""Types with members: dataclasses, TypedDicts, msgspec Structs and named tuples."""

from __future__ import annotations

import dataclasses
import typing
from collections.abc import Callable
from typing import Any, TypeAlias, cast

import msgspec

from mooring.authoring import docstrings, foreign
from mooring.authoring.containers import Member, Record, Row
from mooring.authoring.docstrings import Docstring
from mooring.authoring.hints import Undescribable, hints_of, hints_with_arguments
from mooring.authoring.metadata import MISSING, NO_FACTS, Facts
from mooring.authoring.shapes import Anything, Shape

Infer: TypeAlias = Callable[[Any, Facts], Shape]
"""From an annotation, and what is already known about it, to its shape."""


def dataclass_shape(kind: Any, infer: Infer) -> Shape:
    origin = typing.get_origin(kind) or kind
    hints, docs = hints_with_arguments(kind), docstrings.parse(_own_doc(origin))
    for name, hint in hints.items():
        if isinstance(hint, dataclasses.InitVar):
            raise Undescribable(f"`{origin.__qualname__}.{name}` is an InitVar; make it a field")
    members = [
        member_of(
            infer,
            item.name,
            hints[item.name],
            docs,
            default=item.default if item.default is not dataclasses.MISSING else MISSING,
            optional=item.default_factory is not dataclasses.MISSING,
        )
        for item in dataclasses.fields(origin)
        if item.init
    ]
    return Record(tuple(members), lambda found: origin(**found), description=_summary(docs, origin))


def typed_dict_shape(kind: Any, infer: Infer) -> Shape:
    origin = typing.get_origin(kind) or kind
    hints, docs = hints_with_arguments(kind), docstrings.parse(_own_doc(origin))
    members = [
        member_of(infer, name, hint, docs, optional=not _is_required(origin, name, hint))
        for name, hint in hints.items()
    ]
    return Record(tuple(members), dict, others=Anything(), description=docs.summary)


def struct_shape(kind: Any, infer: Infer) -> Shape:
    origin = typing.get_origin(kind) or kind
    docs, config = docstrings.parse(_own_doc(origin)), origin.__struct_config__
    members = [
        member_of(
            infer,
            item.name,
            item.type,
            docs,
            default=MISSING if item.default is msgspec.NODEFAULT else item.default,
            optional=item.default_factory is not msgspec.NODEFAULT,
            wire_name=item.encode_name,
        )
        for item in msgspec.structs.fields(kind)
    ]
    if config.array_like:
        least = sum(1 for member in members if member.required)
        shapes = tuple(member.shape for member in members)
        return Row(shapes, lambda values: origin(*values), least)
    tag = (config.tag_field, config.tag) if config.tag_field is not None else None
    return Record(
        tuple(members),
        lambda found: origin(**found),
        ignores_others=not config.forbid_unknown_fields,
        tag=tag,
        description=_summary(docs, origin),
    )


def named_tuple_shape(kind: Any, infer: Infer) -> Shape:
    """An array on the wire, as everybody else writes it."""
    hints = hints_of(kind)
    shapes = tuple(infer(hints.get(name, Any), NO_FACTS) for name in kind._fields)
    return Row(shapes, lambda values: kind(*values), len(shapes) - len(kind._field_defaults))


def member_of(
    infer: Infer,
    name: str,
    annotation: Any,
    docs: Docstring,
    default: Any = MISSING,
    *,
    optional: bool = False,
    wire_name: str = "",
) -> Member:
    """A parameter or a field: its shape, described, with the default that JSON can show."""
    description = docs.parameters.get(name)
    known = Facts(notes={"description": description}) if description else NO_FACTS
    shape = infer(annotation, known)
    required = default is MISSING and not optional
    return Member(wire_name or name, name, shape, required, _shown_default(default))


def _shown_default(default: Any) -> Any:
    """What the schema says; null says nothing that leaving the member out does not."""
    if default is MISSING or default is None:
        return MISSING
    try:
        return plain(default)
    except (TypeError, ValueError):
        return MISSING


def plain(value: Any) -> Any:
    """A Python value as JSON has it."""
    return msgspec.to_builtins(value, str_keys=True, enc_hook=foreign.encode)


def _summary(docs: docstrings.Docstring, kind: Any) -> str:
    """What a class is, and the rule that its `__post_init__` enforces, if that says so."""
    check = cast("dict[str, Any]", vars(kind)).get("__post_init__")
    rule = docstrings.parse(check.__doc__).summary if check is not None else ""
    return docstrings.sentences(docs.summary, rule)


def _is_required(kind: Any, name: str, hint: Any) -> bool:
    """Whether a TypedDict must have this key; where annotations are strings, only the hint knows."""
    origin = typing.get_origin(hint)
    if origin in (typing.Required, typing.NotRequired):
        return origin is typing.Required
    return name in kind.__required_keys__


def _own_doc(kind: type) -> str | None:
    """A class's own docstring: not an inherited one, nor the one that `dataclass` makes up."""
    text = cast("str | None", vars(kind).get("__doc__"))
    if text and dataclasses.is_dataclass(kind) and text.startswith(f"{kind.__name__}("):
        return None
    return text
