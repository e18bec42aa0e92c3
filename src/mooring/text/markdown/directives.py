"""`::: name` containers and `::name[…]` leaves as nodes."""

from typing import Any

from markdown_it.common.utils import unescapeAll
from markdown_it.token import Token

from mooring.text.adf import node_of
from mooring.text.markdown.attributes import Attributes
from mooring.text.markdown.grammar import PANELS
from mooring.text.markdown.reading import Reading
from mooring.text.tree import Node, attributes, plain_text

_DEFAULT_EXTENSION_TYPE = "com.atlassian.confluence.macro.core"
_INSIDE_EXPAND = frozenset({"expand", "tableCell", "tableHeader"})


def read_container(reading: Reading, token: Token, at: int, stop: int, parent: str) -> list[Node]:
    name, given = token.meta["name"], dict(token.meta["given"])
    label = unescapeAll(token.meta["label"]) if token.meta["label"] else None
    if name in PANELS or name == "panel":
        return [_panel(reading, name, at, stop, given)]
    match name:
        case "expand" | "nestedExpand":
            return [_expand(reading, token, at, stop, parent)]
        case "layout" | "section":
            return _layout(reading, at, stop, given)
        case "caption":
            return [_caption(reading, at, stop, given)]
        case "files":
            return _files(reading, at, stop, given)
        case "decisions":
            return [_decisions(reading, at, stop, given)]
        case "table":
            return [_table(reading, at, stop, given)]
        case "macro":
            return [_macro(reading, label, at, stop, given)]
        case "sync":
            return [_sync(reading, label, at, stop, given)]
        case "adf":
            return _adf(reading, at, stop, given)
        case _:
            found = reading.blocks(at + 1, stop, parent)
            reading.report.changed(_first(found), f"`::: {name}` stands alone; only its content was kept")
            return found


def _first(found: list[Node]) -> Node | str:
    """What a finding about a container that is gone is about."""
    return found[0] if found else ""


def _body(reading: Reading, at: int, stop: int, kind: str) -> list[Node]:
    return reading.blocks(at + 1, stop, kind) or [{"type": "paragraph"}]


def _panel(reading: Reading, name: str, at: int, stop: int, given: Attributes) -> Node:
    kind = name if name != "panel" else given.pop("type", None)
    attrs = {"panelType": kind} if kind else ({} if "attrs" in given else {"panelType": "info"})
    node: Node = {"type": "panel", "attrs": attrs, "content": _body(reading, at, stop, "panel")}
    if kind and kind not in (*PANELS, "custom"):
        reading.report.changed(node, f"there is no `{kind}` panel; an info panel was made")
        attrs["panelType"] = "info"
    return reading.apply(node, given)


def _expand(reading: Reading, token: Token, at: int, stop: int, parent: str) -> Node:
    kind = "nestedExpand" if parent in _INSIDE_EXPAND else "expand"
    given, label = dict(token.meta["given"]), token.meta["label"]
    title = unescapeAll(label) if label else given.pop("title", None)
    node: Node = {"type": kind, "content": _body(reading, at, stop, kind)}
    if title is not None or kind == "nestedExpand":
        node["attrs"] = {} if title is None else {"title": title}
    return reading.apply(node, given)


def _layout(reading: Reading, at: int, stop: int, given: Attributes) -> list[Node]:
    columns: list[Node] = []
    others = False
    index = at + 1
    while index < stop:
        token, end = reading.tokens[index], reading.close_of(index)
        if token.type == "directive_open" and token.meta["name"] == "column":
            column: Node = {"type": "layoutColumn", "content": _body(reading, index, end, "layoutColumn")}
            columns.append(reading.apply(column, token.meta["given"]))
        else:
            others = True
        index = end + 1
    if others or not 2 <= len(columns) <= 3:
        found = _unwrapped(reading, at, stop)
        reading.report.changed(
            _first(found), "a layout has two or three columns and nothing else; its content was kept"
        )
        return found
    for column in columns:
        column.setdefault("attrs", {}).setdefault("width", round(100 / len(columns), 2))
    return [reading.apply({"type": "layoutSection", "content": columns}, given)]


