"""ADF JSON: the tree itself, as text."""

import json
from typing import Any, cast

from mooring.text.errors import Position, UnreadableSource
from mooring.text.report import Report
from mooring.text.tree import Node, doc, node, paragraph, text

# Deeper than any editor makes, far from where Python's own recursion ends.
MAX_DEPTH = 200


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
    level: list[tuple[str, Node]] = [("", item)]
    for depth in range(MAX_DEPTH + 1):
        below: list[tuple[str, Node]] = []
        for path, current in level:
            content: Any = current.get("content", [])
            if not isinstance(content, list):
                raise UnreadableSource("`content` must be a list", Position(path=path or "."))
            for index, child in enumerate(cast(list[Any], content)):
                where = f"{path}/content/{index}".lstrip("/")
                _check_node(child, where)
                below.append((where, cast(Node, child)))
        if not below:
            return
        if depth == MAX_DEPTH:
            raise UnreadableSource(f"nested deeper than {MAX_DEPTH} levels", Position(path=below[0][0]))
        level = below


def _check_node(child: Any, where: str) -> None:
    if not isinstance(child, dict) or not isinstance(child.get("type"), str):  # pyright: ignore[reportUnknownMemberType]
        raise UnreadableSource("a node is an object with a `type`", Position(path=where))
    if child["type"] == "text" and not isinstance(child.get("text"), str):  # pyright: ignore[reportUnknownMemberType]
        raise UnreadableSource("a text node needs a string `text`", Position(path=where))
