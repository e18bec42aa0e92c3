"""Tables of storage format into ADF."""

import re
from typing import Any

from mooring.text.storage_ids import Extras
from mooring.text.storage_reading import (
    Place,
    Reading,
    identified,
    number,
    other_attributes,
    with_extras,
)
from mooring.text.storage_texts import settle_bareness
from mooring.text.storage_xml import Element
from mooring.text.tree import Node, attributes, children

TABLE_ATTRIBUTES = {
    "data-layout": "layout",
    "data-table-width": "width",
    "data-table-display-mode": "displayMode",
    "data-number-column": "isNumberColumnEnabled",
}
_LAYOUTS = ("default", "wide", "full-width", "center", "align-start", "align-end")
_WIDTH = re.compile(r"width: (\d+(?:\.\d+)?)px;\Z")
# More columns than anyone has; a greater span is kept as written, a wider table has no widths.
_MOST_COLUMNS = 1000
_SECTIONS = ("thead", "tbody", "tfoot")


def read_table(reading: Reading, table: Element, place: Place) -> Node | None:
    """The table, or None when its parts are not where they usually are."""
    parts = table.elements()
    if not table.has_only_elements() or not parts:
        return None
    columns = parts[0] if parts[0].name == "colgroup" else None
    sections = parts[1:] if columns else parts
    extras: Extras = {}
    rows = _rows(reading, sections, place, extras)
    if not rows:
        return None
    attrs, unread = _attributes(table)
    extras |= unread
    if columns is not None and not _set_widths(columns, rows):
        extras["colgroup"] = reading.source.verbatim(columns)
    cells = [cell for row in rows for cell in children(row)]
    extras |= settle_bareness(cells)
    node: Node = {"type": "table", **({"attrs": attrs} if attrs else {}), "content": rows}
    return identified(node, extras, table.attributes.get("ac:local-id"))


def column_style(width: float) -> str:
    return f"width: {float(width)}px;"


def _attributes(table: Element) -> tuple[dict[str, Any], Extras]:
    given = table.attributes
    attrs: dict[str, Any] = {}
    extras = other_attributes(table, "ac:local-id", *TABLE_ATTRIBUTES)
    for key, name in TABLE_ATTRIBUTES.items():
        if key not in given:
            continue
        value: Any = given[key]
        if name == "width":
            value = number(value)
        elif name == "isNumberColumnEnabled":
            value = {"true": True, "false": False}.get(value)
        elif value not in (_LAYOUTS if name == "layout" else ("default", "fixed")):
            value = None
        if value is None:
            extras[f"@{key}"] = given[key]
        else:
            attrs[name] = value
    return attrs, extras


def _rows(reading: Reading, sections: list[Element], place: Place, extras: Extras) -> list[Node] | None:
    if all(part.name == "tr" for part in sections):
        extras["no-tbody"] = "1"
        found = [_row(reading, row, place) for row in sections]
        return [row for row in found if row] if all(found) else None
    rows: list[Node] = []
    for part in sections:
        if part.name not in _SECTIONS or part.attributes or not part.has_only_elements() or not part.children:
            return None
        for position, row in enumerate(part.elements()):
            made = _row(reading, row, place)
            if made is None:
                return None
            # A `tbody` is the usual one when it is the only one; every other section says where it begins.
            if position == 0 and (part.name != "tbody" or len(sections) > 1):
                made = with_extras(made, {"section": part.name})
            rows.append(made)
    return rows


def _row(reading: Reading, row: Element, place: Place) -> Node | None:
    if row.name != "tr" or not row.has_only_elements():
        return None
    cells = [_cell(reading, cell, place) for cell in row.elements()]
    if not all(cells):
        return None
    node: Node = {"type": "tableRow", "content": [cell for cell in cells if cell]}
    return identified(node, other_attributes(row, "local-id"), row.attributes.get("local-id"))


def _cell(reading: Reading, cell: Element, place: Place) -> Node | None:
    if cell.name not in ("td", "th"):
        return None
    kind = "tableHeader" if cell.name == "th" else "tableCell"
    given = cell.attributes
    attrs: dict[str, Any] = {}
    extras = other_attributes(
        cell, "local-id", "colspan", "rowspan", "data-highlight-colour", "data-valign", "data-colwidth"
    )
    for key in ("colspan", "rowspan"):
        value = number(given.get(key))
        if isinstance(value, int) and 0 < value <= _MOST_COLUMNS:
            attrs[key] = value
        elif key in given:
            extras[f"@{key}"] = given[key]
    if "data-highlight-colour" in given:
        attrs["background"] = given["data-highlight-colour"]
    if given.get("data-valign") in ("top", "middle", "bottom"):
        attrs["valign"] = given["data-valign"]
    elif "data-valign" in given:
        extras["@data-valign"] = given["data-valign"]
    _own_widths(given, attrs, extras)
    content = reading.blocks(cell.children, place.inside(kind))
    node: Node = {"type": kind, **({"attrs": attrs} if attrs else {}), "content": content}
    return identified(node, extras, given.get("local-id"))


def _own_widths(given: dict[str, str], attrs: dict[str, Any], extras: Extras) -> None:
    """Widths that no `colgroup` can say are written on the cell."""
    if "data-colwidth" not in given:
        return
    widths = [number(width) for width in given["data-colwidth"].split(",")] if given["data-colwidth"] else []
    if None in widths:
        extras["@data-colwidth"] = given["data-colwidth"]
    else:
        attrs["colwidth"] = widths


def _set_widths(columns: Element, rows: list[Node]) -> bool:
    """Give each cell the widths of its columns; False when the `colgroup` would not be written again so."""
    widths = column_widths(columns)
    if widths is None or any("colwidth" in attributes(cell) for row in rows for cell in children(row)):
        return False
    placed = cells_in_columns(rows)
    if placed is None or max((start + span for _, start, span in placed), default=0) != len(widths):
        return False
    for cell, start, span in placed:
        cell["attrs"] = {**attributes(cell), "colwidth": widths[start : start + span]}
    return True


def column_widths(columns: Element) -> list[float] | None:
    widths: list[float] = []
    for column in columns.elements():
        found = _WIDTH.match(column.attributes.get("style", ""))
        if column.name != "col" or column.children or set(column.attributes) != {"style"} or not found:
            return None
        value = float(found[1])
        if column_style(value) != column.attributes["style"]:
            return None
        widths.append(int(value) if value.is_integer() else value)
    return widths if widths and not columns.attributes and columns.has_only_elements() else None


def cells_in_columns(rows: list[Node]) -> list[tuple[Node, int, int]] | None:
    """(cell, first column, columns) of every cell, spans counted; None for an absurd number of columns."""
    placed: list[tuple[Node, int, int]] = []
    taken: dict[int, int] = {}
    for row in rows:
        column = 0
        following = {place: left - 1 for place, left in taken.items() if left > 1}
        for cell in children(row):
            while column in taken:
                column += 1
            span = max(int(attributes(cell).get("colspan") or 1), 1)
            if column + span > _MOST_COLUMNS:
                return None
            placed.append((cell, column, span))
            down = int(attributes(cell).get("rowspan") or 1)
            if down > 1:
                following |= dict.fromkeys(range(column, column + span), down - 1)
            column += span
        taken = following
    return placed
