"""GFM tables as ADF tables."""

from mooring.text.markdown.attributes import Attributes
from mooring.text.markdown.reading import Reading
from mooring.text.markdown.tables_writer import header_at
from mooring.text.markdown.trimming import lead_attributes
from mooring.text.tree import Node

_ALIGNMENTS = {"text-align:center": "center", "text-align:right": "end"}


def read_table(reading: Reading, at: int, stop: int, given: Attributes) -> Node:
    form = given.pop("header", "row")
    rows: list[Node] = []
    for index in range(at, stop):
        kind = reading.tokens[index].type
        if kind == "tr_open":
            rows.append({"type": "tableRow", "content": []})
        elif kind in ("th_open", "td_open"):
            content = rows[-1]["content"]
            header = header_at(form, len(rows) - 1, len(content))
            content.append(_cell(reading, index, rows[-1], header))
    return reading.apply({"type": "table", "content": rows}, given)


def _cell(reading: Reading, at: int, row: Node, header: bool) -> Node:
    own, source = lead_attributes(reading.tokens[at + 1].content)
    own = dict(own or {})
    if "row" in own:
        row["attrs"] = {"localId": own.pop("row")}
    content, given = reading.text(source)
    paragraph: Node = {"type": "paragraph"}
    if content:
        paragraph["content"] = content
    aligned = _ALIGNMENTS.get(str(reading.tokens[at].attrs.get("style")))
    if aligned and "marks" not in given and "align" not in given:
        paragraph["marks"] = [{"type": "alignment", "attrs": {"align": aligned}}]
    reading.apply(paragraph, given)
    cell: Node = {"type": "tableHeader" if header else "tableCell", "content": [paragraph]}
    return reading.apply(cell, own)
