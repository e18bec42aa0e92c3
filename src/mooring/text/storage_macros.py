"""Structured macros into ADF: the ones that are nodes of their own, and all others as extensions."""

import json
from typing import Any

from mooring.text.content import ALLOWED, marks_allowed
from mooring.text.storage_ids import Extras
from mooring.text.storage_reading import Place, Reading, identified, other_attributes
from mooring.text.storage_xml import Element
from mooring.text.tree import Node, text

CORE = "com.atlassian.confluence.macro.core"
ADF_MACRO = "mooring-adf"
VERSION = "1"
BODY = "__bodyContent"
PANELS = {"info": "info", "note": "note", "warning": "warning", "tip": "success"}
STATUS_COLOURS = {
    "Grey": "neutral", "Red": "red", "Yellow": "yellow", "Green": "green", "Blue": "blue", "Purple": "purple",
}  # fmt: skip
RICH, PLAIN = "ac:rich-text-body", "ac:plain-text-body"
_IDENTITY = ("ac:name", "ac:schema-version", "ac:macro-id", "ac:local-id")


def read_macro(reading: Reading, macro: Element, place: Place) -> Node | None:
    """The block a macro stands for, or None when it can only be kept verbatim."""
    name = macro.attributes.get("ac:name", "")
    if name == ADF_MACRO:
        return _adf(macro)
    reader = _BLOCKS.get(name)
    node = reader(reading, macro, place) if reader else None
    return node or _extension(reading, macro, place)


def read_inline_macro(reading: Reading, macro: Element) -> Node | None:
    name = macro.attributes.get("ac:name", "")
    if name == ADF_MACRO:
        return _adf(macro)
    return (_status(macro) if name == "status" else None) or _inline_extension(reading, macro)


def is_inline_macro(macro: Element) -> bool:
    return macro.attributes.get("ac:name") == "status"


def is_adf_macro(element: Element) -> bool:
    """Our own macro with a node as JSON, whatever that node is."""
    return element.name == "ac:structured-macro" and element.attributes.get("ac:name") == ADF_MACRO


def is_block_macro(macro: Element) -> bool:
    """Macros with a body stand alone, whatever is beside them."""
    return macro.first(RICH) is not None or (
        macro.first(PLAIN) is not None and macro.attributes.get("ac:name") != ADF_MACRO
    )


def _native(
    macro: Element, *names: str, body: str | None
) -> tuple[dict[str, str], Extras, str | None] | None:
    """(named parameters, what else must be written back, id), or None when the shape is unusual."""
    parts = macro.elements()
    wanted = [body] if body else []
    parameters = parts[: len(parts) - len(wanted)]
    if not macro.has_only_elements() or [part.name for part in parts[len(parameters) :]] != wanted:
        return None
    found: dict[str, str] = {}
    extras: Extras = {}
    order: list[str] = []
    for part in parameters:
        key, value = part.attributes.get("ac:name"), part.only_text()
        if part.name != "ac:parameter" or len(part.attributes) != 1 or key is None or value is None:
            return None
        if key in found or f":{key}" in extras:
            return None
        order.append(key)
        if key in names:
            found[key] = value
        else:
            extras[f":{key}"] = value
    if order != [*(name for name in names if name in found), *(key[1:] for key in extras)]:
        extras["order"] = ",".join(order)
    if wanted and parts[-1].attributes:
        return None
    extras |= other_attributes(macro, "ac:name", "ac:schema-version", "ac:macro-id")
    if macro.attributes.get("ac:schema-version") != VERSION:
        extras["version"] = macro.attributes.get("ac:schema-version", "")
    return found, extras, macro.attributes.get("ac:macro-id")


def _code(_reading: Reading, macro: Element, place: Place) -> Node | None:
    found = _native(
        macro, "language", "uniqueId", "wrap", "hideLineNumbers", "breakoutMode", "breakoutWidth", body=PLAIN
    )
    if not found:
        return None
    parameters, extras, identifier = found
    source = macro.elements()[-1].only_text()
    if source is None:
        return None
    node: Node = {"type": "codeBlock"}
    attrs: dict[str, Any] = {}
    attrs |= {name: parameters[name] for name in ("language", "uniqueId") if name in parameters}
    for name in ("wrap", "hideLineNumbers"):
        if parameters.get(name) in ("true", "false"):
            attrs[name] = parameters[name] == "true"
        elif name in parameters:
            extras[f":{name}"] = parameters[name]
    breakout = _breakout(parameters, place, "codeBlock", extras)
    if attrs:
        node["attrs"] = attrs
    if breakout:
        node["marks"] = breakout
    if source:
        node["content"] = [text(source)]
    return identified(node, extras, identifier)


def _breakout(parameters: dict[str, str], place: Place, kind: str, extras: Extras) -> list[Node]:
    mode, width = parameters.get("breakoutMode"), parameters.get("breakoutWidth")
    if mode in ("wide", "full-width") and "breakout" in marks_allowed(kind, place.kind):
        if width is None:
            return [{"type": "breakout", "attrs": {"mode": mode}}]
        if width.isascii() and width.isdigit() and str(int(width)) == width:
            return [{"type": "breakout", "attrs": {"mode": mode, "width": int(width)}}]
    extras |= {f":{key}": parameters[key] for key in ("breakoutMode", "breakoutWidth") if key in parameters}
    return []


