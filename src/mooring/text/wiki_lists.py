"""Lists of wiki markup: `*`, `#` and `-` in runs whose length is the depth."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from mooring.text.tree import Node
from mooring.text.wiki_nodes import as_blocks, block, with_mark
from mooring.text.wiki_scan import Scan
from mooring.text.wiki_tokens import MAX_LIST_DEPTH, Kind

Inner = Callable[..., list[Node]]

_ITEM = re.compile(rf" *([*\-#]{{1,{MAX_LIST_DEPTH}}}) ")
_EMPTY_LINE = re.compile(r"[ \t]*\r?\n")
_RULE = re.compile(r"-{4,5}(?=[ \t]*\r?\n)")
_STOP = re.compile(r"\r\n|[\r\n{]")
_IN_ITEM: Final = frozenset({Kind.FOUR_DASHES, Kind.LIST, Kind.TABLE})
_ALLOWED: Final = frozenset({"paragraph", "orderedList", "bulletList", "mediaSingle", "codeBlock"})
_LISTS: Final = frozenset({"orderedList", "bulletList"})


@dataclass(slots=True)
class _List:
    kind: str
    parent: "_Item | None" = None
    items: "list[_Item]" = field(default_factory=list["_Item"])


@dataclass(slots=True)
class _Item:
    parent: _List
    content: list[Node] = field(default_factory=list[Node])
    lists: list[_List] = field(default_factory=list[_List])


def read_list(scan: Scan, at: int, inner: Inner) -> tuple[list[Node], int]:
    """The lists that begin here, up to an empty line, and where reading goes on."""
    output: list[Node] = []
    building: _Building | None = None
    for symbols, raw, end in _items(scan, at):
        if building is None or (len(symbols) == 1 and _kind(symbols) != building.root.kind):
            output += building.nodes() if building else []
            building = _Building(symbols)
        content = inner(raw, _IN_ITEM, keep_indent=True) if raw else []
        building.add(symbols, _plain_blocks(as_blocks(content)))
        at = end
    return output + (building.nodes() if building else []), at


def _items(scan: Scan, start: int) -> list[tuple[str, str, int]]:
    """(symbols, content, end) of each item."""
    text, at = scan.text, start
    found: list[tuple[str, str, int]] = []
    symbols, content_start = "", start
    while at < len(text):
        item = _ITEM.match(text, at)
        is_rule = item is not None and _RULE.match(text, item.start(1)) is not None
        if item and not is_rule:
            if symbols:
                found.append((symbols, text[content_start:at], at))
            symbols, content_start = item[1], item.end()
        elif not is_rule and _EMPTY_LINE.match(text, at):
            break
        at = _next_line(scan, item.end() if item and not is_rule else at)
    found.append((symbols, text[content_start:at], at))
    return found


def _next_line(scan: Scan, at: int) -> int:
    """The start of the next line, macros counted as one character."""
    while stop := _STOP.search(scan.text, at):
        if stop[0] != "{":
            return stop.end()
        at = scan.macro_end(stop.start()) or stop.end()
    return len(scan.text)


def _kind(symbols: str) -> str:
    return "orderedList" if symbols.endswith("#") else "bulletList"


def _plain_blocks(nodes: list[Node]) -> list[Node]:
    """A quote in an item is its paragraphs, a heading is shouted."""
    output: list[Node] = []
    for node in nodes:
        if node["type"] == "blockquote":
            output += node.get("content") or []
        elif node["type"] == "heading":
            output.append(block("paragraph", [_shouted(child) for child in node.get("content") or ()]))
        else:
            output.append(node)
    return output


def _shouted(node: Node) -> Node:
    if node["type"] != "text":
        return node
    return with_mark({**node, "text": node["text"].upper()}, {"type": "strong"})


class _Building:
    def __init__(self, symbols: str) -> None:
        self.root = _List(_kind(symbols))
        self._list = self.root
        self._depth = 1

    def add(self, symbols: str, content: list[Node]) -> None:
        depth, kind = len(symbols), _kind(symbols)
        while self._depth < depth:
            self._go_in(kind)
        while self._depth > depth:
            self._go_out()
        if self._list.kind != kind:
            self._change_kind(kind)
        self._list.items.append(_Item(self._list, content))

    def nodes(self) -> list[Node]:
        return _built(self.root)

    def _go_in(self, kind: str) -> None:
        if not self._list.items:
            self._list.items.append(_Item(self._list))
        item = self._list.items[-1]
        item.lists = [_List(kind, item)]
        self._list = item.lists[0]
        self._depth += 1

    def _go_out(self) -> None:
        if self._list.parent:
            self._list = self._list.parent.parent
        self._depth -= 1

    def _change_kind(self, kind: str) -> None:
        parent = self._list.parent
        self._list = _List(kind, parent)
        if parent:
            parent.lists.append(self._list)


def _built(made: _List) -> list[Node]:
    """The list; what an item cannot hold breaks it in two and stands between."""
    output: list[Node] = []
    items: list[Node] = []
    for item in made.items:
        for node in _built_item(item):
            if node["type"] == "listItem":
                items.append(node)
                continue
            output += [_list_node(made.kind, items)] if items else []
            output.append(node)
            items = []
    return output + ([_list_node(made.kind, items)] if items else [])


def _list_node(kind: str, items: list[Node]) -> Node:
    return block(kind, items, order=1) if kind == "orderedList" else block(kind, items)


def _built_item(item: _Item) -> list[Node]:
    output: list[Node] = []
    held: list[Node] = []
    nested = [node for inner in item.lists for node in _built(inner)]
    for node in item.content + nested:
        if _is_blank_paragraph(node):
            continue
        if node["type"] in _ALLOWED:
            held.append(node)
        else:
            output += [_list_item(held), node]
            held = []
    return output + ([_list_item(held)] if held else [])


def _is_blank_paragraph(node: Node) -> bool:
    return node["type"] == "paragraph" and all(
        child["type"] == "text" and not child["text"].strip() for child in node.get("content") or ()
    )


def _list_item(content: list[Node]) -> Node:
    if not content or content[0]["type"] not in _LISTS | {"paragraph", "mediaSingle"}:
        content = [block("paragraph"), *content]
    return block("listItem", content)
