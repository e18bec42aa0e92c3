"""Page layouts of storage format into ADF."""

from mooring.text.storage_ids import Extras
from mooring.text.storage_reading import Place, Reading, identified, number, other_attributes, raw
from mooring.text.storage_xml import Element
from mooring.text.tree import Node, attributes

# The columns each named layout stands for; the first name with the same widths is the one to write.
LAYOUTS: dict[str, tuple[float, ...]] = {
    "two_equal": (50, 50),
    "two_left_sidebar": (33.33, 66.66),
    "two_right_sidebar": (66.66, 33.33),
    "three_equal": (33.33, 33.33, 33.33),
    "three_with_sidebars": (25, 50, 25),
}
# Blocks beside layouts stand in a section of this type.
LOOSE = "fixed-width"
_SECTION = ("ac:type", "ac:breakout-mode", "ac:breakout-width", "ac:local-id")


def read_layout(reading: Reading, layout: Element) -> list[Node] | None:
    """The sections of a layout as blocks of the document, or None when they cannot be told apart again."""
    sections = layout.elements()
    if layout.attributes or not layout.has_only_elements() or not sections:
        return None
    output: list[Node] = []
    before_loose = False
    for section in sections:
        loose = _loose_blocks(reading, section)
        if loose is None or before_loose:
            output.append(_section(reading, section) or raw(reading, section))
            before_loose = False
        else:
            output += loose
            before_loose = True
    return output if any(is_section(node) for node in output) else None


def is_section(node: Node) -> bool:
    """Does this block make the page a layout?"""
    return node["type"] == "layoutSection" or (
        node["type"] == "extension" and attributes(node).get("extensionKey") == "ac:layout-section"
    )


def _loose_blocks(reading: Reading, section: Element) -> list[Node] | None:
    cells = section.elements()
    if section.name != "ac:layout-section" or section.attributes != {
        "ac:type": LOOSE,
        "ac:breakout-mode": "default",
    }:
        return None
    if (
        len(cells) != 1
        or cells[0].name != "ac:layout-cell"
        or cells[0].attributes
        or not section.has_only_elements()
    ):
        return None
    return reading.blocks(cells[0].children, Place()) if cells[0].children else None


def _section(reading: Reading, section: Element) -> Node | None:
    given, cells = section.attributes, section.elements()
    widths = LAYOUTS.get(given.get("ac:type", ""))
    if section.name != "ac:layout-section" or widths is None or len(cells) != len(widths):
        return None
    if not section.has_only_elements() or any(cell.name != "ac:layout-cell" for cell in cells):
        return None
    columns = [_column(reading, cell, width) for cell, width in zip(cells, widths, strict=True)]
    extras = other_attributes(section, *_SECTION)
    node: Node = {"type": "layoutSection"}
    marks = _breakout(given, extras)
    if marks:
        node["marks"] = marks
    node["content"] = columns
    return identified(node, extras, given.get("ac:local-id"))


def _breakout(given: dict[str, str], extras: Extras) -> list[Node]:
    mode, width = given.get("ac:breakout-mode"), number(given.get("ac:breakout-width"))
    if mode in ("wide", "full-width") and (width is not None or "ac:breakout-width" not in given):
        return [
            {"type": "breakout", "attrs": {"mode": mode, **({"width": width} if width is not None else {})}}
        ]
    if mode == "default" and "ac:breakout-width" not in given:
        return []
    extras["breakout"] = "own"
    extras |= {f"@{key}": given[key] for key in ("ac:breakout-mode", "ac:breakout-width") if key in given}
    return []


def _column(reading: Reading, cell: Element, width: float) -> Node:
    own = number(cell.attributes.get("ac:width"))
    valign = cell.attributes.get("ac:valign")
    known = ["ac:local-id"]
    attrs: dict[str, object] = {"width": width if own is None else own}
    if own is not None:
        known.append("ac:width")
    if valign in ("top", "middle", "bottom"):
        attrs["valign"] = valign
        known.append("ac:valign")
    content = reading.blocks(cell.children, Place("layoutColumn", 1))
    node: Node = {"type": "layoutColumn", "attrs": attrs, "content": content}
    return identified(node, other_attributes(cell, *known), cell.attributes.get("ac:local-id"))
