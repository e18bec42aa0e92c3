"""Entries of a section in a YAML file: a mapping by name, or a list of mappings with a `name`.

The library only says where things stand. Writing the file with it would change quotes, folds and comments.
"""

from __future__ import annotations

import json
import re
from typing import Any, Literal, cast

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from mooring.ecosystem.documents.splicing import (
    DocumentError,
    Splice,
    line_end,
    line_start,
    newline_of,
    next_line,
    spliced,
)

Entry = dict[str, Any]
Shape = Literal["map", "list"]

_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_./:-]*[A-Za-z0-9_/]|[A-Za-z]")
_WORDS = {"true", "false", "yes", "no", "on", "off", "null", "y", "n", "nan", "inf"}
_BLANK = re.compile(r"(?:\s|#[^\n]*)*")


def read(text: str) -> Entry:
    """The whole file as plain values."""
    yaml: Any = YAML(typ="safe", pure=True)
    try:
        value: Any = yaml.load(text)
    except YAMLError as error:
        raise _unreadable(error) from error
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise DocumentError("is not a YAML mapping")
    return cast("Entry", value)


def put(text: str, section: str, name: str, entry: Entry, shape: Shape, name_key: str = "name") -> str:
    """The text with this entry, new or in place of the one with the same name."""
    if shape == "list":
        entry = {name_key: name, **entry}
    found = _find(text, section)
    if found is None:
        return _appended(text, section, name, entry, shape)
    key, holder = found
    if holder.id == "scalar" or not holder.value:
        return _filled(text, key, holder, name, entry, shape)
    if holder.id != ("mapping" if shape == "map" else "sequence"):
        raise DocumentError(f"has a `{section}` of an unexpected kind")
    old = _member(holder, name, name_key)
    newline = newline_of(text)
    if holder.flow_style:
        return _put_flow(text, holder, old, name, entry)
    indent = " " * holder.start_mark.column
    written = newline.join(_lines(name, entry, indent, shape))
    if old is not None:
        start, end = line_start(text, old[0]), line_end(text, old[1])
        return spliced(text, [Splice(start, end, written)])
    place = line_end(text, _content_end(text, holder))
    return spliced(text, [Splice(place, place, newline + written)])


def drop(text: str, section: str, name: str, name_key: str = "name") -> str:
    """The text without this entry."""
    found = _find(text, section)
    if found is None or found[1].id == "scalar":
        return text
    key, holder = found
    old = _member(holder, name, name_key)
    if old is None:
        return text
    if holder.flow_style:
        return spliced(text, _flow_removal(text, old))
    start, end = line_start(text, old[0]), next_line(text, old[1])
    if end == len(text) and not text.endswith("\n") and start:
        # The last line without a line end: the one before it becomes the last such line.
        start = line_end(text, start - 1)
    splices = [Splice(start, end)]
    if len(holder.value) == 1:
        colon = text.index(":", key.end_mark.index) + 1
        splices.append(Splice(colon, colon, " {}" if holder.id == "mapping" else " []"))
    return spliced(text, splices)


def _find(text: str, section: str) -> tuple[Any, Any] | None:
    """The key and value nodes of the section."""
    root = _root(text)
    if root is None:
        return None
    if root.id != "mapping":
        raise DocumentError("is not a YAML mapping")
    return next((pair for pair in root.value if str(pair[0].value) == section), None)


def _root(text: str) -> Any:
    yaml: Any = YAML(typ="safe", pure=True)
    try:
        return yaml.compose(text)
    except YAMLError as error:
        raise _unreadable(error) from error


def _member(holder: Any, name: str, name_key: str) -> tuple[int, int] | None:
    """Where the entry begins and where its contents end."""
    if holder.id == "mapping":
        for key, value in holder.value:
            if str(key.value) == name:
                return key.start_mark.index, max(key.end_mark.index, _end(value))
        return None
    for item in holder.value:
        pairs: list[tuple[Any, Any]] = item.value if item.id == "mapping" else []
        if any(str(key.value) == name_key and str(value.value) == name for key, value in pairs):
            return item.start_mark.index, _end(item)
    return None


def _content_end(text: str, node: Any) -> int:
    return max(node.start_mark.index, len(text[: _end(node)].rstrip()))


