"""Entries of a section in a JSON file: `{"mcpServers": {"name": {...}}}`."""

from __future__ import annotations

import json
import re
from typing import Any

from mooring.ecosystem.documents.json_reader import Member, Node, blank_end, read_json
from mooring.ecosystem.documents.splicing import (
    DocumentError,
    Splice,
    indentation_at,
    line_end,
    newline_of,
    spliced,
)

Entry = dict[str, Any]

_COMMENT = re.compile(r"//[^\n\r]*|/\*.*?\*/", re.DOTALL)


def read(text: str) -> Entry:
    """The whole file as plain values."""
    root = read_json(text)
    if root is None:
        return {}
    if root.members is None:
        raise DocumentError("is not a JSON object")
    return root.value


def put(text: str, section: str, name: str, entry: Entry) -> str:
    """The text with this entry, new or in place of the one with the same name."""
    root = read_json(text)
    if root is None:
        return _first(text, section, name, entry)
    found = root.member(section)
    if found is None:
        return spliced(text, _insertion(text, root, section, {name: entry}))
    if found.value.value is None:
        return spliced(text, [_replacement(text, found, {name: entry})])
    if found.value.members is None:
        raise DocumentError(f"has a `{section}` that is not an object")
    old = found.value.member(name)
    if old is not None:
        return spliced(text, [_replacement(text, old, entry)])
    return spliced(text, _insertion(text, found.value, name, entry))


def drop(text: str, section: str, name: str) -> str:
    """The text without this entry."""
    while True:
        root = read_json(text)
        found = root.member(section) if root else None
        holder = found.value if found else None
        old = holder.member(name) if holder else None
        if holder is None or old is None:
            return text
        text = spliced(text, _removal(text, holder, old))


def _first(text: str, section: str, name: str, entry: Entry) -> str:
    newline = newline_of(text)
    made = json.dumps({section: {name: entry}}, indent=2, ensure_ascii=False).replace("\n", newline)
    kept = text.rstrip()
    return f"{kept}{newline if kept else ''}{made}{newline}"


def _insertion(text: str, holder: Node, key: str, value: Any) -> list[Splice]:
    """A new last member."""
    members = holder.members or []
    newline = newline_of(text)
    if not members:
        return _into_empty(text, holder, key, value)
    last = members[-1]
    indent = indentation_at(text, members[0].start)
    if indent is None:
        # All in one line: stay there.
        written = f"{_key(key)}: {json.dumps(value, ensure_ascii=False)}"
        after = last.value.end if last.comma is None else last.comma + 1
        return [Splice(after, after, f" {written}," if last.comma is not None else f", {written}")]
    written = f"{newline}{indent}{_key(key)}: {_rendered(value, indent, _unit(text), newline)}"
    if last.comma is not None:
        place = _after_comment(text, last.comma + 1)
        return [Splice(place, place, f"{written},")]
    place = _after_comment(text, last.value.end)
    if place == last.value.end:
        return [Splice(place, place, f",{written}")]
    return [Splice(last.value.end, last.value.end, ","), Splice(place, place, written)]


def _into_empty(text: str, holder: Node, key: str, value: Any) -> list[Splice]:
    newline = newline_of(text)
    inside = text[holder.start + 1 : holder.end - 1]
    place = holder.start + 1 + len(inside.rstrip())
    outer = _indentation_of_line(text, holder.start)
    if inside.strip() and "\n" in inside:
        outer = indentation_at(text, holder.end - 1) or ""
    indent = outer + _unit(text)
    written = f"{newline}{indent}{_key(key)}: {_rendered(value, indent, _unit(text), newline)}"
    if "\n" in text[place : holder.end - 1]:
        return [Splice(place, place, written)]
    return [Splice(place, holder.end - 1, f"{written}{newline}{outer}")]


def _replacement(text: str, member: Member, value: Any) -> Splice:
    indent = indentation_at(text, member.start)
    if indent is None:
        written = json.dumps(value, ensure_ascii=False)
    else:
        written = _rendered(value, indent, _unit(text), newline_of(text))
    return Splice(member.value.start, member.value.end, written)


def _removal(text: str, holder: Node, member: Member) -> list[Splice]:
    """The member with the blanks before it, and the one comma too many. Comments stay."""
    members = holder.members or []
    end = member.value.end
    if len(members) == 1 and _is_alone(text, holder, member):
        return [Splice(holder.start, holder.end, "{}")]
    index = members.index(member)
    before = holder.start + 1 if not index else members[index - 1].value.end
    start = len(text[: member.start].rstrip())
    after = end if member.comma is None else member.comma + 1
    if _ends_in_line_comment(text[before:start]) and text[after : line_end(text, after)].strip():
        # What follows on the same line would slip into that comment.
        start = member.start
    splices = [Splice(start, end)]
    if member.comma is not None:
        # Where nothing blank stood before it, the blanks after its comma go instead.
        blanks = 0 if start < member.start else len(text[after:]) - len(text[after:].lstrip(" \t"))
        splices.append(Splice(member.comma, after + blanks))
    elif index and (comma := members[index - 1].comma) is not None:
        splices.append(Splice(comma, comma + 1))
    return splices


def _ends_in_line_comment(blanks: str) -> bool:
    comments = _COMMENT.findall(blanks)
    return bool(comments) and comments[-1].startswith("//") and blanks.endswith(comments[-1])


def _is_alone(text: str, holder: Node, member: Member) -> bool:
    """Whether nothing else, not even a comment, stands in the object."""
    after = member.value.end if member.comma is None else member.comma + 1
    rest = (
        text[holder.start + 1 : member.start]
        + text[member.value.end : after - 1]
        + text[after : holder.end - 1]
    )
    return not rest.strip()


def _after_comment(text: str, at: int) -> int:
    """After a comment on the rest of this line, or here if something else follows on it."""
    end = line_end(text, at)
    comments = blank_end(text, at)
    if comments >= end and text[at:end].strip():
        return at + len(text[at:end].rstrip())
    return at


def _indentation_of_line(text: str, at: int) -> str:
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return line[: len(line) - len(line.lstrip())]


def _unit(text: str) -> str:
    """How far this file indents one level."""
    root = read_json(text)
    for member in (root.members or []) if root else []:
        indent = indentation_at(text, member.start)
        if indent:
            return indent
    return "  "


def _key(key: str) -> str:
    return json.dumps(key, ensure_ascii=False)


def _rendered(value: Any, indent: str, unit: str, newline: str) -> str:
    plain = json.dumps(value, indent=unit, ensure_ascii=False)
    return plain.replace("\n", newline + indent)
