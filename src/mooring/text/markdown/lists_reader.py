"""Markdown lists as bullet, ordered, task and decision lists."""

import re
from dataclasses import dataclass

from mooring.text.markdown.attributes import Attributes
from mooring.text.markdown.reading import Reading
from mooring.text.markdown.trimming import lead_attributes
from mooring.text.tree import Node, attributes, plain_text

_BOX = re.compile(r"\[([ xX])\](?:[ \t\n]+|$)")
_DECISION = re.compile(r"\[([!?])\](?:[ \t\n]+|$)")


@dataclass(frozen=True, slots=True)
class _Item:
    """One list item: its tokens, the attributes in front of it and its box."""

    start: int
    end: int
    given: Attributes
    box: str | None


def read_list(reading: Reading, at: int, stop: int, given: Attributes, parent: str) -> list[Node]:
    opening = reading.tokens[at]
    ordered = opening.type == "ordered_list_open"
    decisions = parent == "decisionList"
    items = [_item(reading, start, _DECISION if decisions else _BOX) for start in _starts(reading, at, stop)]
    if decisions:
        return [_decision(reading, item) for item in items]
    if not ordered and (given.pop("tasks", None) or (items and all(item.box is not None for item in items))):
        tasks = _tasks(reading, items, given)
        if tasks is not None:
            return [tasks]
    return [_plain(reading, opening.attrs.get("start") if ordered else None, ordered, items, given)]


def _starts(reading: Reading, at: int, stop: int) -> list[int]:
    starts: list[int] = []
    at += 1
    while at < stop:
        starts.append(at)
        at = reading.close_of(at) + 1
    return starts


def _item(reading: Reading, opening: int, pattern: re.Pattern[str]) -> _Item:
    start, end = opening + 1, reading.close_of(opening)
    tokens = reading.tokens
    if start >= end:
        return _Item(start, end, {}, None)
    if tokens[start].type == "attribute_line":
        return _Item(start + 1, end, tokens[start].meta["given"], None)
    if tokens[start].type != "paragraph_open":
        return _Item(start, end, {}, None)
    inline = tokens[start + 1]
    box = pattern.match(inline.content)
    rest = inline.content[box.end() :] if box else inline.content
    given, rest = lead_attributes(rest)
    inline.content = rest
    if given is not None and not rest:
        start += 3
    return _Item(start, end, given or {}, box[1].lower() if box else None)


def _plain(
    reading: Reading, first: str | float | None, ordered: bool, items: list[_Item], given: Attributes
) -> Node:
    made: Node = {"type": "orderedList" if ordered else "bulletList"}
    if first is not None:
        made["attrs"] = {"order": int(first)}
    entries: list[Node] = []
    made["content"] = entries
    for item in items:
        demoted = item.box is not None and _restore_box(reading, item)
        content = reading.blocks(item.start, item.end, "listItem") or [{"type": "paragraph"}]
        entries.append(reading.apply({"type": "listItem", "content": content}, item.given))
        if demoted:
            reading.report.changed(entries[-1], "a task among ordinary items became text")
    return reading.apply(made, given)


def _restore_box(reading: Reading, item: _Item) -> bool:
    """A box in a list that is no task list is only text."""
    if item.start >= item.end or reading.tokens[item.start].type != "paragraph_open":
        return False
    inline = reading.tokens[item.start + 1]
    inline.content = f"\\[{item.box}] {inline.content}"
    return True


def _tasks(reading: Reading, items: list[_Item], given: Attributes) -> Node | None:
    """A task list, or None when some item holds what a task cannot."""
    made: Node = {"type": "taskList", "attrs": {}, "content": []}
    content: list[Node] = made["content"]
    if not all(_fits_task(reading, item) for item in items):
        return None
    for item in items:
        content += _task(reading, item)
    explicit = "attrs" in given
    reading.apply(made, given)
    if not explicit:
        made["attrs"].setdefault("localId", reading.identifiers.make("tasks", plain_text(made)))
    return made


def _fits_task(reading: Reading, item: _Item) -> bool:
    """Inline content and nested task lists; a block task may hold more."""
    at = item.start
    if "block" in item.given:
        return True
    first = item.box is not None
    flagged = False
    while at < item.end:
        token = reading.tokens[at]
        if token.type == "attribute_line":
            flagged = "tasks" in token.meta["given"]
        elif token.type == "paragraph_open" and first:
            first = False
        elif token.type != "bullet_list_open" or not (flagged or _all_boxes(reading, at)):
            return False
        at = reading.close_of(at) + 1
    return True


def _all_boxes(reading: Reading, at: int) -> bool:
    """Does every item of this list, and of the lists in it, begin with a box?"""
    for opening in _starts(reading, at, reading.close_of(at)):
        first, end = opening + 1, reading.close_of(opening)
        if first >= end or reading.tokens[first].type != "paragraph_open":
            return False
        box = _BOX.match(reading.tokens[first + 1].content)
        if not box or not _fits_task(reading, _Item(first, end, _flags(reading, first, box.end()), "x")):
            return False
    return True


def _flags(reading: Reading, first: int, start: int) -> Attributes:
    return lead_attributes(reading.tokens[first + 1].content[start:])[0] or {}


def _task(reading: Reading, item: _Item) -> list[Node]:
    if item.box is None:
        return [
            node for node in reading.blocks(item.start, item.end, "taskList") if node["type"] == "taskList"
        ]
    given = dict(item.given)
    block = given.pop("block", None)
    made: Node = {"type": "blockTaskItem" if block else "taskItem"}
    made["attrs"] = {"state": "DONE" if item.box == "x" else "TODO"}
    start = item.start
    if block:
        found = reading.blocks(start, item.end, "blockTaskItem")
        nested = [node for node in found if node["type"] == "taskList"]
        made["content"] = [node for node in found if node["type"] != "taskList"] or [{"type": "paragraph"}]
    else:
        if start < item.end and reading.tokens[start].type == "paragraph_open":
            content, trailing = reading.text(reading.tokens[start + 1].content)
            given.update(trailing)
            if content:
                made["content"] = content
            start += 3
        nested = reading.blocks(start, item.end, "taskList")
    _identify(reading, made, given)
    return [made, *nested]


def _decision(reading: Reading, item: _Item) -> Node:
    made: Node = {"type": "decisionItem", "attrs": {"state": "UNDECIDED" if item.box == "?" else "DECIDED"}}
    given = dict(item.given)
    start = item.start
    if start < item.end and reading.tokens[start].type == "paragraph_open":
        content, trailing = reading.text(reading.tokens[start + 1].content)
        given.update(trailing)
        if content:
            made["content"] = content
        start += 3
    for block in reading.blocks(start, item.end, "?"):
        reading.report.changed(made, "a decision holds one line; the rest was appended to it")
        made.setdefault("content", []).append({"type": "text", "text": " " + (plain_text(block) or "…")})
    _identify(reading, made, given)
    return made


def _identify(reading: Reading, made: Node, given: Attributes) -> None:
    explicit = "attrs" in given
    reading.apply(made, given)
    if not explicit and "localId" not in attributes(made):
        made["attrs"]["localId"] = reading.identifiers.make("item", plain_text(made))
