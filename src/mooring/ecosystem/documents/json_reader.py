"""JSON and what people add to it (comments, trailing commas, all of JSON5): each value with its place."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from mooring.ecosystem.documents.splicing import DocumentError, line_number

# Nobody nests a configuration deeper; a hostile file must not exhaust the stack.
MAX_DEPTH = 100

_BLANK = re.compile(r"(?:[\s\ufeff]|//[^\n\r]*|/\*.*?\*/)*", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\n\r]|\\(?:\r\n|.))*"' + r"|'(?:[^'\\\n\r]|\\(?:\r\n|.))*'", re.DOTALL)
_NUMBER = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]+|Infinity|NaN|(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)")
_WORD = re.compile(r"[\w$\u200c\u200d]+")
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|x([0-9a-fA-F]{2})|(\r\n|.))", re.DOTALL)
_ESCAPED = {
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "0": "\0",
    "\n": "",
    "\r": "",
    "\r\n": "",
}
_WORDS: dict[str, Any] = {"true": True, "false": False, "null": None}


@dataclass(slots=True)
class Member:
    """One `key: value` of an object."""

    key: str
    start: int
    value: Node
    comma: int | None = None
    """Where the comma after it stands."""


@dataclass(slots=True)
class Node:
    """A value and its place: `text[start:end]` is exactly this value."""

    value: Any
    start: int
    end: int
    members: list[Member] | None = None
    """Of an object."""
    items: list[Node] = field(default_factory=list["Node"])

    def member(self, key: str) -> Member | None:
        """The member with this key; the last of several counts, as everywhere."""
        return next((each for each in reversed(self.members or []) if each.key == key), None)


def read_json(text: str) -> Node | None:
    """The value in this text; None if it holds nothing but blanks and comments."""
    reader = _Reader(text)
    at = reader.skip(0)
    if at == len(text):
        return None
    root = reader.node(at, 0)
    if (rest := reader.skip(root.end)) != len(text):
        raise reader.unreadable(rest, "something follows the end of the value")
    return root


def blank_end(text: str, at: int) -> int:
    """Where blanks and comments after this place end."""
    found = _BLANK.match(text, at)
    return found.end() if found else at


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text

    def skip(self, at: int) -> int:
        return blank_end(self.text, at)

    def unreadable(self, at: int, why: str) -> DocumentError:
        return DocumentError(f"is not JSON: line {line_number(self.text, at)}: {why}")

    def node(self, at: int, depth: int) -> Node:
        if depth > MAX_DEPTH:
            raise self.unreadable(at, f"nested deeper than {MAX_DEPTH} levels")
        first = self.text[at : at + 1]
        if first == "{":
            return self.object(at, depth)
        if first == "[":
            return self.array(at, depth)
        if first and first in "\"'":
            value, end = self.string(at)
            return Node(value, at, end)
        if (word := _WORD.match(self.text, at)) and word.group() in _WORDS:
            return Node(_WORDS[word.group()], at, word.end())
        if number := _NUMBER.match(self.text, at):
            return Node(_number(number.group()), at, number.end())
        raise self.unreadable(at, "a value was expected" if first else "the text ends too early")

    def string(self, at: int) -> tuple[str, int]:
        found = _STRING.match(self.text, at)
        if found is None:
            raise self.unreadable(at, "a text is not closed")
        raw = found.group()[1:-1]
        return (_plain(raw) if "\\" in raw else raw), found.end()

    def key(self, at: int) -> tuple[str, int]:
        if self.text[at : at + 1] in ('"', "'"):
            return self.string(at)
        if word := _WORD.match(self.text, at):
            return word.group(), word.end()
        raise self.unreadable(at, "a key was expected")

    def object(self, start: int, depth: int) -> Node:
        members: list[Member] = []
        at = self.skip(start + 1)
        while self.text[at : at + 1] != "}":
            key, end = self.key(at)
            colon = self.skip(end)
            if self.text[colon : colon + 1] != ":":
                raise self.unreadable(colon, "`:` was expected")
            value = self.node(self.skip(colon + 1), depth + 1)
            members.append(Member(key, at, value))
            at, members[-1].comma = self.separator(value.end, "}")
        return Node({each.key: each.value.value for each in members}, start, at + 1, members)

    def array(self, start: int, depth: int) -> Node:
        items: list[Node] = []
        at = self.skip(start + 1)
        while self.text[at : at + 1] != "]":
            items.append(self.node(at, depth + 1))
            at, _ = self.separator(items[-1].end, "]")
        return Node([each.value for each in items], start, at + 1, None, items)

    def separator(self, at: int, closing: str) -> tuple[int, int | None]:
        """Where the next thing begins, and where the comma before it stands."""
        at = self.skip(at)
        if self.text[at : at + 1] == ",":
            return self.skip(at + 1), at
        if self.text[at : at + 1] != closing:
            raise self.unreadable(at, f"`,` or `{closing}` was expected")
        return at, None


def _plain(raw: str) -> str:
    """The text that stands in a file with escapes; two halves of a pair become one character."""
    text = _ESCAPE.sub(_unescaped, raw)
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _unescaped(match: re.Match[str]) -> str:
    wide, narrow, other = match.groups()
    if wide or narrow:
        return chr(int(wide or narrow, 16))
    return _ESCAPED.get(other, other)


def _number(text: str) -> int | float:
    plain = text.lstrip("+-")
    sign = -1 if text.startswith("-") else 1
    if plain[:2] in ("0x", "0X"):
        return sign * int(plain, 16)
    if plain in ("Infinity", "NaN"):
        return sign * float(plain.lower().replace("infinity", "inf"))
    return int(text) if plain.isdigit() else float(text)
