"""The tree in the middle: Atlassian Document Format as plain dictionaries.

Every reader produces and every writer consumes a `doc` node of this shape. Two trees that differ only in
what no product can see (order of marks, text cut in pieces, empty lists) have the same canonical form.
"""

import json
from collections.abc import Iterator
from typing import Any, Literal, cast

from mooring.text.report import Path

Node = dict[str, Any]
Mark = dict[str, Any]
Origin = Literal["storage", "wiki", "adf", "html", "markdown"]

# The order in which the editor keeps the marks of one text.
MARK_ORDER = (
    "link", "em", "strong", "textColor", "backgroundColor", "strike", "subsup", "underline", "code",
    "alignment", "annotation", "fontSize", "breakout", "dataConsumer", "fragment", "indentation", "border",
)  # fmt: skip
MARK_RANK = {name: rank for rank, name in enumerate(MARK_ORDER)}
UNKNOWN_MARK_RANK = len(MARK_ORDER)

# These must have `content` even when there is nothing in it.
CONTENT_REQUIRED = frozenset({
    "doc", "tableRow", "blockquote", "bulletList", "orderedList", "listItem", "panel", "table", "tableCell",
    "tableHeader", "taskList", "decisionList", "mediaSingle", "mediaGroup", "expand", "nestedExpand",
    "bodiedExtension", "layoutSection", "layoutColumn", "bodiedSyncBlock", "blockTaskItem",
})  # fmt: skip

INLINE_TYPES = frozenset({
    "text", "hardBreak", "mention", "emoji", "date", "status", "placeholder", "inlineCard", "inlineExtension",
    "mediaInline",
})  # fmt: skip
# Nodes whose children are inline.
TEXT_BLOCKS = frozenset({"paragraph", "heading", "taskItem", "decisionItem", "caption", "codeBlock"})

RAW_EXTENSION = "mooring.raw"


# ---------------------------------------------------------------- builders


def doc(*content: Node) -> Node:
    return {"version": 1, "type": "doc", "content": list(content)}


def node(kind: str, content: list[Node] | None = None, /, **attrs: Any) -> Node:
    """A node of this type; attributes that are None are left out."""
    made: Node = {"type": kind}
    present = {name: value for name, value in attrs.items() if value is not None}
    if present:
        made["attrs"] = present
    if content or kind in CONTENT_REQUIRED:
        made["content"] = content or []
    return made


def text(value: str, *marks: Mark) -> Node:
    return (
        {"type": "text", "text": value, "marks": sort_marks(list(marks))}
        if marks
        else {"type": "text", "text": value}
    )


def mark(kind: str, /, **attrs: Any) -> Mark:
    present = {name: value for name, value in attrs.items() if value is not None}
    return {"type": kind, "attrs": present} if present else {"type": kind}


def paragraph(*content: Node) -> Node:
    return node("paragraph", list(content))


# ---------------------------------------------------------------- looking


def children(item: Node) -> list[Node]:
    content: Any = item.get("content")
    return content if content.__class__ is list else []


def attributes(item: Node) -> dict[str, Any]:
    attrs: Any = item.get("attrs")
    return attrs if attrs.__class__ is dict else {}


def marks_of(item: Node) -> list[Mark]:
    marks: Any = item.get("marks")
    return marks if marks.__class__ is list else []


def walk(item: Node, path: Path = ()) -> Iterator[tuple[Path, Node]]:
    """Every node with its path, parents first. Does not recurse, so depth costs nothing."""
    pending: list[tuple[Path, Node]] = [(path, item)]
    while pending:
        here, current = pending.pop()
        yield here, current
        content = children(current)
        pending.extend(
            ((*here, "content", index), content[index]) for index in range(len(content) - 1, -1, -1)
        )


def plain_text(item: Node) -> str:
    """The words a person would read in this node, without any markup."""
    return "".join(_visible(current) for _, current in walk(item))


def _visible(item: Node) -> str:
    kind, attrs = item.get("type"), attributes(item)
    if kind == "text":
        return str(item.get("text", ""))
    if kind == "hardBreak":
        return "\n"
    if kind in ("mention", "status", "placeholder"):
        return str(attrs.get("text", ""))
    if kind == "emoji":
        return str(attrs.get("text") or attrs.get("shortName", ""))
    if kind == "inlineCard":
        return str(attrs.get("url", ""))
    return ""


# ---------------------------------------------------------------- canonical form


def sort_marks(marks: list[Mark]) -> list[Mark]:
    """In the editor's order; marks of one type keep theirs."""
    if len(marks) < 2:
        return marks
    return sorted(marks, key=lambda each: MARK_RANK.get(each.get("type", ""), UNKNOWN_MARK_RANK))


