"""ADF's tables as storage format."""

from collections.abc import Callable
from typing import Any, cast

from mooring.text.report import Path
from mooring.text.storage_ids import attributes_in, unpack
from mooring.text.storage_tables import TABLE_ATTRIBUTES, cells_in_columns, column_style
from mooring.text.storage_texts import BARE, has_one_text
from mooring.text.storage_xml import Unwritable, tag
from mooring.text.tree import Node, attributes, children, marks_of

Blocks = Callable[..., str]
_CELLS = {"tableCell": "td", "tableHeader": "th"}
_CELL_KNOWN = {"colspan", "rowspan", "colwidth", "background", "valign", "localId"}


def write_table_parts(node: Node, path: Path, blocks: Blocks) -> str | None:
    """The table, or None when it has something a table of storage format cannot have."""
    attrs, rows = attributes(node), children(node)
    if set(attrs) - {*TABLE_ATTRIBUTES.values(), "localId"} or not _is_regular(rows):
        return None
    identifier, extras = unpack(attrs.get("localId"))
    widths = None if "colgroup" in extras else _common_widths(rows)
    columns = extras.get("colgroup", "")
    if widths is not None:
        columns = tag("colgroup", {}, "".join(tag("col", {"style": column_style(width)}) for width in widths))
    writing = _Rows(blocks, bare=BARE in extras, own_widths=widths is None)
    written = [writing.row(row, (*path, "content", index)) for index, row in enumerate(rows)]
    body = "".join(written) if "no-tbody" in extras else _in_sections(rows, written)
    given = {key: _text(attrs[name]) for key, name in TABLE_ATTRIBUTES.items() if name in attrs}
    if identifier is not None:
        given["ac:local-id"] = identifier
    return tag("table", {**given, **attributes_in(extras)}, columns + body)


class _Rows:
    def __init__(self, blocks: Blocks, *, bare: bool, own_widths: bool) -> None:
        self._blocks = blocks
        self._bare = bare
        self._own_widths = own_widths

    def row(self, row: Node, path: Path) -> str:
        cells = [self._cell(cell, (*path, "content", index)) for index, cell in enumerate(children(row))]
        identifier, extras = unpack(attributes(row).get("localId"))
        given = {} if identifier is None else {"local-id": identifier}
        return tag("tr", {**given, **attributes_in(extras)}, "".join(cells))

    def _cell(self, cell: Node, path: Path) -> str:
        attrs = attributes(cell)
        identifier, extras = unpack(attrs.get("localId"))
        given = {name: str(attrs[name]) for name in ("colspan", "rowspan") if name in attrs}
        if "background" in attrs:
            given["data-highlight-colour"] = attrs["background"]
        if "valign" in attrs:
            given["data-valign"] = attrs["valign"]
        if self._own_widths and "colwidth" in attrs:
            given["data-colwidth"] = ",".join(map(str, _widths(attrs["colwidth"])))
        if identifier is not None:
            given["local-id"] = identifier
        content = self._blocks(children(cell), path, bare=self._bare and has_one_text(cell))
        return tag(_CELLS[cell["type"]], {**given, **attributes_in(extras)}, content)


def _widths(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise Unwritable
    return cast(list[Any], value)


def _is_regular(rows: list[Node]) -> bool:
    for row in rows:
        if row["type"] != "tableRow" or set(attributes(row)) - {"localId"} or marks_of(row):
            return False
        for cell in children(row):
            if cell["type"] not in _CELLS or set(attributes(cell)) - _CELL_KNOWN or marks_of(cell):
                return False
    return bool(rows)


def _common_widths(rows: list[Node]) -> list[float] | None:
    """The width of each column, if every cell agrees."""
    widths: dict[int, float] = {}
    first = children(rows[0])
    placed = cells_in_columns(rows) if first and "colwidth" in attributes(first[0]) else None
    if placed is None:
        return None
    for cell, start, span in placed:
        own: Any = attributes(cell).get("colwidth")
        if not isinstance(own, list) or len(own) != span:  # pyright: ignore[reportUnknownArgumentType]
            return None
        for offset, width in enumerate(own):  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
            if isinstance(width, bool) or not isinstance(width, int | float) or width < 0:
                return None
            if _unsteady(width) or widths.setdefault(start + offset, width) != width:
                return None
    ordered = [widths.get(column) for column in range(len(widths))]
    return [width for width in ordered if width is not None] if None not in ordered and ordered else None


def _unsteady(width: float) -> bool:
    """Numbers whose text would be read as another number or another type."""
    return (isinstance(width, float) and width.is_integer()) or "e" in str(float(width))


def _in_sections(rows: list[Node], written: list[str]) -> str:
    sections: list[tuple[str, list[str]]] = []
    for row, text in zip(rows, written, strict=True):
        begins = unpack(attributes(row).get("localId"))[1].get("section")
        if begins or not sections:
            sections.append((begins or "tbody", []))
        sections[-1][1].append(text)
    return "".join(tag(name, {}, "".join(texts)) for name, texts in sections)


def _text(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)
