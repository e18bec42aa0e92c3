"""What is wrong with a value, and where in it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

Path: TypeAlias = tuple[str | int, ...]
ROOT: Final[Path] = ()
_SHOWN_CHARACTERS: Final = 60
_MOST_PROBLEMS: Final = 20


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: `path` leads to it, `reason` says what it must be."""

    path: Path
    reason: str

    def __str__(self) -> str:
        return f"`{spell(self.path)}` {self.reason}" if self.path else f"the value {self.reason}"


class Invalid(ValueError):
    """A value does not fit its type; every problem that was found, in the order of the schema."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        told = [str(problem) for problem in self.problems[:_MOST_PROBLEMS]]
        if (untold := len(self.problems) - len(told)) > 0:
            told.append(f"and {untold} more")
        super().__init__("; ".join(told))


def invalid(path: Path, reason: str) -> Invalid:
    return Invalid((Problem(path, reason),))


def wrong_type(path: Path, expected: str, value: object) -> Invalid:
    return invalid(path, f"must be {expected}, not {shown(value)}")


def spell(path: Path) -> str:
    """A path as people write it: `items[2].name`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f".{step}" if text else step
    return text


def shown(value: Any) -> str:
    """A value as JSON calls it, cut to a readable length."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case dict():
            return "an object"
        case list():
            return "an array"
        case str():
            text = value if len(value) <= _SHOWN_CHARACTERS else value[:_SHOWN_CHARACTERS] + "…"
            return f'"{text}"'
        case _:
            return repr(value)[:_SHOWN_CHARACTERS]
