"""Wiki markup into ADF nodes, one string at a time.

A string is a document, or the inside of a mark, link, macro, list item or table cell: each of
those is cut out first and read as a string of its own, with some kinds of token switched off.
That is how Atlassian's transformer works, and what a text means depends on it.
"""

import re
from collections.abc import Callable
from typing import Final

from mooring.text.tree import Node
from mooring.text.wiki_emoticons import emoticon_at
from mooring.text.wiki_images import image_node
from mooring.text.wiki_linked import CARDS, linked_nodes
from mooring.text.wiki_links import bare_url, link_mark, read_link
from mooring.text.wiki_lists import read_list
from mooring.text.wiki_macros import MACRO_READERS, parameters, read_quote
from mooring.text.wiki_nodes import (
    as_blocks,
    block,
    has_mark,
    is_block,
    text_node,
    with_mark,
)
from mooring.text.wiki_notes import Note, anchor_notes, image_notes, link_notes, macro_notes, noted
from mooring.text.wiki_scan import Scan, escaped
from mooring.text.wiki_tables import read_table
from mooring.text.wiki_tokens import (
    DASHES,
    NOTHING,
    STOP,
    Kind,
    inline_keyword,
    leading_keyword,
    macro_keyword,
)

# Macro names in mixed case nest without limit in theory; nobody writes more than a few levels.
MAX_DEPTH: Final = 40

LANDMARKS: Final = frozenset({Kind.HEADING, Kind.PANEL, Kind.QUOTE_MACRO})

# A token is nodes or literal text, and where reading goes on.
Token = tuple[list[Node] | str, int]

_HEADING_LINE = re.compile(r"h([1-6])\.([^\r\n\u2028\u2029]*)")
_QUOTE_LINE = re.compile(r"bq\.([^\r\n\u2028\u2029]*)")
_RULE_LINE = re.compile(r"-{4,5}(?:\s|\Z)")
_MANY_DASHES = re.compile(r"-{4,}(?:\s|\Z)")
_SPACE = re.compile(r"\s")

_MARKS: Final[dict[Kind, tuple[str, str, Node, frozenset[Kind]]]] = {
    Kind.STRONG: ("*", "*", {"type": "strong"}, DASHES | {Kind.TABLE}),
    Kind.EMPHASIS: ("_", "_", {"type": "em"}, DASHES | {Kind.TABLE}),
    Kind.DELETED: ("-", "-", {"type": "strike"}, DASHES | {Kind.TABLE}),
    Kind.INSERTED: ("+", "+", {"type": "underline"}, DASHES | {Kind.TABLE}),
    Kind.SUPERSCRIPT: ("^", "^", {"type": "subsup", "attrs": {"type": "sup"}}, DASHES | {Kind.TABLE}),
    Kind.SUBSCRIPT: ("~", "~", {"type": "subsup", "attrs": {"type": "sub"}}, DASHES | {Kind.TABLE}),
    Kind.CITATION: ("??", "??", {"type": "em"}, DASHES),
}
_IN_UNREAD_LINK = DASHES | {Kind.TABLE, Kind.RULE, Kind.BARE_URL, Kind.LINK}


