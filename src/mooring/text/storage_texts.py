"""Paragraphs and headings of storage format, and text that stands without a `p` around it.

The new editor writes `<li><p>a</p></li>`, the old one `<li>a</li>`. A list, table or quote that mostly does
the second says so once (`bare`), and only paragraphs that differ from their surroundings say so themselves.
"""

import re

from mooring.text.content import marks_allowed
from mooring.text.storage_ids import Extras, unpack
from mooring.text.storage_reading import (
    Place,
    Reading,
    identified,
    other_attributes,
    with_extras,
)
from mooring.text.storage_xml import Child, Element
from mooring.text.tree import Mark, Node, attributes, children

BARE, WRAPPED = "bare", "p"
STYLES = {"text-align: center;": "center", "text-align: right;": "end"}
_INDENT = re.compile(r"margin-left: (\d+)\.0px;\Z")
INDENT_STEP, DEEPEST_INDENT = 30, 6


def read_text_block(reading: Reading, element: Element, place: Place) -> Node:
    """`p` or `h1` … `h6`."""
    kind = "paragraph" if element.name == "p" else "heading"
    content, spellings = reading.inline(element.children)
    node: Node = {"type": kind}
    if kind == "heading":
        node["attrs"] = {"level": int(element.name[1])}
    extras = other_attributes(element, "local-id", "style", "data-font-size") | spellings
    marks = _marks(element, kind, place, extras, reading)
    if marks:
        node["marks"] = marks
    if content:
        node["content"] = content
    return identified(node, extras, element.attributes.get("local-id"))


def read_bare_text(reading: Reading, run: list[Child]) -> Node:
    """A paragraph for text that stands in its container without one."""
    content, spellings = reading.inline(run)
    node: Node = {"type": "paragraph", "content": content} if content else {"type": "paragraph"}
    return identified(node, {BARE: "1", **spellings})


def settle_bareness(containers: list[Node]) -> Extras:
    """Say once for all of these items or cells whether their text is bare; the notes for their parent."""
    simple = [container for container in containers if has_one_text(container)]
    bare = sum(1 for container in simple if _says(children(container)[0], BARE))
    if bare * 2 <= len(simple):
        return {}
    for container in simple:
        text = children(container)[0]
        says_bare = _says(text, BARE)
        settled = _without(text, BARE) if says_bare else with_extras(text, {WRAPPED: "1"})
        container["content"] = [settled, *children(container)[1:]]
    return {BARE: "1"}


def has_one_text(container: Node) -> bool:
    """Is its only paragraph its first child? Only then can the parent speak for it."""
    held = children(container)
    return (
        bool(held)
        and held[0]["type"] == "paragraph"
        and not any(child["type"] == "paragraph" for child in held[1:])
    )


def _marks(element: Element, kind: str, place: Place, extras: Extras, reading: Reading) -> list[Mark]:
    allowed = marks_allowed(kind, place.kind) if not reading.cautious else frozenset[str]()
    style, size = element.attributes.get("style"), element.attributes.get("data-font-size")
    marks: list[Mark] = []
    indent = _INDENT.match(style or "")
    steps, rest = divmod(int(indent[1]), INDENT_STEP) if indent else (0, 1)
    if style in STYLES and "alignment" in allowed:
        marks.append({"type": "alignment", "attrs": {"align": STYLES[style]}})
    elif rest == 0 and 1 <= steps <= DEEPEST_INDENT and "indentation" in allowed:
        marks.append({"type": "indentation", "attrs": {"level": steps}})
    elif style is not None:
        extras["@style"] = style
    if size == "small" and "fontSize" in allowed and not marks:
        marks.append({"type": "fontSize", "attrs": {"fontSize": "small"}})
    elif size is not None:
        extras["@data-font-size"] = size
    return marks


def _says(node: Node, note: str) -> bool:
    return note in unpack(attributes(node).get("localId"))[1]


def _without(node: Node, note: str) -> Node:
    identifier, extras = unpack(attributes(node).get("localId"))
    extras.pop(note, None)
    bare = {key: value for key, value in attributes(node).items() if key != "localId"}
    plain = {key: value for key, value in node.items() if key != "attrs"}
    return identified({**plain, **({"attrs": bare} if bare else {})}, extras, identifier)
