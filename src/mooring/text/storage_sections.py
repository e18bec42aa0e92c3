"""The sections of a storage format text, as stretches of that text.

A heading's section goes on to the next heading of its level or above, but never beyond its container: a
layout cell, a panel, a table cell. Words that only look like headings (in code, CDATA, comments) are none.
"""

import hashlib
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mooring.text.errors import PatchRefused
from mooring.text.storage_xml import Child, Element, Source, parse

_LEVELS = {f"h{level}": level for level in range(1, 7)}
_SHOWN = 8


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and what belongs to it; offsets count characters of the source.

    `start:content_start` is the heading itself, `content_start:body_end` what stands before the first
    heading below it, `start:end` everything. `ref` is the heading's id, or made from its path.
    """

    ref: str
    level: int
    text: str
    path: tuple[str, ...]
    start: int
    content_start: int
    body_end: int
    end: int


def outline(source: str) -> list[Section]:
    """All sections in the order of their headings."""
    parsed = parse(source)
    found: list[_Found] = []
    _Walk(parsed, found).sections(parsed.children, (), len(parsed.data))
    found.sort(key=lambda each: each.start)
    offsets = _Characters(parsed, 1 if source.startswith("\ufeff") else 0)
    return named(
        [
            (
                each.identifier,
                each.level,
                each.path,
                tuple(offsets.before(at) for at in (each.start, each.content_start, each.body_end, each.end)),
            )
            for each in found
        ]
    )


def splice(source: str, start: int, end: int, replacement: str) -> str:
    """The source with this stretch replaced; everything else stays as it is, to the byte."""
    if not 0 <= start <= end <= len(source):
        raise PatchRefused(f"`{start}:{end}` is no stretch of a text of {len(source)} characters")
    return source[:start] + replacement + source[end:]


def locate(
    sections: Sequence[Section], target: str | Sequence[str], occurrence: int | None = None
) -> Section:
    """The one section with this ref, or this heading path (its last parts are enough).

    None or more than one is refused with the candidates; `occurrence` (from 1) chooses among equals.
    """
    if isinstance(target, str):
        matching = [each for each in sections if each.ref == target]
        wanted: tuple[str, ...] = (target,)
    else:
        wanted = tuple(target)
        matching = [each for each in sections if each.path == wanted]
        matching = matching or [each for each in sections if wanted and each.path[-len(wanted) :] == wanted]
    if occurrence is not None and 1 <= occurrence <= len(matching):
        return matching[occurrence - 1]
    if len(matching) == 1 and occurrence is None:
        return matching[0]
    shown = " > ".join(wanted)
    if not matching:
        raise PatchRefused(f"no section is called `{shown}`; there are {_listed(sections)}")
    raise PatchRefused(
        f"`{shown}` names {len(matching)} sections: {_listed(matching)}; give a ref or an `occurrence` from 1"
    )


def named(found: list[tuple[str | None, int, tuple[str, ...], tuple[int, ...]]]) -> list[Section]:
    """Sections with refs: the heading's own id, or a hash of its path and which one of that path it is."""
    seen: dict[tuple[str, ...], int] = {}
    sections: list[Section] = []
    for identifier, level, path, (start, content_start, body_end, end) in found:
        seen[path] = seen.get(path, 0) + 1
        key = "\x1f".join([*path, str(seen[path])])
        ref = identifier or "s" + hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()[:10]
        sections.append(Section(ref, level, path[-1], path, start, content_start, body_end, end))
    return sections


def _listed(sections: Sequence[Section]) -> str:
    shown = ", ".join(f"`{' > '.join(each.path)}` (ref `{each.ref}`)" for each in sections[:_SHOWN])
    rest = len(sections) - _SHOWN
    return (shown + (f" and {rest} more" if rest > 0 else "")) or "none"


@dataclass(slots=True)
class _Found:
    identifier: str | None
    level: int
    path: tuple[str, ...]
    start: int
    content_start: int
    body_end: int
    end: int


class _Walk:
    def __init__(self, source: Source, found: list[_Found]) -> None:
        self._data = source.data
        self._found = found

    def sections(self, children: list[Child], around: tuple[str, ...], end: int) -> None:
        """Headings among these children and inside them, in the section whose path is `around`."""
        open_sections: list[_Found] = []
        for child in children:
            if not isinstance(child, Element):
                continue
            if child.name in _LEVELS:
                self._found.append(_opened(child, open_sections, around, end))
            elif child.children:
                inside = open_sections[-1].path if open_sections else around
                # The end tag of a container belongs to no section in it.
                self.sections(child.children, inside, self._data.rindex(b"</", 0, child.end))


def _opened(heading: Element, open_sections: list[_Found], around: tuple[str, ...], end: int) -> _Found:
    level = _LEVELS[heading.name]
    if open_sections:
        open_sections[-1].body_end = min(open_sections[-1].body_end, heading.start)
    while open_sections and open_sections[-1].level >= level:
        open_sections.pop().end = heading.start
    parent = open_sections[-1].path if open_sections else around
    path = (*parent, " ".join(heading.text().split()))
    made = _Found(heading.attributes.get("local-id"), level, path, heading.start, heading.end, end, end)
    open_sections.append(made)
    return made


def characters(parsed: Source, source: str) -> Callable[[int], int]:
    """Byte offsets of the parsed text as character offsets of its source."""
    return _Characters(parsed, 1 if source.startswith("\ufeff") else 0).before


class _Characters:
    """Byte offsets as character offsets."""

    def __init__(self, source: Source, skipped: int) -> None:
        self._data = source.data
        self._known_bytes = [0]
        self._known_characters = [skipped]

    def before(self, at: int) -> int:
        position = bisect_right(self._known_bytes, at) - 1
        start, characters = self._known_bytes[position], self._known_characters[position]
        characters += len(self._data[start:at].decode("utf-8"))
        if at > self._known_bytes[-1]:
            self._known_bytes.append(at)
            self._known_characters.append(characters)
        return characters
