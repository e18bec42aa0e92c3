"""Inline content as extended Markdown: marks nested, delimiters only where they are sure to be read.

A delimiter run that could not flank, or would touch another of its kind, gives way to the bracket form
(`:b[…]`), which has no such rules. Atoms between two texts of one mark do not interrupt it: marks belong to
texts only, so `**a :mention[@b]{id=1} c**` is two strong texts around a mention.
"""

import re
import string
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from mooring.text.markdown import escape
from mooring.text.markdown.atoms import render_atom
from mooring.text.markdown.attributes import pairs_of, quote, render
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
_PUNCTUATION = frozenset(string.punctuation)
# Deeper nesting than this the reader does not follow.
_MANY_MARKS = 12
_BESIDE_CODE = frozenset({"code", "link", "annotation"})


class _Item(NamedTuple):
    node: Node
    marks: tuple[Mark, ...]
    is_text: bool


@dataclass(frozen=True, slots=True)
class InlineWriter:
    """Writes the children of one paragraph-like node."""

    single_line: bool = False
    users: Mapping[str, str] = field(default_factory=dict[str, str])
    # Foreign source as it is; off where it would be read as a block.
    verbatim: bool = True
    # Tags instead of directives where delimiters do not work.
    plain: bool = False

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
                    items = [_item(each) for each in content[at:end]]
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
        if len(node) != 3 or marks.__class__ is not list or len(marks) != 1 or not _known_mark(marks[0]):
            return None
        mark: Mark = marks[0]
        kind = mark["type"]
        if kind == "code":
            return _code(node["text"])
        if kind == "link":
            return self._link(mark, [_Item(node, (), True)], before)
        for delimiter in _DELIMITERS.get(kind, ()):
            edge = delimiter[0]
            content = escape.text(node["text"], edge, edge, bracketed=bracketed)
            if _may_delimit(delimiter, content, before, after):
                return f"{delimiter}{content}{delimiter}"
        return None

    def _sequence(self, items: list[_Item], before: str, after: str, *, bracketed: bool) -> str:
        made: list[str] = []
        at, count = 0, len(items)
        while at < count:
            item = items[at]
            mark, end = _longest_run(items, at) if item.marks else (None, at + 1)
            following = _lead(items[end]) if end < count else after
            if mark is None and item.is_text and not item.marks:
                piece = escape.text(item.node["text"], before, following, bracketed=bracketed)
            elif mark is None:
                piece = self._leaf(item, before, following)
            else:
                inner = [_without(each, mark) for each in items[at:end]]
                piece = self._marked(mark, inner, before, following, bracketed=bracketed)
            made.append(piece)
            before = _edge(piece) or before
            at = end
        return "".join(made)

    def _leaf(self, item: _Item, before: str, after: str) -> str:
        node = item.node
        if not item.is_text:
            return self._atom(node, before, after)
        if item.marks[0]["type"] == "code":
            return _code(node["text"])
        inner = escape.text(node["text"], "[", "]", bracketed=True)
        return f":text[{inner}]" + render([("marks", quote(marks_of(node)))])

    def _atom(self, node: Node, before: str, after: str) -> str:
        if node["type"] == "hardBreak" and len(node) == 1:
            return self._hard_break(before, after)
        return render_atom(node, self.users, verbatim=self.verbatim)

    def _hard_break(self, before: str, after: str) -> str:
        if self.single_line:
            return "<br>"
        if after:
            return "\\\n"
        # At the end of a block a backslash is only a backslash; alone on a line the tag would be a block.
        return ":br[]" if before in ("", "\n") else "<br>"

    def _marked(self, mark: Mark, inner: list[_Item], before: str, after: str, *, bracketed: bool) -> str:
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

    def _leaf_or_run(self, item: _Item, edge: str, *, bracketed: bool) -> str:
        if item.is_text and not item.marks:
            return escape.text(item.node["text"], edge, edge, bracketed=bracketed)
        return self._sequence([item], edge, edge, bracketed=bracketed)

    def _strong_and_em(self, kind: str, inner: list[_Item], *, bracketed: bool) -> str | None:
        """The content of a run that is all strong and all em: inside a word only `***` can say so."""
        other: Mark = {"type": {"strong": "em", "em": "strong"}.get(kind, "")}
        if not all(other in item.marks or not item.is_text for item in inner):
            return None
        return self._sequence([_without(item, other) for item in inner], "*", "*", bracketed=bracketed)

    def _link(self, mark: Mark, inner: list[_Item], before: str) -> str:
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


def _is_autolink(href: str, inner: list[_Item]) -> bool:
    if len(inner) != 1 or inner[0].marks or not inner[0].is_text or inner[0].node["text"] != href:
        return False
    return _is_address(href)


def _is_mail(href: str, inner: list[_Item]) -> bool:
    """`<ann@example.com>` for a link to that very address."""
    if len(inner) != 1 or inner[0].marks or not inner[0].is_text:
        return False
    return href == f"mailto:{inner[0].node['text']}" and bool(_MAIL.fullmatch(href))


def _is_address(href: str) -> bool:
    scheme, colon, rest = href.partition("://")
    if not colon or not (2 <= len(scheme) <= 32) or not scheme.isascii() or not scheme.isalpha():
        return False
    return not any(each in "<>\\&`|" or ord(each) <= 0x20 or ord(each) == 0x7F for each in rest)


def _lead(item: _Item) -> str:
    """The first character this item will be written with, or one of its class."""
    if not item.is_text:
        return ":"
    if item.marks:
        return "[" if _first_of(item.marks, "link") else "*"
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


def _item(node: Node) -> _Item:
    if node["type"] != "text":
        return _Item(node, (), False)
    if len(node) == 2:
        return _Item(node, (), True)
    marks = marks_of(node)
    if set(node) - {"type", "text", "marks"} or not _expressible(marks):
        return _Item(node, ({"type": "?"},), True)
    return _Item(node, tuple(marks), True)


def _expressible(marks: list[Mark]) -> bool:
    """Can every mark be written as syntax, and will the reader give the same list back?"""
    if len(marks) > _MANY_MARKS:
        return False
    if len(marks) == 1:
        return _known_mark(marks[0])
    kinds = [mark.get("type") for mark in marks]
    if "code" in kinds and not _BESIDE_CODE.issuperset(kinds):
        return False
    if any(kinds.count(kind) > 1 for kind in kinds if kind != "annotation"):
        return False
    if len(marks) > 1 and any(mark in marks[:index] for index, mark in enumerate(marks)):
        return False
    return all(_known_mark(mark) for mark in marks)


def _known_mark(mark: Mark) -> bool:
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


def _longest_run(items: list[_Item], start: int) -> tuple[Mark | None, int]:
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


def _reach(items: list[_Item], start: int, mark: Mark) -> int:
    end = start + 1
    at = end
    while at < len(items):
        item = items[at]
        if item.is_text:
            if _first_of(item.marks, mark["type"]) != mark:
                break
            end = at + 1
        elif mark["type"] == "link" and is_raw(item.node):
            # Foreign source inside a link would be read as part of it.
            break
        at += 1
    return end


def _first_of(marks: tuple[Mark, ...], kind: str) -> Mark | None:
    for mark in marks:
        if mark["type"] == kind:
            return mark
    return None


def _without(item: _Item, mark: Mark) -> _Item:
    if not item.is_text:
        return item
    if len(item.marks) == 1:
        return _Item(item.node, (), True)
    marks = list(item.marks)
    marks.remove(mark)
    return _Item(item.node, tuple(marks), True)
