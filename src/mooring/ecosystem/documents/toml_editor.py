"""Entries of a section in a TOML file: `[section.name]` tables, or `[[section]]` with a `name`."""

from __future__ import annotations

import json
import re
from typing import Any, Literal, cast

from mooring.ecosystem.documents.splicing import (
    DocumentError,
    Splice,
    line_end,
    line_start,
    newline_of,
    next_line,
    spliced,
)
from mooring.ecosystem.documents.toml_reader import Statement, Value, read_toml, statements

Entry = dict[str, Any]
Shape = Literal["map", "list"]
Region = tuple[int, int]

_BARE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def read(text: str) -> Entry:
    """The whole file as plain values."""
    return read_toml(text)


def put(text: str, section: str, name: str, entry: Entry, shape: Shape) -> str:
    """The text with this entry, new or in place of the one with the same name."""
    read_toml(text)
    newline = newline_of(text)
    if (holder := _inline_holder(text, section)) is not None:
        return _put_inline(text, holder, name, entry, shape)
    written = newline.join(_table(section, name, entry, shape))
    regions = _regions(text, section, name, shape)
    if regions:
        first, *others = regions
        splices = [Splice(*first, written), *(Splice(*_with_blank_line(text, other)) for other in others)]
        return spliced(text, splices)
    place = _place_for_new(text, section)
    before = text[:place]
    if not before.strip():
        return f"{before}{written}{newline}{text[place:]}"
    if not before.endswith("\n"):
        return f"{before}{newline}{newline}{written}{newline}{text[place:]}"
    return f"{before}{newline}{written}{newline}{text[place:]}"


def drop(text: str, section: str, name: str, shape: Shape) -> str:
    """The text without this entry."""
    read_toml(text)
    if (holder := _inline_holder(text, section)) is not None:
        return _drop_inline(text, holder, name, shape)
    regions = [_with_blank_line(text, region) for region in _regions(text, section, name, shape)]
    return spliced(text, [Splice(*region) for region in regions])


def _inline_holder(text: str, section: str) -> Value | None:
    """The value of `section = [...]` or `section = {...}`."""
    for statement in statements(text):
        if statement.kind == "pair" and statement.path == (section,) and statement.value is not None:
            if statement.value.kind == "scalar":
                raise DocumentError(f"has a `{section}` of an unexpected kind")
            return statement.value
    return None


def _regions(text: str, section: str, name: str, shape: Shape) -> list[Region]:
    """The lines that make up the entry."""
    found = statements(text)
    if shape == "map":
        return [_lines_of(text, group) for group in _groups(found) if group[0].path[:2] == (section, name)]
    regions: list[Region] = []
    for group in _items(found, section):
        named = [
            text[each.value.start : each.value.end]
            for each in group
            if each.path == (section, "name") and each.value
        ]
        if named and read_toml(f"name = {named[0]}")["name"] == name:
            regions.append(_lines_of(text, group))
    return regions


def _groups(found: list[Statement]) -> list[list[Statement]]:
    """Headers with their pairs; pairs that stand under another header are groups of their own."""
    groups: list[list[Statement]] = []
    for statement in found:
        previous = groups[-1][0] if groups else None
        if (
            statement.kind == "pair"
            and previous is not None
            and previous.kind != "pair"
            and previous.header == statement.header
            and len(previous.path) >= 2
        ):
            groups[-1].append(statement)
        else:
            groups.append([statement])
    return groups


def _items(found: list[Statement], section: str) -> list[list[Statement]]:
    """The `[[section]]` items with everything that belongs to each."""
    items: list[list[Statement]] = []
    inside = False
    for statement in found:
        if statement.kind == "array" and statement.path == (section,):
            items.append([statement])
            inside = True
        elif statement.path[:1] != (section,):
            inside = False
        elif inside:
            items[-1].append(statement)
    return items


def _lines_of(text: str, group: list[Statement]) -> Region:
    return line_start(text, group[0].start), line_end(text, max(each.end for each in group))


def _with_blank_line(text: str, region: Region) -> Region:
    """With its line end and, if there is one, the blank line before it that set it apart."""
    start, end = region
    end = next_line(text, end)
    before = line_start(text, start - 1) if start else 0
    if start and not text[before:start].strip():
        start = before
    return start, end


def _place_for_new(text: str, section: str) -> int:
    """After the last table of the section, else at the end."""
    found = [each for each in statements(text) if each.path[:1] == (section,)]
    under_header = [each for each in found if each.header >= 0]
    if not under_header:
        return len(text)
    return next_line(text, max(each.end for each in under_header))


def _put_inline(text: str, holder: Value, name: str, entry: Entry, shape: Shape) -> str:
    written = _inline({"name": name, **entry} if shape == "list" else entry)
    if shape == "map":
        written = f"{_key(name)} = {written}"
    index = _inline_index(text, holder, name, shape)
    if index is not None:
        part = holder.parts[index]
        return spliced(text, [Splice(part.start, part.value.end, written)])
    if not holder.parts:
        space = " " if shape == "map" else ""
        return spliced(text, [Splice(holder.start + 1, holder.end - 1, f"{space}{written}{space}")])
    last = holder.parts[-1]
    place = last.value.end if last.comma is None else last.comma + 1
    return spliced(text, [Splice(place, place, f"{', ' if last.comma is None else ' '}{written}")])


def _drop_inline(text: str, holder: Value, name: str, shape: Shape) -> str:
    index = _inline_index(text, holder, name, shape)
    if index is None:
        return text
    part = holder.parts[index]
    start = len(text[: part.start].rstrip(" \t"))
    splices = [Splice(start, part.value.end)]
    if part.comma is not None:
        splices.append(Splice(part.comma, part.comma + 1))
    elif index and (comma := holder.parts[index - 1].comma) is not None:
        splices.append(Splice(comma, comma + 1))
    return spliced(text, splices)


def _inline_index(text: str, holder: Value, name: str, shape: Shape) -> int | None:
    for index, part in enumerate(holder.parts):
        if shape == "map" and part.key == (name,):
            return index
        if shape == "list":
            value: Any = read_toml(f"x = {text[part.value.start : part.value.end]}")["x"]
            if isinstance(value, dict) and cast("Entry", value).get("name") == name:
                return index
    return None


def _table(section: str, name: str, entry: Entry, shape: Shape) -> list[str]:
    if shape == "map":
        head, pairs = f"[{_key(section)}.{_key(name)}]", entry
    else:
        head, pairs = f"[[{_key(section)}]]", {"name": name, **entry}
    return [head, *(f"{_key(key)} = {_inline(value)}" for key, value in pairs.items())]


def _inline(value: Any) -> str:
    if isinstance(value, dict):
        pairs = cast("dict[str, Any]", value)
        inner = ", ".join(f"{_key(key)} = {_inline(each)}" for key, each in pairs.items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list):
        items = cast("list[Any]", value)
        return f"[{', '.join(_inline(each) for each in items)}]"
    # What JSON writes for texts, numbers and truth values is TOML too, but for DEL, which TOML wants escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _key(key: str) -> str:
    return key if _BARE_KEY.fullmatch(key) else _inline(key)
