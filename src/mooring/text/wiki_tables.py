"""Tables of wiki markup: rows of `|cell|` and `||header||`."""

import re
from collections.abc import Callable
from enum import Enum, auto
from typing import Final

from mooring.text.tree import Node
from mooring.text.wiki_emoticons import emoticon_at
from mooring.text.wiki_nodes import as_blocks, block, with_mark
from mooring.text.wiki_scan import Scan
from mooring.text.wiki_tokens import DASHES, Kind

Inner = Callable[..., list[Node]]

_BARS = re.compile(r"[ \t]*(\|+)")
_EMPTY_LINE = re.compile(r"[ \t]*\r?\n")
_STOP = re.compile(r"\r\n|[\r\n|:;(\[!{]")
_IN_CELL: Final = DASHES | {Kind.TABLE, Kind.RULE}
_CELL_MAY_HOLD: Final = frozenset({
    "paragraph", "panel", "blockquote", "orderedList", "bulletList", "rule", "heading", "codeBlock",
    "mediaSingle", "mediaGroup", "decisionList", "taskList", "blockCard", "embedCard", "extension",
    "nestedExpand",
})  # fmt: skip


class _Next(Enum):
    ROW = auto()
    CELL = auto()
    END = auto()


def read_table(scan: Scan, at: int, inner: Inner) -> tuple[list[Node], int] | None:
    """The table that begins here and where reading goes on; None if a cell holds what none may hold."""
    reading = _Reading(scan, at, inner)
    reading.run()
    if not all(reading.valid):
        return None
    rows = reading.rows or [[block("tableCell", [block("paragraph")])]]
    table = block(
        "table",
        [block("tableRow", row) for row in rows],
        isNumberColumnEnabled=False,
        layout="default",
    )
    return [table], reading.at


class _Reading:
    def __init__(self, scan: Scan, at: int, inner: Inner) -> None:
        self.scan, self.at, self.inner = scan, at, inner
        self.rows: list[list[Node]] = []
        self.valid: list[bool] = []
        self._cells: list[Node] = []
        self._bars = ""
        # A cell's text is one stretch of the source, except that a blank rest of a row goes before the next.
        self._held = ""
        self._start = at
        self._last_bar, self._searched = at - 1, at

    def run(self) -> None:
        following = _Next.ROW
        while following is not _Next.END:
            following = self._new_row() if following is _Next.ROW else self._in_cell()
        if self._cells:
            self.rows.append(self._cells)

    def _new_row(self) -> _Next:
        found = _BARS.match(self.scan.text, self.at)
        if not found:
            return _Next.END
        self._bars = found[1]
        self.at = self._start = found.end()
        return _Next.CELL

    def _in_cell(self) -> _Next:
        text = self.scan.text
        stop = _STOP.search(text, self.at)
        if not stop:
            self.at = len(text)
            if self._buffer().strip():
                self._close_cell()
            return _Next.END
        self.at = stop.start()
        if stop[0] == "|":
            return self._next_cell()
        if stop[0] in ("\r\n", "\r", "\n"):
            return self._line_end(stop.end())
        self.at = self._over(stop[0])
        return _Next.CELL

    def _buffer(self) -> str:
        return self._held + self.scan.text[self._start : self.at]

    def _next_cell(self) -> _Next:
        self._close_cell()
        found = _BARS.match(self.scan.text, self.at)
        if found:
            self._bars = found[1]
            self.at = self._start = found.end()
        return _Next.CELL

    def _line_end(self, after: int) -> _Next:
        text = self.scan.text
        bar = text.rfind("|", self._searched, self.at + 1)
        self._searched = self.at
        self._last_bar = bar if bar >= 0 else self._last_bar
        if self._last_bar + 1 >= self.at or _EMPTY_LINE.match(text, self._last_bar + 1, self.at):
            return self._close_row(self.at, after)
        if _EMPTY_LINE.match(text, after):
            self.at = after
            self._close_cell()
            return _Next.END
        if _BARS.match(text, after):
            return self._close_row(after, after)
        self.at = after
        return _Next.CELL if after < len(text) else self._in_cell()

    def _close_row(self, end: int, after: int) -> _Next:
        self.at = end
        held = self._buffer()
        if held.strip():
            self._close_cell()
            held = ""
        self._held = held
        self.at = self._start = after
        if self._cells:
            self.rows.append(self._cells)
            self._cells = []
        return _Next.ROW

    def _close_cell(self) -> None:
        raw = self._buffer()
        self._held = ""
        self._start = self.at
        if not raw:
            return
        content = self.inner(raw, _IN_CELL)
        if self._bars == "||":
            content = [_bold(node) for node in content]
        blocks = as_blocks(content)
        self.valid.append(all(node["type"] in _CELL_MAY_HOLD for node in blocks))
        self._cells.append(block("tableHeader" if "||" in self._bars else "tableCell", blocks))

    def _over(self, character: str) -> int:
        """Past an emoticon, link, image or macro: bars inside them do not end the cell."""
        if character == "[":
            return self.scan.link_end(self.at) or self.at + 1
        if character == "{":
            return self.scan.macro_end(self.at) or self.at + 1
        if character == "!":
            image = self.scan.marked(self.at, "!", "!")
            return image[1] if image else self.at + 1
        emoticon = emoticon_at(self.scan.text, self.at)
        return self.at + len(emoticon[0]) if emoticon else self.at + 1


def _bold(node: Node) -> Node:
    if node["type"] == "text":
        return with_mark(node, {"type": "strong"})
    if node["type"] == "codeBlock" or not node.get("content"):
        return node
    return {**node, "content": [_bold(child) for child in node["content"]]}
