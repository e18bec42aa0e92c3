"""A type becomes the schema that one would have written by hand."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import pathlib
import uuid
from collections.abc import Callable
from decimal import Decimal
from typing import Annotated, Any, Literal, NamedTuple, NewType, NotRequired, Optional, TypedDict

import annotated_types
import jsonschema_rs
import msgspec
import pydantic
import pytest
from tests.authoring.samples import (
    Basket,
    Box,
    Colour,
    Extended,
    Level,
    Node,
    Order,
    Point,
    Span,
    Stop,
    Wagon,
)

from mooring.authoring.hints import Undescribable
from mooring.authoring.inference import schema_of, shape_of
from mooring.authoring.metadata import Check
from mooring.authoring.problems import Invalid

UserId = NewType("UserId", int)


def is_even(value: int) -> bool:
    """An even number."""
    return value % 2 == 0


PLAIN: list[tuple[Any, dict[str, Any]]] = [
    (int, {"type": "integer"}),
    (float, {"type": "number"}),
    (str, {"type": "string"}),
    (bool, {"type": "boolean"}),
    (None, {"type": "null"}),
    (Any, {}),
    (UserId, {"type": "integer"}),
    (Optional[int], {"type": ["integer", "null"]}),  # noqa: UP045 - the old spelling is still written
    (int | str, {"type": ["integer", "string"]}),
    (list[int] | None, {"type": ["array", "null"], "items": {"type": "integer"}}),
    (Colour | None, {"type": ["string", "null"], "enum": ["red", "dark blue", None]}),
    (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
    (Literal["only"], {"type": "string", "const": "only"}),
    (Literal["a", 1, None], {"enum": ["a", 1, None]}),  # noqa: PYI061 - as people write it
    (Colour, {"type": "string", "enum": ["red", "dark blue"]}),
    (Level, {"type": "integer", "enum": [1, 2], "description": "1 = LOW, 2 = HIGH"}),
    (list[str], {"type": "array", "items": {"type": "string"}}),
    (list, {"type": "array"}),
    (set[int], {"type": "array", "items": {"type": "integer"}, "uniqueItems": True}),
    (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
    (
        tuple[int, str],
        {
            "type": "array",
            "prefixItems": [{"type": "integer"}, {"type": "string"}],
            "items": False,
            "minItems": 2,
        },
    ),
    (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
    (dict, {"type": "object"}),
    (datetime.datetime, {"type": "string", "format": "date-time"}),
    (datetime.date, {"type": "string", "format": "date"}),
    (datetime.timedelta, {"type": "string", "format": "duration"}),
    (uuid.UUID, {"type": "string", "format": "uuid"}),
    (pathlib.Path, {"type": "string", "format": "path"}),
    (bytes, {"type": "string", "contentEncoding": "base64"}),
    (
        Annotated[int, annotated_types.Ge(1), annotated_types.Lt(9)],
        {"type": "integer", "minimum": 1, "exclusiveMaximum": 9},
    ),
    (
        Annotated[str, msgspec.Meta(min_length=1, pattern="^a")],
        {"type": "string", "minLength": 1, "pattern": "^a"},
    ),
    (
        Annotated[list[int], annotated_types.Len(1, 3)],
        {"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 3},
    ),
    (Annotated[int | None, annotated_types.Gt(0)], {"type": ["integer", "null"], "exclusiveMinimum": 0}),
    (Annotated[str, "What it is."], {"type": "string", "description": "What it is."}),
    (Annotated[str, {"examples": ["x"]}], {"type": "string", "examples": ["x"]}),
    (
        Annotated[int, pydantic.Field(ge=2, description="Two or more")],
        {"type": "integer", "minimum": 2, "description": "Two or more"},
    ),
    (Annotated[int, Check(is_even)], {"type": "integer", "description": "Must be: An even number."}),
    (
        Annotated[int, "A count.", Check(is_even, "even")],
        {"type": "integer", "description": "A count. Must be: even."},
    ),
]


@pytest.mark.parametrize(("kind", "schema"), PLAIN, ids=lambda value: str(value)[:60])
def test_a_type_becomes_the_plain_schema(kind: Any, schema: dict[str, Any]) -> None:
    assert schema_of(kind) == schema


def test_a_dataclass_is_inlined_and_described_by_its_docstring() -> None:
    assert schema_of(list[Point]) == {
        "type": "array",
        "items": {
            "type": "object",
            "description": "A place on the map.",
            "properties": {
                "x": {"type": "number", "description": "To the east."},
                "y": {"type": "number", "description": "To the north.", "default": 0.0},
            },
            "required": ["x"],
            "additionalProperties": False,
        },
    }


def test_references_are_a_choice() -> None:
    shared = schema_of(tuple[Point, Point], references="defs")
    assert shared["prefixItems"] == [{"$ref": "#/$defs/Point"}, {"$ref": "#/$defs/Point"}]
    assert list(shared["$defs"]) == ["Point"]
    assert "$ref" not in str(schema_of(tuple[Point, Point]))


@pytest.mark.parametrize("kind", [Node, Wagon, Basket])
def test_a_type_that_contains_itself_is_a_reference_even_when_inlined(kind: type) -> None:
    schema = schema_of(kind)
    assert schema["$ref"] == f"#/$defs/{kind.__name__}"
    jsonschema_rs.meta.validate(schema)


def test_a_typed_dict_keeps_what_may_be_left_out() -> None:
    schema = schema_of(Stop)
    assert schema["required"] == ["name"]
    assert schema["properties"]["name"] == {"type": "string", "description": "As on the sign."}


def test_a_struct_is_written_with_its_wire_names_and_tag() -> None:
    schema = schema_of(Order)
    assert list(schema["properties"]) == ["kind", "orderNumber", "isPaid"]
    assert schema["properties"]["kind"] == {"const": "order"}


def test_a_model_loses_its_titles_and_tells_of_its_validators() -> None:
    schema = schema_of(Basket, references="defs")
    basket = schema["$defs"]["Basket"]
    assert "'title': '" not in str(schema)
    assert basket["properties"]["title"] == {"type": "string"}
    assert basket["properties"]["count"]["description"] == "How many. Never thirteen."


def test_a_validator_is_described_under_the_name_that_clients_see() -> None:
    class Aliased(pydantic.BaseModel):
        number: int = pydantic.Field(alias="theNumber")
        other: int = 1

        @pydantic.field_validator("number")
        @classmethod
        def is_odd(cls, value: int) -> int:
            """Must be odd."""
            return value

        @pydantic.field_validator("*")
        @classmethod
        def is_small(cls, value: int) -> int:
            """Must be small."""
            return value

    properties = schema_of(Aliased)["properties"]
    assert properties["theNumber"]["description"] == "Must be odd. Must be small."
    assert properties["other"]["description"] == "Must be small."


def at_most_ten(value: int) -> int:
    """At most ten."""
    if value > 10:
        raise ValueError("too many")
    return value


def test_validators_that_no_schema_can_show_are_described() -> None:
    kind = Annotated[int, "A count.", pydantic.AfterValidator(at_most_ten)]
    assert schema_of(kind) == {"type": "integer", "description": "A count. Must be: At most ten."}
    with pytest.raises(Invalid, match="too many"):
        shape_of(kind).read(11, ())
    assert (
        schema_of(Annotated[int, "A count", Check(is_even, "even")])["description"]
        == "A count. Must be: even."
    )
    assert schema_of(Span)["description"] == "From and to. The end comes after the start."
    with pytest.raises(Invalid, match="will not do: the wrong way round"):
        shape_of(Span).read({"start": 2, "end": 1}, ())


def unexplained(value: int) -> bool:
    return bool(value)


def test_validators_without_a_docstring_are_described_by_name() -> None:
    class Model(pydantic.BaseModel):
        number: int

        @pydantic.field_validator("number")
        @classmethod
        def is_lucky(cls, value: int) -> int:
            return value

    assert schema_of(Model)["properties"]["number"]["description"] == "Must be accepted by `is_lucky`."
    for marker in (pydantic.AfterValidator(unexplained), annotated_types.Predicate(unexplained)):
        described = schema_of(Annotated[int, marker])
        assert described == {"type": "integer", "description": "Must be: accepted by `unexplained`."}
    nameless = annotated_types.Predicate(lambda value: value > 3)
    assert "accepted by a check of the server" in schema_of(Annotated[int, nameless])["description"]


def test_a_described_argument_keeps_what_its_type_says_of_itself() -> None:
    assert schema_of(Annotated[Level, "How urgent"])["description"] == "How urgent. 1 = LOW, 2 = HIGH"
    assert schema_of(Annotated[Span, "When"])["description"] == (
        "When. From and to. The end comes after the start."
    )

    class Size(enum.Enum):
        """How large."""

        SMALL = "s"
        LARGE = "l"

    assert schema_of(Size) == {"type": "string", "enum": ["s", "l"], "description": "How large."}


def test_limits_that_only_pydantic_knows_are_kept_by_pydantic() -> None:
    price = Annotated[Decimal, pydantic.Field(max_digits=4, decimal_places=2, description="What it costs")]
    assert schema_of(price)["description"] == "What it costs"
    assert shape_of(price).read("12.50", ()) == Decimal("12.50")
    with pytest.raises(Invalid, match="no more than 4 digits"):
        shape_of(price).read("123456", ())
    assert schema_of(pydantic.AnyUrl)["format"] == "uri"
    with pytest.raises(Invalid, match="valid URL"):
        shape_of(pydantic.AnyUrl).read("nowhere", ())


def test_a_generic_type_is_described_with_its_arguments() -> None:
    schema = schema_of(Box[Colour])
    assert schema["properties"]["content"] == {"type": "string", "enum": ["red", "dark blue"]}
    assert schema["properties"]["more"]["items"] == {"type": "string", "enum": ["red", "dark blue"]}
    assert shape_of(Box[Colour]).read({"content": "red"}, ()) == Box(Colour.RED)
    assert schema_of(tuple[Box[int], Box[str]])["prefixItems"][1]["properties"]["content"] == {
        "type": "string"
    }


def test_typed_dicts_of_typing_extensions_are_typed_dicts() -> None:
    assert schema_of(Extended) == {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {}},
        "required": ["a"],
    }


def test_two_types_of_one_name_stay_two() -> None:
    one = dataclasses.make_dataclass("Twin", [("a", int)])
    other = dataclasses.make_dataclass("Twin", [("b", str)])
    schema = schema_of(tuple[one, other], references="defs")  # pyright: ignore[reportInvalidTypeForm]
    assert [place["$ref"] for place in schema["prefixItems"]] == ["#/$defs/Twin", "#/$defs/Twin_2"]


def test_a_schema_is_the_same_every_time() -> None:
    kinds: list[Any] = [Basket, Node, Order, Stop, dict[str, Point | Order]]
    for kind in kinds:
        for references in ("inline", "defs"):
            first = msgspec.json.encode(schema_of(kind, references=references))
            assert msgspec.json.encode(schema_of(kind, references=references)) == first


@pytest.mark.parametrize(
    "kind",
    [Callable[[int], int], dict[tuple[int, int], str], object(), Annotated[str, annotated_types.Ge(1)]],
)
def test_what_json_cannot_say_is_refused_when_it_is_defined(kind: Any) -> None:
    with pytest.raises(Undescribable):
        schema_of(kind)


class Pair(NamedTuple):
    left: int
    right: str = "r"


READ: list[tuple[Any, Any, Any]] = [
    (int, 3.0, 3),
    (float, 3, 3.0),
    (Colour, "red", Colour.RED),
    (Level, 2, Level.HIGH),
    (datetime.date, "2026-07-28", datetime.date(2026, 7, 28)),
    (
        datetime.datetime,
        "2026-07-28T10:00:00.5Z",
        datetime.datetime(2026, 7, 28, 10, 0, 0, 500_000, datetime.UTC),
    ),
    (datetime.time, "16:30", datetime.time(16, 30)),
    (datetime.timedelta, "P1DT2H", datetime.timedelta(days=1, hours=2)),
    (datetime.timedelta, "P2W", datetime.timedelta(weeks=2)),
    (Decimal, "12.50", Decimal("12.50")),
    (Decimal, 12.5, Decimal("12.5")),
    (bytes, "aGk=", b"hi"),
    (pathlib.Path, "a/b", pathlib.Path("a/b")),
    (set[int], [1, 2], {1, 2}),
    (tuple[int, str], [1, "a"], (1, "a")),
    (dict[int, str], {"7": "x"}, {7: "x"}),
    (Pair, [1], Pair(1)),
    (Point, {"x": 1}, Point(1.0)),
    (Order, {"kind": "order", "orderNumber": 4}, Order(4)),
    (Basket, {"title": "t", "count": 2, "inner": []}, Basket(title="t", count=2)),
    (Point | Order, {"kind": "order", "orderNumber": 4}, Order(4)),
    (Node, {"name": "a", "children": [{"name": "b"}]}, Node("a", [Node("b")])),
]


@pytest.mark.parametrize(("kind", "value", "expected"), READ, ids=lambda value: str(value)[:40])
def test_a_value_is_read_into_its_type(kind: Any, value: Any, expected: Any) -> None:
    found = shape_of(kind).read(value, ())
    assert found == expected
    assert type(found) is type(expected)


REFUSED: list[tuple[Any, Any, str]] = [
    (int, True, "must be an integer, not true"),
    (int, "5", 'must be an integer, not "5"'),
    (Annotated[int, annotated_types.Le(100)], 500, "must be at most 100, not 500"),
    (Colour, "green", 'must be one of "red", "dark blue", not "green"'),
    (datetime.datetime, "2026-07-28T10:00:00", "needs an offset"),
    (datetime.timedelta, "P1Y", "years and months have no fixed length"),
    (bytes, "!", "not valid base64"),
    (set[int], [1, 1.0], "`[1]` is there twice"),
    (int | str, [], "must be an integer or a string, not an array"),
    (Annotated[int, Check(is_even, "even")], 3, "must be even, not 3"),
    (Basket, {"title": "t", "count": 13}, "`count` will not do: unlucky"),
    (Point, {"x": 1, "yy": 2}, "`yy` is not known here; did you mean `y`?"),
    (
        Node,
        {"name": "a", "children": [{}, {"name": 1}]},
        "`children[0].name` is missing; `children[1].name` must be a string",
    ),
    (Point | Order, {"kind": "order", "orderNumber": "x"}, "`orderNumber` must be an integer"),
]


@pytest.mark.parametrize(("kind", "value", "reason"), REFUSED, ids=lambda value: str(value)[:40])
def test_a_refusal_says_which_and_why(kind: Any, value: Any, reason: str) -> None:
    with pytest.raises(Invalid) as refused:
        shape_of(kind).read(value, ())
    assert reason in str(refused.value)


def test_every_problem_of_a_value_is_named_at_once() -> None:
    class Form(TypedDict):
        a: int
        b: NotRequired[str]

    with pytest.raises(Invalid) as refused:
        shape_of(list[Literal[1]]).read([2, 1, 3], ())
    assert [problem.path for problem in refused.value.problems] == [(0,), (2,)]


def test_a_long_list_of_problems_is_cut_and_says_so() -> None:
    with pytest.raises(Invalid, match=r"`\[19\]` must be an integer, not null; and 5 more$"):
        shape_of(list[int]).read([None] * 25, ())


def test_enums_without_json_values_go_by_name() -> None:
    class Shape(enum.Enum):
        ROUND = object()

    assert schema_of(Shape) == {"type": "string", "const": "ROUND"}
    assert shape_of(Shape).read("ROUND", ()) is Shape.ROUND
