"""The `{#id key=value}` lists of extended Markdown: their grammar, and which names each node uses.

Values are bare words, JSON strings in double quotes, or JSON in single quotes. The same tables drive the
writer and the reader, so a name cannot mean two things.
"""

import json
import re
from typing import Any, cast

from mooring.text.adf import are_marks
from mooring.text.content import marks_allowed
from mooring.text.tree import Mark, Node, attributes, marks_of

Attributes = dict[str, str]
Pairs = list[tuple[str, str]]

ID = "#"
# Words that may stand alone; anything else in braces needs a `#` or an `=`, so that `{name}` stays text.
FLAGS = frozenset({"numbered", "block", "tasks", "decisions", "resolved"})

_ITEM = re.compile(
    r"""[ \t]*(?:
      \#(?P<id>[A-Za-z0-9_.:-]+)
    | (?P<name>[A-Za-z][A-Za-z0-9-]*)(?:=(?:
        "(?P<text>(?:[^"\\\n]|\\.)*)"
      | '(?P<json>[^'\n]*)'
      | (?P<bare>[^\s"'{}=\\]+)
      ))?
    )(?=[ \t}])""",
    re.VERBOSE,
)
_END = re.compile(r"[ \t]*\}")
_BARE = re.compile(r"[A-Za-z0-9_./:@%+,#-]+")
_IDENTIFIER = re.compile(r"[A-Za-z0-9_.:-]+")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
# Inside the text of a link or image these would be read before the braces are.
_DELICATE = str.maketrans({"[": "\\u005b", "]": "\\u005d", "`": "\\u0060", "<": "\\u003c"})


def parse(source: str, start: int) -> tuple[Attributes, int] | None:
    """The list that begins with the `{` at `start`, and the position after its `}`."""
    found: Attributes = {}
    position = start + 1
    while item := _ITEM.match(source, position):
        name, value = _item(item)
        if name is None:
            return None
        found[name] = value
        position = item.end()
    end = _END.match(source, position)
    return (found, end.end()) if end else None


def _item(item: re.Match[str]) -> tuple[str | None, str]:
    if item["id"] is not None:
        return ID, item["id"]
    if item["text"] is not None:
        return item["name"], _unquote(item["text"])
    for group in ("json", "bare"):
        if item[group] is not None:
            return item["name"], item[group]
    return (item["name"] if item["name"] in FLAGS else None), "true"


def _unquote(value: str) -> str:
    if "\\" not in value:
        return value
    try:
        return str(json.loads(f'"{value}"'))
    except ValueError:
        return re.sub(r"\\(.)", r"\1", value)


def render(pairs: Pairs, *, delicate: bool = False) -> str:
    """`{…}`, or nothing when there are no pairs. `delicate` when a link or an image comes just before."""
    if not pairs:
        return ""
    return "{" + " ".join(_pair(name, value, delicate) for name, value in pairs) + "}"


def _pair(name: str, value: str, delicate: bool) -> str:
    if name == ID:
        return f"#{value}"
    if name in FLAGS and value == "true":
        return name
    if isinstance(value, Json) and value[:1] in ("{", "["):
        return f"{name}='{_escape_strings(value) if delicate else value}'"
    if _BARE.fullmatch(value):
        return f"{name}={value}"
    quoted = quote(value)
    return f"{name}={quoted.translate(_DELICATE) if delicate else quoted}"


def _escape_strings(value: str) -> str:
    """Escape brackets in the strings of a JSON text; those around arrays are balanced and may stay."""
    return re.sub(r'"(?:[^"\\]|\\.)*"', lambda found: found[0].translate(_DELICATE), value)


class Json(str):
    """A text known to be JSON."""

    __slots__ = ()


def quote(value: Any) -> Json:
    """JSON that survives as one line of UTF-8, between single quotes too."""
    made = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    if not made.isprintable():
        made = json.dumps(value, separators=(",", ":"))
    return Json(made.replace("'", "\\u0027"))


# ---------------------------------------------------------------- names per node

# ADF attribute -> (name in Markdown, kind); kinds: s text, n number, b boolean, j JSON, l list of numbers.
Fields = dict[str, tuple[str, str]]

_MEDIA_SIZE: Fields = {"width": ("w", "n"), "height": ("h", "n"), "occurrenceKey": ("key", "s")}
_CELL: Fields = {
    "colspan": ("colspan", "n"),
    "rowspan": ("rowspan", "n"),
    "colwidth": ("colwidth", "l"),
    "background": ("bg", "s"),
    "valign": ("valign", "s"),
}
_EXTENSION: Fields = {
    "extensionType": ("type", "s"),
    "layout": ("layout", "s"),
    "text": ("text", "s"),
    "parameters": ("params", "j"),
}

