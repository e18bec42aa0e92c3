"""Which marks a run of inline nodes shares, and how far each of them reaches."""

from typing import NamedTuple

from mooring.text.tree import Mark, Node, attributes, is_raw, marks_of

# Outermost first when two marks reach equally far.
_NESTING = {
    name: rank
    for rank, name in enumerate(
        (
            "link",
            "strong",
            "em",
            "strike",
            "underline",
            "subsup",
            "textColor",
            "backgroundColor",
            "annotation",
        )
    )
}
_BARE_MARKS = frozenset({"strong", "em", "strike", "underline", "code"})
# Deeper nesting than this the reader does not follow.
_MANY_MARKS = 12
_BESIDE_CODE = frozenset({"code", "link", "annotation"})
# A text with other keys is written as ADF, and nothing is joined to it.
TEXT_KEYS = frozenset({"type", "text", "marks"})


class Item(NamedTuple):
    node: Node
    marks: tuple[Mark, ...]
    is_text: bool


def item_of(node: Node) -> Item:
    if node["type"] != "text":
        return Item(node, (), False)
    if len(node) == 2:
        return Item(node, (), True)
    marks = marks_of(node)
    if not TEXT_KEYS.issuperset(node) or not _expressible(marks):
        return Item(node, ({"type": "?"},), True)
    return Item(node, tuple(marks), True)


def _expressible(marks: list[Mark]) -> bool:
    """Can every mark be written as syntax, and will the reader give the same list back?"""
    if len(marks) > _MANY_MARKS:
        return False
    if len(marks) == 1:
        return is_known(marks[0])
    kinds = [mark.get("type") for mark in marks]
    if "code" in kinds and not _BESIDE_CODE.issuperset(kinds):
        return False
    if any(kinds.count(kind) > 1 for kind in kinds if kind != "annotation"):
        return False
    if len(marks) > 1 and any(mark in marks[:index] for index, mark in enumerate(marks)):
        return False
    return all(is_known(mark) for mark in marks)


def is_known(mark: Mark) -> bool:
    kind = mark.get("type")
    if kind in _BARE_MARKS:
        return len(mark) == 1
    attrs = attributes(mark)
    if set(mark) - {"type", "attrs"}:
        return False
    values = list(attrs.values())
    if kind == "link":
        return isinstance(attrs.get("href"), str) and isinstance(attrs.get("title", ""), str)
    if kind == "subsup":
        return values in (["sub"], ["sup"]) and "type" in attrs
    if kind in ("textColor", "backgroundColor"):
        color = attrs.get("color")
        return (
            len(attrs) == 1
            and isinstance(color, str)
            and color[:1] == "#"
            and color[1:].isalnum()
            and color.isascii()
        )
    if kind == "annotation":
        return (
            set(attrs) == {"id", "annotationType"}
            and isinstance(attrs["id"], str)
            and attrs["annotationType"] == "inlineComment"
        )
    return False


def longest_run(items: list[Item], start: int) -> tuple[Mark | None, int]:
    """The mark of the first item that reaches farthest, and where it ends; None for a leaf."""
    marks = items[start].marks
    if len(marks) == 1 and (start + 1 == len(items) or items[start + 1].is_text):
        # The usual case: one mark that the next text does not share.
        first = marks[0]
        if first["type"] not in _NESTING:
            return None, start + 1
        if start + 1 == len(items) or first not in items[start + 1].marks:
            return first, start + 1
    best: Mark | None = None
    best_key = (0, 0)
    best_end = start + 1
    seen: set[str] = set()
    for mark in marks:
        kind = mark["type"]
        if kind not in _NESTING or kind in seen:
            continue
        seen.add(kind)
        end = _reach(items, start, mark)
        key = (end, -_NESTING[kind])
        if best is None or key > best_key:
            best, best_key, best_end = mark, key, end
    return best, best_end


def _reach(items: list[Item], start: int, mark: Mark) -> int:
    end = start + 1
    at = end
    while at < len(items):
        item = items[at]
        if item.is_text:
            if first_of(item.marks, mark["type"]) != mark:
                break
            end = at + 1
        elif mark["type"] == "link" and is_raw(item.node):
            # Foreign source inside a link would be read as part of it.
            break
        at += 1
    return end


def first_of(marks: tuple[Mark, ...], kind: str) -> Mark | None:
    for mark in marks:
        if mark["type"] == kind:
            return mark
    return None


def without(item: Item, mark: Mark) -> Item:
    if not item.is_text:
        return item
    if len(item.marks) == 1:
        return Item(item.node, (), True)
    marks = list(item.marks)
    marks.remove(mark)
    return Item(item.node, tuple(marks), True)
