"""`ac:adf-extension`, both ways: how Confluence stores ADF that storage format has no elements for."""

import re
from collections.abc import Callable
from typing import Any, cast

from mooring.text.storage_ids import Extras, pack, unpack
from mooring.text.storage_reading import Place, Reading, number, with_extras
from mooring.text.storage_xml import Element, escape_text, is_writable, tag
from mooring.text.tree import INLINE_TYPES, TEXT_BLOCKS, Node, attributes, children, marks_of

# Nodes that have no meaning outside their parent: written as nodes, not as storage format.
_PARTS = frozenset({
    "decisionItem", "taskItem", "blockTaskItem", "taskList", "media", "caption", "layoutColumn", "tableRow",
    "tableCell", "tableHeader", "listItem",
})  # fmt: skip
_FALLBACK = "fallback"
_HOLE = "{content}"


def read_block_adf(reading: Reading, element: Element, place: Place) -> Node | None:
    node = _read(reading, element, place)
    return None if node is None or node["type"] in INLINE_TYPES else node


def read_inline_adf(reading: Reading, element: Element) -> Node | None:
    node = _read(reading, element, Place("paragraph"))
    return node if node is not None and node["type"] in INLINE_TYPES else None


def is_inline_adf(element: Element) -> bool:
    made = element.first("ac:adf-node")
    return made is not None and _camel(made.attributes.get("type", "")) in INLINE_TYPES


def write_adf(node: Node, content: Callable[[Node], str]) -> str | None:
    """The extension element for this node; `content` writes its children as storage format."""
    written = _write_node(node, content)
    if written is None:
        return None
    fallback = unpack(attributes(node).get("localId"))[1].get(_FALLBACK)
    if fallback is not None:
        inner = re.search(r"<ac:adf-content>(.*)</ac:adf-content></ac:adf-node>\Z", written, re.DOTALL)
        written += tag("ac:adf-fallback", {}, fallback.replace(_HOLE, inner[1] if inner else ""))
    return tag("ac:adf-extension", {}, written)


# --- reading ----------------------------------------------------------------------------------


def _read(reading: Reading, element: Element, place: Place) -> Node | None:
    parts = element.elements()
    if element.attributes or not element.has_only_elements() or not parts or parts[0].name != "ac:adf-node":
        return None
    node = _read_node(reading, parts[0], place)
    if node is None or len(parts) == 1:
        return node
    if len(parts) > 2 or parts[1].name != "ac:adf-fallback" or parts[1].attributes:
        return None
    return with_extras(node, {_FALLBACK: _fallback(reading, parts[0], parts[1])})


def _fallback(reading: Reading, made: Element, fallback: Element) -> str:
    """What older editors show; where it repeats the content, only the place is kept."""
    shown = "".join(reading.source.verbatim(child) for child in fallback.children)
    content = made.first("ac:adf-content")
    inner = "".join(reading.source.verbatim(child) for child in content.children) if content else ""
    return shown.replace(inner, _HOLE) if inner and shown.count(inner) == 1 and _HOLE not in shown else shown


def _read_node(reading: Reading, made: Element, place: Place) -> Node | None:
    kind = _camel(made.attributes.get("type", ""))
    if set(made.attributes) != {"type"} or not made.has_only_elements() or not kind:
        return None
    node: Node = {"type": kind}
    attrs: dict[str, Any] = {}
    marks: list[Node] = []
    content: list[Node] = []
    spellings: Extras = {}
    for part in made.elements():
        if part.name == "ac:adf-attribute":
            attrs[_camel(part.attributes.get("key", ""))] = _value(part)
        elif part.name == "ac:adf-mark":
            marks.append(_mark(part))
        elif part.name == "ac:adf-node":
            child = _read_node(reading, part, place.inside(kind))
            if child is None:
                return None
            content.append(child)
        elif part.name == "ac:adf-content" and not part.attributes:
            if kind in TEXT_BLOCKS:
                inline, spellings = reading.inline(part.children)
                content += inline
            else:
                content += reading.blocks(part.children, place.inside(kind))
        else:
            return None
    # The schema wants attributes on this one even when there are none.
    node |= {"attrs": attrs} if attrs or kind == "nestedExpand" else {}
    node |= {"marks": marks} if marks else {}
    node |= {"content": content} if content else {}
    return with_extras(node, spellings)


