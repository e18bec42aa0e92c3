"""Changing a text in a few places, and what all formats share about lines."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from mooring.errors import MooringError


class DocumentError(MooringError):
    """The file cannot be read or changed; nothing was written."""


@dataclass(frozen=True, slots=True)
class Splice:
    """`text[start:end]` becomes `replacement`."""

    start: int
    end: int
    replacement: str = ""


def spliced(text: str, splices: Iterable[Splice]) -> str:
    """The text with all changes; they must not overlap."""
    for splice in sorted(splices, key=lambda each: each.start, reverse=True):
        text = text[: splice.start] + splice.replacement + text[splice.end :]
    return text


def line_number(text: str, at: int) -> int:
    """The line of this place, counted from 1."""
    return text.count("\n", 0, at) + 1


def line_start(text: str, at: int) -> int:
    """Where the line of this place begins."""
    return text.rfind("\n", 0, at) + 1


def line_end(text: str, at: int) -> int:
    """Where the line of this place ends, before its line end."""
    end = text.find("\n", at)
    if end < 0:
        return len(text)
    return end - 1 if end > at and text[end - 1] == "\r" else end


def next_line(text: str, at: int) -> int:
    """Where the next line begins."""
    end = text.find("\n", at)
    return len(text) if end < 0 else end + 1


def newline_of(text: str) -> str:
    """The line end this text uses; the first one decides."""
    first = text.find("\n")
    return "\r\n" if first > 0 and text[first - 1] == "\r" else "\n"


def indentation_at(text: str, at: int) -> str | None:
    """The white space before this place, if there is nothing else before it on its line."""
    before = text[line_start(text, at) : at]
    return before if not before.strip() else None
