"""Wiki markup of Jira and Confluence: read it, write it, find its sections."""

from mooring.text.errors import UnreadableSource
from mooring.text.report import Report
from mooring.text.storage_sections import Section, locate, splice
from mooring.text.tree import Node, canonical, children, doc, plain_text
from mooring.text.wiki_nodes import unsealed
from mooring.text.wiki_notes import report_notes
from mooring.text.wiki_sections import outline
from mooring.text.wiki_write import BlockWriter, noted_blocks

__all__ = ["Section", "locate", "outline", "read", "splice", "write"]


def read(source: str | bytes, report: Report, *, lenient: bool = False) -> Node:
    """The document that Atlassian's own reader would see in this markup. Every text is wiki markup, so only
    bytes that are no UTF-8 are refused."""
    text = _decoded(source, report, lenient=lenient)
    noted = noted_blocks(text)
    report_notes(text, noted, report)
    blocks = [unsealed(each) for each in noted]
    for at, block in enumerate(blocks):
        if block["type"] == "codeBlock" and plain_text(block).startswith("Invalid ADF Macro: "):
            report.changed(("content", at), "`{adf}` holds no node as JSON; it is shown as a code block")
    return canonical(doc(*blocks))


def write(doc: Node, report: Report, *, dialect: str = "extended") -> str:
    """The document as wiki markup; the plain dialect does without macros that only Jira Cloud knows."""
    return BlockWriter(report, exact=dialect != "plain").document(children(doc))


def _decoded(source: str | bytes, report: Report, *, lenient: bool) -> str:
    if isinstance(source, str):
        return source
    try:
        return source.decode("utf-8")
    except UnicodeDecodeError as error:
        if not lenient:
            raise UnreadableSource(f"not UTF-8: {error.reason} at byte {error.start}") from error
        report.changed((), f"not UTF-8 from byte {error.start} on; unreadable bytes are shown as �")
        return source.decode("utf-8", "replace")
