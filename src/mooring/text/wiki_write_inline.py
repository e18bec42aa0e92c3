"""ADF's inline nodes as wiki markup."""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from mooring.text.tree import (
    Mark,
    Node,
    attributes,
    canonical,
    children,
    is_raw,
    marks_of,
    plain_text,
    raw_source,
)
from mooring.text.wiki_emoticons import written_as
from mooring.text.wiki_escape import escape_words
from mooring.text.wiki_links import bare_url
from mooring.text.wiki_nodes import unsealed
from mooring.text.wiki_parse import Parse
from mooring.text.wiki_tokens import NOTHING

_SYMBOLS: Final = {"strong": "*", "em": "_", "strike": "-", "underline": "+"}
# From the outside in: links hold everything, colours hold marks.
_NESTING: Final = ("link", "textColor", "strong", "em", "underline", "strike", "subsup", "code")
_WORD = re.compile(r"[a-zA-Z0-9]|[^\x00-\x7f\xa0]")
_ACCOUNT = re.compile(r"[0-9a-f]{24}\Z|\d+:[0-9a-f-]{36}\Z|(?:qm|ug):.+", re.IGNORECASE)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_STATUS_COLOURS: Final = {
    "neutral": "#97a0af", "purple": "#6554c0", "blue": "#00b8d9", "red": "#ff5630", "yellow": "#ff991f",
    "green": "#36b37e",
}  # fmt: skip


def macro_of(node: Node, display: str) -> str:
    """The node as JSON in the macro that Atlassian's reader knows."""
    # A brace in a string could end the macro too early; JSON's own escape says the same.
    body = re.sub(r"\{(?=adf\})", r"\\u007b", json.dumps(node, ensure_ascii=False, separators=(",", ":")))
    body = re.sub(r"[\x00-\x1f\x7f\u2028\u2029\ud800-\udfff]", lambda found: f"\\u{ord(found[0]):04x}", body)
    if display == "inline":
        return f"{{adf:display=inline}}{body}{{adf}}"
    return f"{{adf:display=block}}\n{body}\n{{adf}}"


class InlineWriter:
    """Writes runs of inline nodes; `exact` uses the macro for what markup cannot say."""

    def __init__(self, *, exact: bool, one_line: bool = False, in_cell: bool = False) -> None:
        self._exact = exact
        self._one_line = one_line
        # A bar ends a table cell, whatever stands before it.
        self._forbidden = "|" if in_cell else "\n"

    def run(self, content: list[Node], *, careful: bool = False) -> str:
        """The run as markup; `careful` writes everything but plain words as macros."""
        output = ""
        for index, node in enumerate(content):
            following = content[index + 1] if index + 1 < len(content) else None
            output += self._piece(node, output, following, careful=careful)
        return output

    def _piece(self, node: Node, output: str, following: Node | None, *, careful: bool) -> str:
        line_start = not output or output.endswith("\n")
        if node["type"] == "text" and not marks_of(node):
            return self._words(node, output, line_start=line_start)
        if careful and self._exact:
            return macro_of(node, "inline")
        if node["type"] == "text":
            return self._marked(node, output, following)
        if node["type"] == "hardBreak":
            return self._line_break(output, following)
        return self._other(node, line_start=line_start)

    def _words(self, node: Node, output: str, *, line_start: bool) -> str:
        text = node["text"]
        written = escape_words(text.replace("\r", ""), output[-1:], line_start=line_start)
        if not self._exact:
            return written
        if self._forbidden in text or text.endswith("\\"):
            return macro_of(node, "inline")
        start = "\n" if line_start else "."
        return (
            written
            if _reads_as(start + written, "" if line_start else ".", node)
            else macro_of(node, "inline")
        )

    def _line_break(self, output: str, following: Node | None) -> str:
        starts_blank = following is not None and str(following.get("text", "")).startswith((" ", "\t"))
        if (
            self._one_line
            or starts_blank
            or following is None
            or following["type"] == "hardBreak"
            or not output
        ):
            return "\\\\"
        return "\n" if not output.endswith(("\n", "\\\\")) else "\\\\"

    def _marked(self, node: Node, output: str, following: Node | None) -> str:
        written = self._with_marks(node, output, following)
        if not self._exact:
            return (
                written if written is not None else escape_words(node["text"], output[-1:], line_start=False)
            )
        before, after = _edge(output), _edge_after(following)
        if self._forbidden in node["text"]:
            written = None
        if written is not None and _reads_between(before, written, after, node):
            return written
        return macro_of(node, "inline")

    def _with_marks(self, node: Node, output: str, following: Node | None) -> str | None:
        marks = {mark["type"]: mark for mark in marks_of(node)}
        if self._exact and (set(marks) - set(_NESTING) or len(marks) != len(marks_of(node))):
            return None
        text = node["text"]
        written = text if "code" in marks else escape_words(text, "", line_start=False)
        inner = [name for name in reversed(_NESTING) if name in marks]
        if len(inner) > 1 or (inner and inner[0] not in ("link", "textColor")):
            # Each mark takes one layer of backslashes away: inside them words stand as they are.
            written = text
        if set(marks) == {"link"} and attributes(marks["link"]).get("href") == text:
            written = text
        for position, name in enumerate(inner):
            outermost = position == len(inner) - 1
            glued = outermost and (_touches(output[-1:]) or _touches(_first_of(following)))
            made = _wrap(marks[name], written, glued=glued)
            if made is None:
                return None
            written = made
        return written

    def _other(self, node: Node, *, line_start: bool) -> str:
        if is_raw(node, "wiki"):
            return raw_source(node) or ""
        attrs = attributes(node)
        writer = _OTHERS.get(node["type"])
        native = writer(attrs) if writer else None
        if not self._exact:
            return native if native is not None else _approximate(node)
        if native is not None and _reads_between("" if line_start else ".", native, "", node):
            return native
        return macro_of(node, "inline")