FIELDS: dict[str, Fields] = {
    "codeBlock": {
        "uniqueId": ("unique", "s"),
        "wrap": ("wrap", "b"),
        "hideLineNumbers": ("hide-lines", "b"),
    },
    "expand": {"title": ("title", "s")},
    "nestedExpand": {"title": ("title", "s")},
    "orderedList": {"order": ("order", "n")},
    "panel": {
        "panelIcon": ("icon", "s"),
        "panelIconId": ("icon-id", "s"),
        "panelIconText": ("icon-text", "s"),
        "panelColor": ("color", "s"),
    },
    "table": {
        "isNumberColumnEnabled": ("numbered", "b"),
        "layout": ("layout", "s"),
        "width": ("width", "n"),
        "displayMode": ("display", "s"),
    },
    "tableCell": _CELL,
    "tableHeader": _CELL,
    "mediaSingle": {"layout": ("layout", "s"), "width": ("width", "n"), "widthType": ("unit", "s")},
    "media": {"type": ("type", "s"), "collection": ("collection", "s"), **_MEDIA_SIZE},
    "mediaInline": {
        "type": ("type", "s"),
        "id": ("id", "s"),
        "collection": ("collection", "s"),
        **_MEDIA_SIZE,
        "data": ("data", "j"),
    },
    "layoutColumn": {"width": ("width", "n"), "valign": ("valign", "s")},
    "blockCard": {
        "layout": ("layout", "s"),
        "width": ("width", "n"),
        "datasource": ("datasource", "j"),
        "data": ("data", "j"),
    },
    "embedCard": {
        "layout": ("layout", "s"),
        "width": ("width", "n"),
        "originalWidth": ("original-width", "n"),
        "originalHeight": ("original-height", "n"),
    },
    "extension": _EXTENSION,
    "bodiedExtension": _EXTENSION,
    "inlineExtension": _EXTENSION,
    "mention": {"id": ("id", "s"), "accessLevel": ("access", "s"), "userType": ("user-type", "s")},
    "emoji": {"shortName": ("name", "s"), "id": ("id", "s")},
    "date": {},
    "status": {"color": ("color", "s"), "style": ("style", "s")},
    "inlineCard": {"data": ("data", "j")},
    "hardBreak": {"text": ("text", "s")},
    "link": {"id": ("id", "s"), "collection": ("collection", "s"), "occurrenceKey": ("key", "s")},
}
_WITHOUT_ID = frozenset({"link", "mediaGroup"})
# Block marks that have a short name, by the node that may carry them.
_SHORT_MARKS: dict[str, tuple[str, ...]] = {
    "paragraph": ("alignment", "indentation", "fontSize"),
    "heading": ("alignment", "indentation"),
    "codeBlock": ("breakout",),
    "expand": ("breakout",),
    "layoutSection": ("breakout",),
    "syncBlock": ("breakout",),
    "bodiedSyncBlock": ("breakout",),
    "media": ("border",),
}
# mark -> its attributes as (ADF name, Markdown name, kind)
_MARK_FIELDS: dict[str, tuple[tuple[str, str, str], ...]] = {
    "alignment": (("align", "align", "s"),),
    "indentation": (("level", "indent", "n"),),
    "fontSize": (("fontSize", "size", "s"),),
    "breakout": (("mode", "breakout", "s"), ("width", "breakout-width", "n")),
    "border": (("size", "border", "n"), ("color", "border-color", "s")),
}


def pairs_of(item: Node, *, without: tuple[str, ...] = (), marks: list[Mark] | None = None) -> Pairs:
    """Everything about a node that its Markdown form does not show: id, attributes, block marks."""
    if "attrs" not in item and not marks and "marks" not in item:
        return []
    kind = item["type"]
    fields = FIELDS.get(kind, {})
    pairs: Pairs = []
    rest: dict[str, Any] = {}
    for name, value in attributes(item).items():
        if name in without:
            continue
        if (
            name == "localId"
            and kind not in _WITHOUT_ID
            and isinstance(value, str)
            and _IDENTIFIER.fullmatch(value)
        ):
            pairs.insert(0, (ID, value))
            continue
        short, form = fields.get(name, ("", "s"))
        written = _write_value(value, form) if short else None
        if written is None:
            rest[name] = value
        else:
            pairs.append((short, written))
    pairs += _mark_pairs(kind, marks_of(item) if marks is None else marks)
    if rest:
        pairs.append(("attrs", quote(rest)))
    return pairs


