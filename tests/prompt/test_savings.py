"""Savings change words, never what validates; and nothing that only looks like a note is touched."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

import jsonschema_rs
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mooring.prompt.savings import Savings, without_unused_definitions
from mooring.prompt.schemas import subschemas
from mooring.prompt.wording import collapse_whitespace, shorten

EVERYTHING = Savings(strip_titles=True, collapse_whitespace=True, description_limit=30, drop_unused_defs=True)
NAMES = ["title", "description", "$defs", "properties", "a", "b", "enum", "$ref"]
TEXTS = ["", "Title", "One.  Two sentences, of which the second is long. Three.", "  x\n\n\n  y "]
REFERENCES = [
    *("#/$defs/A", "#/$defs/B", "#/$defs/title", "#/definitions/C", "#"),
    *("#/$defs/A/properties/title", "#/properties/a"),
]
TYPES = ["object", "array", "string", "integer", "null", "boolean"]
# A schema per seed: strategies for schemas of this size take a hundred times as long as what they test.
SEEDS = st.integers(0, 2**48).map(Random)


def data(random: Random, depth: int = 2) -> Any:
    kind = random.randrange(6 if depth else 4)
    if kind < 4:
        return [None, random.random() < 0.5, random.randint(-3, 3), random.choice(TEXTS)][kind]
    if kind == 4:
        return [data(random, depth - 1) for _ in range(random.randrange(3))]
    return {random.choice(NAMES): data(random, depth - 1) for _ in range(random.randrange(4))}


def schema(random: Random, depth: int = 3) -> Any:
    if not depth or random.random() < 0.1:
        return random.choice([True, True, False, {"type": random.choice(TYPES)}])

    def inner() -> Any:
        return schema(random, depth - 1)

    keywords: dict[str, Callable[[], Any]] = {
        "title": lambda: random.choice(TEXTS),
        "description": lambda: random.choice(TEXTS),
        "type": lambda: random.choice(TYPES),
        "properties": lambda: {random.choice(NAMES): inner() for _ in range(3)},
        "required": lambda: random.sample(NAMES, 2),
        "additionalProperties": inner,
        "items": inner,
        "anyOf": lambda: [inner(), inner()],
        "oneOf": lambda: [inner(), inner()],
        "not": inner,
        "if": inner,
        "then": inner,
        "enum": lambda: [data(random) for _ in range(3)],
        "const": lambda: data(random),
        "default": lambda: data(random),
        "examples": lambda: [data(random)],
        "$ref": lambda: random.choice(REFERENCES),
        "$defs": lambda: {random.choice(NAMES): inner()},
        "x-note": lambda: data(random),
    }
    return {keyword: keywords[keyword]() for keyword in random.sample(sorted(keywords), random.randint(1, 5))}


def root(random: Random) -> dict[str, Any]:
    top = schema(random)
    return {
        **(top if isinstance(top, dict) else {}),
        "$defs": {name: schema(random, 2) for name in ("A", "B", "title", "unused")},
        "definitions": {"C": schema(random, 1)},
    }


def _judge(schema: Any) -> Any:
    """A validator, or None if the schema leads nowhere or in a circle."""
    try:
        return jsonschema_rs.Draft202012Validator(schema)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError):
        return None


@settings(max_examples=400, deadline=None)
@given(SEEDS)
def test_the_same_instances_validate_before_and_after(random: Random) -> None:
    given_schema = root(random)
    before = _judge(given_schema)
    if before is None:
        return
    saved = EVERYTHING.applied({"name": "t", "inputSchema": given_schema})["inputSchema"]
    after = _judge(saved)
    assert after is not None
    named = [
        value
        for _, node in subschemas(given_schema)
        for value in (*node.get("enum", []), *([node["const"]] if "const" in node else []))
    ]  # what a schema names by value is what random data hardly ever is
    for instance in [*named, *(data(random, 3) for _ in range(20))]:
        assert before.is_valid(instance) == after.is_valid(instance)


@settings(deadline=None)
@given(SEEDS)
def test_saving_twice_saves_no_more(random: Random) -> None:
    made = root(random)
    tool = {"name": "t", "description": "  One.   Two.  ", "inputSchema": made, "outputSchema": made}
    once = EVERYTHING.applied(tool)
    assert EVERYTHING.applied(once) == once


@settings(deadline=None)
@given(SEEDS)
def test_without_savings_a_tool_stays_as_it_is(random: Random) -> None:
    made = root(random)
    tool = {"name": "t", "title": "T", "description": "a  b", "inputSchema": made, "x": {"title": "T"}}
    assert Savings().applied(tool) == tool


def test_titles_that_are_data_stay() -> None:
    schema = {
        "title": "BookArguments",
        "type": "object",
        "properties": {
            "title": {"type": "string", "title": "Title", "default": {"title": "kept"}},
            "kind": {
                "enum": [{"title": "kept"}],
                "const": {"title": "kept"},
                "examples": [{"title": "kept"}],
            },
        },
        "required": ["title"],
        "x-form": {"title": "kept"},
    }
    assert Savings(strip_titles=True).applied({"name": "t", "title": "Shown", "inputSchema": schema}) == {
        "name": "t",
        "title": "Shown",
        "inputSchema": {
            "type": "object",
            "properties": {
                "title": {"type": "string", "default": {"title": "kept"}},
                "kind": schema["properties"]["kind"],
            },
            "required": ["title"],
            "x-form": {"title": "kept"},
        },
    }


def test_only_definitions_that_nothing_leads_to_are_dropped() -> None:
    schema = {
        "properties": {"a": {"$ref": "#/$defs/A~1x"}},
        "$defs": {
            "A/x": {"items": {"$ref": "#/definitions/B%20b"}},
            "circle": {"items": {"$ref": "#/$defs/circle"}},
        },
        "definitions": {"B b": {"type": "string"}, "C": {"type": "string"}},
    }
    kept = without_unused_definitions(schema)
    assert set(kept["$defs"]) == {"A/x"}
    assert set(kept["definitions"]) == {"B b"}


@pytest.mark.parametrize(
    "reader",
    [
        {"$ref": "#name"},
        {"$ref": "other.json#/$defs/A"},
        {"$dynamicRef": "#/$defs/A"},
        {"$id": "https://example.com/x", "$ref": "#/$defs/A"},
        {"$ref": "#/$defs"},
    ],
    ids=str,
)
def test_where_references_are_not_plain_every_definition_stays(reader: dict[str, str]) -> None:
    schema = {"properties": {"a": reader}, "$defs": {"A": {"$anchor": "name"}, "B": {}}}
    assert without_unused_definitions(schema) == schema


@pytest.mark.parametrize(
    ("text", "limit", "short"),
    [
        ("One. Two. Three.", 10, "One. Two."),
        ("One. Two. Three.", 16, "One. Two. Three."),
        (
            "A first sentence that is longer than allowed. More.",
            20,
            "A first sentence that is longer than allowed.",
        ),
        ("No end at all but long", 10, "No end at all but long"),
        ("Uses a key, e.g. PROJ, in it. More.", 20, "Uses a key, e.g. PROJ, in it."),
        ("Version 1.2 is meant. More.", 22, "Version 1.2 is meant."),
        ("Say `a. b` here. More.", 17, "Say `a. b` here."),
        ("A heading\n\nThe text below it.", 12, "A heading"),
        ("Was it so? Yes! Then.", 16, "Was it so? Yes!"),
        ("検索します。もっと。", 6, "検索します。"),
        ("Runs this:\n```\na. b\n\nc.\n```\nDone. More.", 36, "Runs this:\n```\na. b\n\nc.\n```\nDone."),
    ],
)
def test_descriptions_end_where_a_sentence_ends(text: str, limit: int, short: str) -> None:
    assert shorten(text, limit) == short


def test_whitespace_goes_where_it_says_nothing() -> None:
    text = """Searches   things.\t

        Args:
            one: the  first\u00a0 one   \r
              - nested


        ```
        if x:
        \tcode  here


        ```
    """
    assert collapse_whitespace(text) == (
        "Searches things.\n\nArgs:\n    one: the first one\n      - nested\n\n"
        "```\nif x:\n\tcode  here\n\n\n```"
    )


def test_long_texts_take_linear_time() -> None:
    # Each would take minutes if the time grew with the square of the length.
    for part in ("a. ", "`", "\n", "\n ", ". `", "```\n", "  ", "e.g. ", ".)))"):
        text = "x" + part * (150_000 // len(part))
        assert len(shorten(text, 100_000)) <= len(text)
        assert len(collapse_whitespace(text)) <= len(text)
