"""ADF's blocks as wiki markup.

In the extended dialect each block is written as markup, read again, and if it did not come back as it was,
written more carefully; what markup cannot say at all stands in an `{adf}` macro. In the plain dialect it
is written as well as markup allows, and the report says what was lost.
"""

from collections.abc import Callable
from typing import Final

from mooring.text.differences import report_differences
from mooring.text.report import Path, Report
from mooring.text.tree import Node, attributes, canonical, children, is_raw, marks_of, raw_source
from mooring.text.wiki_colours import PANEL_BACKGROUNDS
from mooring.text.wiki_macros import LANGUAGES
from mooring.text.wiki_nodes import as_blocks, has_mark, unsealed
from mooring.text.wiki_parse import Parse
from mooring.text.wiki_tokens import NOTHING
from mooring.text.wiki_write_inline import InlineWriter, macro_of, settled

_CARDS: Final = {"blockCard": "smart-card", "embedCard": "smart-embed"}
_MOST_REPAIRS: Final = 4
_LISTS: Final = {"bulletList": "*", "orderedList": "#"}


class BlockWriter:
    def __init__(self, report: Report, *, exact: bool) -> None:
        self._report = report
        self._exact = exact

    def document(self, nodes: list[Node]) -> str:
        pieces = [self.block(node, ("content", index)) for index, node in enumerate(nodes)]
        if self._exact and not any(is_raw(node, "wiki") for node in nodes):
            self._keep_apart(nodes, pieces)
        return "\n\n".join(pieces)

    def _keep_apart(self, nodes: list[Node], pieces: list[str]) -> None:
        """Neighbours that run into one another (two groups of files) are told apart by a macro."""
        wanted = [settled(node) for node in nodes]
        for _ in range(_MOST_REPAIRS):
            found = [settled(node) for node in read_blocks("\n\n".join(pieces))]
            if found == wanted or (not found and not wanted):
                return
            at = next(
                (at for at, pair in enumerate(zip(found, wanted, strict=False)) if pair[0] != pair[1]), 0
            )
            self._report.escaped(
                ("content", at), "runs into its neighbour and is written as an `{adf}` macro"
            )
            pieces[at] = macro_of(nodes[at], "block")
        pieces[:] = [macro_of(node, "block") for node in nodes]
        found = [settled(node) for node in read_blocks("\n\n".join(pieces))]
        for at, node in enumerate(wanted):
            if found[at : at + 1] != [node]:
                self._report.changed(("content", at), f"`{node['type']}` does not come back the same")

    def block(self, node: Node, path: Path) -> str:
        if is_raw(node, "wiki"):
            return raw_source(node) or ""
        if not self._exact:
            return self._plainly(node, path)
        for careful in (False, True):
            written = self._markup(node, careful=careful)
            found = _read_back(written) if written is not None else None
            if written is not None and found is not None and _same(found, node):
                report_differences(node, found, path, self._report)
                if careful or "{adf" in written:
                    self._report.escaped(
                        path, f"parts of this `{node['type']}` are written as `{{adf}}` macros"
                    )
                return written
        self._report.escaped(
            path, f"`{node['type']}` has no wiki form like this and is written as an `{{adf}}` macro"
        )
        return macro_of(node, "block")

    def _markup(self, node: Node, *, careful: bool) -> str | None:
        writer = _WRITERS.get(node["type"])
        if writer is None or (marks_of(node) and self._exact):
            return None
        return writer(self, node, careful)

    def _plainly(self, node: Node, path: Path) -> str:
        written = self._markup(node, careful=False)
        if written is None:
            self._report.lost(path, f"`{node['type']}` has no wiki form; its text is kept")
            return self._approximation(node, path)
        found = _read_back(written)
        if found is None:
            self._report.changed(path, f"this `{node['type']}` does not stand by itself in wiki markup")
        else:
            report_differences(node, found, path, self._report)
        return written

    def _approximation(self, node: Node, path: Path) -> str:
        inner = [self._plainly(child, (*path, "content", at)) for at, child in enumerate(children(node))]
        attrs = attributes(node)
        if node["type"] in ("expand", "nestedExpand") and attrs.get("title"):
            inner.insert(0, f"*{attrs['title']}*")
        if node["type"] in ("taskItem", "decisionItem"):
            sign = {"DONE": "(/)", "TODO": "(x)"}.get(str(attrs.get("state")), "(!)")
            return f"* {sign} " + self._inline(children(node), careful=False)
        if node["type"] in ("taskList", "decisionList"):
            return "\n".join(inner)
        if node["type"] == "media":
            return f"!{attrs.get('url') or attrs.get('id', '')}!"
        if not inner and node["type"] in ("extension", "syncBlock"):
            return str(attrs.get("text") or f"\\{{{attrs.get('extensionKey', node['type'])}}}")
        return "\n\n".join(inner)

    def _inline(self, content: list[Node], *, careful: bool, one_line: bool = False) -> str:
        return InlineWriter(exact=self._exact, one_line=one_line).run(content, careful=careful)

    def paragraph(self, node: Node, careful: bool) -> str:
        return self._inline(children(node), careful=careful)

    def heading(self, node: Node, careful: bool) -> str:
        content = self._inline(children(node), careful=careful, one_line=True)
        return f"h{attributes(node).get('level', 1)}. {content}"

    def listing(self, node: Node, careful: bool) -> str | None:
        lines = self._items(node, _LISTS[node["type"]], careful=careful)
        return None if lines is None else "\n".join(lines)

    def _items(self, node: Node, symbols: str, *, careful: bool) -> list[str] | None:
        lines: list[str] = []
        for item in children(node):
            pieces: list[str] = []
            below: list[str] = []
            for child in children(item):
                if child["type"] in _LISTS:
                    nested = self._items(child, symbols + _LISTS[child["type"]], careful=careful)
                    if nested is None:
                        return None
                    below += nested
                    continue
                written = self._markup(child, careful=careful)
                if written is None and self._exact:
                    return None
                pieces.append(written if written is not None else self._approximation(child, ()))
            first = "\n".join(pieces)
            lines += [f"{symbols} {first}", *below] if pieces or not below else below
        return lines

    def quote(self, node: Node, careful: bool) -> str | None:
        inner = self._blocks(children(node), careful=careful)
        return None if inner is None else f"{{quote}}\n{inner}\n{{quote}}"

    def panel(self, node: Node, careful: bool) -> str | None:
        inner = self._blocks(children(node), careful=careful)
        colour = PANEL_BACKGROUNDS.get(str(attributes(node).get("panelType")), PANEL_BACKGROUNDS["info"])
        return None if inner is None else f"{{panel:bgColor={colour}}}\n{inner}\n{{panel}}"

    def _blocks(self, nodes: list[Node], *, careful: bool) -> str | None:
        pieces: list[str] = []
        for node in nodes:
            written = self._markup(node, careful=careful)
            if written is None:
                written = macro_of(node, "block") if self._exact else self._approximation(node, ())
            pieces.append(written)
        return "\n\n".join(pieces)

    def code(self, node: Node, _careful: bool) -> str | None:
        source = "".join(str(child.get("text", "")) for child in children(node))
        language = attributes(node).get("language")
        if language is None:
            return f"{{noformat}}\n{source}\n{{noformat}}"
        if self._exact and language not in LANGUAGES:
            return None
        return f"{{code:{language}}}\n{source}\n{{code}}"

    def rule(self, _node: Node, _careful: bool) -> str:
        return "----"

    def table(self, node: Node, careful: bool) -> str | None:
        rows: list[str] = []
        for row in children(node):
            written = ""
            bar = "|"
            for cell in children(row):
                bar = "||" if cell["type"] == "tableHeader" else "|"
                content = self._cell(cell, careful=careful)
                if content is None:
                    return None
                written += bar + (content or " ")
            rows.append(written + bar)
        return "\n".join(rows)

    def _cell(self, cell: Node, *, careful: bool) -> str | None:
        held = children(cell)
        if cell["type"] == "tableHeader":
            held = [_without_strong(child) for child in held]
        pieces: list[str] = []
        for child in held:
            written = self._cell_block(child, careful=careful)
            if written is None:
                return None
            pieces.append(written)
        return "\n".join(pieces)

    def _cell_block(self, child: Node, *, careful: bool) -> str | None:
        if child["type"] != "paragraph":
            written = self._markup(child, careful=careful)
            return written if written is not None or self._exact else self._approximation(child, ())
        writer = InlineWriter(exact=self._exact, in_cell=True)
        return writer.run(children(child), careful=careful)

    def image(self, node: Node, _careful: bool) -> str | None:
        held = children(node)
        if not held or held[0].get("type") != "media" or (len(held) > 1 and self._exact):
            return None
        single, media = attributes(node), attributes(held[0])
        name = media.get("url") if media.get("type") == "external" else media.get("id")
        settings: list[str] = []
        if "width" in single:
            settings.append(f"width={single['width']}%")
        else:
            settings += [f"{key}={media[key]}" for key in ("width", "height") if key in media]
        if media.get("alt"):
            settings.append(f'alt="{media["alt"]}"')
        for mark in marks_of(held[0]):
            if mark["type"] == "link":
                settings.append(f'href="{attributes(mark).get("href")}"')
        return f"!{name}|{','.join(settings) or 'thumbnail'}!"

    def files(self, node: Node, _careful: bool) -> str:
        return " ".join(f"[^{attributes(child).get('id')}]" for child in children(node))

    def card(self, node: Node, _careful: bool) -> str | None:
        url = attributes(node).get("url")
        return f"[{url}|{url}|{_CARDS[node['type']]}]" if isinstance(url, str) else None


