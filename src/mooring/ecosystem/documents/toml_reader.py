"""Where the statements of a TOML file stand: headers, and pairs with their values."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from typing import Any, Literal

from mooring.ecosystem.documents.splicing import DocumentError, next_line

_BLANK = re.compile(r"[ \t]*")
_SPACE = re.compile(r"(?:[ \t\r\n]|#[^\n]*)*")
_STRING = re.compile(
    r'"""(?:\\.|[^\\])*?"{3,5}(?!")' r"|'''.*?'{3,5}(?!')" r'|"(?:\\.|[^"\\\n])*"' r"|'[^'\n]*'", re.DOTALL
)
_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")
_BARE_VALUE = re.compile(r"[^\s,\]}#]+(?: [0-9][^\s,\]}#]*)?")

Path = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Value:
    """A value's place; what stands in an inline table or array is found too."""

    start: int
    end: int
    kind: Literal["scalar", "array", "table"]
    parts: tuple[Part, ...] = ()


@dataclass(frozen=True, slots=True)
class Part:
    """A pair of an inline table, or an item of an array (without a key)."""

    key: Path
    start: int
    value: Value
    comma: int | None


@dataclass(frozen=True, slots=True)
class Statement:
    """A header or a pair; `path` is its full name in the file."""

    kind: Literal["table", "array", "pair"]
    path: Path
    start: int
    end: int
    value: Value | None = None
    header: int = -1
    """Which header (by number) it stands under; -1 before the first."""


def read_toml(text: str) -> dict[str, Any]:
    """The whole file as plain values."""
    try:
        return tomllib.loads(text.replace("\r\n", "\n"))
    except tomllib.TOMLDecodeError as error:
        raise DocumentError(f"is not TOML: {error}") from error


def statements(text: str) -> list[Statement]:
    """All headers and pairs of a file that `read_toml` can read."""
    scanner = _Scanner(text)
    found: list[Statement] = []
    table: Path = ()
    header = -1
    at = scanner.space(0)
    while at < len(text):
        if text[at] == "[":
            kind: Literal["table", "array"] = "array" if text.startswith("[[", at) else "table"
            table, end = scanner.key(at + (2 if kind == "array" else 1))
            end = text.index("]", end) + (2 if kind == "array" else 1)
            header = len(found)
            found.append(Statement(kind, table, at, end, None, header))
        else:
            key, end = scanner.key(at)
            value = scanner.value(scanner.blank(text.index("=", end) + 1))
            end = value.end
            found.append(Statement("pair", (*table, *key), at, end, value, header))
        at = scanner.space(next_line(text, end))
    return found


class _Scanner:
    def __init__(self, text: str) -> None:
        self.text = text

    def blank(self, at: int) -> int:
        return _match_end(_BLANK, self.text, at)

    def space(self, at: int) -> int:
        return _match_end(_SPACE, self.text, at)

    def key(self, at: int) -> tuple[Path, int]:
        parts: list[str] = []
        while True:
            at = self.blank(at)
            if found := _STRING.match(self.text, at):
                parts.append(next(iter(tomllib.loads(f"{found.group()} = 1"))))
            else:
                found = _BARE_KEY.match(self.text, at)
                if found is None:
                    raise DocumentError("has a key that cannot be understood")
                parts.append(found.group())
            at = self.blank(found.end())
            if self.text[at : at + 1] != ".":
                return tuple(parts), found.end()
            at += 1

    def value(self, at: int) -> Value:
        first = self.text[at : at + 1]
        if first == "[":
            return self.inline(at, "]", "array")
        if first == "{":
            return self.inline(at, "}", "table")
        found = _STRING.match(self.text, at) or _BARE_VALUE.match(self.text, at)
        if found is None:
            raise DocumentError("has a value that cannot be understood")
        return Value(at, found.end(), "scalar")

    def inline(self, start: int, closing: str, kind: Literal["array", "table"]) -> Value:
        parts: list[Part] = []
        at = self.space(start + 1)
        while self.text[at : at + 1] != closing:
            begin, key = at, ()
            if kind == "table":
                key, at = self.key(at)
                at = self.blank(self.text.index("=", at) + 1)
            value = self.value(at)
            at = self.space(value.end)
            comma = at if self.text[at : at + 1] == "," else None
            if comma is None and self.text[at : at + 1] != closing:
                raise DocumentError("has a value that cannot be understood")
            parts.append(Part(key, begin, value, comma))
            at = at if comma is None else self.space(comma + 1)
        return Value(start, at + 1, kind, tuple(parts))


def _match_end(pattern: re.Pattern[str], text: str, at: int) -> int:
    found = pattern.match(text, at)
    return found.end() if found else at
