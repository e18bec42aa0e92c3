"""Makes a tree valid when somebody wrote attributes the schema does not know: drops them, never the words."""

from typing import Any

from mooring.text import schema
from mooring.text.report import Path, Report
from mooring.text.tree import INLINE_TYPES, Node, attributes, children, marks_of, paragraph, plain_text, text

_DEFAULTS: dict[str, dict[str, Any]] = {
    "status": {"color": "neutral"},
    "panel": {"panelType": "info"},
    "mediaSingle": {"layout": "center"},
    "embedCard": {"layout": "center"},
    "heading": {"level": 6},
}


def repaired(document: Node, report: Report) -> Node:
    """The document itself when it is valid; else a copy in which whatever breaks the schema is gone."""
    if schema.is_valid(document):
        return document
    made = {
        **document,
        "content": [_node(each, ("content", at), report) for at, each in enumerate(children(document))],
    }
    if schema.is_valid(made):
        return made
    content = [
        each if schema.is_valid({**made, "content": [each]}) else _words(each, ("content", at), report)
        for at, each in enumerate(children(made))
    ]
    return {**made, "content": content}


def _node(item: Node, path: Path, report: Report) -> Node:
    if "content" in item:
        below = [_node(each, (*path, "content", at), report) for at, each in enumerate(children(item))]
        item = {**item, "content": below}
    if item["type"] == "text":
        return _text(item, path, report)
    if schema.is_valid_node(item):
        return item
    return _without_attributes(item, path, report)


def _text(item: Node, path: Path, report: Report) -> Node:
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
            report.lost(path, f"mark `{mark['type']}` cannot be as written")
    if kept == marks_of(item):
        return item
    made = {"type": "text", "text": item["text"]}
    return {**made, "marks": kept} if kept else made


def _without_attributes(item: Node, path: Path, report: Report) -> Node:
    """Leave out one attribute, then every optional one, then take what products do by default."""
    attrs = attributes(item)
    for candidate in (*({key: value for key, value in attrs.items() if key != name} for name in attrs), {}):
        for fixed in (candidate, {**candidate, **_DEFAULTS.get(item["type"], {})}):
            made = {key: value for key, value in item.items() if key != "attrs"}
            if fixed:
                made["attrs"] = fixed
            if schema.is_valid_node(made):
                gone = ", ".join(f"`{name}`" for name in attrs if attrs[name] != fixed.get(name))
                report.lost(path, f"`{item['type']}` cannot have {gone} as written")
                return made
    return _words(item, path, report)


def _words(item: Node, path: Path, report: Report) -> Node:
    report.changed(path, f"`{item['type']}` does not follow the schema; only its words were kept")
    words = text(plain_text(item) or f"[{item['type']}]")
    return words if item["type"] in INLINE_TYPES else paragraph(words)
