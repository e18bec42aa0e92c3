"""Tables as Markdown: GFM when every cell is one paragraph, directives when cells hold blocks or span."""

from typing import Protocol

from mooring.text.markdown.attributes import ID, Pairs, block_pairs, pairs_of, render
from mooring.text.markdown.inexpressible import Inexpressible
from mooring.text.markdown.inline_writer import InlineWriter
from mooring.text.tree import Node, attributes, children, marks_of

_KEYS = frozenset({"type", "attrs", "content", "marks"})
BAR = "\\|"
_RULES = {None: "---", "center": ":---:", "end": "---:"}


class Blocks(Protocol):
    """What a table needs of the block writer."""

    line: InlineWriter

    def sequence(self, content: list[Node], parent: str, *, tight: bool = False) -> str: ...
    def container(self, name: str, pairs: Pairs, body: str, label: str | None = None) -> str: ...
    def with_line(
        self, item: Node, parent: str, block: str, extra: Pairs | None = None, without: tuple[str, ...] = ()
    ) -> str: ...


class TableWriter:
    def __init__(self, blocks: Blocks) -> None:
        self._blocks = blocks

    def table(self, item: Node, parent: str, _marker: str) -> str:
        rows = children(item)
        if len(item) == 2 and (cells := _bare_cells(rows)):
            return self._bare_pipes(cells)
        if not rows or not all(_is_row(row) for row in rows):
            raise Inexpressible
        header = _header_form(rows)
        if header and all(_is_simple_row(row) for row in rows):
            extra = [] if header == "row" else [("header", header)]
            return self._blocks.with_line(item, parent, self._pipes(rows), extra)
        body = "\n".join(self._row(row) for row in rows)
        return self._blocks.container("table", block_pairs(item, parent), body)

    def _bare_pipes(self, cells: list[list[list[Node]]]) -> str:
        write = self._blocks.line.write
        lines = [
            f"| {' | '.join([write(each).replace('|', BAR) if each else '' for each in row])} |"
            for row in cells
        ]
        lines.insert(1, "| " + " | ".join(["---"] * len(cells[0])) + " |")
        return "\n".join(lines)

    def _pipes(self, rows: list[Node]) -> str:
        columns = list(zip(*(children(row) for row in rows), strict=True))
        aligned = [_common_alignment(column) for column in columns]
        lines: list[str] = []
        for index, row in enumerate(rows):
            cells = [
                self._cell(cell, row if not at else None, aligned[at])
                for at, cell in enumerate(children(row))
            ]
            lines.append("| " + " | ".join(cells) + " |")
            if not index:
                lines.append("| " + " | ".join(_RULES[each] for each in aligned) + " |")
        return "\n".join(lines)

    def _cell(self, cell: Node, row: Node | None, aligned: str | None) -> str:
        paragraph = children(cell)[0]
        if row is None and len(cell) == 2 and len(paragraph) <= 2 and "attrs" not in paragraph:
            return self._blocks.line.write(children(paragraph)).replace("|", BAR)
        pairs = pairs_of(cell)
        if row and attributes(row):
            pairs.insert(0, ("row", attributes(row)["localId"]))
        own = render(pairs)
        made = self._blocks.line.write(children(paragraph))
        if aligned:
            paragraph = {
                **paragraph,
                "marks": [mark for mark in marks_of(paragraph) if mark["type"] != "alignment"],
            }
        inner = render(block_pairs(paragraph, cell["type"]))
        if inner and not made and not own:
            own = "{}"
        return " ".join(part for part in (own, made, inner) if part).replace("|", BAR)

    def _row(self, row: Node) -> str:
        body = "\n".join(self._block_cell(cell) for cell in children(row))
        return self._blocks.container("row", pairs_of(row), body)

    def _block_cell(self, cell: Node) -> str:
        content = children(cell)
        if not content:
            raise Inexpressible
        name = "header" if cell["type"] == "tableHeader" else "cell"
        pairs = pairs_of(cell)
        if len(content) == 1 and set(content[0]) <= {"type", "content"} and content[0]["type"] == "paragraph":
            return f"::{name}[{self._blocks.line.write_label(children(content[0]))}]{render(pairs)}"
        return self._blocks.container(name, pairs, self._blocks.sequence(content, cell["type"]))


def _bare_cells(rows: list[Node]) -> list[list[list[Node]]] | None:
    """The texts of the most common table: a row of headers, then cells, each a paragraph, no attributes."""
    made: list[list[list[Node]]] = []
    kind, width = "tableHeader", 0
    for row in rows:
        cells = row.get("content")
        if row["type"] != "tableRow" or len(row) != 2 or not cells or (width and len(cells) != width):
            return None
        texts: list[list[Node]] = []
        for cell in cells:
            content = cell.get("content")
            if cell["type"] != kind or len(cell) != 2 or not content or len(content) != 1:
                return None
            paragraph: Node = content[0]
            if paragraph["type"] != "paragraph" or len(paragraph) > 2:
                return None
            found = paragraph.get("content")
            if len(paragraph) == 2 and not found:
                return None
            texts.append(found or [])
        made.append(texts)
        kind, width = "tableCell", len(cells)
    return made


def _is_row(row: Node) -> bool:
    if row["type"] != "tableRow" or not _KEYS.issuperset(row) or "marks" in row:
        return False
    return all(
        cell["type"] in ("tableCell", "tableHeader") and _KEYS.issuperset(cell) and "marks" not in cell
        for cell in children(row)
    )


def _header_form(rows: list[Node]) -> str | None:
    """Where the header cells are: `row`, `column`, `both`, `none`; None for any other pattern."""
    kinds = [[cell["type"] == "tableHeader" for cell in children(row)] for row in rows]
    width = len(kinds[0])
    if not width:
        return None
    for form in ("row", "none", "both", "column"):
        first = [header_at(form, 0, column) for column in range(width)]
        other = [header_at(form, 1, column) for column in range(width)]
        if kinds[0] == first and all(line == other for line in kinds[1:]):
            return form
    return None


def header_at(form: str, row: int, column: int) -> bool:
    return (row == 0 and form in ("row", "both")) or (column == 0 and form in ("column", "both"))


def _is_simple_row(row: Node) -> bool:
    if "attrs" in row:
        pairs = pairs_of(row)
        if len(pairs) != 1 or pairs[0][0] != ID:
            return False
    return all(_is_simple_cell(cell) for cell in children(row))


def _is_simple_cell(cell: Node) -> bool:
    content = children(cell)
    if len(content) != 1 or content[0]["type"] != "paragraph" or not _KEYS.issuperset(content[0]):
        return False
    attrs = attributes(cell)
    return not attrs or (attrs.get("colspan", 1) == 1 and attrs.get("rowspan", 1) == 1)


def _common_alignment(column: tuple[Node, ...]) -> str | None:
    if "marks" not in children(column[0])[0]:
        return None
    found = {_alignment(children(cell)[0]) for cell in column}
    return found.pop() if len(found) == 1 else None


def _alignment(paragraph: Node) -> str | None:
    marks = marks_of(paragraph)
    if len(marks) != 1 or marks[0] not in (
        {"type": "alignment", "attrs": {"align": each}} for each in ("center", "end")
    ):
        return None
    return str(marks[0]["attrs"]["align"])
