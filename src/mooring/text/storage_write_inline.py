"""ADF's inline nodes as storage format."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any, cast

from mooring.text.dates import EPOCH, timestamp_of
from mooring.text.storage_adf import write_adf
from mooring.text.storage_ids import Extras, attributes_in, parameters_in, unpack
from mooring.text.storage_images import write_inline_image
from mooring.text.storage_inline import USUAL_EMOTICON
from mooring.text.storage_links import is_page_link, plain_body, takes_plain_body
from mooring.text.storage_macros import ADF_MACRO, BODY, CORE, PLAIN, STATUS_COLOURS, VERSION
from mooring.text.storage_marks import NESTING, usual_nesting, write_mark
from mooring.text.storage_xml import Unwritable, cdata, escape_text, is_writable, tag
from mooring.text.tree import Mark, Node, attributes, is_raw, marks_of, raw_source

_COLOURS = {adf: storage for storage, adf in STATUS_COLOURS.items()}


def write_inline(content: list[Node], spellings: Extras) -> str:
    """A run of inline nodes; marks nest in the order each node lists them."""
    marks = [_marks(node) for node in content]
    nested = marks if NESTING in spellings else usual_nesting(marks)
    return _level(list(zip(nested, content, strict=True)), 0, spellings)


def write_as_json(node: Node) -> str:
    """The node in a macro of our own, for what storage format cannot say at all."""
    # Plain ASCII: the escapes of JSON carry the characters that XML cannot.
    body = tag(PLAIN, {}, cdata(json.dumps(node, separators=(",", ":"))))
    return tag("ac:structured-macro", {"ac:name": ADF_MACRO, "ac:schema-version": VERSION}, body)


def write_macro(attrs: dict[str, Any], body: str | None) -> str | None:
    """An extension that came from a macro, as that macro; None for any other extension."""
    settings = attrs.get("parameters")
    if attrs.get("extensionType") != CORE or not isinstance(settings, dict):
        return None
    found = cast(dict[str, Any], settings)
    if isinstance(found.get("storage"), str) and body is None:
        return found["storage"] if set(found) == {"macroParams", "macroMetadata", "storage"} else None
    if set(found) - {"macroParams", "macroMetadata"}:
        return None
    given = _macro_attributes(attrs, found.get("macroMetadata"))
    inner = _macro_parameters(found.get("macroParams"))
    if given is None or inner is None:
        return None
    content = inner + (tag("ac:rich-text-body", {}, body) if body is not None else "")
    return tag("ac:structured-macro", given, content or None)


def named_macro(name: str, local_id: object, parameters: dict[str, str], body: str = "") -> str:
    """A macro that is a node of its own: its id and whatever else it had are in the `localId`."""
    identifier, extras = unpack(local_id)
    version = extras.get("version", VERSION)
    given = {"ac:name": name, **({"ac:schema-version": version} if version else {})}
    if identifier is not None:
        given["ac:macro-id"] = identifier
    written = {**parameters, **parameters_in(extras)}
    order = extras.get("order", "").split(",")
    if set(order) == set(written):
        written = {name: written[name] for name in order}
    inner = "".join(tag("ac:parameter", {"ac:name": k}, escape_text(v)) for k, v in written.items())
    return tag("ac:structured-macro", {**given, **attributes_in(extras)}, inner + body or None)


def _macro_attributes(attrs: dict[str, Any], metadata: Any) -> dict[str, str] | None:
    given = {"ac:name": str(attrs["extensionKey"])}
    for key, name in (("ac:schema-version", "schemaVersion"), ("ac:macro-id", "macroId")):
        if isinstance(metadata, dict) and name in metadata:
            value = _value(cast(dict[str, Any], metadata)[name])
            if value is None:
                return None
            given[key] = value
    if metadata is None or set(cast(dict[str, Any], metadata)) - {"schemaVersion", "macroId"}:
        return None
    identifier, extras = unpack(attrs.get("localId"))
    if identifier:
        given["ac:local-id"] = identifier
    elif identifier == "" or set(extras) - {"marks"}:
        return None
    if "layout" in attrs:
        given["data-layout"] = attrs["layout"]
    return given


def _macro_parameters(parameters: Any) -> str | None:
    if not isinstance(parameters, dict):
        return None
    written, body = "", ""
    for name, item in cast(dict[str, Any], parameters).items():
        value = _value(item)
        if value is None:
            return None
        if name == BODY:
            body = tag(PLAIN, {}, cdata(value))
        else:
            inner = item.get("storage")
            written += tag(
                "ac:parameter", {"ac:name": name}, inner if inner is not None else escape_text(value)
            )
    return written + body


def _value(item: Any) -> str | None:
    found = cast(dict[str, Any], item) if isinstance(item, dict) else {}
    is_plain = set(found) <= {"value", "storage"} and all(isinstance(each, str) for each in found.values())
    return found.get("value") if is_plain else None


def _marks(node: Node) -> list[Mark]:
    """The marks to write as elements around a node; none when one of them cannot be."""
    marks = marks_of(node)
    note = unpack(attributes(node).get("localId"))[1].get("marks")
    if note is not None and node["type"] != "text":
        try:
            around = cast(list[Any], json.loads(note))
        except ValueError:
            around = []
        marks = [*({"type": mark} if isinstance(mark, str) else mark for mark in around), *marks]
    is_sayable = is_writable(str(node.get("text", ""))) and all(map(_is_sayable, marks))
    return marks if is_sayable else []


def _is_sayable(mark: Mark) -> bool:
    try:
        return not set(mark) - {"type", "attrs"} and write_mark(mark, "", {}, is_plain=False) is not None
    except Unwritable:
        return False


def _level(items: list[tuple[list[Mark], Node]], depth: int, spellings: Extras) -> str:
    """Neighbours that share the mark at this depth go into one element."""
    pieces: list[str] = []
    at = 0
    while at < len(items):
        marks, node = items[at]
        if len(marks) <= depth:
            pieces.append(_node(node, is_wrapped=bool(marks)))
            at += 1
            continue
        end = at + 1
        while end < len(items) and items[end][0][depth : depth + 1] == [marks[depth]]:
            end += 1
        pieces.append(_wrapped(marks[depth], items[at:end], depth, spellings))
        at = end
    return "".join(pieces)


def _wrapped(mark: Mark, items: list[tuple[list[Mark], Node]], depth: int, spellings: Extras) -> str:
    first = items[0][1]
    plain = len(items) == 1 and len(items[0][0]) == depth + 1 and first["type"] == "text"
    content = _level(items, depth + 1, spellings)
    if plain and is_page_link(mark) and takes_plain_body(attributes(mark)["href"], is_plain=True):
        content = plain_body(first["text"])
    return write_mark(mark, content, spellings, is_plain=plain) or content


def _node(node: Node, *, is_wrapped: bool) -> str:
    """The node itself; its marks are around it, or it has none, or it is written with them as JSON."""
    if marks_of(node) and not is_wrapped:
        return write_as_json(node)
    bare = {key: value for key, value in node.items() if key != "marks"}
    if node["type"] != "text" and bare.get("content") == []:
        # Says nothing, and is not there when the text is read again: the node must be written the same then.
        del bare["content"]
    try:
        return _native(bare) or _extension(bare) or write_as_json(bare)
    except Unwritable:
        return write_as_json(bare)


def _extension(node: Node) -> str | None:
    """`ac:adf-extension` for a node that has a type of its own but no element."""
    extras = unpack(attributes(node).get("localId"))[1]
    if set(extras) - {"marks", "fallback"} or node["type"] == "text":
        return None
    return write_adf(node, lambda _: "")


def _native(node: Node) -> str | None:
    if node["type"] == "text":
        return escape_text(node["text"]) if not set(node) - {"type", "text", "marks"} else None
    writer = _WRITERS.get(node["type"])
    if writer is None or set(node) - {"type", "attrs", "marks"}:
        return None
    return writer(node, attributes(node))


def _hard_break(_node: Node, attrs: dict[str, Any]) -> str | None:
    if set(attrs) - {"localId"}:
        return None
    return _element("br", attrs, {}, None, "local-id")


def _element(
    name: str, attrs: dict[str, Any], given: dict[str, str], content: str | None, id_key: str
) -> str:
    identifier, extras = unpack(attrs.get("localId"))
    if identifier is not None:
        given = {**given, id_key: identifier}
    return tag(name, {**given, **attributes_in(extras)}, content)


def _date(_node: Node, attrs: dict[str, Any]) -> str | None:
    timestamp = attrs.get("timestamp")
    if set(attrs) - {"timestamp", "localId"} or not isinstance(timestamp, str):
        return None
    try:
        day = (EPOCH + timedelta(milliseconds=int(timestamp))).strftime("%Y-%m-%d")
    except (ValueError, OverflowError):
        return None
    given = (
        {"datetime": day}
        if timestamp_of(day) == timestamp
        else {"datetime": day, "data-timestamp": timestamp}
    )
    return _element("time", attrs, given, None, "local-id")


def _emoji(_node: Node, attrs: dict[str, Any]) -> str | None:
    if set(attrs) - {"shortName", "id", "text", "localId"} or not isinstance(attrs.get("shortName"), str):
        return None
    extras = unpack(attrs.get("localId"))[1]
    given = {"ac:name": extras.get("name", USUAL_EMOTICON)}
    if "no-shortname" not in extras:
        given["ac:emoji-shortname"] = attrs["shortName"]
    if "id" in attrs:
        given["ac:emoji-id"] = attrs["id"]
    if "text" in attrs and "no-text" not in extras:
        given["ac:emoji-fallback"] = attrs["text"]
    return _element("ac:emoticon", attrs, given, None, "ac:local-id")


def _placeholder(_node: Node, attrs: dict[str, Any]) -> str | None:
    if set(attrs) - {"text", "localId"} or not isinstance(attrs.get("text"), str):
        return None
    return _element("ac:placeholder", attrs, {}, escape_text(attrs["text"]), "ac:local-id")


def _card(_node: Node, attrs: dict[str, Any]) -> str | None:
    url = attrs.get("url")
    if set(attrs) - {"url", "localId"} or not isinstance(url, str) or not url:
        return None
    shown = unpack(attrs.get("localId"))[1].get("shown", url)
    given = {"href": url, "data-card-appearance": "inline"}
    return _element("a", attrs, given, escape_text(shown), "local-id")


def _mention(_node: Node, attrs: dict[str, Any]) -> str | None:
    if set(attrs) - {"id", "text", "localId"} or not isinstance(attrs.get("id"), str):
        return None
    identifier, extras = unpack(attrs.get("localId"))
    given = {extras.get("user", "ri:account-id"): attrs["id"], **attributes_in(extras)}
    if identifier is not None:
        given["ri:local-id"] = identifier
    body = ""
    if "text" in attrs:
        if not attrs["text"]:
            return None
        plain = extras.get("body") == "plain"
        shown = plain_body(attrs["text"]) if plain else escape_text(attrs["text"])
        body = tag("ac:plain-text-link-body" if plain else "ac:link-body", {}, shown)
    return tag("ac:link", {}, tag("ri:user", given) + body)


def _status(_node: Node, attrs: dict[str, Any]) -> str | None:
    if set(attrs) - {"text", "color", "style", "localId"} or not attrs.get("text"):
        return None
    colour, extras = attrs.get("color"), unpack(attrs.get("localId"))[1]
    if not isinstance(colour, str):
        return None
    parameters = {"title": str(attrs["text"])}
    written = extras.get("colour") or ("" if colour == "neutral" else _COLOURS.get(colour, colour))
    if written:
        parameters["colour"] = written
    elif colour != "neutral":
        return None
    if colour in STATUS_COLOURS:
        return None
    if "style" in attrs:
        parameters["style"] = str(attrs["style"])
    return named_macro("status", attrs.get("localId"), parameters)


def _media(node: Node, _attrs: dict[str, Any]) -> str | None:
    return write_inline_image(node)


def _inline_extension(node: Node, attrs: dict[str, Any]) -> str | None:
    if is_raw(node, "storage"):
        identifier, extras = unpack(attrs.get("localId"))
        return raw_source(node) if identifier is None and not set(extras) - {"marks"} else None
    return write_macro(attrs, None)


_WRITERS: dict[str, Callable[[Node, dict[str, Any]], str | None]] = {
    "hardBreak": _hard_break,
    "date": _date,
    "emoji": _emoji,
    "placeholder": _placeholder,
    "inlineCard": _card,
    "mention": _mention,
    "status": _status,
    "mediaInline": _media,
    "inlineExtension": _inline_extension,
}
