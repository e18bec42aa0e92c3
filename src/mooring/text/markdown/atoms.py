"""Inline nodes other than text, as `:name[label]{attributes}`, and back."""

import re
from collections.abc import Mapping
from datetime import date
from typing import Any

from markdown_it.common.utils import unescapeAll

from mooring.text.adf import node_of
from mooring.text.dates import iso_day
from mooring.text.markdown import attributes as lists
from mooring.text.markdown import escape
from mooring.text.tree import Node, attributes, is_raw, plain_text, raw_inline, raw_source

DAY_MILLISECONDS = 86_400_000
_EPOCH = date(1970, 1, 1)
_DAY = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_MILLISECONDS = re.compile(r"0|-?[1-9]\d{0,14}")
_RAW_HTML = re.compile(r"</?[A-Za-z][^<>\n`]*>|<!--[^<>\n`-]*-->")
_RAW_IMAGE = re.compile(
    r'!\[([\w ]*)\]\([^()<>\[\]\s`\\"&]+(?: "[^"\[\]\n`\\&]+")?\)|\[\]\([^()<>\[\]\s`\\&"]*\)'
)
# Directive -> (node type, attribute the label shows)
SIMPLE: dict[str, tuple[str, str]] = {
    "mention": ("mention", "text"),
    "status": ("status", "text"),
    "placeholder": ("placeholder", "text"),
    "card": ("inlineCard", "url"),
    "file": ("mediaInline", "alt"),
    "macro": ("inlineExtension", "extensionKey"),
}
_NAMES = {kind: (name, shown) for name, (kind, shown) in SIMPLE.items()}
NAMES = frozenset({*SIMPLE, "emoji", "date", "br", "char", "adf"})


def render_atom(item: Node, users: Mapping[str, str], *, verbatim: bool = True) -> str:
    kind = item["type"]
    if set(item) - {"type", "attrs", "marks"}:
        return as_json(item)
    if kind == "date":
        return _date(item)
    if kind == "emoji":
        return _emoji(item)
    if kind == "hardBreak":
        return ":br[]" + lists.render(lists.pairs_of(item))
    if verbatim and is_raw(item) and (source := _verbatim(item)):
        return source
    if kind not in _NAMES:
        return as_json(item)
    if kind == "mention" and "text" not in attributes(item):
        return _unnamed_mention(item, users)
    name, shown = _NAMES[kind]
    return labelled(f":{name}", item, shown)


def _verbatim(item: Node) -> str | None:
    """The source of foreign content, if reading it here gives this very node again."""
    source = raw_source(item) or ""
    if _RAW_HTML.fullmatch(source) and item == raw_inline("html", source):
        return source
    found = _RAW_IMAGE.fullmatch(source)
    if found and item == raw_inline("markdown", source, found[1] or ""):
        return source
    return None


def labelled(name: str, item: Node, shown: str) -> str:
    """`name[label]{…}` with the attribute `shown` as the label when a label can hold it."""
    value = attributes(item).get(shown)
    label = escape.label(value) if isinstance(value, str) and value else None
    given = lists.render(lists.pairs_of(item, without=(shown,) if label else ()))
    return f"{name}[{label or ''}]{given}"


def _unnamed_mention(item: Node, users: Mapping[str, str]) -> str:
    name = users.get(str(attributes(item).get("id")))
    label = escape.label(f"@{name.removeprefix('@')}") if name else None
    pairs = lists.pairs_of(item) + ([("resolved", "true")] if label else [])
    return f":mention[{label or ''}]{lists.render(pairs)}"


def _date(item: Node) -> str:
    stamp = attributes(item).get("timestamp")
    if not isinstance(stamp, str):
        return as_json(item)
    day = iso_day(stamp)
    pairs = lists.pairs_of(item, without=("timestamp",))
    if day is None or int(stamp) % DAY_MILLISECONDS:
        pairs.append(("ts", stamp))
    label = day or escape.label(stamp)
    return as_json(item) if label is None else f":date[{label}]{lists.render(pairs)}"


