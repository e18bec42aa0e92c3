"""`ac:image`, both ways: a block is a `mediaSingle`, inside a paragraph it is a `mediaInline`.

A file's id is its attachment name, in the empty collection; any other collection has no storage form.
"""

from typing import Any

from mooring.text.storage_ids import Extras, attributes_in, unpack
from mooring.text.storage_reading import Reading, identified, number, other_attributes
from mooring.text.storage_xml import Element, tag
from mooring.text.tree import Mark, Node, attributes, children, marks_of

# What Confluence writes beside each layout.
_ALIGNMENTS = {
    "center": "center",
    "wide": "center",
    "full-width": "center",
    "align-start": "left",
    "align-end": "right",
    "wrap-left": "left",
    "wrap-right": "right",
}
_SINGLE_ATTRIBUTES = (
    "ac:layout", "ac:align", "ac:width", "ac:custom-width", "ac:original-width", "ac:original-height",
    "ac:alt", "ac:href", "ac:local-id",
)  # fmt: skip
_INLINE_ATTRIBUTES = ("ac:alt", "ac:width", "ac:height", "ac:local-id")


def read_image(reading: Reading, element: Element) -> Node | None:
    """The `mediaSingle` of an image that stands as a block, or None for one that has no such form."""
    given = element.attributes
    media = _media(element)
    parts = element.elements()[1:]
    if media is None:
        return None
    extras = other_attributes(element, *_SINGLE_ATTRIBUTES)
    single = _layout(given, extras) | _width(given, extras)
    for key, name in (("ac:original-width", "width"), ("ac:original-height", "height")):
        _numeric(given, key, name, attributes(media), extras)
    marks: list[Mark] = []
    if "ac:href" in given:
        marks.append({"type": "link", "attrs": {"href": given["ac:href"]}})
    content = [media]
    for part in parts:
        if part.name == "ac:adf-mark" and (border := _border(part)):
            marks.append(border)
        elif part.name == "ac:caption" and len(content) == 1 and (caption := _caption(reading, part)):
            content.append(caption)
        else:
            return None
    if marks:
        content[0] = {**media, "marks": marks}
    node = {"type": "mediaSingle", "attrs": single, "content": content}
    return identified(node, extras, given.get("ac:local-id"))


def read_inline_image(_reading: Reading, element: Element) -> Node | None:
    given = element.attributes
    media = _media(element)
    if media is None or attributes(media)["type"] != "file" or len(element.elements()) > 1:
        return None
    own = unpack(attributes(media).get("localId"))[1]
    extras = {**other_attributes(element, *_INLINE_ATTRIBUTES), **{f"file{key}": own[key] for key in own}}
    attrs: dict[str, Any] = {"type": "image", "id": attributes(media)["id"], "collection": ""}
    if "ac:alt" in given:
        attrs["alt"] = given["ac:alt"]
    for key, name in (("ac:width", "width"), ("ac:height", "height")):
        _numeric(given, key, name, attrs, extras)
    return identified({"type": "mediaInline", "attrs": attrs}, extras, given.get("ac:local-id"))


def write_image(node: Node, caption: str) -> str | None:
    """The image of a `mediaSingle`; `caption` is its caption in storage format."""
    media = children(node)[0] if children(node) else {}
    attrs = attributes(node)
    resource = _resource(media)
    identifier, extras = unpack(attrs.get("localId"))
    shape = _write_layout(attrs, extras)
    if resource is None or shape is None or marks_of(node) or set(attrs) - _SINGLE_KNOWN:
        return None
    given = {**shape, **_write_media(media)}
    if identifier is not None:
        given["ac:local-id"] = identifier
    marks = _write_marks(media, given)
    if marks is None:
        return None
    return tag("ac:image", {**given, **attributes_in(extras)}, resource + caption + marks)


def write_inline_image(node: Node) -> str | None:
    attrs = attributes(node)
    identifier, extras = unpack(attrs.get("localId"))
    known = {"type", "id", "collection", "alt", "width", "height", "localId"}
    if attrs.get("type") != "image" or attrs.get("collection") != "" or set(attrs) - known:
        return None
    own = {f"@{key[5:]}": value for key, value in extras.items() if key.startswith("file@")}
    given = {f"ac:{name}": str(attrs[name]) for name in ("alt", "width", "height") if name in attrs}
    if identifier is not None:
        given["ac:local-id"] = identifier
    resource = tag("ri:attachment", {"ri:filename": attrs["id"], **attributes_in(own)})
    return tag("ac:image", {**given, **attributes_in(extras)}, resource)


_SINGLE_KNOWN = {"layout", "width", "widthType", "localId"}


