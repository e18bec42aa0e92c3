"""A document as extended Markdown. What the schema does not know is read back at once, because the reader
mends what it does not know, and written as ADF where that would change it."""

from collections.abc import Mapping

from mooring.text.errors import TextError
from mooring.text.markdown.grammar import MAX_DEPTH
from mooring.text.markdown.reader import read_blocks
from mooring.text.markdown.writer import BlockWriter, extended_writer
from mooring.text.report import Report
from mooring.text.schema import is_valid
from mooring.text.tree import Node, children, doc, equal


def write_extended(document: Node, report: Report, users: Mapping[str, str]) -> str:
    if set(document) - {"type", "version", "content"} or document.get("version", 1) != 1:
        report.lost((), "only `version` and `content` of the document itself have a Markdown form")
    made = "\n\n".join(write_blocks(children(document), report, users))
    return made + "\n" if made else ""


def write_blocks(blocks: list[Node], report: Report, users: Mapping[str, str]) -> list[str]:
    """Each top-level block by itself."""
    made = extended_writer(report, users).parts(blocks, "doc")
    if is_valid(doc(*blocks)) and not any(map(_admits_anything, blocks)) and not _is_deep(blocks):
        return made
    return [
        written
        if (is_valid(doc(block)) and not _admits_anything(block) and not _is_deep([block]))
        or _reads_back(written, block)
        else _as_adf(block, index, report, users)
        for index, (block, written) in enumerate(zip(blocks, made, strict=True))
    ]


def _admits_anything(block: Node) -> bool:
    """Of what an image in a synced block holds, the schema asks nothing."""
    return block["type"] == "bodiedSyncBlock" and any(
        child["type"] == "mediaSingle" for child in children(block)
    )


def _is_deep(blocks: list[Node]) -> bool:
    """Could these be nested more deeply than the reader follows?"""
    level = blocks
    for _ in range(MAX_DEPTH // 2):
        level = [child for item in level for child in children(item)]
        if not level:
            return False
    return True


def _as_adf(block: Node, index: int, report: Report, users: Mapping[str, str]) -> str:
    """With readable words if they come back, else as one piece of JSON."""
    found = Report()
    writer: BlockWriter = extended_writer(found, users, literal=True)
    written = writer.at(index, block)
    if not _reads_back(written, block):
        found = Report()
        written = extended_writer(found, users).fence(block, ("content", index))
    report.entries += found.entries
    return written


def _reads_back(written: str, block: Node) -> bool:
    try:
        found = [node for each in read_blocks(written, Report()) for node in each.nodes]
    except TextError:
        return False
    return equal(doc(*found), doc(block))
