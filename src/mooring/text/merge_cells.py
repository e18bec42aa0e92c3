"""Puts an edited line of a table back into the blocks and the spans it was made of.

A plain table shows every cell as one line: the texts of its blocks with breaks between them, and an empty
cell for each column a wide cell covers. As long as the edit leaves as many cells and lines as there were,
each of them belongs to the one it came from.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from mooring.text.report import Path, Report
from mooring.text.simplify import Simplifier
from mooring.text.tree import Node, attributes, children, equal, paragraph

_TEXTS = frozenset({"paragraph", "heading", "caption", "taskItem", "decisionItem"})
_MOST_SPANNED = 100


class Merging(Protocol):
    """What this needs of the merger."""

    @property
    def simplifier(self) -> Simplifier: ...
    def merge(self, original: Node, before: Node, after: Node, path: Path) -> Node: ...
    def text_block(self, original: Node, before: Node, after: Node, path: Path) -> Node: ...


def merge_row(merging: Merging, original: Node, before: Node, after: Node, path: Path) -> Node | None:
    """The row with its edited cells, or None when cells came or went."""
    olds, news = children(before), children(after)
    if len(olds) != len(news):
        return None
    made: list[Node] = []
    column = 0
    for index, cell in enumerate(children(original)):
        width = _width(cell)
        if not all(map(equal, olds[column + 1 : column + width], news[column + 1 : column + width])):
            return None
        made.append(merging.merge(cell, olds[column], news[column], (*path, "content", index)))
        column += width
    return {**original, "content": made} if all(map(equal, olds[column:], news[column:])) else None


def _width(cell: Node) -> int:
    span = attributes(cell).get("colspan", 1)
    return max(1, min(span, _MOST_SPANNED)) if isinstance(span, int) else 1


@dataclass(frozen=True, slots=True)
class _Line:
    """What one block of a cell is shown as; `lead` is the bullet in front of it."""

    path: Path
    block: Node
    shown: list[Node]
    lead: str


def merge_cell(merging: Merging, original: Node, before: Node, after: Node, path: Path) -> Node | None:
    """The cell with its edited lines, or None when lines came or went."""
    if len(children(before)) != 1 or len(children(after)) != 1:
        return None
    quiet = Simplifier(Report(), merging.simplifier.users, merging.simplifier.resolve_media)
    lines = [line for line in _lines(quiet, children(original), (), "") if line.shown]
    olds = _segments(children(children(before)[0]))
    news = _segments(children(children(after)[0]))
    if len(olds) != len(news) or olds != [each for line in lines for each in _segments(line.shown)]:
        return None
    made = original
    at = 0
    for line in lines:
        end = at + len(_segments(line.shown))
        if olds[at:end] != news[at:end]:
            merged = _merged(merging, line, news[at:end], path)
            if merged is None:
                return None
            made = _with(made, line.path, merged)
        at = end
    return made


def _lines(simplifier: Simplifier, blocks: list[Node], path: Path, lead: str) -> Iterator[_Line]:
    for index, block in enumerate(blocks):
        here = (*path, index)
        shown, deeper = simplifier.cell_lines(block, lead)
        if deeper is not None:
            yield from _lines(simplifier, children(block), here, deeper)
        else:
            for line in shown:
                yield _Line(here, block, line, lead)


def _merged(merging: Merging, line: _Line, segments: list[list[Node]], path: Path) -> Node | None:
    if line.block["type"] not in _TEXTS:
        return None
    content: list[Node] = []
    for segment in segments:
        content += [{"type": "hardBreak"}, *segment] if content else segment
    if line.lead:
        first = content[0] if content else None
        if first is None or first["type"] != "text" or not first["text"].startswith(line.lead):
            return None
        rest = first["text"].removeprefix(line.lead)
        content = [*([{**first, "text": rest}] if rest else []), *content[1:]]
    after = paragraph(*content)
    inner = tuple(step for index in line.path for step in ("content", index))
    return merging.text_block(line.block, after, after, (*path, *inner))


def _segments(content: list[Node]) -> list[list[Node]]:
    made: list[list[Node]] = [[]]
    for item in content:
        if item["type"] == "hardBreak":
            made.append([])
        else:
            made[-1].append(item)
    return made


def _with(item: Node, path: Path, block: Node) -> Node:
    """The node with another block at this place below it."""
    if not path:
        return block
    index, *rest = path
    content = list(children(item))
    content[int(index)] = _with(content[int(index)], tuple(rest), block)
    return {**item, "content": content}
