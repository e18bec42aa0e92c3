"""A document as plain Markdown, for a reader who knows no directives."""

from collections.abc import Callable, Mapping

from mooring.text.differences import report_differences
from mooring.text.errors import TextError
from mooring.text.markdown import escape
from mooring.text.markdown.inline_writer import InlineWriter
from mooring.text.markdown.reader import read_blocks
from mooring.text.markdown.writer import BlockWriter
from mooring.text.report import Report
from mooring.text.simplify import Simplifier, Unit
from mooring.text.tree import Node, attributes, children


def write_plain(
    document: Node,
    report: Report,
    users: Mapping[str, str],
    resolve_media: Callable[[Node], str | None] | None,
    base_url: str = "",
) -> str:
    units = Simplifier(report, users, resolve_media, base_url).units(document)
    parts = PlainWriter().parts([unit.node for unit in units], "doc")
    _report_what_changed(units, parts, report)
    made = "\n\n".join(parts)
    return made + "\n" if made else ""


def _report_what_changed(units: list[Unit], parts: list[str], report: Report) -> None:
    """Read each part again: whatever the reader of it cannot know is named."""
    named = {entry.path for entry in report.entries}
    for unit, part in zip(units, parts, strict=True):
        if unit.title:
            continue
        try:
            found = [node for block in read_blocks(part, Report()) for node in block.nodes]
        except TextError as error:
            report.changed(unit.path, f"no Markdown that can be read again: {error}")
        else:
            report_differences(unit.original, found, unit.path, report, named)


class PlainWriter(BlockWriter):
    """Writes what `simplify` left: blocks with a native form, tags instead of directives."""

    def __init__(self) -> None:
        super().__init__(Report(), InlineWriter(plain=True), InlineWriter(plain=True, single_line=True))

    def block(self, item: Node, parent: str, marker: str = "-") -> str:
        if item["type"] == "panel":
            return self._panel_quote(item)
        return super().block(item, "?" if parent != "doc" else parent, marker)

    def _media_single(self, item: Node, _parent: str, _: str) -> str:
        attrs = attributes(children(item)[0])
        target = escape.destination(str(attrs.get("url", "")))
        alt = escape.text(str(attrs.get("alt", "")), "[", "]", bracketed=True)
        return f"![{alt}]({target or ''})"

    def _panel_quote(self, item: Node) -> str:
        name = str(attributes(item).get("panelType", "info")).upper()
        body = self.sequence(children(item), "?")
        starts_with_words = children(item)[0]["type"] == "paragraph" and body != "::p"
        shown = f"[{name}] {body}" if starts_with_words else f"[{name}]\n\n{body}"
        return "\n".join(f"> {line}" if line else ">" for line in shown.split("\n"))