def _media(element: Element) -> Node | None:
    if not element.has_only_elements() or not element.elements() or element.elements()[0].children:
        return None
    resource = element.elements()[0]
    if resource.name == "ri:attachment" and resource.attributes.get("ri:filename"):
        attrs: dict[str, Any] = {"type": "file", "id": resource.attributes["ri:filename"], "collection": ""}
        extras = other_attributes(resource, "ri:filename")
    elif resource.name == "ri:url" and "ri:value" in resource.attributes:
        attrs, extras = (
            {"type": "external", "url": resource.attributes["ri:value"]},
            other_attributes(resource, "ri:value"),
        )
    else:
        return None
    if "ac:alt" in element.attributes:
        attrs["alt"] = element.attributes["ac:alt"]
    return identified({"type": "media", "attrs": attrs}, extras)


def _layout(given: dict[str, str], extras: Extras) -> dict[str, Any]:
    layout, align = given.get("ac:layout"), given.get("ac:align")
    if layout in _ALIGNMENTS and align == _ALIGNMENTS[layout]:
        return {"layout": layout}
    for key in ("ac:layout", "ac:align"):
        if key in given:
            extras[f"@{key}"] = given[key]
    extras["layout"] = "own"
    by_alignment = {"left": "align-start", "right": "align-end"}.get(align or "", "center")
    return {"layout": layout if layout in _ALIGNMENTS else by_alignment}


def _width(given: dict[str, str], extras: Extras) -> dict[str, Any]:
    width = number(given.get("ac:width"))
    if width is not None and given.get("ac:custom-width") == "true":
        return {"width": width, "widthType": "pixel"}
    percent = number(given.get("ac:width", "").removesuffix("%"))
    if percent is not None and given["ac:width"].endswith("%") and "ac:custom-width" not in given:
        return {"width": percent}
    for key in ("ac:width", "ac:custom-width"):
        if key in given:
            extras[f"@{key}"] = given[key]
    return {}


def _numeric(given: dict[str, str], key: str, name: str, attrs: dict[str, Any], extras: Extras) -> None:
    value = number(given.get(key))
    if value is not None:
        attrs[name] = value
    elif key in given:
        extras[f"@{key}"] = given[key]


def _border(part: Element) -> Mark | None:
    given = part.attributes
    size = number(given.get("size"))
    if part.children or set(given) != {"key", "size", "color"} or given["key"] != "border" or size is None:
        return None
    return {"type": "border", "attrs": {"size": size, "color": given["color"]}}


def _caption(reading: Reading, part: Element) -> Node | None:
    inner, extras = part.children, Extras()
    wrapped = part.elements()
    if (
        len(wrapped) == 1
        and wrapped[0].name == "p"
        and part.has_only_elements()
        and not wrapped[0].attributes
    ):
        inner = wrapped[0].children
    else:
        extras["bare"] = "1"
    content, spellings = reading.inline(inner)
    extras |= other_attributes(part, "ac:local-id") | spellings
    node: Node = {"type": "caption", "content": content} if content else {"type": "caption"}
    return identified(node, extras, part.attributes.get("ac:local-id"))


def _resource(media: Node) -> str | None:
    attrs = attributes(media)
    extras = unpack(attrs.get("localId"))
    if media.get("type") != "media" or extras[0] is not None or "occurrenceKey" in attrs:
        return None
    if attrs.get("type") == "external" and isinstance(attrs.get("url"), str):
        return tag("ri:url", {"ri:value": attrs["url"], **attributes_in(extras[1])})
    if attrs.get("type") == "file" and attrs.get("collection") == "" and isinstance(attrs.get("id"), str):
        return tag("ri:attachment", {"ri:filename": attrs["id"], **attributes_in(extras[1])})
    return None


def _write_layout(attrs: dict[str, Any], extras: Extras) -> dict[str, str] | None:
    layout, width = attrs.get("layout"), attrs.get("width")
    given: dict[str, str] = {}
    if "layout" not in extras:
        if not isinstance(layout, str) or layout not in _ALIGNMENTS:
            return None
        given = {"ac:align": _ALIGNMENTS[layout], "ac:layout": layout}
    if width is None:
        return given if "widthType" not in attrs else None
    if attrs.get("widthType") == "pixel":
        return {**given, "ac:width": str(width), "ac:custom-width": "true"}
    return {**given, "ac:width": f"{width}%"} if "widthType" not in attrs else None


def _write_media(media: Node) -> dict[str, str]:
    attrs = attributes(media)
    pairs = (("width", "ac:original-width"), ("height", "ac:original-height"), ("alt", "ac:alt"))
    return {key: str(attrs[name]) for name, key in pairs if name in attrs}


def _write_marks(media: Node, given: dict[str, str]) -> str | None:
    written = ""
    for mark in marks_of(media):
        attrs = attributes(mark)
        if mark["type"] == "border" and set(attrs) == {"size", "color"}:
            written += tag(
                "ac:adf-mark", {"key": "border", **{key: str(value) for key, value in attrs.items()}}
            )
        elif mark["type"] == "link" and set(attrs) == {"href"} and "ac:href" not in given:
            given["ac:href"] = attrs["href"]
        else:
            return None
    return written
