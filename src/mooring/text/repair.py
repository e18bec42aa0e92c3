"""Makes nodes valid when somebody wrote attributes the schema does not know: drops them, never the words."""

from typing import Any

from mooring.text import schema
from mooring.text.report import Report
from mooring.text.tree import (
    INLINE_TYPES,
    Node,
    attributes,
    children,
    doc,
    marks_of,
    paragraph,
    plain_text,
    text,
)

_DEFAULTS: dict[str, dict[str, Any]] = {
    "status": {"color": "neutral"},
    "panel": {"panelType": "info"},
    "mediaSingle": {"layout": "center"},
    "embedCard": {"layout": "center"},
    "heading": {"level": 6},
}


def repair(blocks: list[Node], report: Report) -> None:
    """Change top-level nodes in place until each is valid; those that are stay as they are."""
    for block in blocks:
        if schema.is_valid(doc(block)):
            continue
        _node(block, report)
        if not schema.is_valid(doc(block)):
            _words(block, report)


def _node(item: Node, report: Report) -> None:
    for child in children(item):
        _node(child, report)
    if item["type"] == "text":
        _text(item, report)
    elif not schema.is_valid_node(item):
        _without_attributes(item, report)


def _text(item: Node, report: Report) -> None:
    kept: list[Any] = []
    for mark in marks_of(item):
        known = {
            name: value
            for name, value in attributes(mark).items()
            if name in schema.mark_attributes(mark["type"])
        }
        made = {**mark, "attrs": known} if known else {"type": mark["type"]}
        valid = schema.is_valid_mark(made)
        if valid:
            kept.append(made)
        if made != mark or not valid:
            report.lost(item, f"mark `{mark['type']}` cannot be as written")
    if kept:
        item["marks"] = kept
    else:
        item.pop("marks", None)


def _without_attributes(item: Node, report: Report) -> None:
    """Leave out one attribute, then every optional one, then take what products do by default."""
    attrs = attributes(item)
    for candidate in (*({key: value for key, value in attrs.items() if key != name} for name in attrs), {}):
        for fixed in (candidate, {**candidate, **_DEFAULTS.get(item["type"], {})}):
            made = {key: value for key, value in item.items() if key != "attrs"}
            if fixed:
                made["attrs"] = fixed
            if schema.is_valid_node(made):
                gone = ", ".join(f"`{name}`" for name in attrs if attrs[name] != fixed.get(name))
                report.lost(item, f"`{item['type']}` cannot have {gone} as written")
                _become(item, made)
                return
    _words(item, report)


def _words(item: Node, report: Report) -> None:
    report.changed(item, f"`{item['type']}` does not follow the schema; only its words were kept")
    words = text(plain_text(item) or f"[{item['type']}]")
    _become(item, words if item["type"] in INLINE_TYPES else paragraph(words))


def _become(item: Node, made: Node) -> None:
    """The same object with other content: findings about it stay about it."""
    item.clear()
    item.update(made)
