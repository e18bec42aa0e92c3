"""Inline content as extended Markdown: marks nested, delimiters only where they are sure to be read.

A delimiter run that could not flank, or would touch another of its kind, gives way to the bracket form
(`:b[…]`), which has no such rules. Atoms between two texts of one mark do not interrupt it: marks belong to
texts only, so `**a :mention[@b]{id=1} c**` is two strong texts around a mention.
"""

import re
import string
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from mooring.text.markdown import escape
from mooring.text.markdown.atoms import as_json, render_atom
from mooring.text.markdown.attributes import pairs_of, quote, render
from mooring.text.markdown.mark_runs import TEXT_KEYS, Item, first_of, is_known, item_of, longest_run, without
from mooring.text.schema import is_valid_node
from mooring.text.tree import Mark, Node, attributes, marks_of

_PUNCTUATION = frozenset(string.punctuation)


@dataclass(frozen=True, slots=True)
class InlineWriter:
    """Writes the children of one paragraph-like node."""

    single_line: bool = False
    users: Mapping[str, str] = field(default_factory=dict[str, str])
    # Foreign source as it is; off where it would be read as a block.
    verbatim: bool = True
    # Tags instead of directives where delimiters do not work.
    plain: bool = False
    # Atoms that break the schema as ADF.
    literal: bool = False

    def write(self, content: list[Node]) -> str:
        return self._pieces(content, "", "", bracketed=False)

    def write_label(self, content: list[Node]) -> str:
        """The same for the `[…]` of a directive."""
        return self._pieces(content, "[", "]", bracketed=True)

    def _pieces(self, content: list[Node], before: str, after: str, *, bracketed: bool) -> str:
        """Texts without marks end every mark, so only what stands between two of them is nested."""
        made: list[str] = []
        at, count = 0, len(content)
        while at < count:
            node = content[at]
            end = at + 1
            if len(node) == 2 and node["type"] == "text":
                following = _lead_of(content[end]) if end < count else after
                piece = escape.text(node["text"], before, following, bracketed=bracketed)
            else:
                while end < count and not (len(content[end]) == 2 and content[end]["type"] == "text"):
                    end += 1
                following = _lead_of(content[end]) if end < count else after
                piece = self._alone(node, before, following, bracketed=bracketed) if end == at + 1 else None
                if piece is None:
                    items = [item_of(each) for each in content[at:end]]
                    piece = self._sequence(items, before, following, bracketed=bracketed)
            made.append(piece)
            before = (_edge(piece) if piece[-2:-1] == "\\" else piece[-1:]) or before
            at = end
        return made[0] if len(made) == 1 else "".join(made)

    def _alone(self, node: Node, before: str, after: str, *, bracketed: bool) -> str | None:
        """An atom, or a text with one ordinary mark, between texts without marks; None for anything else."""
        if node["type"] != "text":
            return self._atom(node, before, after)
        marks: Any = node.get("marks")
        if len(node) != 3 or marks.__class__ is not list or len(marks) != 1 or not is_known(marks[0]):
            return None
        mark: Mark = marks[0]
        kind = mark["type"]
        if kind == "code":
            return _code(node["text"])
        if kind == "link":
            return self._link(mark, [Item(node, (), True)], before)
        for delimiter in _DELIMITERS.get(kind, ()):
            edge = delimiter[0]
            content = escape.text(node["text"], edge, edge, bracketed=bracketed)
            if _may_delimit(delimiter, content, before, after):
                return f"{delimiter}{content}{delimiter}"
        return None

    def _sequence(self, items: list[Item], before: str, after: str, *, bracketed: bool) -> str:
        made: list[str] = []
        at, count = 0, len(items)
        while at < count:
            item = items[at]
            mark, end = longest_run(items, at) if item.marks else (None, at + 1)
            following = _lead(items[end]) if end < count else after
            if mark is None and item.is_text and not item.marks:
                piece = escape.text(item.node["text"], before, following, bracketed=bracketed)
            elif mark is None:
                piece = self._leaf(item, before, following)
            else:
                inner = [without(each, mark) for each in items[at:end]]
                piece = self._marked(mark, inner, before, following, bracketed=bracketed)
            made.append(piece)
            before = _edge(piece) or before
            at = end
        return "".join(made)

    def _leaf(self, item: Item, before: str, after: str) -> str:
        node = item.node
        if not item.is_text:
            return self._atom(node, before, after)
        if item.marks[0]["type"] == "code":
            return _code(node["text"])
        if not self.plain and not TEXT_KEYS.issuperset(node):
            return as_json(node)
        inner = escape.text(node["text"], "[", "]", bracketed=True)
        return f":text[{inner}]" + render([("marks", quote(marks_of(node)))])

    def _atom(self, node: Node, before: str, after: str) -> str:
        if node["type"] == "hardBreak" and len(node) == 1:
            return self._hard_break(before, after)
        if self.literal and not is_valid_node(node):
            return as_json(node)
        return render_atom(node, self.users, verbatim=self.verbatim)

    def _hard_break(self, before: str, after: str) -> str:
        if self.single_line:
            return "<br>"
        if after:
            return "\\\n"
        # At the end of a block a backslash is only a backslash; alone on a line the tag would be a block.
        return ":br[]" if before in ("", "\n") else "<br>"

    def _marked(self, mark: Mark, inner: list[Item], before: str, after: str, *, bracketed: bool) -> str:
        kind = mark["type"]
        if kind == "link":
            return self._link(mark, inner, before)
        if kind in _DELIMITERS:
            for delimiter in _DELIMITERS[kind]:
                edge = delimiter[0]
                if len(inner) == 1:
                    content = self._leaf_or_run(inner[0], edge, bracketed=bracketed)
                else:
                    content = self._sequence(inner, edge, edge, bracketed=bracketed)
                if _may_delimit(delimiter, content, before, after):
                    return f"{delimiter}{content}{delimiter}"
            both = self._strong_and_em(kind, inner, bracketed=bracketed)
            if both and _may_delimit("***", both, before, after):
                return f"***{both}***"
        if self.plain:
            tag = _TAGS[kind]
            return f"<{tag}>{self._sequence(inner, '>', '<', bracketed=bracketed)}</{tag}>"
        content = self._sequence(inner, "[", "]", bracketed=True)
        name, given = _bracket_form(mark)
        return f":{name}[{content}]{given}"

    def _leaf_or_run(self, item: Item, edge: str, *, bracketed: bool) -> str:
        if item.is_text and not item.marks:
            return escape.text(item.node["text"], edge, edge, bracketed=bracketed)
        return self._sequence([item], edge, edge, bracketed=bracketed)

    def _strong_and_em(self, kind: str, inner: list[Item], *, bracketed: bool) -> str | None:
        """The content of a run that is all strong and all em: inside a word only `***` can say so."""
        other: Mark = {"type": {"strong": "em", "em": "strong"}.get(kind, "")}
        if not all(other in item.marks or not item.is_text for item in inner):
            return None
        return self._sequence([without(item, other) for item in inner], "*", "*", bracketed=bracketed)

    def _link(self, mark: Mark, inner: list[Item], before: str) -> str:
        attrs = attributes(mark)
        href, title = attrs["href"], attrs.get("title")
        given = render(pairs_of(mark, without=("href", "title")), delicate=True) if len(attrs) > 1 else ""
        if not given and title is None and before != "<" and _is_autolink(href, inner):
            return f"<{href}>"
        if (
            not given
            and title is None
            and before != "<"
            and href.startswith("mailto:")
            and _is_mail(href, inner)
        ):
            return f"<{href.removeprefix('mailto:')}>"
        content = self._sequence(inner, "[", "]", bracketed=True)
        target = escape.destination(href)
        shown = escape.title(title) if title else ""
        if target is None or shown is None or title == "" or href.startswith("accountid:"):
            return f":a[{content}]" + render([("href", quote(attrs))])
        if shown:
            return f"[{content}]({target or '<>'} {shown}){given}"
        return f"[{content}]({target}){given}"