_Writer = Callable[[BlockWriter, Node, bool], str | None]
_WRITERS: Final[dict[str, _Writer]] = {
    "paragraph": BlockWriter.paragraph,
    "heading": BlockWriter.heading,
    "bulletList": BlockWriter.listing,
    "orderedList": BlockWriter.listing,
    "blockquote": BlockWriter.quote,
    "panel": BlockWriter.panel,
    "codeBlock": BlockWriter.code,
    "rule": BlockWriter.rule,
    "table": BlockWriter.table,
    "mediaSingle": BlockWriter.image,
    "mediaGroup": BlockWriter.files,
    "blockCard": BlockWriter.card,
    "embedCard": BlockWriter.card,
}


def read_blocks(source: str) -> list[Node]:
    """The blocks of a wiki text."""
    return [unsealed(each) for each in noted_blocks(source)]


def noted_blocks(source: str) -> list[Node]:
    """The blocks with notes about what could not be kept; NUL characters are dropped, as Jira does."""
    blocks = as_blocks(Parse(source.replace("\0", ""), NOTHING).nodes())
    nothing = blocks == [{"type": "paragraph"}] and "{adf" not in source
    return [] if nothing else blocks


def _read_back(written: str) -> list[Node] | None:
    """What this markup is read as between two other paragraphs; None when it runs into them."""
    other: Node = {"type": "paragraph", "content": [{"type": "text", "text": "x"}]}
    nodes = read_blocks(f"x\n\n{written}\n\nx")
    apart = len(nodes) > 1 and canonical(nodes[0]) == canonical(nodes[-1]) == other
    return nodes[1:-1] if apart else None


def _same(found: list[Node], node: Node) -> bool:
    return [settled(each) for each in found] == [settled(node)]


def _without_strong(node: Node) -> Node:
    """Header cells are read as bold, so the bold of their texts goes without saying."""
    if node["type"] == "text":
        if has_mark(node, "code") or not has_mark(node, "strong"):
            return node
        marks = [mark for mark in marks_of(node) if mark["type"] != "strong"]
        bare = {key: value for key, value in node.items() if key != "marks"}
        return {**bare, "marks": marks} if marks else bare
    if "content" not in node or node["type"] == "codeBlock":
        return node
    return {**node, "content": [_without_strong(child) for child in children(node)]}
