"""Markdown: CommonMark and GFM, extended by directives until every ADF feature has a form."""

from collections.abc import Callable, Mapping

from mooring.text.errors import Position, TextError, UnreadableSource
from mooring.text.markdown.checked import write_extended
from mooring.text.markdown.outline import outline
from mooring.text.markdown.reader import read_document
from mooring.text.report import Report
from mooring.text.tree import Node, canonical, doc, node, text

__all__ = ["outline", "read", "write"]


def read(source: str | bytes, report: Report, *, lenient: bool = False) -> Node:
    try:
        return read_document(_decoded(source), report)
    except UnreadableSource as error:
        if not lenient:
            raise
        report.escaped((), f"not readable as Markdown ({error}); kept as a code block")
        shown = source.decode("utf-8", "replace") if isinstance(source, bytes) else source
        return doc(node("codeBlock", [text(shown)], language="markdown"))


def write(
    doc: Node,
    report: Report,
    *,
    dialect: str = "extended",
    users: Mapping[str, str] | None = None,
    resolve_media: Callable[[Node], str | None] | None = None,
    base_url: str = "",
) -> str:
    if dialect == "extended":
        return write_extended(canonical(doc), report, users or {})
    if dialect == "plain":
        from mooring.text.markdown.plain import write_plain  # noqa: PLC0415  (not needed for the other dialect)

        return write_plain(canonical(doc), report, users or {}, resolve_media, base_url)
    raise TextError(f"Markdown has no dialect `{dialect}`; use `extended` or `plain`")


def _decoded(source: str | bytes) -> str:
    if isinstance(source, str):
        return source
    try:
        return source.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = source.count(b"\n", 0, error.start) + 1
        raise UnreadableSource(f"not UTF-8: {error.reason} at byte {error.start}", Position(line)) from error
