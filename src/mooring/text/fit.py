"""Makes blocks fit where they stand: what the schema does not admit is rewritten into what it does.

Used by readers of formats that nest more freely than ADF. Words are never dropped; each rewriting is
reported as a change.
"""

from mooring.text.content import ALLOWED, marks_allowed
from mooring.text.report import Report
from mooring.text.tree import Node, attributes, children, marks_of, node, paragraph, sort_marks, text

STRONG = {"type": "strong"}


def fit(item: Node, parent: str, report: Report) -> list[Node]:
    """The blocks to put into `parent` instead of `item`; usually just `item`."""
    allowed = ALLOWED.get(parent)
    kind = item["type"]
    if allowed is None:
        return [item]
    if kind in allowed:
        _drop_marks(item, parent, report)
        return [item]
    made = [each for made in _rewritten(item, parent) for each in fit(made, parent, report)]
    report.changed(made[0] if made else item, f"`{kind}` may not stand in `{parent}`; rewritten without it")
    return made


def _drop_marks(item: Node, parent: str, report: Report) -> None:
    marks = marks_of(item)
    if not marks or item["type"] not in ("paragraph", "heading", "codeBlock", "expand"):
        return
    kept = [mark for mark in marks if mark.get("type") in marks_allowed(item["type"], parent)]
    if any(mark.get("type") == "alignment" for mark in kept):
        kept = [mark for mark in kept if mark.get("type") != "indentation"]
    if len(kept) == len(marks):
        return
    gone = ", ".join(str(mark.get("type")) for mark in marks if mark not in kept)
    report.lost(item, f"`{item['type']}` in `{parent}` cannot have {gone}")
    if kept:
        item["marks"] = kept
    else:
        del item["marks"]


def _rewritten(item: Node, parent: str) -> list[Node]:
    kind = item["type"]
    if kind == "heading":
        return [paragraph(*(_strong(child) for child in children(item)))]
    if kind == "rule":
        return [paragraph(text("———"))]
    if kind in ("taskList", "decisionList"):
        return [_as_bullets(item)]
    if kind == "table":
        return [_row_as_paragraph(row) for row in children(item)]
    if kind in ("blockCard", "embedCard"):
        return [paragraph(_inline_card(item))]
    if kind == "mediaGroup":
        return [node("mediaSingle", [media], layout="center") for media in children(item)]
    if kind == "mediaSingle":
        return [paragraph(text(str(attributes(children(item)[0]).get("alt") or "media")))]
    if kind in ("expand", "nestedExpand"):
        return _expand(item, parent)
    if kind == "layoutSection":
        return [block for column in children(item) for block in children(column)]
    return children(item) or [paragraph()]


def _expand(item: Node, parent: str) -> list[Node]:
    other = "nestedExpand" if item["type"] == "expand" else "expand"
    if other in ALLOWED[parent]:
        made = {**item, "type": other, "attrs": attributes(item)}
        made.pop("marks", None)
        return [made]
    title = attributes(item).get("title")
    return [*([paragraph(text(str(title), STRONG))] if title else []), *children(item)]


def _strong(child: Node) -> Node:
    marks = marks_of(child)
    if child["type"] != "text" or STRONG in marks or any(mark["type"] == "code" for mark in marks):
        return child
    return {**child, "marks": sort_marks([*marks, STRONG])}


def _as_bullets(item: Node) -> Node:
    items: list[Node] = []
    for child in children(item):
        if child["type"] == "taskList":
            nested = _as_bullets(child)
            if items:
                items[-1]["content"].append(nested)
            else:
                items.append(node("listItem", [nested]))
            continue
        state = attributes(child).get("state")
        box = {"DONE": "[x] ", "TODO": "[ ] "}.get(str(state), "")
        content = children(child)
        if child["type"] == "blockTaskItem":
            items.append(node("listItem", [paragraph(text(box.strip() or "-")), *content]))
        else:
            items.append(node("listItem", [paragraph(*([text(box)] if box else []), *content)]))
    return node("bulletList", items)


def _row_as_paragraph(row: Node) -> Node:
    content: list[Node] = []
    for index, cell in enumerate(children(row)):
        if index:
            content.append(text(" | "))
        for block in children(cell):
            content += _inline(block)
    return paragraph(*content)


def _inline(block: Node) -> list[Node]:
    if block["type"] in ("paragraph", "heading"):
        return children(block)
    if block["type"] in ("blockCard", "embedCard"):
        return [_inline_card(block)]
    if block["type"] == "codeBlock":
        return [{**child, "marks": [{"type": "code"}]} for child in children(block)]
    return [
        each for child in children(block) for each in (_inline(child) if child["type"] != "text" else [child])
    ]


def _inline_card(item: Node) -> Node:
    attrs = attributes(item)
    if "url" in attrs:
        return node("inlineCard", url=attrs["url"])
    return {"type": "inlineCard", "attrs": {"data": attrs.get("data", {})}}