class Parse:
    """Reads one string; `depth` counts the strings around it."""

    def __init__(
        self, text: str, ignored: frozenset[Kind], depth: int = 0, *, keep_indent: bool = False
    ) -> None:
        self.text = text
        self.scan = Scan(text)
        self._ignored = ignored
        self._depth = depth
        self._keep_indent = keep_indent
        self._buffer: list[str] = []
        self._output: list[Node] = []
        self._inline: list[Node] = []
        self._newlines: list[Node] = []
        self._remarks: list[Note] = []
        # Where this string itself has headings and containers that may hold some.
        self.landmarks: list[tuple[Kind, int, int]] = []

    def nodes(self) -> list[Node]:
        at, line_start = 0, True
        while at < len(self.text):
            if line_start:
                at = self._over_indent(at)
                if at >= len(self.text):
                    break
                kind = self._first_keyword(at)
            else:
                at = self._over_plain(at)
                if at >= len(self.text):
                    break
                kind = self._keyword(at)
            if kind is not None and kind not in self._ignored:
                at = self._take(kind, at)
                line_start = kind is Kind.NEWLINE
            elif not line_start:
                at = self._over_character(at)
            else:
                line_start = False
        return self._finish()

    def inner(
        self, text: str, ignored: frozenset[Kind] = NOTHING, *, keep_indent: bool = False
    ) -> list[Node]:
        """Read a string that stands inside this one."""
        if self._depth >= MAX_DEPTH:
            return [text_node(text)] if text else []
        return Parse(text, ignored, self._depth + 1, keep_indent=keep_indent).nodes()

    def remark(self, notes: list[Note]) -> None:
        """Note something about what leaves no node, on whatever comes next."""
        self._remarks += notes

    def _over_indent(self, at: int) -> int:
        start = at
        while at < len(self.text) and self.text[at] in " \t":
            at += 1
        if self._keep_indent and at > start:
            self._buffer.append(self.text[start:at])
        return at

    def _over_plain(self, at: int) -> int:
        found = STOP.search(self.text, at)
        end = found.start() if found else len(self.text)
        if end > at:
            self._buffer.append(self.text[at:end])
        return end

    def _first_keyword(self, at: int) -> Kind | None:
        return leading_keyword(self.text, at) or macro_keyword(self.text, at) or inline_keyword(self.text, at)

    def _keyword(self, at: int) -> Kind | None:
        if self._buffer and self._buffer[-1].endswith("{"):
            return inline_keyword(self.text, at)
        return macro_keyword(self.text, at) or inline_keyword(self.text, at)

    def _over_character(self, at: int) -> int:
        if self.text[at] == "\\":
            self._buffer.append(escaped(self.text, at))
            return at + 2
        self._buffer.append(self.text[at])
        return at + 1

    def _take(self, kind: Kind, at: int) -> int:
        read = _READERS.get(kind)
        token = read(self, kind, at) if read else None
        produced, end = token or (self.text[at], at + 1)
        if isinstance(produced, str):
            self._buffer.append(produced)
        else:
            self._place(kind, produced)
            if kind in LANDMARKS:
                self.landmarks.append((kind, at, end))
        return end

    def _place(self, kind: Kind, nodes: list[Node]) -> None:
        """Two line ends in a row begin a new paragraph, one between inline things is a break."""
        is_newline = kind is Kind.NEWLINE
        if len(self._newlines) >= 2 and (not is_newline or self._buffer):
            self._output += as_blocks(self._inline)
            self._inline = list(self._newlines) if _both_groups(self._inline, nodes) else []
            self._newlines = []
        if not self._inline:
            self._newlines = []
        if self._newlines and self._break_needed(nodes):
            self._inline += self._newlines
            self._newlines = []
        self._inline += self._buffered()
        if is_newline:
            self._newlines += nodes
        elif nodes:
            self._inline += self._remarked(nodes)
            self._newlines = []

    def _break_needed(self, nodes: list[Node]) -> bool:
        if not self._inline:
            return False
        after_block = is_block(self._inline[-1])
        if self._buffer:
            return not after_block
        return bool(nodes) and nodes[0]["type"] != "hardBreak" and not is_block(nodes[0]) and not after_block

    def _buffered(self) -> list[Node]:
        text = "".join(self._buffer)
        self._buffer = []
        return self._remarked([text_node(text)]) if text else []

    def _remarked(self, nodes: list[Node]) -> list[Node]:
        if not (self._remarks and nodes):
            return nodes
        remarks, self._remarks = self._remarks, []
        return noted(nodes, remarks)

    def _finish(self) -> list[Node]:
        rest = self._buffered()
        if rest:
            if len(self._newlines) >= 2:
                self._output += as_blocks(self._inline)
                self._inline, self._newlines = [], []
            if self._newlines and self._inline and not is_block(self._inline[-1]):
                self._inline += self._newlines
            self._inline += rest
        made = self._output + self._inline
        return made[:-1] + self._remarked(made[-1:])


def _both_groups(current: list[Node], following: list[Node]) -> bool:
    return (
        bool(current and following)
        and current[-1]["type"] == "mediaGroup"
        and following[0]["type"] == "mediaGroup"
    )


# --- tokens ---------------------------------------------------------------------------------


def _newline(parse: Parse, _kind: Kind, at: int) -> Token:
    length = 2 if parse.text.startswith("\r\n", at) else 1
    return [{"type": "hardBreak"}], at + length


def _forced_break(parse: Parse, _kind: Kind, at: int) -> Token:
    text = parse.text
    following = text.find("\\", at + 2)
    joined = following >= 0 and not _SPACE.search(text, at + 2, following)
    if joined or (at > 0 and text[at - 1] == "\\"):
        return "\\\\", at + 2
    return [{"type": "hardBreak"}], at + 2


def _dash(parse: Parse, kind: Kind, at: int) -> Token:
    length, sign = (2, "–") if kind is Kind.TWO_DASHES else (3, "—")
    text, end = parse.text, at + length
    alone = (at == 0 or _SPACE.match(text, at - 1)) and (end >= len(text) or _SPACE.match(text, end))
    return (sign if alone else "-" * length), end


def _many_dashes(parse: Parse, _kind: Kind, at: int) -> Token:
    found = _MANY_DASHES.match(parse.text, at)
    return (found[0], found.end()) if found else ("----", at + 4)


def _rule(parse: Parse, _kind: Kind, at: int) -> Token | None:
    found = _RULE_LINE.match(parse.text, at)
    return ([{"type": "rule"}], found.end()) if found else None


