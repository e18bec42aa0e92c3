"""Questions of a server, answered at the terminal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from mooring.interfaces.cli.elicitation import answer


def typing_in(*lines: str) -> Callable[[str], str]:
    left = list(lines)

    def ask(_question: str) -> str:
        if not left:
            raise EOFError
        return left.pop(0)

    return ask


def form(*lines: str, required: tuple[str, ...] = (), **properties: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": properties, "required": list(required)}
    return answer({"message": "?", "requestedSchema": schema}, typing_in(*lines))


@pytest.mark.parametrize(
    ("field", "lines", "value"),
    [
        ({"type": "string"}, ["x"], "x"),
        ({"type": "string", "minLength": 2}, ["x", "xy"], "xy"),
        ({"type": "integer"}, ["1.5", "2"], 2),
        ({"type": "number", "maximum": 3}, ["4", "2.5"], 2.5),
        ({"type": "boolean"}, ["perhaps", "yes"], True),
        ({"type": "boolean"}, ["n"], False),
        ({"type": "string", "enum": ["a", "b"], "enumNames": ["A", "B"]}, ["c", "b"], "b"),
        ({"type": "string", "oneOf": [{"const": "r", "title": "Red"}]}, ["Red", "r"], "r"),
        ({"type": "array", "items": {"enum": ["a", "b", "c"]}}, ["a, c"], ["a", "c"]),
        ({"type": "array", "items": {"anyOf": [{"const": "a", "title": "A"}]}}, ["a"], ["a"]),
        ({"type": "integer", "default": 0}, [""], 0),
    ],
)
def test_each_kind_of_field_is_asked_until_the_answer_fits(field: Any, lines: list[str], value: Any) -> None:
    found = form("y", *lines, required=("f",), f=field)
    assert found == {"action": "accept", "content": {"f": value}}


def test_an_optional_field_may_be_left_out() -> None:
    assert form("", "", f={"type": "string"}) == {"action": "accept", "content": {}}


def test_no_declines_and_the_end_of_input_cancels() -> None:
    assert form("what", "n") == {"action": "decline"}
    assert form() == {"action": "cancel"}
    assert form("y", required=("f",), f={"type": "string"}) == {"action": "cancel"}


def test_a_link_is_shown_and_never_opened(capsys: pytest.CaptureFixture[str]) -> None:
    params = {
        "mode": "url",
        "message": "sign in",
        "url": "https://example.com/a\x1b[0m",
        "elicitationId": "1",
    }
    assert answer(params, typing_in("y")) == {"action": "accept"}
    assert answer(params, typing_in("n")) == {"action": "decline"}
    assert "https://example.com/a\\u001b[0m" in capsys.readouterr().err
