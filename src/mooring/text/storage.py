"""Confluence storage format: read it, write it, find and replace its sections.

Both ways are checked as they go: what was read is written again and compared with the source, what was
written is read again and compared with the tree. A block that does not come back equal is kept verbatim.
"""

from mooring.text.errors import UnreadableSource
from mooring.text.report import Report
from mooring.text.schema import is_valid
from mooring.text.storage_blocks import BlockReader
from mooring.text.storage_layouts import LOOSE, is_section
from mooring.text.storage_reading import raw
from mooring.text.storage_write import BlockWriter
from mooring.text.storage_write_inline import write_as_json
from mooring.text.storage_xml import Child, Source, parse, shapes, tag
from mooring.text.tree import Node, attributes, children, doc, equal, is_raw, node, raw_block, text

__all__ = ["read", "write"]


def read(source: str | bytes, report: Report, *, lenient: bool = False) -> Node:
    """The document in this text. What ADF has no node for rides along verbatim."""
    try:
        parsed = parse(source)
    except UnreadableSource as error:
        if not lenient:
            raise
        report.escaped((), f"not readable as storage format ({error}); kept as a code block")
        shown = source.decode("utf-8", "replace") if isinstance(source, bytes) else source
        return doc(node("codeBlock", [text(shown)] if shown else [], language="xml"))
    return doc(*_checked_blocks(parsed, report))


def write(doc: Node, report: Report, *, dialect: str = "extended") -> str:  # noqa: ARG001
    """The document as storage format; there is only one dialect."""
    blocks = children(doc)
    written = [_checked_text(blocks, index, report) for index in range(len(blocks))]
    if not any(map(is_section, blocks)):
        return "".join(written)
    return _layout(blocks, written)


def _checked_blocks(parsed: Source, report: Report) -> list[Node]:
    output: list[Node] = []
    pieces = BlockReader(parsed, report).top(parsed.children)
    for piece, nodes in pieces:
        kept = nodes
        if not _comes_back(parsed, piece, nodes):
            kept = _second_try(parsed, piece, report)
        output += kept
    return output


def _second_try(parsed: Source, piece: list[Child], report: Report) -> list[Node]:
    reader = BlockReader(parsed, report, cautious=True)
    nodes = reader.top(piece)[0][1]
    if _comes_back(parsed, piece, nodes):
        return nodes
    source = "".join(parsed.verbatim(child) for child in piece)
    if len(piece) == 1:
        return [raw(reader, piece[0])]
    visible = "".join(child if isinstance(child, str) else "" for child in piece)
    return [raw_block("storage", source, visible.strip(), key="text")]


def _comes_back(parsed: Source, piece: list[Child], nodes: list[Node]) -> bool:
    """Are these nodes valid, and do they write the source again?"""
    if not is_valid({"version": 1, "type": "doc", "content": nodes}):
        return False
    quiet = BlockWriter(Report())
    written = [quiet.block(each, (), bare=quiet.is_bare(nodes, at)) for at, each in enumerate(nodes)]
    again = _layout(nodes, written) if any(map(is_section, nodes)) else "".join(written)
    reread = parse(again)
    return shapes(reread.children, reread) == shapes(piece, parsed)


def _checked_text(blocks: list[Node], index: int, report: Report) -> str:
    block, path, quiet = blocks[index], ("content", index), Report()
    writer = BlockWriter(quiet)
    bare = writer.is_bare(blocks, index)
    written = writer.block(block, path, bare=bare)
    # Text that lost its bareness to a new neighbour is meant to be read differently.
    if _reads_back(written, block) or (not bare and writer.is_bare([block], 0)):
        report.entries += quiet.entries
        return written
    return BlockWriter(report).foreign(block, path) if _foreign_reads_back(block) else _as_json(block, index, report)


def _foreign_reads_back(block: Node) -> bool:
    return _reads_back(BlockWriter(Report()).foreign(block, ()), block)


def _as_json(block: Node, index: int, report: Report) -> str:
    report.escaped(("content", index), f"`{block['type']}` has no storage form and is written as JSON")
    return write_as_json(block)


def _reads_back(written: str, block: Node) -> bool:
    try:
        parsed = parse(tag("ac:layout", {}, written) if is_section(block) else written)
    except UnreadableSource:
        return False
    if is_raw(block, "storage"):
        return "localId" not in attributes(block)
    return any(
        equal(doc(*(node for _, nodes in reader.top(parsed.children) for node in nodes)), doc(block))
        for reader in (BlockReader(parsed, Report()), BlockReader(parsed, Report(), cautious=True))
    )


def _layout(blocks: list[Node], written: list[str]) -> str:
    """With layouts on the page, loose blocks stand in sections of their own."""
    sections: list[str] = []
    loose: list[str] = []
    for block, text_of_block in [*zip(blocks, written, strict=True), (None, "")]:
        if block is not None and not is_section(block):
            loose.append(text_of_block)
            continue
        if loose:
            cell = tag("ac:layout-cell", {}, "".join(loose))
            sections.append(tag("ac:layout-section", {"ac:type": LOOSE, "ac:breakout-mode": "default"}, cell))
            loose = []
        sections.append(text_of_block)
    return tag("ac:layout", {}, "".join(sections))
