"""Wiki markup of Jira and Confluence: read it, write it, find its sections."""

from mooring.text.errors import UnreadableSource
from mooring.text.report import Report
from mooring.text.tree import Node, canonical, doc
from mooring.text.wiki_nodes import as_blocks
from mooring.text.wiki_parse import Parse
from mooring.text.wiki_tokens import NOTHING


def read(source: str | bytes, report: Report, *, lenient: bool = False) -> Node:
    """The document that Atlassian's own reader would see in this markup. Every text is wiki markup, so only
    bytes that are no UTF-8 are refused."""
    text = _decoded(source, report, lenient=lenient).replace("\0", "")
    blocks = as_blocks(Parse(text, NOTHING).nodes())
    if blocks == [{"type": "paragraph"}]:
        return doc()
    return canonical(doc(*(_at_root(node) for node in blocks)))


def _at_root(node: Node) -> Node:
    return {**node, "type": "expand"} if node["type"] == "nestedExpand" else node


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