def _unwrapped(reading: Reading, at: int, stop: int) -> list[Node]:
    made: list[Node] = []
    index = at + 1
    while index < stop:
        token, end = reading.tokens[index], reading.close_of(index)
        if token.type == "directive_open" and token.meta["name"] == "column":
            made += reading.blocks(index + 1, end, "layoutColumn")
        else:
            made += reading.blocks(index, end + 1, "layoutColumn")
        index = end + 1
    return made


def _caption(reading: Reading, at: int, stop: int, given: Attributes) -> Node:
    node: Node = {"type": "caption"}
    content: list[Node] = []
    for index in range(at + 1, stop):
        if reading.tokens[index].type == "inline":
            if content:
                content.append({"type": "hardBreak"})
            content += reading.inline.read(reading.tokens[index].content)
    if content:
        node["content"] = content
    reading.apply(node, given)
    # Whatever its marks are, it belongs to the image before it.
    reading.exempt.discard(id(node))
    return node


def _files(reading: Reading, at: int, stop: int, given: Attributes) -> list[Node]:
    media: list[Node] = []
    others: list[Node] = []
    index = at + 1
    while index < stop:
        end = reading.close_of(index)
        token = reading.tokens[index]
        found = (
            reading.inline.images(reading.tokens[index + 1].content)
            if token.type == "paragraph_open"
            else None
        )
        if found is None:
            others += reading.blocks(index, end + 1, "doc")
        else:
            media += found
        index = end + 1
    group = [reading.apply({"type": "mediaGroup", "content": media}, given)] if media else []
    return group + others


def _decisions(reading: Reading, at: int, stop: int, given: Attributes) -> Node:
    items: list[Node] = []
    for block in reading.blocks(at + 1, stop, "decisionList"):
        if block["type"] == "decisionItem":
            items.append(block)
        else:
            words = plain_text(block)
            items.append(
                {
                    "type": "decisionItem",
                    "attrs": {"state": "DECIDED"},
                    "content": [{"type": "text", "text": words or "…"}],
                }
            )
            items[-1]["attrs"]["localId"] = reading.identifiers.make("item", words)
            reading.report.changed(items[-1], "only list items can be decisions")
    node: Node = {"type": "decisionList", "attrs": {}, "content": items}
    explicit = "attrs" in given
    reading.apply(node, given)
    if not explicit:
        node["attrs"].setdefault("localId", reading.identifiers.make("decisions", plain_text(node)))
    if not items:
        return {"type": "paragraph"}
    return node


def _table(reading: Reading, at: int, stop: int, given: Attributes) -> Node:
    rows: list[Node] = []
    index = at + 1
    while index < stop:
        token, end = reading.tokens[index], reading.close_of(index)
        if token.type == "directive_open" and token.meta["name"] == "row":
            rows.append(_row(reading, index, end))
        else:
            content = reading.blocks(index, end + 1, "tableCell") or [{"type": "paragraph"}]
            rows.append({"type": "tableRow", "content": [{"type": "tableCell", "content": content}]})
            reading.report.changed(
                rows[-1], "something between the rows of a table was put into a row of its own"
            )
        index = end + 1
    if not rows:
        return {"type": "paragraph"}
    return reading.apply({"type": "table", "content": rows}, given)


