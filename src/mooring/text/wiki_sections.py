"""The sections of a wiki text, as stretches of that text."""

from dataclasses import dataclass

from mooring.text.storage_sections import Section, named
from mooring.text.wiki_parse import Parse
from mooring.text.wiki_tokens import NOTHING, Kind


@dataclass(slots=True)
class _Found:
    level: int
    path: tuple[str, ...]
    start: int
    content_start: int
    body_end: int
    end: int


def outline(source: str) -> list[Section]:
    """All sections in the order of their headings: exactly the lines the reader takes for headings, also in
    panels and quotes, never in code."""
    found: list[_Found] = []
    _walk(source, 0, len(source), (), found)
    found.sort(key=lambda each: each.start)
    return named(
        [
            (None, each.level, each.path, (each.start, each.content_start, each.body_end, each.end))
            for each in found
        ]
    )


def _walk(source: str, start: int, end: int, around: tuple[str, ...], found: list[_Found]) -> None:
    """Headings of this stretch, and of the panels and quotes in it."""
    text = source[start:end]
    reading = Parse(text, NOTHING)
    reading.nodes()
    open_sections: list[_Found] = []
    for kind, at, after in reading.landmarks:
        if kind is Kind.HEADING:
            found.append(_opened(text, at, after, start, open_sections, around, end))
            continue
        content, closing = text.index("}", at) + 1, text.rfind("{", at, after)
        inside = open_sections[-1].path if open_sections else around
        if closing >= content:
            _walk(source, start + content, start + closing, inside, found)


def _opened(
    text: str, at: int, after: int, shift: int, open_sections: list[_Found], around: tuple[str, ...], end: int
) -> _Found:
    level = int(text[at + 1])
    start = shift + _line_start(text, at)
    if open_sections:
        open_sections[-1].body_end = min(open_sections[-1].body_end, start)
    while open_sections and open_sections[-1].level >= level:
        open_sections.pop().end = start
    parent = open_sections[-1].path if open_sections else around
    path = (*parent, " ".join(text[at + 3 : after].split()))
    made = _Found(level, path, start, shift + _next_line(text, after), end, end)
    open_sections.append(made)
    return made


def _line_start(text: str, at: int) -> int:
    while at > 0 and text[at - 1] in " \t":
        at -= 1
    return at


def _next_line(text: str, at: int) -> int:
    if text.startswith("\r\n", at):
        return at + 2
    return at + 1 if text[at : at + 1] in ("\r", "\n") else at
