"""Confluence storage format: read it, write it, find and replace its sections.

Both ways are checked as they go: what was read is written again and compared with the source, what was
written is read again and compared with the tree. A block that does not come back equal is kept verbatim.
"""

from mooring.text.errors import UnreadableSource
from mooring.text.report import Report
from mooring.text.schema import is_valid
from mooring.text.storage_blocks import BlockReader
from mooring.text.storage_layouts import LOOSE
from mooring.text.storage_macros import ADF_MACRO
from mooring.text.storage_reading import raw
from mooring.text.storage_sections import Section, locate, outline, splice
from mooring.text.storage_write import BlockWriter
from mooring.text.storage_write_inline import write_as_json
from mooring.text.storage_xml import Child, Source, parse, shapes, tag
from mooring.text.tree import (
    Node,
    attributes,
    canonical,
    children,
    doc,
    foreign,
    is_raw,
    node,
    raw_block,
    text,
)

__all__ = ["Section", "locate", "outline", "read", "splice", "write"]


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
    made = doc(*_checked_blocks(parsed, report))
    for path, name in foreign(made):
        report.kept(path, f"`{name}` has no node and is kept as its source")
    return made


def write(doc: Node, report: Report, *, dialect: str = "extended") -> str:  # noqa: ARG001
    """The document as storage format; there is only one dialect."""
    blocks = children(doc)
    quiet = Report()
    unchecked = _unchecked(blocks, quiet)
    if _reads_as(unchecked, blocks):
        report.entries += quiet.entries
        return _joined(unchecked)
    return _joined([_checked_text(blocks, index, report) for index in range(len(blocks))])


def _checked_blocks(parsed: Source, report: Report) -> list[Node]:
    output: list[Node] = []
    pieces = BlockReader(parsed, report).top(parsed.children)
    all_nodes = [node for _, nodes in pieces for node in nodes]
    sound = is_valid(doc(*all_nodes)) or all(_is_sound(parsed, piece, nodes) for piece, nodes in pieces)
    if sound and _writes_again(parsed, parsed.children, all_nodes):
        return all_nodes
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
    return _is_sound(parsed, piece, nodes) and _writes_again(parsed, piece, nodes)


def _is_sound(parsed: Source, piece: list[Child], nodes: list[Node]) -> bool:
    """Are these nodes valid? A piece with ADF that we wrote as JSON is not judged."""
    return is_valid(doc(*nodes)) or any(_holds_json(parsed.verbatim(child)) for child in piece)


def _writes_again(parsed: Source, piece: list[Child], nodes: list[Node]) -> bool:
    """Do these nodes write the source again?"""
    wanted = shapes(piece, parsed)
    if _shapes_of(_joined(_unchecked(nodes, Report()))) == wanted:
        return True
    checked = [_checked_text(nodes, at, Report()) for at in range(len(nodes))]
    return _shapes_of(_joined(checked)) == wanted


def _unchecked(blocks: list[Node], report: Report) -> list[str]:
    writer = BlockWriter(report)
    return [
        writer.block(block, ("content", at), bare=writer.is_bare(blocks, at))
        for at, block in enumerate(blocks)
    ]


def _holds_json(source: str) -> bool:
    return f'ac:name="{ADF_MACRO}"' in source


def _shapes_of(written: str) -> object:
    parsed = parse(written)
    return shapes(parsed.children, parsed)


def _checked_text(blocks: list[Node], index: int, report: Report) -> str:
    block, path, quiet = blocks[index], ("content", index), Report()
    writer = BlockWriter(quiet)
    bare = writer.is_bare(blocks, index)
    written = writer.block(block, path, bare=bare)
    # Text that lost its bareness to a new neighbour is meant to be read differently.
    if _reads_back(written, block) or (not bare and writer.is_bare([block], 0)):
        report.entries += quiet.entries
        return written
    return (
        BlockWriter(report).foreign(block, path)
        if _foreign_reads_back(block)
        else _as_json(block, index, report)
    )


def _foreign_reads_back(block: Node) -> bool:
    return _reads_back(BlockWriter(Report()).foreign(block, ()), block)


def _as_json(block: Node, index: int, report: Report) -> str:
    report.escaped(("content", index), f"`{block['type']}` has no storage form and is written as JSON")
    return write_as_json(block)


def _reads_back(written: str, block: Node) -> bool:
    if is_raw(block, "storage"):
        return "localId" not in attributes(block) and _is_readable(written)
    return _reads_as([written], [block])


def _is_readable(written: str) -> bool:
    try:
        parse(_joined([written]))
    except UnreadableSource:
        return False
    return True


def _reads_as(written: list[str], blocks: list[Node]) -> bool:
    """Do these texts give these blocks, read boldly or cautiously? JSON in one says nothing about another."""
    try:
        parsed = parse(_joined(written))
    except UnreadableSource:
        return False
    wanted = canonical(doc(*blocks))
    if not is_valid(wanted) and not all(
        _holds_json(each) or is_valid(canonical(doc(block)))
        for each, block in zip(written, blocks, strict=True)
    ):
        return False
    readers = (BlockReader(parsed, Report()), BlockReader(parsed, Report(), cautious=True))
    return any(
        canonical(doc(*(node for _, nodes in reader.top(parsed.children) for node in nodes))) == wanted
        for reader in readers
    )


def _joined(written: list[str]) -> str:
    """One text of all blocks; with layouts on the page, loose blocks stand in sections of their own."""
    if not any(map(_is_section, written)):
        return "".join(written)
    sections: list[str] = []
    loose: list[str] = []
    for each in [*written, ""]:
        if each and not _is_section(each):
            loose.append(each)
            continue
        if loose:
            cell = tag("ac:layout-cell", {}, "".join(loose))
            sections.append(tag("ac:layout-section", {"ac:type": LOOSE, "ac:breakout-mode": "default"}, cell))
            loose = []
        sections.append(each)
    return tag("ac:layout", {}, "".join(sections))


def _is_section(written: str) -> bool:
    return written.startswith("<ac:layout-section")
