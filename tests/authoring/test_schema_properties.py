"""Whatever the type and the value: the schema is valid, and what it accepts is what the reader takes."""

from __future__ import annotations

import dataclasses
import datetime
import keyword
import uuid
from decimal import Decimal
from typing import Annotated, Any, Literal, TypedDict, Union

import jsonschema_rs
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.authoring.samples import Basket, Colour, Level, Node, Order, Point, Stop, Wagon

from mooring.authoring.inference import schema_of, shape_of
from mooring.authoring.problems import Invalid
from mooring.authoring.records import plain

names = st.text("abcdef", min_size=1, max_size=4).filter(lambda name: not keyword.iskeyword(name))
limits = st.integers(-5, 5)
scalars = st.sampled_from(
    [
        *(int, float, str, bool, None, Any, Literal["a"], Literal["a", 1, True]),
        *(Colour, Level, Point, Node, Order, Stop, Wagon),
        *(Annotated[int, msgspec.Meta(multiple_of=2)], Annotated[str, msgspec.Meta(pattern="^a+$")]),
    ]
) | st.one_of(
    limits.map(lambda least: Annotated[int, msgspec.Meta(ge=least)]),
    limits.map(lambda most: Annotated[float, msgspec.Meta(lt=most)]),
    st.integers(0, 3).map(lambda length: Annotated[str, msgspec.Meta(max_length=length)]),
)


def _dataclass(fields: dict[str, Any]) -> Any:
    return dataclasses.make_dataclass("Made", list(fields.items()))


def _typed_dict(fields: dict[str, Any]) -> Any:
    return TypedDict("Made", fields, total=False)  # pyright: ignore[reportArgumentType]


def _extend(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    members = st.dictionaries(names, inner, max_size=3)
    return st.one_of(
        inner.map(lambda each: list[each]),
        inner.map(lambda each: Annotated[list[each], msgspec.Meta(min_length=1, max_length=2)]),
        inner.map(lambda each: dict[str, each]),
        st.lists(inner, min_size=1, max_size=3).map(lambda each: tuple[tuple(each)]),
        st.lists(inner, min_size=2, max_size=3).map(lambda each: Union[tuple(each)]),  # noqa: UP007
        members.map(_dataclass),
        members.map(_typed_dict),
    )


kinds = st.recursive(scalars, _extend, max_leaves=6)
numbers = st.integers(-7, 7) | st.sampled_from([0.5, 1.0, 2.0, -3.0, 1e30])
atoms = (
    st.none() | st.booleans() | numbers | st.sampled_from(["", "a", "aa", "a\n", "red", "dark blue", "order"])
)
keys = names | st.sampled_from(
    ["name", "children", "x", "y", "kind", "orderNumber", "isPaid", "load", "next"]
)
values = st.recursive(
    atoms, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3), max_leaves=8
)


def accepts(kind: Any, value: Any) -> bool:
    try:
        shape_of(kind).read(value, ())
    except Invalid as error:
        return not error.problems  # a refusal without a reason would count as accepted
    return True


@settings(max_examples=100, deadline=None)
@given(kinds, st.sampled_from(["inline", "defs"]))
def test_every_schema_is_valid_2020_12(kind: Any, references: Any) -> None:
    schema = schema_of(kind, references=references)
    jsonschema_rs.meta.validate({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})
    jsonschema_rs.Draft202012Validator(schema)  # every reference leads somewhere
    assert msgspec.json.decode(msgspec.json.encode(schema)) == schema


@settings(max_examples=200, deadline=None)
@given(kinds, values, st.sampled_from(["inline", "defs"]))
def test_the_reader_takes_exactly_what_the_schema_accepts(kind: Any, value: Any, references: Any) -> None:
    validator = jsonschema_rs.Draft202012Validator(schema_of(kind, references=references))
    assert accepts(kind, value) == validator.is_valid(value)


@settings(max_examples=100, deadline=None)
@given(kinds, values)
def test_what_was_read_is_written_as_the_schema_says(kind: Any, value: Any) -> None:
    schema, shape = schema_of(kind), shape_of(kind)
    try:
        found = shape.read(value, ())
    except Invalid:
        return
    written = msgspec.json.decode(msgspec.json.encode(plain(found)))
    assert jsonschema_rs.Draft202012Validator(schema).is_valid(written)
    assert plain(shape.read(written, ())) == plain(found)


formatted = st.one_of(
    st.datetimes(timezones=st.timezones()).map(lambda each: each.isoformat()),
    st.dates().map(str),
    st.times().map(str),
    st.uuids().map(str),
    st.binary(max_size=8).map(msgspec.to_builtins),
    st.decimals(allow_nan=False, allow_infinity=False, places=2).map(str),
    st.timedeltas().map(msgspec.to_builtins),
    st.from_regex(r"\A\d{4}-\d\d-\d\d([Tt ]\d\d:\d\d:\d\d(\.\d{1,9})?([Zz]|[+-]\d\d:\d\d)?)?\Z"),
    st.from_regex(r"\A-?P(\d[YMWD])*(T(\d[HMS])*)?\Z"),
    st.text(max_size=5),
)


@pytest.mark.parametrize(
    "kind",
    [datetime.datetime, datetime.date, datetime.time, datetime.timedelta, uuid.UUID, Decimal, bytes],
    ids=lambda kind: kind.__name__,
)
@settings(max_examples=60, deadline=None)
@given(value=formatted)
def test_a_format_is_read_or_refused_never_misread(kind: Any, value: str) -> None:
    """Formats only inform: the schema may accept what is then refused, with a reason; never the reverse."""
    try:
        found = shape_of(kind).read(value, ())
    except Invalid as error:
        found, reason = None, str(error)
    else:
        reason = ""
    if reason:
        assert reason.startswith("the value must be ")
        return
    assert type(found) is kind
    assert jsonschema_rs.Draft202012Validator(schema_of(kind)).is_valid(value)
    assert shape_of(kind).read(plain(found), ()) == found


@settings(max_examples=100, deadline=None)
@given(st.fixed_dictionaries({"title": st.text(max_size=3), "count": st.integers(-1, 14)}))
def test_what_a_model_s_schema_accepts_is_read_or_refused_by_its_validator(value: dict[str, Any]) -> None:
    schema_accepts = jsonschema_rs.Draft202012Validator(schema_of(Basket)).is_valid(value)
    assert accepts(Basket, value) == (schema_accepts and value["count"] != 13)