def _panel(reading: Reading, macro: Element, place: Place) -> Node | None:
    found = _native(macro, body=RICH)
    if not found or "panel" not in ALLOWED[place.kind]:
        return None
    _, extras, identifier = found
    content = reading.blocks(macro.elements()[-1].children, place.inside("panel"))
    kind = PANELS[macro.attributes["ac:name"]]
    node = {"type": "panel", "attrs": {"panelType": kind}, "content": content}
    return identified(node, extras, identifier)


def _expand(reading: Reading, macro: Element, place: Place) -> Node | None:
    found = _native(macro, "title", "breakoutMode", "breakoutWidth", body=RICH)
    allowed = ALLOWED[place.kind]
    kind = "expand" if "expand" in allowed else "nestedExpand"
    if not found or kind not in allowed:
        return None
    parameters, extras, identifier = found
    breakout = _breakout(parameters, place, kind, extras)
    node: Node = {"type": kind}
    if "title" in parameters or kind == "nestedExpand":
        node["attrs"] = {"title": parameters["title"]} if "title" in parameters else {}
    if breakout:
        node["marks"] = breakout
    node["content"] = reading.blocks(macro.elements()[-1].children, place.inside(kind))
    return identified(node, extras, identifier)


def _status(macro: Element) -> Node | None:
    found = _native(macro, "title", "colour", "style", body=None)
    if not found or not found[0].get("title"):
        return None
    parameters, extras, identifier = found
    colour = parameters.get("colour")
    attrs = {"text": parameters["title"], "color": STATUS_COLOURS.get(colour or "Grey", colour)}
    if colour == "Grey" or (colour in STATUS_COLOURS.values() and colour is not None):
        extras["colour"] = colour
    if "style" in parameters:
        attrs["style"] = parameters["style"]
    return identified({"type": "status", "attrs": attrs}, extras, identifier)


def _extension(reading: Reading, macro: Element, place: Place) -> Node | None:
    name = macro.attributes.get("ac:name")
    if not name:
        return None
    if macro.first(RICH) is not None:
        return _bodied(reading, macro, place)
    settings = _settings(reading, macro)
    return _with_layout({"type": "extension"}, macro, settings)


def _inline_extension(reading: Reading, macro: Element) -> Node | None:
    name = macro.attributes.get("ac:name")
    if not name:
        return None
    settings = _settings(reading, macro)
    attrs: dict[str, Any] = {"extensionType": CORE, "extensionKey": name, "parameters": settings}
    visible = macro.first(RICH)
    if visible is not None and visible.text():
        attrs["text"] = visible.text()
    node = {"type": "inlineExtension", "attrs": attrs}
    return identified(node, {}, macro.attributes.get("ac:local-id") if "storage" not in settings else None)


def _bodied(reading: Reading, macro: Element, place: Place) -> Node | None:
    parts = macro.elements()
    if "bodiedExtension" not in ALLOWED[place.kind] or parts[-1].name != RICH or parts[-1].attributes:
        return None
    settings = _settings(reading, macro, parts[:-1])
    if "storage" in settings:
        return None
    node = _with_layout({"type": "bodiedExtension"}, macro, settings)
    return {**node, "content": reading.blocks(parts[-1].children, place.inside("bodiedExtension"))}


def _with_layout(node: Node, macro: Element, settings: dict[str, Any]) -> Node:
    attrs: dict[str, Any] = {
        "extensionType": CORE,
        "extensionKey": macro.attributes["ac:name"],
        "parameters": settings,
    }
    layout = macro.attributes.get("data-layout")
    if layout in ("wide", "full-width", "default"):
        attrs["layout"] = layout
    local_id = None if "storage" in settings else macro.attributes.get("ac:local-id")
    return identified({**node, "attrs": attrs}, {}, local_id)


def _settings(reading: Reading, macro: Element, parts: list[Element] | None = None) -> dict[str, Any]:
    """Parameters the way Confluence's own ADF has them; an unusual macro also keeps its source."""
    parameters: dict[str, dict[str, str]] = {}
    unusual = not macro.has_only_elements()
    for part in macro.elements() if parts is None else parts:
        key, value = part.attributes.get("ac:name", ""), part.only_text()
        if part.name == PLAIN:
            key, unusual = BODY, unusual or bool(part.attributes) or part is not macro.elements()[-1]
        elif part.name != "ac:parameter" or set(part.attributes) != {"ac:name"}:
            unusual = True
        if key in parameters or (part.name == "ac:parameter" and key == BODY):
            unusual = True
        if value is not None:
            parameters[key] = {"value": value}
        else:
            inner = "".join(reading.source.verbatim(child) for child in part.children)
            parameters[key] = {"value": part.text(), "storage": inner}
    metadata = {
        name: {"value": macro.attributes[key]}
        for key, name in (("ac:macro-id", "macroId"), ("ac:schema-version", "schemaVersion"))
        if key in macro.attributes
    }
    layout = macro.attributes.get("data-layout")
    known = {*_IDENTITY, "data-layout"} if layout in ("wide", "full-width", "default") else set(_IDENTITY)
    unusual = unusual or bool(set(macro.attributes) - known) or macro.attributes.get("ac:local-id") == ""
    settings: dict[str, Any] = {"macroParams": parameters, "macroMetadata": metadata}
    if unusual:
        settings["storage"] = reading.source.verbatim(macro)
    return settings


def _adf(macro: Element) -> Node | None:
    """A node that has no storage form, written as JSON."""
    body = macro.first(PLAIN)
    source = body.only_text() if body else None
    try:
        found: Any = json.loads(source or "")
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) and isinstance(found.get("type"), str) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


_BLOCKS = {"code": _code, "expand": _expand, **dict.fromkeys(PANELS, _panel)}