def canonical(item: Node) -> Node:
    """The same tree with sorted marks, whole texts and no empty lists where none is needed. What is canonical
    already is shared with the input, so the result must not be changed in place."""
    if None in item.values():
        item = {key: value for key, value in item.items() if value is not None}
    made: Node = item
    kind = item.get("type")
    if kind == "nestedExpand":
        # The one node that must have `attrs` even when there are none.
        if "attrs" not in item:
            made = {**made, "attrs": dict[str, Any]()}
    elif "attrs" in item and item["attrs"] == {}:
        made = {key: value for key, value in made.items() if key != "attrs"}
    if "marks" in item and item["marks"].__class__ is list:
        made = _with_marks(made, item["marks"])
    content: Any = item.get("content")
    if content.__class__ is list:
        below = _canonical_content(content)
        if not below and kind not in CONTENT_REQUIRED:
            made = {key: value for key, value in made.items() if key != "content"}
        elif below is not content:
            made = {**made, "content": below}
    return made


def without_nulls(item: Node) -> Node:
    """The same tree without `"content": null` and the like; marks and texts stay as they are."""
    made = {key: value for key, value in item.items() if value is not None} if None in item.values() else item
    content = children(made)
    below = [without_nulls(child) for child in content]
    same = all(new is old for new, old in zip(below, content, strict=True))
    return made if same else {**made, "content": below}


def _with_marks(item: Node, marks: list[Any]) -> Node:
    if len(marks) == 1 and marks[0].__class__ is dict and len(marks[0]) == 1:
        return item
    if not marks:
        return {key: value for key, value in item.items() if key != "marks"}
    made = sort_marks([_canonical_mark(each) for each in marks])
    return item if made == marks else {**item, "marks": made}


def _canonical_mark(each: Any) -> Any:
    if each.__class__ is dict and "type" in each and each.get("attrs") == {}:
        return {"type": each["type"]}
    return each


def _canonical_content(content: list[Any]) -> list[Any]:
    """The very same list when nothing in it changes."""
    made: list[Any] = []
    same = True
    before: Node | None = None
    for child in content:
        if child.__class__ is not dict:
            made.append(child)
            before = None
            continue
        if child.get("type") == "text" and "content" not in child:
            current = canonical(child) if len(child) > 2 else child
            if not current.get("text", True):
                same = False
                continue
            if before is not None and _runs_on(before, current):
                same = False
                before = made[-1] = {**before, "text": before["text"] + current["text"]}
                continue
            before = current
        else:
            current = canonical(child)
            before = None
        same = same and current is child
        made.append(current)
    return content if same else made


def _runs_on(before: Node, text: Node) -> bool:
    """Are these two texts one? Not when either has keys of its own."""
    if len(before) == 2 or len(text) == 2:
        return len(before) == len(text)
    return len(before) == len(text) == 3 and "marks" in before and before["marks"] == text.get("marks")


def equal(left: Node, right: Node) -> bool:
    """Do these trees have the same canonical form?"""
    return canonical(left) == canonical(right)


# ---------------------------------------------------------------- foreign content


def raw_block(origin: Origin, source: str, visible: str = "", *, key: str = "raw") -> Node:
    """Foreign block content, kept verbatim. It is an `extension`, so the tree stays valid ADF, and `text`
    is what products show in its place. Each writer gives `source` back when `origin` is its own format."""
    parameters = {"origin": origin, "source": source, "display": "block"}
    return node("extension", **_raw_attributes(parameters, visible, key))


def raw_inline(origin: Origin, source: str, visible: str = "", *, key: str = "raw") -> Node:
    parameters = {"origin": origin, "source": source, "display": "inline"}
    return node("inlineExtension", **_raw_attributes(parameters, visible, key))


def _raw_attributes(parameters: dict[str, str], visible: str, key: str) -> dict[str, Any]:
    return {
        "extensionType": RAW_EXTENSION,
        "extensionKey": key,
        "parameters": parameters,
        "text": visible or None,
    }


def is_raw(item: Node, origin: Origin | None = None) -> bool:
    """Is this foreign content (of that origin, if one is given)?"""
    attrs = attributes(item)
    if attrs.get("extensionType") != RAW_EXTENSION or item.get("type") not in (
        "extension",
        "inlineExtension",
    ):
        return False
    return isinstance(raw_source(item), str) and origin in (None, raw_origin(item))


def foreign(document: Node) -> Iterator[tuple[Path, str]]:
    """Where foreign content rides along, and what it is called."""
    for path, item in walk(document):
        if is_raw(item):
            yield path, str(attributes(item).get("extensionKey"))


def raw_source(item: Node) -> str | None:
    return _raw_parameter(item, "source")


def raw_origin(item: Node) -> str | None:
    return _raw_parameter(item, "origin")


def _raw_parameter(item: Node, name: str) -> str | None:
    parameters = attributes(item).get("parameters")
    found = cast(dict[str, Any], parameters).get(name) if isinstance(parameters, dict) else None
    return found if isinstance(found, str) else None


def compact_json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