def _end(node: Any) -> int:
    """Where the contents end: a block's own mark stands behind the comments that follow it."""
    if node.id == "scalar" or node.flow_style or not node.value:
        if node.id == "scalar" and node.style in ("|", ">"):
            lines = node.end_mark.buffer[: node.end_mark.index] if node.end_mark.buffer else ""
            return len(lines.rstrip("\0").rstrip()) if lines else node.end_mark.index
        return node.end_mark.index
    if node.id == "mapping":
        return max(max(key.end_mark.index, _end(value)) for key, value in node.value)
    return max(_end(item) for item in node.value)


def _appended(text: str, section: str, name: str, entry: Entry, shape: Shape) -> str:
    root = _root(text)
    newline = newline_of(text)
    if root is not None and root.flow_style:
        value = {name: entry} if shape == "map" else [entry]
        return _put_flow(text, root, None, section, value)
    indent = " " * root.start_mark.column if root is not None else ""
    lines = [f"{indent}{_scalar(section)}:", *_lines(name, entry, indent + "  ", shape)]
    start = "" if not text or text.endswith("\n") else newline
    return text + start + newline.join(lines) + newline


def _filled(text: str, key: Any, holder: Any, name: str, entry: Entry, shape: Shape) -> str:
    """Into a section that is `{}`, `[]`, `null` or nothing at all."""
    root = _root(text)
    newline = newline_of(text)
    if root.flow_style:
        value = {name: entry} if shape == "map" else [entry]
        return spliced(text, [Splice(holder.start_mark.index, holder.end_mark.index, json.dumps(value))])
    colon = text.index(":", key.end_mark.index) + 1
    indent = " " * (key.start_mark.column + 2)
    written = newline + newline.join(_lines(name, entry, indent, shape))
    place = line_end(text, colon)
    if holder.end_mark.index <= holder.start_mark.index:
        return spliced(text, [Splice(place, place, written)])
    return spliced(text, [Splice(colon, holder.end_mark.index), Splice(place, place, written)])


def _put_flow(text: str, holder: Any, old: tuple[int, int] | None, name: str, entry: Any) -> str:
    is_list = holder.id == "sequence"
    value = json.dumps(entry, ensure_ascii=False)
    written = value if is_list else f"{json.dumps(name, ensure_ascii=False)}: {value}"
    if old is not None:
        return spliced(text, [Splice(old[0], old[1], written)])
    if not holder.value:
        place = holder.end_mark.index - 1
        return spliced(text, [Splice(place, place, written)])
    place = _end(holder.value[-1]) if is_list else _end(holder.value[-1][1])
    return spliced(text, [Splice(place, place, f", {written}")])


def _flow_removal(text: str, old: tuple[int, int]) -> list[Splice]:
    start, end = old
    blank = _BLANK.match(text, end)
    after = blank.end() if blank else end
    if text[after : after + 1] == ",":
        return [Splice(start, end), Splice(after, after + 1)]
    before = len(text[:start].rstrip())
    return [Splice(before - 1 if text[before - 1] == "," else start, end)]


def _lines(name: str, entry: Entry, indent: str, shape: Shape) -> list[str]:
    if shape == "map" and not entry:
        return [f"{indent}{_scalar(name)}: {{}}"]
    if shape == "map":
        return [f"{indent}{_scalar(name)}:", *_mapping(entry, indent + "  ")]
    first, *rest = _mapping(entry, indent + "  ")
    return [f"{indent}- {first.lstrip()}", *rest]


def _mapping(entry: Entry, indent: str) -> list[str]:
    lines: list[str] = []
    for key, value in entry.items():
        if isinstance(value, dict) and value:
            lines += [f"{indent}{_scalar(key)}:", *_mapping(cast("Entry", value), indent + "  ")]
        else:
            written = _scalar(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            lines.append(f"{indent}{_scalar(key)}: {written}")
    return lines


def _scalar(text: str) -> str:
    if _PLAIN.fullmatch(text) and text.lower() not in _WORDS:
        return text
    return json.dumps(text, ensure_ascii=False)


def _unreadable(error: Any) -> DocumentError:
    if getattr(error, "problem_mark", None):
        return DocumentError(f"is not YAML: line {error.problem_mark.line + 1}: {error.problem}")
    return DocumentError(f"is not YAML: {error}".splitlines()[0])