_MAIL = re.compile(r"mailto:[A-Za-z0-9._+-]+@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]*[A-Za-z0-9])+")
_TAGS = {"strong": "strong", "em": "em", "strike": "del"}
# The forms to try, the first that fits wins.
_DELIMITERS = {"strong": ("**",), "em": ("_", "*"), "strike": ("~~",)}


def _bracket_form(mark: Mark) -> tuple[str, str]:
    attrs: dict[str, Any] = attributes(mark)
    match mark["type"]:
        case "strong":
            return "b", ""
        case "em":
            return "i", ""
        case "strike":
            return "s", ""
        case "underline":
            return "u", ""
        case "subsup":
            return str(attrs["type"]), ""
        case "textColor":
            return "color", render([("#", attrs["color"][1:])])
        case "backgroundColor":
            return "bg", render([("#", attrs["color"][1:])])
        case _:
            return "comment", render([("id", attrs["id"])])


def _edge(piece: str) -> str:
    """The last character, or the backslash when it is escaped and therefore no delimiter."""
    if (
        piece[-2:-1] == "\\"
        and piece[-1] in _PUNCTUATION
        and (len(piece) - len(piece[:-1].rstrip("\\"))) % 2 == 0
    ):
        return "\\"
    return piece[-1:]


def _may_delimit(delimiter: str, content: str, before: str, after: str) -> bool:
    first, last, mark = content[:1], _edge(content), delimiter[0]
    if mark in (before, first, last):
        return False
    if mark != "_" and first.isalnum() and last.isalnum():
        return True
    if escape.is_space(first) or escape.is_space(last):
        return False
    free_before, free_after = escape.is_edge(before), escape.is_edge(after)
    if mark == "_":
        return free_before and free_after
    return (free_before or not escape.is_punctuation(first)) and (
        free_after or not escape.is_punctuation(last)
    )


def _is_autolink(href: str, inner: list[Item]) -> bool:
    if len(inner) != 1 or inner[0].marks or not inner[0].is_text or inner[0].node["text"] != href:
        return False
    return _is_address(href)


def _is_mail(href: str, inner: list[Item]) -> bool:
    """`<ann@example.com>` for a link to that very address."""
    if len(inner) != 1 or inner[0].marks or not inner[0].is_text:
        return False
    return href == f"mailto:{inner[0].node['text']}" and bool(_MAIL.fullmatch(href))


def _is_address(href: str) -> bool:
    scheme, colon, rest = href.partition("://")
    if not colon or not (2 <= len(scheme) <= 32) or not scheme.isascii() or not scheme.isalpha():
        return False
    return not any(each in "<>\\&`|" or ord(each) <= 0x20 or ord(each) == 0x7F for each in rest)


def _lead(item: Item) -> str:
    """The first character this item will be written with, or one of its class."""
    if not item.is_text:
        return ":"
    if item.marks:
        return "[" if first_of(item.marks, "link") else "*"
    first: str = item.node["text"][0]
    return "&" if first < " " and first != "\t" else first


def _lead_of(node: Node) -> str:
    if node["type"] != "text":
        return ":"
    if len(node) == 2:
        first: str = node["text"][0]
        return "&" if first < " " and first != "\t" else first
    # A text whose marks have no syntax begins otherwise, but with punctuation as well.
    for mark in marks_of(node):
        if mark.get("type") == "link":
            return "["
    return "*"


def _code(value: str) -> str:
    return escape.code_span(value) or f":code[{escape.text(value, '[', ']', bracketed=True)}]"
