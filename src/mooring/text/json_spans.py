"""Where each node of an ADF document stands in its JSON text: a patch leaves every other byte alone."""

import re
from dataclasses import dataclass, field
from json.decoder import JSONDecodeError, JSONDecoder

from mooring.text.adf import MAX_DEPTH
from mooring.text.errors import Position, UnreadableSource
from mooring.text.tree import Node

_BLANK = re.compile(r"[ \t\r\n]*")
_decode = JSONDecoder().raw_decode


def _nothing() -> "list[Located]":
    return []


@dataclass(slots=True)
class Located:
    """A node and its place: `text[start:end]` is exactly this node."""

    node: Node
    start: int
    end: int = 0
    content: "list[Located]" = field(default_factory=_nothing)
    # Just after the `[` of the content.
    content_start: int | None = None
    # The values of `attrs` and `text`.
    attrs: tuple[int, int] | None = None
    text: tuple[int, int] | None = None


def locate_nodes(source: str) -> Located:
    """The document in a JSON text, with the place of every node."""
    try:
        made = _object(source, _skip(source, 0), 0)
    except (JSONDecodeError, IndexError) as error:
        message = error.msg if isinstance(error, JSONDecodeError) else "the text ends too early"
        line = getattr(error, "lineno", None)
        raise UnreadableSource(message, Position(line, getattr(error, "colno", None))) from error
    if source[made.end :].strip():
        raise UnreadableSource(
            "something follows the document", Position(source.count("\n", 0, made.end) + 1)
        )
    return made


def _object(source: str, at: int, depth: int) -> Located:
    if source[at] != "{" or depth > MAX_DEPTH:
        reason = "a node is an object" if source[at] != "{" else f"nested deeper than {MAX_DEPTH} levels"
        raise JSONDecodeError(reason, source, at)
    made = Located({}, at)
    at = _skip(source, at + 1)
    while source[at] != "}":
        if source[at] == ",":
            at = _skip(source, at + 1)
        if source[at] != '"':
            raise JSONDecodeError("a name in double quotes was expected", source, at)
        name, at = _decode(source, at)
        at = _skip(source, at)
        if source[at] != ":":
            raise JSONDecodeError("`:` was expected", source, at)
        at = _value(source, _skip(source, at + 1), name, made, depth)
        at = _skip(source, at)
        if source[at] not in ",}":
            raise JSONDecodeError("`,` or `}` was expected", source, at)
    made.end = at + 1
    return made


def _value(source: str, at: int, name: str, made: Located, depth: int) -> int:
    if name == "content" and source[at] == "[":
        return _content(source, at, made, depth)
    value, end = _decode(source, at)
    made.node[name] = value
    if name == "attrs":
        made.attrs = (at, end)
    elif name == "text":
        made.text = (at, end)
    return end


def _content(source: str, at: int, made: Located, depth: int) -> int:
    made.content_start = at + 1
    at = _skip(source, at + 1)
    while source[at] != "]":
        if source[at] == ",":
            at = _skip(source, at + 1)
        child = _object(source, at, depth + 1)
        made.content.append(child)
        at = _skip(source, child.end)
        if source[at] not in ",]":
            raise JSONDecodeError("`,` or `]` was expected", source, at)
    made.node["content"] = [child.node for child in made.content]
    return at + 1


def _skip(source: str, at: int) -> int:
    found = _BLANK.match(source, at)
    return found.end() if found else at