def _emoji(item: Node) -> str:
    attrs = attributes(item)
    name = attrs.get("shortName")
    if "text" not in attrs and isinstance(name, str) and re.fullmatch(r":[^\[\]\\&<`\s]+:", name):
        return f":emoji[{name}]" + lists.render(lists.pairs_of(item, without=("shortName",)))
    return labelled(":emoji", item, "text")


def as_json(item: Node) -> str:
    """The node as it is, with its words as the label."""
    label = escape.label(plain_text(item)) or ""
    return f":adf[{label}]" + lists.render([("json", lists.quote(item))])


# ---------------------------------------------------------------- reading


def read_atom(name: str, label: str, given: lists.Attributes) -> tuple[Node, list[str]] | None:
    """The node of a directive and the attributes it refused; None when the directive makes no sense."""
    shown = unescapeAll(label)
    if name == "adf":
        return _from_json(given)
    if name == "char":
        return _character(label)
    if name == "br":
        return _with_attributes({"type": "hardBreak"}, given)
    if name == "date":
        return _read_date(shown, given)
    if name == "emoji":
        return _read_emoji(shown, given)
    kind, attribute = SIMPLE[name]
    resolved = given.pop("resolved", None)
    made: Node = {"type": kind}
    if shown and not resolved:
        made["attrs"] = {attribute: shown}
    return _complete(made, given)


_REQUIRED: dict[str, dict[str, Any]] = {
    "mention": {"id": None},
    "status": {"text": None, "color": "neutral"},
    "placeholder": {"text": ""},
    "mediaInline": {"id": None, "collection": ""},
    "inlineExtension": {"extensionKey": None, "extensionType": "com.atlassian.confluence.macro.core"},
}


def _complete(made: Node, given: lists.Attributes) -> tuple[Node, list[str]] | None:
    """Fill in what the schema requires; without an id or a key there is no such node."""
    refused = lists.apply(made, given)
    attrs = made.setdefault("attrs", {})
    if "attrs" in given or "marks" in given:
        return made, refused
    for name, default in _REQUIRED.get(made["type"], {}).items():
        if name not in attrs:
            if default is None:
                return None
            attrs[name] = default
    if made["type"] == "inlineCard" and not ({"url", "data"} & set(attrs)):
        return None
    return made, refused


def _with_attributes(made: Node, given: lists.Attributes) -> tuple[Node, list[str]]:
    return made, lists.apply(made, given)


def _from_json(given: lists.Attributes) -> tuple[Node, list[str]] | None:
    made = node_of(given.get("json", ""))
    return None if made is None else (made, [])


def _character(label: str) -> tuple[Node, list[str]] | None:
    if not re.fullmatch(r"[0-9a-fA-F]{1,6}", label) or int(label, 16) > 0x10FFFF:
        return None
    return {"type": "text", "text": chr(int(label, 16))}, []


def _read_date(shown: str, given: lists.Attributes) -> tuple[Node, list[str]] | None:
    stamp = given.pop("ts", None)
    if stamp is None:
        try:
            day = date.fromisoformat(shown) if _DAY.fullmatch(shown) else None
        except ValueError:
            day = None
        if day is None:
            return None
        stamp = str((day - _EPOCH).days * DAY_MILLISECONDS)
    return _with_attributes({"type": "date", "attrs": {"timestamp": stamp}}, given)


def _read_emoji(shown: str, given: lists.Attributes) -> tuple[Node, list[str]] | None:
    attrs: dict[str, Any] = {}
    if shown and not ("name" not in given and re.fullmatch(r":\S+:", shown)):
        attrs["text"] = shown
    elif shown:
        attrs["shortName"] = shown
    made: Node = {"type": "emoji", "attrs": attrs}
    refused = lists.apply(made, given)
    if "shortName" not in made["attrs"] and "attrs" not in given:
        return None
    return made, refused
