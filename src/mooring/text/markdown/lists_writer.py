"""Lists as Markdown: bullets, numbers, tasks and decisions."""

import re
from typing import Protocol

from mooring.text.markdown.attributes import Pairs, block_pairs, pairs_of, render
from mooring.text.markdown.inexpressible import Inexpressible
from mooring.text.tree import Node, attributes, children

# What would be a horizontal rule instead of items.
_RULE = re.compile(r"(?:-[ \t]*){3,}$|(?:\*[ \t]*){3,}$")
_RULE_CHARACTERS = frozenset("-* \t")
_KEYS = frozenset({"type", "attrs", "content", "marks"})
_MAX_NUMBER = 999_999_999
_BOXES = {"TODO": "[ ]", "DONE": "[x]"}
_DECISIONS = {"DECIDED": "[!]", "UNDECIDED": "[?]"}


class Blocks(Protocol):
    """What a list needs of the block writer."""

    def sequence(self, content: list[Node], parent: str, *, tight: bool = False) -> str: ...
    def text(self, content: list[Node]) -> str: ...
    def container(self, name: str, pairs: Pairs, body: str, label: str | None = None) -> str: ...
    def with_line(
        self, item: Node, parent: str, block: str, extra: Pairs | None = None, without: tuple[str, ...] = ()
    ) -> str: ...


class ListWriter:
    def __init__(self, blocks: Blocks, *, explicit: bool) -> None:
        self._blocks = blocks
        # Say it when an id is missing; otherwise the reader would make one.
        self._explicit = explicit

    def bullets(self, item: Node, parent: str, marker: str) -> str:
        items = [self._item(child, marker + " ") for child in _items(item, "listItem")]
        return self._blocks.with_line(item, parent, _joined(items))

    def numbers(self, item: Node, parent: str, marker: str) -> str:
        order = attributes(item).get("order", 1)
        closing = "." if marker == "-" else ")"
        simple = isinstance(order, int) and not isinstance(order, bool) and 0 <= order <= _MAX_NUMBER - 9999
        first = order if simple else 1
        shown = simple and (order != 1 or "order" not in attributes(item))
        children_ = _items(item, "listItem")
        items = [self._item(child, f"{first + index}{closing} ") for index, child in enumerate(children_)]
        return self._blocks.with_line(item, parent, _joined(items), without=("order",) if shown else ())

    def _item(self, item: Node, marker: str) -> str:
        if not children(item):
            raise Inexpressible
        body = self._blocks.sequence(children(item), "listItem", tight=True)
        return _compose(marker, pairs_of(item), body, words_first=_words_first(item))

    def tasks(self, item: Node, parent: str, marker: str) -> str:
        content = children(item)
        if not content:
            raise Inexpressible
        items: list[str] = []
        leading: list[Node] = []
        at = 0
        while at < len(content) and content[at]["type"] == "taskList":
            leading.append(content[at])
            at += 1
        if leading:
            items.append(_compose(f"{marker} ", [], self._blocks.sequence(leading, "listItem", tight=True)))
        while at < len(content):
            nested_end = at + 1
            while nested_end < len(content) and content[nested_end]["type"] == "taskList":
                nested_end += 1
            items.append(self._task(content[at], content[at + 1 : nested_end], marker))
            at = nested_end
        extra = [("tasks", "true")] if leading else []
        if "localId" not in attributes(item) and self._explicit:
            extra.append(("attrs", "{}"))
        return self._blocks.with_line(item, parent, _joined(items), extra)

    def _task(self, item: Node, nested: list[Node], marker: str) -> str:
        state = attributes(item).get("state")
        if not _KEYS.issuperset(item) or item["type"] not in ("taskItem", "blockTaskItem"):
            raise Inexpressible
        box = _BOXES.get(state) if isinstance(state, str) else None
        pairs = pairs_of(item, without=("state",) if box else ())
        box = box or "[ ]"
        if (
            self._explicit
            and "localId" not in attributes(item)
            and not any(name == "attrs" for name, _ in pairs)
        ):
            pairs.append(("attrs", "{}"))
        if item["type"] == "blockTaskItem":
            body = self._blocks.sequence([*children(item), *nested], "blockTaskItem", tight=True)
            if not children(item) or any(
                child["type"] not in ("paragraph", "extension") for child in children(item)
            ):
                raise Inexpressible
            words_first = _words_first(item)
            return _compose(f"{marker} {box} ", [("block", "true"), *pairs], body, 2, words_first=words_first)
        line = " ".join(part for part in (box, self._blocks.text(children(item)), render(pairs)) if part)
        under = self._blocks.sequence(nested, "listItem", tight=True) if nested else ""
        return _indented(f"{marker} ", f"{line}\n{under}" if under else line, 2)

    def decisions(self, item: Node, parent: str, _marker: str) -> str:
        items: list[str] = []
        for child in _items(item, "decisionItem"):
            state = attributes(child).get("state")
            box = _DECISIONS.get(state) if isinstance(state, str) else None
            pairs = pairs_of(child, without=("state",) if box else ())
            if "localId" not in attributes(child) and not any(name == "attrs" for name, _ in pairs):
                pairs.append(("attrs", "{}"))
            line = " ".join(
                part for part in (box or "[!]", self._blocks.text(children(child)), render(pairs)) if part
            )
            items.append(_indented("- ", line, 2))
        pairs = block_pairs(item, parent)
        if "localId" not in attributes(item):
            pairs.append(("attrs", "{}"))
        return self._blocks.container("decisions", pairs, _joined(items))


def _items(item: Node, kind: str) -> list[Node]:
    content = children(item)
    if not content or any(child["type"] != kind or not _KEYS.issuperset(child) for child in content):
        raise Inexpressible
    return content


def _words_first(item: Node) -> bool:
    first = children(item)[0]
    return first["type"] == "paragraph" and bool(children(first))


def _compose(
    marker: str, pairs: Pairs, body: str, indent: int | None = None, *, words_first: bool = False
) -> str:
    """An item: marker, its own attributes, then its blocks."""
    given = render(pairs)
    if body == "::p":
        return (marker + given).rstrip()
    if not given and body[0] == "{":
        given = "{}"
    if given:
        separator = " " if words_first else "\n"
        body = f"{given}{separator}{body}"
    made = _indented(marker, body, indent or len(marker))
    if body[0] not in _RULE_CHARACTERS:
        return made
    first, newline, rest = made.partition("\n")
    if _RULE.match(first):
        first = f"{marker}\\{first[len(marker) :]}" if words_first else f"{first} ::p"
    return first + newline + rest


def _indented(marker: str, body: str, width: int) -> str:
    if "\n" not in body:
        return marker + body
    blank = " " * width
    lines = body.split("\n")
    return marker + "\n".join([lines[0], *(blank + line if line else "" for line in lines[1:])])


def _joined(items: list[str]) -> str:
    return ("\n\n" if any("\n\n" in item for item in items) else "\n").join(items)
