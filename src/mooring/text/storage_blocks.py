"""Blocks of storage format into ADF."""

from mooring.text.content import ALLOWED
from mooring.text.report import Report
from mooring.text.storage_adf import is_inline_adf, read_block_adf
from mooring.text.storage_ids import Extras
from mooring.text.storage_images import read_image
from mooring.text.storage_inline import read_inline
from mooring.text.storage_layouts import read_layout
from mooring.text.storage_macros import is_adf_macro, is_block_macro, is_inline_macro, read_macro
from mooring.text.storage_reading import (
    Place,
    identified,
    number,
    other_attributes,
    raw,
    with_extras,
)
from mooring.text.storage_tables import read_table
from mooring.text.storage_tasks import read_tasks
from mooring.text.storage_texts import BARE, read_bare_text, read_text_block, settle_bareness
from mooring.text.storage_xml import Child, Element, Markup, Source
from mooring.text.tree import Node

_HEADINGS = frozenset({"h1", "h2", "h3", "h4", "h5", "h6"})
_BLOCKS = _HEADINGS | {
    "p", "ul", "ol", "table", "blockquote", "hr", "div", "pre", "section", "details", "ac:layout",
    "ac:layout-section", "ac:task-list", "ac:macro", "at:declarations", "dl", "form", "iframe",
}  # fmt: skip
_CARDS = {"block": "blockCard", "embed": "embedCard"}


class BlockReader:
    """Reads a parsed source; `cautious` keeps formatted text verbatim."""

    def __init__(self, source: Source, report: Report, *, cautious: bool = False) -> None:
        self.source = source
        self.report = report
        self.cautious = cautious

    def inline(self, children: list[Child]) -> tuple[list[Node], Extras]:
        return read_inline(self, children)

    def blocks(self, children: list[Child], place: Place) -> list[Node]:
        """What a container holds: never nothing, because ADF does not allow that."""
        return self._blocks(children, place) or [identified({"type": "paragraph"}, {BARE: "1"})]

    def top(self, children: list[Child]) -> list[tuple[list[Child], list[Node]]]:
        """The blocks of the document, each with what it was read from."""
        place = Place()
        return [(piece, self._piece(piece, place)) for piece in _pieces(children) if not _is_blank(piece)]

    def _blocks(self, children: list[Child], place: Place) -> list[Node]:
        pieces = _pieces(children)
        if len(pieces) == 1 and _is_blank(pieces[0]):
            return [read_bare_text(self, pieces[0])]
        return [node for piece in pieces if not _is_blank(piece) for node in self._piece(piece, place)]

    def _piece(self, piece: list[Child], place: Place) -> list[Node]:
        """One block element, or a run of text."""
        first = piece[0]
        if len(piece) == 1 and not isinstance(first, str):
            if isinstance(first, Markup):
                return [raw(self, first)]
            if first.name == "ac:layout" and place.kind == "doc":
                return read_layout(self, first) or [raw(self, first)]
            if is_block(first):
                return [self._block(first, place)]
        if all(is_doubtful(child) or _is_space(child) for child in piece):
            return [self._block(child, place) for child in piece if isinstance(child, Element)]
        return [read_bare_text(self, piece)]

    def _block(self, element: Element, place: Place) -> Node:
        node = None if place.is_too_deep else self._read(element, place)
        if node is not None and (is_adf_macro(element) or node["type"] in ALLOWED.get(place.kind, ())):
            return node
        return raw(self, element)

    def _read(self, element: Element, place: Place) -> Node | None:
        match element.name:
            case "p" | "h1" | "h2" | "h3" | "h4" | "h5" | "h6":
                card = self._wrapped_card(element)
                return card or read_text_block(self, element, place)
            case "ul" | "ol":
                return self._list(element, place)
            case "table":
                return read_table(self, element, place)
            case "blockquote":
                return self._quote(element, place)
            case "hr" if not element.children:
                return _leaf(element, {"type": "rule"})
            case "ac:structured-macro":
                return read_macro(self, element, place)
            case "ac:image":
                return read_image(self, element)
            case "ac:task-list":
                return read_tasks(self, element)
            case "ac:adf-extension":
                return read_block_adf(self, element, place)
            case "a":
                return _card(element)
            case _:
                return None

    def _list(self, element: Element, place: Place) -> Node | None:
        items: list[Node] = []
        if not element.has_only_elements() or not element.elements():
            return None
        for item in element.elements():
            if item.name != "li":
                return None
            content = self.blocks(item.children, place.inside("listItem"))
            node: Node = {"type": "listItem", "content": content}
            items.append(
                identified(node, other_attributes(item, "local-id"), item.attributes.get("local-id"))
            )
        order = number(element.attributes.get("start")) if element.name == "ol" else None
        known = ("local-id", "start") if isinstance(order, int) and order >= 0 else ("local-id",)
        extras = other_attributes(element, *known) | settle_bareness(items)
        made: Node = {"type": "orderedList" if element.name == "ol" else "bulletList"}
        if "start" in known:
            made["attrs"] = {"order": order}
        made["content"] = items
        return identified(made, extras, element.attributes.get("local-id"))

    def _quote(self, element: Element, place: Place) -> Node:
        node: Node = {
            "type": "blockquote",
            "content": self.blocks(element.children, place.inside("blockquote")),
        }
        return identified(node, other_attributes(element, "local-id"), element.attributes.get("local-id"))

    def _wrapped_card(self, element: Element) -> Node | None:
        """A paragraph that holds nothing but a card is the card."""
        if element.name != "p" or element.attributes or len(element.children) != 1:
            return None
        inner = element.children[0]
        card = _card(inner) if isinstance(inner, Element) and inner.name == "a" else None
        return with_extras(card, {"in": "p"}) if card else None


