"""What the parts of the storage reader ask each other for."""

from dataclasses import dataclass
from typing import Any, Protocol

from mooring.text.report import Report
from mooring.text.storage_ids import Extras, pack, unpack
from mooring.text.storage_xml import Child, Element, Source
from mooring.text.tree import Mark, Node, attributes, compact_json, raw_block, raw_inline

# Below this many containers everything is kept verbatim: nobody reads it, and recursion stays bounded.
MAX_CONTAINERS = 60


@dataclass(frozen=True, slots=True)
class Place:
    """Where a block stands: the type of its parent node, and how many containers there are."""

    kind: str = "doc"
    depth: int = 0

    def inside(self, kind: str) -> "Place":
        return Place(kind, self.depth + 1)

    @property
    def is_too_deep(self) -> bool:
        return self.depth >= MAX_CONTAINERS


class Reading(Protocol):
    """The reader, as its parts see it."""

    source: Source
    report: Report
    # Keep formatted text verbatim instead of reading it: the second try for a block that came back unequal.
    cautious: bool

    def blocks(self, children: list[Child], place: Place) -> list[Node]: ...

    def inline(self, children: list[Child]) -> tuple[list[Node], Extras]: ...


def raw(reading: Reading, child: Child) -> Node:
    """Foreign block content, kept as written."""
    visible = child.text().strip() if isinstance(child, Element) else ""
    return raw_block("storage", reading.source.verbatim(child), visible, key=_key(child))


def raw_piece(reading: Reading, child: Child) -> Node:
    """Foreign inline content, kept as written."""
    visible = child.text() if isinstance(child, Element) else ""
    return raw_inline("storage", reading.source.verbatim(child), visible, key=_key(child))


def identified(node: Node, extras: Extras, identifier: str | None = None) -> Node:
    """The node with this id and these extras in its `localId`."""
    local_id = pack(identifier, extras)
    if local_id is None:
        return node
    return {**node, "attrs": {**attributes(node), "localId": local_id}}


def with_extras(node: Node, more: Extras) -> Node:
    identifier, extras = unpack(attributes(node).get("localId"))
    return identified(node, {**extras, **more}, identifier) if more else node


def other_attributes(element: Element, *known: str) -> Extras:
    """The attributes nobody reads, to be written back."""
    return {f"@{key}": value for key, value in element.attributes.items() if key not in known}


def short_marks(marks: list[Mark]) -> str:
    """Marks as text, for nodes that cannot carry them."""
    return compact_json([mark["type"] if set(mark) == {"type"} else mark for mark in marks])


def number(value: str | None) -> Any:
    """`300` and `33.3` as numbers, None for what would not be written the same way again."""
    if value is None:
        return None
    for kind in (int, float):
        try:
            made = kind(value)
        except ValueError:
            continue
        if str(made) == value:
            return made
    return None


def _key(child: Child) -> str:
    return child.name if isinstance(child, Element) else "markup"
