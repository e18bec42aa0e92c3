"""Making descriptions shorter without making them wrong."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from typing import Final

_FENCE: Final = re.compile(r"^\s*(```|~~~)")
_INNER_SPACES: Final = re.compile(r"(?<=\S)(?:[ \t\u00a0]{2,}|[\t\u00a0])(?=\S)")
_MARKS: Final = re.compile(
    r"(?P<fence>^[ \t]*(?:```|~~~).*$)|(?P<code>`+)|(?P<paragraph>\n\s*\n)"
    r"|(?P<end>[.!?][\"'”’)\]*]*(?=\s)|[。！？][」』”’）]*)",
    re.MULTILINE,
)
_ABBREVIATION: Final = re.compile(r"\b(?:e\.g|i\.e|etc|vs|cf|resp|approx|incl|[A-Za-z])\.$", re.IGNORECASE)
_LONGEST_ABBREVIATION: Final = 10


def collapse_whitespace(text: str) -> str:
    """Without indentation that all lines share, spaces at line ends, runs of spaces and of empty lines.

    Line breaks, nested lists and what stands between code fences keep their shape.
    """
    kept: list[str] = []
    fenced = False
    for line in _dedented(text.replace("\r\n", "\n")).split("\n"):
        is_fence = _FENCE.match(line) is not None
        shown = line.rstrip() if fenced or is_fence else _INNER_SPACES.sub(" ", line.rstrip())
        fenced ^= is_fence
        if shown or fenced or (kept and kept[-1]):
            kept.append(shown)
    return "\n".join(kept).strip()


def _dedented(text: str) -> str:
    """As docstrings are read: the first line stands next to the quotes, so it does not count."""
    first, line_break, rest = text.partition("\n")
    return first.lstrip() + line_break + textwrap.dedent(rest)


def shorten(text: str, limit: int) -> str:
    """As many whole sentences from the start as fit; the first one stays, however long it is."""
    if len(text) <= limit:
        return text
    kept = 0
    for end in sentence_ends(text):
        if kept and end > limit:
            break
        kept = end
    return text[:kept].rstrip()


def sentence_ends(text: str) -> Iterator[int]:
    """Where sentences and paragraphs end. Dots of abbreviations and in code are no ends."""
    fenced = in_code = False
    begin = len(text) - len(text.lstrip())
    for found in _MARKS.finditer(text):
        match found.lastgroup:
            case "fence":
                fenced, in_code = not fenced, False
            case "code" if not fenced:
                in_code = not in_code
            case "paragraph" if not fenced:
                in_code = False
                if found.start() > begin:
                    yield found.start()
            case "end" if not fenced and not in_code and not _abbreviates(text, found):
                yield found.end()
            case _:
                pass
    yield len(text)


def _abbreviates(text: str, found: re.Match[str]) -> bool:
    dot = found.start() + 1
    return _ABBREVIATION.search(text, max(0, dot - _LONGEST_ABBREVIATION), dot) is not None
