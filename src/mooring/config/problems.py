"""Problems in a configuration file, gathered so that all of them are shown at once."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import Struct

KeyPath = tuple[str | int, ...]


class Position(Struct, frozen=True):
    """A place in a file, counted from 1."""

    line: int
    column: int


class Problem(Struct, frozen=True):
    """One thing that is wrong: which key, what, and what to do."""

    path: KeyPath
    message: str
    position: Position | None = None

    def __str__(self) -> str:
        key = f"`{key_text(self.path)}` " if self.path else ""
        place = f"line {self.position.line}, column {self.position.column}: " if self.position else ""
        return f"{place}{key}{self.message}"


class ConfigError(Exception):
    """The file cannot be used; the message names the file, every problem, and what to do about each."""

    def __init__(self, file: str, problems: Sequence[Problem]) -> None:
        self.file = file
        self.problems = tuple(problems)
        super().__init__(_message(file, self.problems))


def key_text(path: KeyPath) -> str:
    """A key path as people write it: `servers[0].upstream.url`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _message(file: str, problems: Sequence[Problem]) -> str:
    if len(problems) == 1:
        return f"{file}: {problems[0]}"
    lines = "\n".join(f"  {problem}" for problem in problems)
    return f"{file} has {len(problems)} problems:\n{lines}"
