"""HTML that people and models write in Markdown for what Markdown has no form for: `<details>` and tables.

Everything else stays foreign content. A part that holds a tag not known here is left alone as a whole.
"""

import re
from collections.abc import Callable
from html import unescape
from html.parser import HTMLParser
from itertools import pairwise
from typing import Literal

from markdown_it.token import Token

from mooring.text.tree import Mark, Node, sort_marks

_OPENING = re.compile(
    r"<details(?:\s[^<>]*)?>\s*"
    r"(?:<summary(?:\s[^<>]*)?>(?P<title>[^<]*(?:<(?!/?(?:summary|details)\b)[^<]*)*)</summary\s*>)?",
    re.IGNORECASE,
)
_CLOSING = re.compile(r"</details\s*>", re.IGNORECASE)
_ANY_TAG = re.compile(r"<[^<>]*>")
_TABLE = re.compile(r"\s*<table\b[^\0]*</table\s*>\s*\Z", re.IGNORECASE)
_LARGEST = 1_000_000

_MARKS: dict[str, Mark] = {
    "strong": {"type": "strong"}, "b": {"type": "strong"}, "em": {"type": "em"}, "i": {"type": "em"},
    "u": {"type": "underline"}, "s": {"type": "strike"}, "del": {"type": "strike"}, "code": {"type": "code"},
    "sub": {"type": "subsup", "attrs": {"type": "sub"}}, "sup": {"type": "subsup", "attrs": {"type": "sup"}},
}  # fmt: skip
_BESIDE_CODE = frozenset({"code", "link"})


def is_foreign(source: str) -> bool:
    """Does the reader leave this HTML alone? Only then may a writer give it out as it is."""
    return "details" not in source.lower() and read_table(source) is None


def expand_details(tokens: list[Token], parse: Callable[[str], list[Token]]) -> list[Token]:
    """The tokens with every `<details>` that is closed in its own container as an expand."""
    if not any(token.type == "html_block" and "<details" in token.content.lower() for token in tokens):
        return tokens
    pieces: list[Token] = []
    for token in tokens:
        pieces += _pieces(token) if token.type == "html_block" else [token]
    closers = _matched(pieces)
    if not closers:
        return tokens
    ends = set(closers.values())
    made: list[Token] = []
    depth = 0
    for at, piece in enumerate(pieces):
        if at in closers:
            made.append(_directive(piece, "directive_open", 1))
            depth += 1
        elif at in ends:
            made.append(_directive(piece, "directive_close", -1))
            depth -= 1
        elif (
            depth
            and piece.type == "html_block"
            and not piece.info
            and not piece.content.lstrip().startswith("<")
        ):
            made += _inner(parse(piece.content.strip("\n")), piece)
        else:
            made.append(piece)
    return made


def _pieces(token: Token) -> list[Token]:
    """An HTML block cut around `<details>` with its summary, and around `</details>`."""
    source = token.content
    edges = {0, len(source)}
    marked: dict[int, str] = {}
    for kind, pattern in (("open", _OPENING), ("close", _CLOSING)):
        for found in pattern.finditer(source):
            edges |= {found.start(), found.end()}
            marked[found.start()] = kind
    if not marked:
        return [token]
    order = sorted(edges)
    made: list[Token] = []
    for start, end in pairwise(order):
        if source[start:end].strip():
            piece = Token("html_block", "", 0, content=source[start:end], info=marked.get(start, ""))
            piece.map, piece.level = token.map, token.level
            made.append(piece)
    return made


def _matched(pieces: list[Token]) -> dict[int, int]:
    """Opening piece -> closing piece, never across the end of a container."""
    found: dict[int, int] = {}
    containers: list[list[int]] = [[]]
    for at, piece in enumerate(pieces):
        if piece.nesting == 1:
            containers.append([])
        elif piece.nesting == -1:
            containers.pop()
        elif piece.type == "html_block" and piece.info == "open":
            containers[-1].append(at)
        elif piece.type == "html_block" and piece.info == "close" and containers[-1]:
            found[containers[-1].pop()] = at
    return found


def _inner(tokens: list[Token], around: Token) -> list[Token]:
    for token in tokens:
        token.map = around.map
    return tokens


def _directive(piece: Token, kind: str, nesting: Literal[-1, 1]) -> Token:
    opening = _OPENING.match(piece.content)
    title = " ".join(_ANY_TAG.sub("", unescape((opening["title"] if opening else "") or "")).split())
    made = Token(kind, "", nesting, map=piece.map, level=piece.level)
    made.meta = {"name": "expand", "label": None, "given": {"title": title} if title else {}}
    return made


# ---------------------------------------------------------------- tables


def read_table(source: str) -> Node | None:
    """The table in this HTML, or None when it is no table or holds something not known here."""
    if len(source) > _LARGEST or not _TABLE.match(source):
        return None
    reading = _Table()
    try:
        reading.feed(source)
        reading.close()
    except _NotKnown:
        return None
    return reading.table()


class _NotKnown(Exception):
    """Something in the table has no place in a tree."""