def _row(reading: Reading, at: int, stop: int) -> Node:
    cells: list[Node] = []
    index = at + 1
    while index < stop:
        token, end = reading.tokens[index], reading.close_of(index)
        name = token.meta.get("name") if token.meta else None
        kind = "tableHeader" if name == "header" else "tableCell"
        if token.type == "directive_open" and name in ("cell", "header"):
            content = _body(reading, index, end, kind)
            cells.append(reading.apply({"type": kind, "content": content}, token.meta["given"]))
        elif token.type == "directive_leaf" and name in ("cell", "header"):
            inline = reading.inline.read(token.meta["label"])
            paragraph: Node = {"type": "paragraph", "content": inline} if inline else {"type": "paragraph"}
            cells.append(reading.apply({"type": kind, "content": [paragraph]}, token.meta["given"]))
        else:
            content = reading.blocks(index, end + 1, kind) or [{"type": "paragraph"}]
            cells.append({"type": kind, "content": content})
        index = end + 1
    return reading.apply({"type": "tableRow", "content": cells}, reading.tokens[at].meta["given"])


def _macro(reading: Reading, label: str | None, at: int, stop: int, given: Attributes) -> Node:
    node: Node = {
        "type": "bodiedExtension",
        "attrs": {},
        "content": _body(reading, at, stop, "bodiedExtension"),
    }
    return _extension(reading, node, label, given)


def _extension(reading: Reading, node: Node, label: str | None, given: Attributes) -> Node:
    if label:
        node["attrs"]["extensionKey"] = label
    explicit = "attrs" in given
    reading.apply(node, given)
    if not explicit:
        node["attrs"].setdefault("extensionKey", "unknown")
        node["attrs"].setdefault("extensionType", _DEFAULT_EXTENSION_TYPE)
    return node


def _sync(reading: Reading, label: str | None, at: int, stop: int, given: Attributes) -> Node:
    node: Node = {
        "type": "bodiedSyncBlock",
        "attrs": {},
        "content": _body(reading, at, stop, "bodiedSyncBlock"),
    }
    return _identified(reading, node, label, given)


def _identified(reading: Reading, node: Node, label: str | None, given: Attributes) -> Node:
    if label:
        node["attrs"]["resourceId"] = label
    explicit = "attrs" in given
    reading.apply(node, given)
    if not explicit:
        node["attrs"].setdefault("resourceId", "")
        node["attrs"].setdefault("localId", reading.identifiers.make("sync", str(label)))
    return node


def _adf(reading: Reading, at: int, stop: int, given: Attributes) -> list[Node]:
    """A node given as JSON, with its content as Markdown."""
    made = node_of(given.get("json", ""))
    if made is None:
        found = reading.blocks(at + 1, stop, "doc")
        reading.report.changed(_first(found), "`::: adf` without a node in `json`; only its content was kept")
        return found
    if given.get("inline") == "true":
        made["content"] = _caption(reading, at, stop, {}).get("content", [])
    else:
        made["content"] = reading.blocks(at + 1, stop, "?")
    reading.exempt.add(id(made))
    return [made]


def read_leaf(reading: Reading, token: Token) -> list[Node]:
    name, given = token.meta["name"], dict(token.meta["given"])
    label = unescapeAll(token.meta["label"])
    match name:
        case "p":
            return [reading.apply({"type": "paragraph"}, given)]
        case "card":
            return [_card(reading, label, given)]
        case "embed":
            attrs: dict[str, Any] = {"url": label} if label else {}
            node: Node = {"type": "embedCard", "attrs": attrs}
            reading.apply(node, given)
            if "attrs" not in given:
                attributes(node).setdefault("layout", "center")
            return [node]
        case "macro":
            return [_extension(reading, {"type": "extension", "attrs": {}}, label, given)]
        case "sync":
            return [_identified(reading, {"type": "syncBlock", "attrs": {}}, label, given)]
        case _:
            content = reading.inline.read(token.meta["label"])
            made: Node = {"type": "paragraph", "content": content} if content else {"type": "paragraph"}
            reading.report.changed(made, f"`::{name}` stands outside a table row; it became a paragraph")
            return [made]


def _card(reading: Reading, label: str, given: Attributes) -> Node:
    node: Node = {"type": "blockCard", "attrs": {"url": label} if label else {}}
    reading.apply(node, given)
    if not attributes(node):
        node["attrs"] = {"url": ""}
    return node