def settled(node: Node) -> Node:
    """The canonical tree without attributes that only repeat the default, as Atlassian's reader adds them."""
    return _settled(canonical(node))


def _settled(node: Node) -> Node:
    made = dict(node)
    if "attrs" in made:
        defaults = _DEFAULTS.get(node["type"], {})
        attrs = {
            key: value for key, value in attributes(made).items() if (key, value) not in defaults.items()
        }
        made.pop("attrs")
        made |= {"attrs": attrs} if attrs else {}
    if "content" in made:
        made["content"] = [_settled(child) for child in children(made)]
    return made


_DEFAULTS: Final[dict[str, dict[str, Any]]] = {
    "orderedList": {"order": 1},
    "table": {"isNumberColumnEnabled": False, "layout": "default"},
    "mention": {"text": "", "accessLevel": ""},
}


def _reads_as(source: str, before: str, node: Node) -> bool:
    nodes = Parse(source.replace("\0", ""), NOTHING).nodes()
    wanted: list[Node] = [{"type": "text", "text": before}, node] if before else [node]
    return _same(nodes, wanted)


def _reads_between(before: str, written: str, after: str, node: Node) -> bool:
    nodes = Parse((before + written + after).replace("\0", ""), NOTHING).nodes()
    wanted = [*([{"type": "text", "text": before}] if before else []), node]
    wanted += [{"type": "text", "text": after}] if after else []
    return _same(nodes, wanted)


def _same(found: list[Node], wanted: list[Node]) -> bool:
    found = [unsealed(node) for node in found]
    return settled({"type": "paragraph", "content": found}) == settled(
        {"type": "paragraph", "content": wanted}
    )


def _edge(output: str) -> str:
    """A stand-in for what comes before: a word, a sign, or nothing."""
    last = output[-1:]
    return "" if not last or last == "\n" else "x" if _WORD.match(last) else "."


def _edge_after(following: Node | None) -> str:
    first = _first_of(following)
    return "" if not first else "x" if _WORD.match(first) else "."


def _first_of(node: Node | None) -> str:
    if node is None or node["type"] == "hardBreak":
        return ""
    return str(node.get("text") or "x")[:1] if node["type"] == "text" and not marks_of(node) else "."


def _touches(character: str) -> bool:
    return bool(character) and _WORD.match(character) is not None


def _wrap(mark: Mark, content: str, *, glued: bool) -> str | None:
    kind, attrs = mark["type"], attributes(mark)
    if kind in _SYMBOLS or kind == "subsup":
        symbol = _SYMBOLS.get(kind) or ("~" if attrs.get("type") == "sub" else "^")
        return f"{{{symbol}}}{content}{{{symbol}}}" if glued else f"{symbol}{content}{symbol}"
    if kind == "code":
        return f"{{{{{{}}{content}{{}}}}}}" if glued else f"{{{{{content}}}}}"
    if kind == "textColor":
        return f"{{color:{attrs.get('color')}}}{content}{{color}}"
    if kind == "link" and set(attrs) == {"href"}:
        return _link(str(attrs["href"]), content)
    return None


def _link(href: str, content: str) -> str:
    found = bare_url(href, 0)
    if content == href and found and found[0] == href and found[2] == href:
        return href
    return f"[{href}]" if content == href else f"[{content}|{href}]"


def _mention(attrs: dict[str, Any]) -> str | None:
    identifier = str(attrs.get("id", ""))
    if re.search(r"[\[\]|\n]", identifier):
        return None
    return f"[~accountid:{identifier}]" if _ACCOUNT.match(identifier) else f"[~{identifier}]"


def _emoji(attrs: dict[str, Any]) -> str | None:
    return written_as(attrs)


def _card(attrs: dict[str, Any]) -> str | None:
    url = attrs.get("url")
    return f"[{url}|{url}|smart-link]" if isinstance(url, str) else None


def _approximate(node: Node) -> str:
    """Something a person understands, for the plain dialect."""
    attrs = attributes(node)
    if node["type"] == "status":
        colour = _STATUS_COLOURS.get(str(attrs.get("color")), _STATUS_COLOURS["neutral"])
        return f"{{color:{colour}}}*[ {attrs.get('text', '')} ]*{{color}}"
    if node["type"] == "date":
        return _day(attrs.get("timestamp"))
    if node["type"] == "mediaInline":
        return f"!{attrs.get('id', '')}!"
    if node["type"] == "mention":
        return str(attrs.get("text") or attrs.get("id", ""))
    if node["type"] in ("inlineExtension", "extension"):
        return str(attrs.get("text") or f"\\{{{attrs.get('extensionKey', '')}}}")
    return escape_words(plain_text(node), "", line_start=False)


def _day(timestamp: Any) -> str:
    try:
        return (_EPOCH + timedelta(milliseconds=int(timestamp))).strftime("%Y-%m-%d")
    except (ValueError, TypeError, OverflowError):
        return str(timestamp)


_OTHERS: Final[dict[str, Callable[[dict[str, Any]], str | None]]] = {
    "mention": _mention,
    "emoji": _emoji,
    "inlineCard": _card,
}