def _mark(part: Element) -> Node:
    attrs = {child.attributes.get("key", ""): _value(child) for child in part.elements()}
    kind = _camel(part.attributes.get("key", ""))
    return {"type": kind, "attrs": attrs} if attrs else {"type": kind}


def _value(part: Element) -> Any:
    kind, inner = part.attributes.get("type"), part.elements()
    shown = part.text()
    if kind == "array" or any(child.name == "ac:adf-parameter-value" for child in inner):
        return [_value(child) for child in inner]
    if kind == "object" or inner:
        return {child.attributes.get("key", ""): _value(child) for child in inner}
    if kind in ("integer", "number"):
        value = number(shown)
        return shown if value is None else value
    if kind == "boolean":
        return shown == "true"
    return None if kind == "null" else shown


# --- writing ----------------------------------------------------------------------------------


def _write_node(node: Node, content: Callable[[Node], str]) -> str | None:
    kind = node["type"]
    if _camel(_kebab(kind)) != kind or set(node) - {"type", "attrs", "marks", "content"}:
        return None
    attrs = dict(attributes(node))
    _without_fallback(attrs)
    if any(_camel(_kebab(key)) != key for key in attrs) or not _is_writable([attrs, marks_of(node)]):
        return None
    if kind in _PARTS and "localId" in attrs:
        attrs = {"localId": attrs["localId"], **attrs}
    pieces = [_typed("ac:adf-attribute", _kebab(key), value) for key, value in attrs.items()]
    for mark in marks_of(node):
        inner = "".join(_typed("ac:adf-parameter", key, value) for key, value in attributes(mark).items())
        pieces.append(tag("ac:adf-mark", {"key": _kebab(mark["type"])}, inner or None))
    held = children(node)
    if held and any(child["type"] in _PARTS for child in held):
        for child in held:
            written = _write_node(child, content)
            if written is None:
                return None
            pieces.append(written)
    elif held:
        pieces.append(tag("ac:adf-content", {}, content(node)))
    return tag("ac:adf-node", {"type": _kebab(kind)}, "".join(pieces) or None)


def _without_fallback(attrs: dict[str, Any]) -> None:
    """The note about the fallback, and how marks are spelled, belong to us, not into the attributes."""
    identifier, extras = unpack(attrs.get("localId"))
    if extras and identifier is not None:
        attrs["localId"] = pack(identifier, {})
    elif extras:
        attrs.pop("localId")


def _typed(name: str, key: str | None, value: Any) -> str:
    given = {} if key is None else {"key": key}
    if isinstance(value, bool):
        return tag(name, {**given, "type": "boolean"}, "true" if value else "false")
    if isinstance(value, int | float):
        return tag(name, {**given, "type": "integer" if isinstance(value, int) else "number"}, str(value))
    if isinstance(value, dict):
        inner = "".join(_typed("ac:adf-parameter", str(k), v) for k, v in value.items())  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        return tag(name, given, inner) if inner else tag(name, {**given, "type": "object"})
    if isinstance(value, list):
        inner = "".join(_typed("ac:adf-parameter-value", None, item) for item in value)  # pyright: ignore[reportUnknownVariableType]
        return tag(name, given, inner) if inner else tag(name, {**given, "type": "array"})
    if value is None:
        return tag(name, {**given, "type": "null"})
    return tag(name, given, escape_text(value))


def _is_writable(value: Any) -> bool:
    """Strings XML can hold, numbers that come back the same, string keys."""
    if isinstance(value, str):
        return is_writable(value)
    if isinstance(value, bool) or value is None:
        return True
    if isinstance(value, int | float):
        return number(str(value)) == value
    if isinstance(value, list):
        return all(map(_is_writable, value))  # pyright: ignore[reportUnknownArgumentType]
    if isinstance(value, dict):
        pairs = cast(dict[Any, Any], value).items()
        return all(isinstance(key, str) and is_writable(key) and _is_writable(item) for key, item in pairs)
    return False


def _kebab(name: str) -> str:
    return re.sub(r"[A-Z]", lambda found: "-" + found[0].lower(), name)


def _camel(name: str) -> str:
    return re.sub(r"-([a-z])", lambda found: found[1].upper(), name)