def _heading(parse: Parse, _kind: Kind, at: int) -> Token | None:
    found = _HEADING_LINE.match(parse.text, at)
    if not found:
        return None
    content = parse.inner(found[2], DASHES)
    if any(is_block(node) for node in content):
        return "", at + 4
    return [block("heading", content, level=int(found[1]))], found.end()


def _quote_line(parse: Parse, _kind: Kind, at: int) -> Token | None:
    found = _QUOTE_LINE.match(parse.text, at)
    return (read_quote(parse.inner, found[1]), found.end()) if found else None


def _mark(parse: Parse, kind: Kind, at: int) -> Token:
    symbol, closing_symbol, mark, ignored = _MARKS[kind]
    opening, closing = parse.scan.symbols(at, symbol, closing_symbol)
    found = parse.scan.marked(at, opening, closing)
    if not found:
        return opening, at + len(opening)
    raw, end = found
    content = parse.inner(raw, ignored)
    if (
        kind is Kind.CITATION
        and content
        and content[0]["type"] == "text"
        and not has_mark(content[0], "em", "code")
    ):
        content[0] = {**content[0], "text": f"— {content[0]['text']}"}
    return noted([with_mark(node, mark) for node in content], anchor_notes(parse.text[at:end])), end


def _monospace(parse: Parse, _kind: Kind, at: int) -> Token:
    opening, closing = parse.scan.symbols(at, "{{", "}}")
    found = parse.scan.marked(at, opening, closing)
    if not found:
        return opening, at + len(opening)
    raw, end = found
    content = _unescaped(raw.lstrip(" \t"))
    return ([text_node(content, {"type": "code"})] if content else []), end


def _unescaped(raw: str) -> str:
    pieces: list[str] = []
    at = 0
    while at < len(raw):
        stop = raw.find("\\", at)
        if stop < 0:
            pieces.append(raw[at:])
            break
        pieces += [raw[at:stop], escaped(raw, stop)]
        at = stop + 2
    return "".join(pieces)


def _emoticon(parse: Parse, _kind: Kind, at: int) -> Token | None:
    found = emoticon_at(parse.text, at)
    return ([{"type": "emoji", "attrs": found[1]}], at + len(found[0])) if found else None


def _bare_url(parse: Parse, _kind: Kind, at: int) -> Token | None:
    found = bare_url(parse.text, at)
    if not found:
        return None
    written, shown, href = found
    return [text_node(shown, link_mark(href))], at + len(written)


def _media(parse: Parse, _kind: Kind, at: int) -> Token:
    found = parse.scan.marked(at, "!", "!")
    if not found:
        return "!", at + 1
    raw, end = found
    name, _, rest = raw.partition("|")
    if not name:
        return "!", at + 1
    settings = parameters(rest.partition("|")[0], ",")
    return noted([image_node(name, settings)], image_notes(settings)), end


def _link(parse: Parse, _kind: Kind, at: int) -> Token:
    end = parse.scan.link_end(at)
    if end is None:
        return "[", at + 1
    link = read_link(parse.text[at + 1 : end - 1])
    nodes = linked_nodes(link, parse.inner)
    if nodes == []:
        return "[", at + 1
    if nodes is None:
        nodes = parse.inner(parse.text[at:end], _IN_UNREAD_LINK)
    elif link.title not in CARDS:
        nodes = noted(nodes, link_notes(link.title))
    return nodes, end


def _list(parse: Parse, _kind: Kind, at: int) -> Token | None:
    return read_list(parse.scan, at, parse.inner)


def _table(parse: Parse, _kind: Kind, at: int) -> Token | None:
    return read_table(parse.scan, at, parse.inner)


def _macro(parse: Parse, kind: Kind, at: int) -> Token | None:
    macro = parse.scan.macro(at)
    if macro is None:
        return None
    if kind is Kind.ANCHOR:
        parse.remark(anchor_notes(parse.text[at : macro.end]))
        return "", macro.end
    made = MACRO_READERS[kind](parse.inner, macro)
    return noted(made, macro_notes(macro, made)), macro.end


_READERS: Final[dict[Kind, Callable[[Parse, Kind, int], Token | None]]] = {
    **dict.fromkeys(_MARKS, _mark),
    **dict.fromkeys(MACRO_READERS, _macro),
    Kind.ANCHOR: _macro,
    Kind.NEWLINE: _newline,
    Kind.FORCED_BREAK: _forced_break,
    Kind.TWO_DASHES: _dash,
    Kind.THREE_DASHES: _dash,
    Kind.FOUR_DASHES: _many_dashes,
    Kind.RULE: _rule,
    Kind.HEADING: _heading,
    Kind.QUOTE_LINE: _quote_line,
    Kind.MONOSPACE: _monospace,
    Kind.EMOTICON: _emoticon,
    Kind.BARE_URL: _bare_url,
    Kind.MEDIA: _media,
    Kind.LINK: _link,
    Kind.LIST: _list,
    Kind.TABLE: _table,
}
