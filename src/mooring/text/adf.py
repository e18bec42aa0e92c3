"""ADF JSON: the tree itself, as text."""

import json
from typing import Any, cast

from mooring.text import schema
from mooring.text.errors import Position, UnreadableSource
from mooring.text.report import Report, format_path
from mooring.text.tree import Node, doc, node, paragraph, text, walk

# Deeper than any editor makes, far from where Python's own recursion ends.
MAX_DEPTH = 150


def read(source: str | bytes, report: Report, *, lenient: bool = False) -> Node:
    """The document in this JSON text; a bare node or a list of blocks is wrapped in a `doc`."""
    try:
        return from_value(_parse(source))
    except UnreadableSource as error:
        if not lenient:
            raise
        report.escaped((), f"not readable as ADF ({error}); kept as a code block")
        shown = source.decode("utf-8", "replace") if isinstance(source, bytes) else source
        return doc(node("codeBlock", [text(shown)] if shown else [], language="json"))


def write(doc: Node, report: Report, *, dialect: str = "extended") -> str:  # noqa: ARG001
    return json.dumps(doc, ensure_ascii=False)


def from_value(value: Any) -> Node:
    """A `doc` from an already parsed value."""
    if isinstance(value, list):
        return from_value({"version": 1, "type": "doc", "content": cast(list[Any], value)})
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):  # pyright: ignore[reportUnknownMemberType]
        raise UnreadableSource("an ADF document is an object with a `type`", Position(path="."))
    found = cast(Node, value)
    _check(found)
    if found["type"] == "doc":
        return found if isinstance(found.get("content"), list) else {**found, "content": []}
    inline = found["type"] in ("text", "hardBreak", "mention", "emoji", "date", "status", "inlineCard")
    return doc(paragraph(found) if inline else found)


def node_of(source: str) -> Node | None:
    """The node in this JSON text, or None when there is none that can be worked with."""
    try:
        found = json.loads(source)
        if not _is_node(found):
            return None
        _check(found)
    except (ValueError, RecursionError):
        return None
    return cast(Node, found)


def are_marks(value: Any) -> bool:
    return value.__class__ is list and all(map(_is_mark, value))


def _parse(source: str | bytes) -> Any:
    try:
        return json.loads(source)
    except UnicodeDecodeError as error:
        raise UnreadableSource(f"not UTF-8: {error.reason} at byte {error.start}") from error
    except json.JSONDecodeError as error:
        raise UnreadableSource(error.msg, Position(error.lineno, error.colno)) from error
    except RecursionError as error:
        raise UnreadableSource("nested too deeply to read") from error


def _check(item: Node) -> None:
    """Every child must be an object with a type, and the tree not absurdly deep."""
    if _is_shallow(item) and schema.is_valid(item):
        return
    level: list[Node] = [item]
    for _ in range(MAX_DEPTH):
        below: list[Node] = []
        for current in level:
            content = current.get("content")
            if ("attrs" in current or "marks" in current) and not _has_sound_parts(current):
                raise UnreadableSource(*_fault(item))
            if content is None:
                continue
            if content.__class__ is not list or not all(map(_is_node, content)):
                raise UnreadableSource(*_fault(item))
            below += content
        if not below:
            return
        level = below
    raise UnreadableSource(*_fault(item))


def _is_node(child: Any) -> bool:
    if child.__class__ is not dict:
        return False
    kind = child.get("type")
    return kind.__class__ is str and (kind != "text" or child.get("text").__class__ is str)


def _is_shallow(item: Node) -> bool:
    level: list[Any] = [item]
    try:
        for _ in range(MAX_DEPTH):
            level = [child for current in level for child in current.get("content") or ()]
            if not level:
                return True
    except (AttributeError, TypeError):
        return False
    return False


def _has_sound_parts(item: Node) -> bool:
    """Are the attributes an object, and the marks objects with a type?"""
    attrs: Any = item.get("attrs")
    if attrs is not None and attrs.__class__ is not dict:
        return False
    marks: Any = item.get("marks")
    return marks is None or are_marks(marks)


def _is_mark(mark: Any) -> bool:
    return (
        mark.__class__ is dict
        and mark.get("type").__class__ is str
        and (mark.get("attrs") is None or mark["attrs"].__class__ is dict)
    )


def _fault(item: Node) -> tuple[str, Position]:
    """The first thing wrong, found by walking again with paths."""
    for path, current in walk(item):
        content: Any = current.get("content")
        if len(path) > 2 * MAX_DEPTH:
            return f"nested deeper than {MAX_DEPTH} levels", Position(path=format_path(path[:8]) + "/…")
        if not _has_sound_parts(current):
            return (
                "`attrs` must be an object, and `marks` a list of objects with a `type`",
                Position(path=format_path(path) or "."),
            )
        if content is None:
            continue
        if content.__class__ is not list:
            return "`content` must be a list", Position(path=format_path(path) or ".")
        for index, child in enumerate(content):
            if not _is_node(child):
                text_fault = child.__class__ is dict and child.get("type") == "text"
                reason = (
                    "a text node needs a string `text`" if text_fault else "a node is an object with a `type`"
                )
                return reason, Position(path=format_path((*path, "content", index)))
    return f"nested deeper than {MAX_DEPTH} levels", Position(path=".")
