"""The blocks of storage format, wiki markup and Markdown as stretches of the text, to patch them one by one.

A block has the id its format gives it (`local-id`, `{#id}`; wiki markup has none) and its words.
"""

import re
from dataclasses import dataclass
from typing import Any

from markdown_it.token import Token

from mooring.text.markdown.attributes import Attributes
from mooring.text.markdown.grammar import parser
from mooring.text.markdown.inline_reader import InlineReader
from mooring.text.markdown.trimming import split_attributes
from mooring.text.report import Report
from mooring.text.storage_sections import characters
from mooring.text.storage_xml import Element, parse
from mooring.text.tree import Node, children, paragraph, plain_text, walk
from mooring.text.wiki import read as read_wiki

_PLACEHOLDER = "mooringblockhere"


@dataclass(frozen=True, slots=True)
class Block:
    """Looks like a section that is all body. `prefix` begins its further lines in lists and quotes."""

    start: int
    end: int
    text: str
    ref: str | None = None
    prefix: str = ""
    # Only words fit in here: an item or a cell without paragraphs.
    inside: bool = False
    level: int = 0

    @property
    def content_start(self) -> int:
        return self.start

    @property
    def body_end(self) -> int:
        return self.end

    @property
    def path(self) -> tuple[str, ...]:
        return (self.text,)


def blocks(source: str, source_format: str) -> list[Block]:
    return {"storage": _storage, "markdown": _markdown, "wiki": _wiki}[source_format](source)


# ---------------------------------------------------------------- storage format

_WORDS = frozenset({"p", "h1", "h2", "h3", "h4", "h5", "h6", "pre"})
_CELLS = frozenset({"li", "td", "th"})
_IDS = ("local-id", "ac:local-id", "ac:macro-id")


def _storage(source: str) -> list[Block]:
    parsed = parse(source)
    offset = characters(parsed, source)
    made: list[Block] = []
    pending: list[Any] = [child for child in reversed(parsed.children) if isinstance(child, Element)]
    while pending:
        element: Element = pending.pop()
        ref = next((element.attributes[name] for name in _IDS if name in element.attributes), None)
        inner = element.elements()
        words = " ".join(element.text().split())
        start, end = offset(element.start), offset(element.end)
        if element.name in _WORDS:
            made.append(Block(start, end, words, ref))
        elif element.name in _CELLS and not any(each.name in _WORDS | {"ul", "ol"} for each in inner):
            opening, closing = source.index(">", start) + 1, source.rindex("</", start, end)
            made.append(Block(opening, closing, words, ref, inside=True))
        elif ref is not None:
            made.append(Block(start, end, words, ref))
        pending += reversed(inner)
    return made


# ---------------------------------------------------------------- Markdown

_LIST_MARKER = re.compile(r"(?:[-+*]|\d{1,9}[.)])(?=[ \t])")
_PREFIX = re.compile(r"[ \t>]*(?:(?:[-+*]|\d{1,9}[.)])[ \t]+)*(?:\[[ xX!?]\][ \t]+)?")
_BOX = re.compile(r"\[[ xX!?]\](?=[ \t])")
_LEAVES = frozenset({"fence", "hr", "directive_leaf", "table_open"})


def _markdown(source: str) -> list[Block]:
    environment: dict[str, Any] = {}
    tokens: list[Token] = []
    markdown = parser()
    unified = source.replace("\r\n", " \n").replace("\r", "\n")
    markdown.block.parse(unified, markdown, environment, tokens)
    lines = unified.split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    inline = InlineReader(Report(), environment)
    made: list[Block] = []
    pending: str | None = None
    nested = 0
    for at, token in enumerate(tokens):
        if token.type in ("list_item_open", "blockquote_open", "list_item_close", "blockquote_close"):
            nested += token.nesting
        if token.type == "attribute_line":
            pending = token.meta["given"].get("#")
            continue
        if token.type in ("paragraph_open", "heading_open"):
            words, given = split_attributes(_BOX.sub("", tokens[at + 1].content, count=1).strip())
            shown, ref = plain_text(paragraph(*inline.read(words))), given.get("#") or pending
        elif token.type in _LEAVES or token.nesting == 1:
            shown = token.content.removesuffix("\n")
            given: Attributes = token.meta.get("given") or {}
            ref = given.get("#") or pending
        else:
            continue
        if (
            token.map
            and (shown or ref)
            and token.type not in ("list_item_open", "tr_open", "td_open", "th_open")
        ):
            made.append(_lines(lines, starts, len(source), token.map, nested, shown, ref))
        pending = None
    return made


def _lines(
    lines: list[str], starts: list[int], size: int, span: list[int], nested: int, shown: str, ref: str | None
) -> Block:
    first, last = span
    while last > first + 1 and not lines[last - 1].strip(" \t>"):
        last -= 1
    start, end = starts[first], min(starts[last], size)
    if not nested:
        return Block(start, end, shown, ref)
    found = _PREFIX.match(lines[first])
    lead = found[0] if found else ""
    prefix = re.sub(r"[^>\s]", " ", _BOX.sub("", _LIST_MARKER.sub(" ", lead)))
    return Block(start + len(lead), min(starts[last] - 1, size), shown, ref, prefix or " ")


# ---------------------------------------------------------------- wiki markup

_WIKI_MARKER = re.compile(r"[ \t]*(?:[*#-]+[ \t]+|h[1-6]\.[ \t]+|bq\.[ \t]+)?")
_PARAGRAPH = re.compile(r"[^\n]+(?:\n(?![ \t]*\n)[^\n]+)*")


def _wiki(source: str) -> list[Block]:
    made: dict[tuple[int, int], Block] = {}
    for pattern in (re.compile(r"[^\n]+"), _PARAGRAPH):
        for found in pattern.finditer(source):
            marker = _WIKI_MARKER.match(found[0])
            start, end = found.start() + (marker.end() if marker else 0), found.end()
            stretch = source[start:end].rstrip("\r")
            if (start, end) not in made and stretch.strip() and len(children(_read(stretch))) == 1:
                made[start, end] = Block(
                    start,
                    end,
                    plain_text(_read(stretch)).strip(),
                    prefix="" if start == found.start() else " ",
                )
    return sorted(made.values(), key=lambda each: each.start)


def is_text(source: str, block: Block) -> bool:
    """Does the wiki reader take this stretch for the words of one block, not for code or a part of more?"""
    tree = _read(source[: block.start] + _PLACEHOLDER + source[block.end :])
    parents = [
        item for _, item in walk(tree)
        if any(each.get("text") == _PLACEHOLDER for each in children(item)) and len(children(item)) == 1
    ]  # fmt: skip
    return len(parents) == 1 and parents[0]["type"] != "codeBlock"


def _read(source: str) -> Node:
    return read_wiki(source, Report(), lenient=True)