def block_pairs(item: Node, parent: str, *, without: tuple[str, ...] = ()) -> Pairs:
    """As `pairs_of`, for a block in that parent: marks it may not carry there are written in full, because
    the reader takes the short names only where the schema does."""
    marks = marks_of(item)
    if not marks:
        return pairs_of(item, without=without)
    kinds = [mark.get("type") if isinstance(mark, dict) else None for mark in marks]  # pyright: ignore[reportUnnecessaryIsInstance]
    if (
        parent != "?"
        and marks_allowed(item["type"], parent).issuperset(kinds)
        and not {"alignment", "indentation"} <= set(kinds)
    ):
        return pairs_of(item, without=without)
    return [*pairs_of(item, without=without, marks=[]), ("marks", quote(marks))]


def _write_value(value: Any, form: str) -> str | None:
    if form == "s":
        return value if isinstance(value, str) else None
    if form == "b":
        return quote(value) if isinstance(value, bool) else None
    if form == "n":
        return _write_number(value)
    if form == "l":
        items = cast(list[Any], value) if isinstance(value, list) else []
        numbers = [_write_number(each) for each in items]
        return ",".join(cast(list[str], numbers)) if numbers and None not in numbers else None
    return quote(value)


def _write_number(value: Any) -> str | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    written = json.dumps(value)
    return written if _NUMBER.fullmatch(written) else None


def _mark_pairs(kind: str, marks: list[Mark]) -> Pairs:
    if not marks:
        return []
    allowed = _SHORT_MARKS.get(kind, ())
    pairs: Pairs = []
    for each in marks:
        short = _one_mark(each) if each.get("type") in allowed else None
        if short is None or len({item["type"] for item in marks}) < len(marks):
            return [("marks", quote(marks))]
        pairs += short
    return pairs


def _one_mark(each: Mark) -> Pairs | None:
    fields = _MARK_FIELDS[each["type"]]
    attrs = attributes(each)
    if (
        set(attrs) - {name for name, _, _ in fields}
        or fields[0][0] not in attrs
        or set(each) - {"type", "attrs"}
    ):
        return None
    pairs: Pairs = []
    for name, short, form in fields:
        if name not in attrs:
            continue
        written = _write_value(attrs[name], form)
        if written is None:
            return None
        pairs.append((short, written))
    return pairs


# ---------------------------------------------------------------- back to nodes


def apply(item: Node, given: Attributes) -> list[str]:
    """Give a node the attributes and marks of a parsed list; returns what it could not take."""
    fields = {short: (name, form) for name, (short, form) in FIELDS.get(item["type"], {}).items()}
    shorts = _SHORT_MARKS.get(item["type"], ())
    made: dict[str, Any] = {}
    marks: dict[str, dict[str, Any]] = {}
    refused: list[str] = []
    explicit: list[Mark] = []
    for name, value in given.items():
        if name in (ID, "localId") and item["type"] not in _WITHOUT_ID:
            made["localId"] = value
        elif name in fields:
            _put(made, fields[name][0], _read_value(value, fields[name][1]), name, refused)
        elif name == "attrs" and isinstance(found := _read_value(value, "j"), dict):
            made.update(cast(dict[str, Any], found))
        elif name == "marks" and are_marks(found := _read_value(value, "j")):
            explicit = cast(list[Mark], found)
        elif target := _mark_field(name, shorts):
            kind, attr, form = target
            _put(marks.setdefault(kind, {}), attr, _read_value(value, form), name, refused)
        else:
            refused.append(name)
    if made:
        item["attrs"] = {**attributes(item), **made}
    block_marks = [{"type": kind, "attrs": attrs} for kind, attrs in marks.items() if attrs] + explicit
    if block_marks:
        item["marks"] = [*marks_of(item), *block_marks]
    return refused


def _put(target: dict[str, Any], name: str, value: Any, shown: str, refused: list[str]) -> None:
    if value is _UNREADABLE:
        refused.append(shown)
    else:
        target[name] = value


def _mark_field(name: str, shorts: tuple[str, ...]) -> tuple[str, str, str] | None:
    for kind in shorts:
        for attr, short, form in _MARK_FIELDS[kind]:
            if short == name:
                return kind, attr, form
    return None


_UNREADABLE = object()


def _read_value(value: str, form: str) -> Any:
    if form == "s":
        return value
    if form == "b":
        return {"true": True, "false": False}.get(value, _UNREADABLE)
    if form == "n":
        return _read_number(value)
    if form == "l":
        numbers = [_read_number(each) for each in value.split(",")]
        return _UNREADABLE if _UNREADABLE in numbers else numbers
    try:
        return json.loads(value)
    except ValueError:
        return _UNREADABLE


def _read_number(value: str) -> Any:
    if not _NUMBER.fullmatch(value):
        return _UNREADABLE
    return int(value) if value.lstrip("-").isdigit() else float(value)