def is_block(element: Element) -> bool:
    if element.name in _BLOCKS:
        return True
    if element.name == "ac:structured-macro":
        return is_block_macro(element)
    return element.name == "ac:adf-extension" and not is_inline_adf(element)


def is_doubtful(child: Child) -> bool:
    """Alone it is a block, beside text it stands in the text."""
    if not isinstance(child, Element):
        return False
    if child.name == "ac:structured-macro":
        return not is_inline_macro(child)
    return child.name == "ac:image" or (
        child.name == "a" and child.attributes.get("data-card-appearance") in _CARDS
    )


def _pieces(children: list[Child]) -> list[list[Child]]:
    """Block elements one by one, and the runs of text between them."""
    pieces: list[list[Child]] = []
    run: list[Child] = []
    for child in children:
        alone = isinstance(child, Element) and is_block(child)
        if alone and run:
            pieces.append(run)
            run = []
        if alone:
            pieces.append([child])
        else:
            run.append(child)
    if run:
        pieces.append(run)
    return [part for piece in pieces for part in _comments_apart(piece)]


def _comments_apart(piece: list[Child]) -> list[list[Child]]:
    """A run of nothing but comments and white space is that many blocks."""
    if any(isinstance(child, Markup) for child in piece) and all(
        isinstance(child, Markup) or _is_space(child) for child in piece
    ):
        return [[child] for child in piece if isinstance(child, Markup)]
    return [piece]


def _is_blank(piece: list[Child]) -> bool:
    return all(_is_space(child) for child in piece)


def _is_space(child: Child) -> bool:
    return isinstance(child, str) and not child.strip(" \t\r\n")


def _leaf(element: Element, node: Node) -> Node:
    return identified(node, other_attributes(element, "local-id"), element.attributes.get("local-id"))


def _card(element: Element) -> Node | None:
    given, shown = element.attributes, element.only_text()
    kind = _CARDS.get(given.get("data-card-appearance", ""))
    if kind is None or not given.get("href") or shown != given["href"]:
        return None
    known = ["href", "data-card-appearance", "local-id"]
    attrs: dict[str, object] = {"url": given["href"]}
    if kind == "embedCard":
        layout = given.get("data-layout")
        if layout not in (
            "center",
            "wide",
            "full-width",
            "wrap-left",
            "wrap-right",
            "align-start",
            "align-end",
        ):
            return None
        attrs["layout"] = layout
        known.append("data-layout")
        for key, name in (
            ("data-width", "width"),
            ("data-original-height", "originalHeight"),
            ("data-original-width", "originalWidth"),
        ):
            value = number(given.get(key))
            if value is not None:
                attrs[name] = value
                known.append(key)
    node: Node = {"type": kind, "attrs": attrs}
    return identified(node, other_attributes(element, *known), given.get("local-id"))
