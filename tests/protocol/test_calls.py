"""The params of a call: what is taken for plain can only be read in one way."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mooring.protocol.calls import read_call

NAMES = ("name", "arguments", "_meta", "Name", "n\\u0061me", "task", "uri", "")
VALUES = (
    '"echo"',
    '"other"',
    '"\\u0065cho"',
    "7",
    "null",
    "{}",
    '{"a":1}',
    '{"a":1,"a":2}',
    '{ "a":1}',
    "[]",
)


@st.composite
def written(draw: st.DrawFn) -> str:
    """An object, in the shortest way or not."""
    space = draw(st.sampled_from(["", "", "", " "]))
    members = draw(st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(VALUES)), max_size=4))
    return "{" + ",".join(f'"{name}":{space}{value}' for name, value in members) + "}"


def read(text: str, which: int) -> Any:
    """As a parser reads it that takes the first (0) or the last (-1) of members with the same name."""

    def collect(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        return {name: [value for each, value in pairs if each == name][which] for name, _ in pairs}

    return json.loads(text, object_pairs_hook=collect)


@given(written())
@example('{"name":"echo","arguments":{"a":1}}')
@example('{"name":"echo","arguments":{},"_meta":{"progressToken":1}}')
def test_a_plain_call_is_the_same_to_every_parser(text: str) -> None:
    call = read_call(text.encode())
    if call is not None:
        assert read(text, 0) == read(text, -1)
        assert list(read(text, 0)) in (["name", "arguments"], ["name", "arguments", "_meta"])
        assert (call.name, list(call.arguments)) == (read(text, 0)["name"], list(read(text, 0)["arguments"]))


@pytest.mark.parametrize("more", ["", ',"_meta":{"progressToken":1}'])
def test_a_call_as_clients_write_it_is_plain(more: str) -> None:
    call = read_call(f'{{"name":"echo","arguments":{{"text":"é","n":[1]}}{more}}}'.encode())
    assert call is not None
    assert (call.name, list(call.arguments)) == ("echo", ["text", "n"])


@pytest.mark.parametrize(
    "text",
    [
        '{"name":"echo"}',
        '{"arguments":{},"name":"echo"}',
        '{"name":"echo","name":"echo","arguments":{}}',
        '{"name":"echo","arguments":{"a":1,"a":1}}',
        '{"name":"ech\\u006f","arguments":{}}',
        '{"name":"echo","arguments":{},"task":{}}',
        '{"name":"echo","arguments":null}',
        '{"name":7,"arguments":{}}',
        '{"name":"\\ud800","arguments":{}}',
        "[1]",
        "",
    ],
)
def test_anything_else_needs_a_closer_look(text: str) -> None:
    assert read_call(text.encode()) is None
