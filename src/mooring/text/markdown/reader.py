"""Extended Markdown, GFM and CommonMark as a document tree."""

import re
from dataclasses import dataclass, field
from typing import Any

from markdown_it.common.utils import MD_TRIM_CHARS, unescapeAll
from markdown_it.token import Token

from mooring.text import fit
from mooring.text.adf import node_of
from mooring.text.markdown import attributes, directives, html
from mooring.text.markdown.grammar import parser
from mooring.text.markdown.identifiers import Identifiers
from mooring.text.markdown.inline_reader import InlineReader
from mooring.text.markdown.lists_reader import read_list
from mooring.text.markdown.tables_reader import read_table
from mooring.text.markdown.trimming import split_attributes
from mooring.text.repair import repair
from mooring.text.report import Report
from mooring.text.schema import is_valid
from mooring.text.tree import Node, doc, raw_block, walk
from mooring.text.tree import attributes as attributes_of

_NEWLINES = re.compile(r"\r\n?")
_ALERT = re.compile(
    r"\[!?(INFO|NOTE|TIP|IMPORTANT|WARNING|CAUTION|ERROR|SUCCESS|CUSTOM)\](?:[ \t]*\n|[ \t]+|$)"
)
_ALERT_PANELS = {"IMPORTANT": "note", "CAUTION": "error"}
_EXPLICIT = re.compile(r"\b(?:attrs|marks|json|href)='|^[ >]*```adf", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class SourceBlock:
    """A run of top-level nodes, the lines of Markdown they came from, and which findings are about them."""

    nodes: list[Node]
    start_line: int
    end_line: int
    findings: list[int]


def read_document(source: str, report: Report) -> Node:
    made = doc(*(node for block in read_blocks(source, report) for node in block.nodes))
    report.settle(walk(made))
    return made


def read_blocks(source: str, report: Report) -> list[SourceBlock]:
    """The blocks of a text; findings about them are not settled yet."""
    source = _NEWLINES.sub("\n", source).replace("\0", "\ufffd")
    environment: dict[str, Any] = {}
    tokens = html.expand_details(_parsed(source, environment), lambda inner: _parsed(inner, {}))
    blocks = BlockReader(report, environment, tokens).top_level()
    if is_valid(doc(*(node for block in blocks for node in block.nodes))):
        return blocks
    lines = source.split("\n")
    for block in blocks:
        # What is given as ADF is taken as it is, even when the schema does not know it (yet).
        if not _EXPLICIT.search("\n".join(lines[block.start_line : block.end_line])):
            start = len(report.entries)
            repair(block.nodes, report)
            block.findings.extend(range(start, len(report.entries)))
    return blocks


def _parsed(source: str, environment: dict[str, Any]) -> list[Token]:
    tokens: list[Token] = []
    markdown = parser()
    markdown.block.parse(source, markdown, environment, tokens)
    return tokens


def _no_attributes() -> attributes.Attributes:
    return {}


@dataclass(slots=True)
class Pending:
    """Attributes from a line of their own, waiting for the next block."""

    given: attributes.Attributes = field(default_factory=_no_attributes)

    def take(self) -> attributes.Attributes:
        given, self.given = self.given, {}
        return given


class BlockReader:
    """Walks the flat token list; each method starts at an opening token and returns where it stopped."""

    def __init__(self, report: Report, environment: dict[str, Any], tokens: list[Token]) -> None:
        self.report = report
        self.tokens = tokens
        self.inline = InlineReader(report, environment)
        self.identifiers = Identifiers()
        # Nodes given as ADF are taken as they are.
        self.exempt: set[int] = set()
        self._closers = _closers(tokens)

    def top_level(self) -> list[SourceBlock]:
        made: list[SourceBlock] = []
        at = count = 0
        while at < len(self.tokens):
            start, reported = at, len(self.report.entries)
            nodes: list[Node] = []
            at = self._one(at, len(self.tokens), "doc", nodes, Pending())
            self.report.place(reported, ("content", count))
            count += len(nodes)
            lines = [token.map for token in self.tokens[start:at] if token.map]
            first, end = lines[0][0], max(each[1] for each in lines)
            findings = list(range(reported, len(self.report.entries)))
            if made and nodes and nodes[0]["type"] == "caption" and id(nodes[0]) not in self.exempt:
                count -= 1
                before = made[-1]
                nodes = before.nodes + self._captioned(before.nodes, nodes)
                made[-1] = SourceBlock(nodes, before.start_line, end, before.findings + findings)
                continue
            made.append(SourceBlock(nodes, first, end, findings))
        return made

    def blocks(self, at: int, end: int, parent: str) -> list[Node]:
        """The nodes of `tokens[at:end]`, fit for `parent`."""
        made: list[Node] = []
        pending = Pending()
        while at < end:
            at = self._one(at, end, parent, made, pending)
        self._unused(pending, made)
        return made

    def _one(self, at: int, end: int, parent: str, made: list[Node], pending: Pending) -> int:
        token = self.tokens[at]
        while token.type == "attribute_line":
            self._unused(pending, made)
            pending.given = token.meta["given"]
            at += 1
            if at >= end:
                self._unused(pending, made)
                return at
            token = self.tokens[at]
        stop = self.close_of(at)
        nodes = self._block(token, at, stop, parent, pending)
        for node in nodes:
            if id(node) in self.exempt:
                made.append(node)
            elif node["type"] == "caption":
                made += self._captioned(made, [node]) if made else [node]
            else:
                made += fit.fit(node, parent, self.report)
        self._unused(pending, made)
        return stop + 1

    def _unused(self, pending: Pending, made: list[Node]) -> None:
        for name in pending.take():
            self.report.lost(made[-1] if made else "", f"attribute `{name}` has nothing to apply to")

    def close_of(self, at: int) -> int:
        """The index of the token that closes the one at `at` (itself when it opens nothing)."""
        return self._closers.get(at, at)

    def apply(self, node: Node, given: attributes.Attributes) -> Node:
        for name in attributes.apply(node, given) if given else ():
            self.report.lost(node, f"`{node['type']}` has no attribute `{name}`, or not with that value")
        if "marks" in given:
            # Marks written out are for what the schema does not know here.
            self.exempt.add(id(node))
        return node

    def _block(self, token: Token, at: int, stop: int, parent: str, pending: Pending) -> list[Node]:
        match token.type:
            case "paragraph_open":
                return self._paragraph(self.tokens[at + 1], pending)
            case "heading_open":
                return [self._heading(token, self.tokens[at + 1], pending)]
            case "bullet_list_open" | "ordered_list_open":
                return read_list(self, at, stop, pending.take(), parent)
            case "blockquote_open":
                return self._quote(at, stop, pending)
            case "fence" | "code_block":
                return [self._code(token, pending)]
            case "hr":
                return [self.apply({"type": "rule"}, pending.take())]
            case "table_open":
                return [read_table(self, at, stop, pending.take())]
            case "html_block":
                return self._html(token)
            case "directive_open":
                return directives.read_container(self, token, at, stop, parent)
            case "directive_leaf":
                return directives.read_leaf(self, token)
            case _:
                return []

    # ------------------------------------------------------------ text blocks

    def text(self, source: str) -> tuple[list[Node], attributes.Attributes]:
        """Inline content, and the attributes at its end."""
        given: attributes.Attributes = {}
        if source.endswith("}"):
            source, given = split_attributes(source)
        return self.inline.read(source), given

    def _paragraph(self, token: Token, pending: Pending) -> list[Node]:
        source = token.content
        image = self.inline.image(source)
        if image is not None:
            return [self._media_single(*image, pending)]
        content, given = self.text(source)
        node: Node = {"type": "paragraph", "content": content} if content else {"type": "paragraph"}
        return [self.apply(node, {**pending.take(), **given})]

    def _media_single(self, media: Node, around: attributes.Attributes, pending: Pending) -> Node:
        given = {**pending.take(), **around}
        node: Node = {"type": "mediaSingle", "content": [media]}
        if given.get("layout") == "none":
            del given["layout"]
        else:
            node["attrs"] = {"layout": "center"}
        self.apply(node, given)
        attrs = attributes_of(node)
        if "widthType" not in attrs and isinstance(width := attrs.get("width"), int | float) and width > 100:
            # Without a unit a width is a percentage; more than all of it can only mean pixels.
            attrs["widthType"] = "pixel"
        return node

    def _heading(self, token: Token, inline: Token, pending: Pending) -> Node:
        content, given = self.text(inline.content.replace("\n", " "))
        node: Node = {"type": "heading", "attrs": {"level": int(token.tag[1])}}
        if content:
            node["content"] = content
        return self.apply(node, {**pending.take(), **given})

    def _code(self, token: Token, pending: Pending) -> Node:
        language, given = _info(token.info)
        code = token.content.removesuffix("\n")
        if language == "adf" and not given and (found := node_of(code)):
            self.exempt.add(id(found))
            return found
        node: Node = {"type": "codeBlock"}
        if language == "adf" and not given:
            self.report.changed(node, "the code block `adf` holds no node as JSON; it stays a code block")
        given = {**pending.take(), **given}
        if "language" in given:
            language = None
            node["attrs"] = {"language": given.pop("language")}
        if language:
            node["attrs"] = {"language": language}
        if code:
            node["content"] = [{"type": "text", "text": code}]
        return self.apply(node, given)

    def _quote(self, at: int, stop: int, pending: Pending) -> list[Node]:
        given = pending.take()
        panel = self._alert(at + 1)
        if panel:
            node: Node = {"type": "panel", "attrs": {"panelType": panel}}
            node["content"] = self.blocks(at + 1, stop, "panel") or [{"type": "paragraph"}]
        else:
            node = {
                "type": "blockquote",
                "content": self.blocks(at + 1, stop, "blockquote") or [{"type": "paragraph"}],
            }
        return [self.apply(node, given)]

    def _alert(self, at: int) -> str | None:
        """`> [!NOTE]` and `> [INFO] …` are panels."""
        if self.tokens[at].type != "paragraph_open":
            return None
        inline = self.tokens[at + 1]
        found = _ALERT.match(inline.content)
        if not found:
            return None
        inline.content = inline.content[found.end() :].strip(MD_TRIM_CHARS)
        if not inline.content and self.tokens[at + 3].type != "blockquote_close":
            self.tokens[at : at + 3] = [Token("nothing", "", 0)] * 3
        return _ALERT_PANELS.get(found[1], found[1].lower())

    def _html(self, token: Token) -> list[Node]:
        source = token.content.rstrip("\n")
        table = html.read_table(source)
        if table is not None:
            return [table]
        made = raw_block("html", source)
        self.report.kept(made, "HTML is kept as its source")
        return [made]

    def _captioned(self, before: list[Node], nodes: list[Node]) -> list[Node]:
        """A caption belongs to the image before it."""
        caption, *rest = nodes
        target = before[-1] if before else None
        if target and target["type"] == "mediaSingle" and len(target["content"]) == 1:
            target["content"].append(caption)
            return rest
        caption["type"] = "paragraph"
        self.report.changed(caption, "a caption without an image became a paragraph")
        return nodes


def _closers(tokens: list[Token]) -> dict[int, int]:
    """Opening token -> closing token."""
    matched: dict[int, int] = {}
    stack: list[int] = []
    for at, token in enumerate(tokens):
        if token.nesting == 1:
            stack.append(at)
        elif token.nesting == -1:
            matched[stack.pop()] = at
    return matched


def _info(info: str) -> tuple[str | None, attributes.Attributes]:
    info = info.strip()
    word, _, rest = info.partition(" ")
    if info.startswith("{"):
        word, rest = "", info
    given = attributes.parse(rest.strip(), 0) if rest.strip().startswith("{") else None
    return unescapeAll(word) or None, given[0] if given else {}