class _Table(HTMLParser):
    """Rows of cells of paragraphs and lists."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._rows: list[Node] = []
        self._marks: list[tuple[str, Mark]] = []
        # The open blocks, outermost first: cell, then lists and items; inline content goes to the last.
        self._open: list[Node] = []
        self._ended = False
        self._tables = 0

    def table(self) -> Node | None:
        rows = [row for row in self._rows if row["content"]]
        if not self._ended or self._open or not rows:
            return None
        return {"type": "table", "content": rows}

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        match tag:
            case "table":
                self._tables += 1
                if self._tables > 1:
                    raise _NotKnown
            case "thead" | "tbody" | "tfoot":
                self._close_to(0)
            case "tr":
                self._close_to(0)
                self._rows.append({"type": "tableRow", "content": []})
            case "td" | "th":
                self._cell(tag, given)
            case _ if not self._open:
                raise _NotKnown
            case "p":
                self._end_paragraph()
            case "br":
                self._inline().append({"type": "hardBreak"})
            case "ul" | "ol":
                self._list("bulletList" if tag == "ul" else "orderedList")
            case "li":
                self._item()
            case "a" if given.get("href"):
                self._marks.append((tag, {"type": "link", "attrs": {"href": given["href"]}}))
            case _ if tag in _MARKS:
                self._marks.append((tag, _MARKS[tag]))
            case _:
                raise _NotKnown

    def handle_endtag(self, tag: str) -> None:
        if tag in ("td", "th", "tr", "thead", "tbody", "tfoot", "table"):
            self._close_to(0)
            self._ended = self._ended or tag == "table"
        elif tag in ("ul", "ol", "li"):
            kinds = ("listItem",) if tag == "li" else ("bulletList", "orderedList")
            self._close_to(
                max((at for at, each in enumerate(self._open) if each["type"] in kinds), default=99)
            )
        elif tag == "p":
            self._end_paragraph()
        elif self._marks and self._marks[-1][0] == tag:
            self._marks.pop()
        elif tag != "br":
            raise _NotKnown

    def handle_data(self, data: str) -> None:
        words = re.sub(r"[ \t\r\n]+", " ", data)
        if not self._open or self._open[-1]["type"] in ("bulletList", "orderedList"):
            if words.strip():
                raise _NotKnown
            return
        if not words.strip() and not self._has_words():
            return
        content = self._inline()
        marks = sort_marks([mark for _, mark in self._marks])
        kinds = {mark["type"] for mark in marks}
        if len(kinds) < len(marks) or ("code" in kinds and not _BESIDE_CODE.issuperset(kinds)):
            raise _NotKnown
        if not content or content[-1]["type"] == "hardBreak":
            words = words.lstrip(" ")
        if words:
            content.append(
                {"type": "text", "text": words, "marks": marks} if marks else {"type": "text", "text": words}
            )

    def handle_comment(self, data: str) -> None:  # noqa: ARG002
        raise _NotKnown

    def handle_decl(self, decl: str) -> None:  # noqa: ARG002
        raise _NotKnown

    def unknown_decl(self, data: str) -> None:  # noqa: ARG002
        raise _NotKnown

    def handle_pi(self, data: str) -> None:  # noqa: ARG002
        raise _NotKnown

    # ------------------------------------------------------------ blocks

    def _cell(self, tag: str, given: dict[str, str]) -> None:
        self._close_to(0)
        if not self._rows:
            raise _NotKnown
        cell: Node = {"type": "tableHeader" if tag == "th" else "tableCell", "content": []}
        spans = {name: int(value) for name, value in given.items() if name in _SPANS and value.isdecimal()}
        if any(not 1 <= span <= _WIDEST for span in spans.values()):
            raise _NotKnown
        if spans:
            cell["attrs"] = spans
        self._rows[-1]["content"].append(cell)
        self._open = [cell]

    def _list(self, kind: str) -> None:
        if self._open[-1]["type"] in ("bulletList", "orderedList"):
            raise _NotKnown
        self._end_paragraph()
        made: Node = {"type": kind, "content": []}
        self._open[-1]["content"].append(made)
        self._open.append(made)

    def _item(self) -> None:
        last = max(
            (at for at, each in enumerate(self._open) if each["type"] in ("bulletList", "orderedList")),
            default=0,
        )
        if not last:
            raise _NotKnown
        self._close_to(last + 1)
        item: Node = {"type": "listItem", "content": []}
        self._open[-1]["content"].append(item)
        self._open.append(item)

    def _inline(self) -> list[Node]:
        blocks = self._open[-1]["content"]
        if not self._has_words():
            blocks.append({"type": "paragraph", "content": []})
        return blocks[-1]["content"]

    def _has_words(self) -> bool:
        """Is the last block a paragraph that is still being written?"""
        if not self._open or not self._open[-1]["content"]:
            return False
        last: Node = self._open[-1]["content"][-1]
        return last["type"] == "paragraph" and "ended" not in last

    def _end_paragraph(self) -> None:
        if self._has_words():
            self._open[-1]["content"][-1]["ended"] = True

    def _close_to(self, depth: int) -> None:
        while len(self._open) > depth:
            block = self._open.pop()
            if block["type"] in ("bulletList", "orderedList"):
                if not block["content"]:
                    raise _NotKnown
                continue
            for each in block["content"]:
                each.pop("ended", None)
                if each["type"] == "paragraph":
                    _trim(each)
            block["content"] = block["content"] or [{"type": "paragraph"}]
        if not depth and self._marks:
            raise _NotKnown


_SPANS = ("colspan", "rowspan")
_WIDEST = 1000


def _trim(paragraph: Node) -> None:
    """Blanks before a line break or the end say nothing in HTML."""
    content = paragraph["content"]
    if content and content[-1]["type"] == "text":
        content[-1]["text"] = content[-1]["text"].rstrip(" ")
        if not content[-1]["text"]:
            content.pop()
    if not content:
        del paragraph["content"]
