"""Tokens of inline Markdown as ADF nodes."""

import json
import re
from typing import Any

from markdown_it.token import Token

from mooring.text.adf import are_marks
from mooring.text.markdown import atoms, attributes, images, shortnames
from mooring.text.markdown.mark_runs import TEXT_KEYS
from mooring.text.report import Kind, Report
from mooring.text.tree import Mark, Node, raw_inline, sort_marks

# What is more than its characters: addresses, e-mail addresses, emoji and mentions by their short forms.
_LINKED = re.compile(
    r"(?P<url>(?<![\w/])(?:https?://|www\.)[^\s<]+)"
    r"|(?P<email>(?<![\w.+/-])[A-Za-z0-9][A-Za-z0-9._+-]{0,63}@[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)*\.[A-Za-z]{2,})(?![\w@-])"
    r"|\[~accountid:(?P<account>[^\]\s]+)\]"
    rf"|(?P<emoji>{shortnames.PATTERN.pattern})"
)
_MAYBE_LINKED = re.compile(r"://|www\.|@|\[~|:[\w+-]+:")
_ACCOUNT = "accountid:"
_ENTITY_TAIL = re.compile(r"&\w+;\Z")
_TAG_MARKS: dict[str, Mark] = {
    "u": {"type": "underline"},
    "sub": {"type": "subsup", "attrs": {"type": "sub"}},
    "sup": {"type": "subsup", "attrs": {"type": "sup"}},
}
_TAGS: dict[str, Mark] = {
    **_TAG_MARKS,
    "strong": {"type": "strong"},
    "b": {"type": "strong"},
    "em": {"type": "em"},
    "i": {"type": "em"},
    "del": {"type": "strike"},
    "s": {"type": "strike"},
}
_TAG = re.compile(r"<(/?)(u|sub|sup|strong|b|em|i|del|s|br)\s*/?>", re.IGNORECASE)
_OPENING: dict[str, Mark] = {
    "strong_open": {"type": "strong"},
    "em_open": {"type": "em"},
    "s_open": {"type": "strike"},
}
_SIMPLE_MARKS: dict[str, Mark] = {
    "b": {"type": "strong"},
    "i": {"type": "em"},
    "s": {"type": "strike"},
    "code": {"type": "code"},
    **_TAG_MARKS,
}
_BESIDE_CODE = frozenset({"code", "link", "annotation"})
# More nested comments than this and only the innermost counts.
_MANY_MARKS = 100


class Builder:
    """Turns one list of inline tokens into nodes."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._nodes: list[Node] = []
        self._marks: list[Mark] = []
        # What each depth of `_marks` amounts to: at most one mark of a kind, however deep the nesting.
        self._effective: list[dict[str, Mark]] = [{}]
        self._text: list[str] = []
        self._tags: list[str] = []
        # Findings about the node that comes next.
        self._next: list[tuple[Kind, str]] = []

    def build(self, tokens: list[Token]) -> list[Node]:
        closing = _closing_tags(tokens)
        hand_to_opener(tokens)
        mentioned = -1
        for at, token in enumerate(tokens):
            kind = token.type
            if at <= mentioned:
                continue
            if kind == "link_open" and self._mention(tokens, at):
                mentioned = at + 2
                continue
            if kind == "text":
                self._text.append(token.content)
            elif kind == "text_special":
                self._flush()
                self._append(token.content)
            elif kind == "softbreak":
                self._text.append(" ")
            else:
                self._flush()
                self._token(token, tokens, at, closing)
        self._flush()
        return self._nodes

    def _token(self, token: Token, tokens: list[Token], at: int, closing: dict[str, int]) -> None:
        match token.type:
            case "hardbreak":
                self._add({"type": "hardBreak"})
            case "code_inline":
                self._append(token.content, {"type": "code"})
            case "strong_open" | "em_open" | "s_open":
                self._open(_OPENING[token.type])
            case "strong_close" | "em_close" | "s_close" | "mark_close" | "link_close":
                self._close()
            case "mark_open":
                self._open(self._directive_mark(token))
            case "link_open":
                self._open_link(token, tokens, at)
            case "image":
                self._image(token)
            case "html_inline":
                self._html(token.content, closing)
            case _:
                self._atom(token)

    def _mention(self, tokens: list[Token], at: int) -> bool:
        """`@[Ann](accountid:…)` and `[@Ann](accountid:…)`"""
        href = str(tokens[at].attrs.get("href", ""))
        if not href.startswith(_ACCOUNT) or [each.type for each in tokens[at + 1 : at + 3]] != [
            "text",
            "link_close",
        ]:
            return False
        name = tokens[at + 1].content
        if not name.startswith("@"):
            if not self._text or not self._text[-1].endswith("@"):
                return False
            self._text[-1] = self._text[-1][:-1]
            name = f"@{name}"
        self._flush()
        self._nodes.append({"type": "mention", "attrs": {"id": href.removeprefix(_ACCOUNT), "text": name}})
        return True

    def _flush(self) -> None:
        if not self._text:
            return
        value = "".join(self._text)
        self._text.clear()
        if "link" in self._effective[-1] or not _MAYBE_LINKED.search(value):
            self._append(value)
            return
        done = 0
        for found in _LINKED.finditer(value):
            if (end := self._linked(found, value[done : found.start()])) is not None:
                done = end
        self._append(value[done:])

    def _linked(self, found: re.Match[str], before: str) -> int | None:
        """Append what was found and the text before it; None when it is only text after all."""
        if found["url"]:
            url = _trimmed_url(found["url"])
            if "." not in url:
                return None
            self._append(before)
            self._append(url, {"type": "link", "attrs": {"href": url if "://" in url else f"http://{url}"}})
            return found.start() + len(url)
        self._append(before)
        if found["email"]:
            self._append(found["email"], {"type": "link", "attrs": {"href": f"mailto:{found['email']}"}})
        elif found["account"]:
            self._nodes.append({"type": "mention", "attrs": {"id": found["account"]}})
        else:
            self._nodes.append(shortnames.emoji(found["emoji"][1:-1]))
        return found.end()

    def _append(self, value: str, extra: Mark | None = None) -> None:
        if not value:
            return
        marks = self._current(extra)
        if self._nodes:
            last = self._nodes[-1]
            if last["type"] == "text" and last.get("marks", []) == marks and TEXT_KEYS.issuperset(last):
                last["text"] += value
                self._found(last)
                return
        self._add(
            {"type": "text", "text": value, "marks": marks} if marks else {"type": "text", "text": value}
        )

    def _add(self, node: Node) -> None:
        self._nodes.append(node)
        self._found(node)

    def _found(self, node: Node) -> None:
        for kind, detail in self._next:
            self._report.add(node, kind, detail)
        self._next.clear()

    def _open(self, mark: Mark) -> None:
        """The inner of two marks of a kind wins; comments may overlap."""
        self._marks.append(mark)
        key = f"annotation {mark['attrs']['id']}" if mark["type"] == "annotation" else mark["type"]
        if len(self._effective) > _MANY_MARKS:
            key = mark["type"]
        self._effective.append({**self._effective[-1], key: mark})

    def _close(self) -> None:
        self._marks.pop()
        self._effective.pop()

    def _current(self, extra: Mark | None) -> list[Mark]:
        kept = self._effective[-1]
        if extra:
            kept = {**kept, extra["type"]: extra}
        if not kept:
            return []
        if "exact" in kept:
            return kept["exact"]["marks"]
        made = list(kept.values())
        if "code" in kept and not _BESIDE_CODE.issuperset(mark["type"] for mark in made):
            self._next.append(("changed", "code cannot carry other marks; they were dropped from it"))
            made = [mark for mark in made if mark["type"] in _BESIDE_CODE]
        return sort_marks(made)

    def _directive_mark(self, token: Token) -> Mark:
        name, given = token.meta["name"], token.meta["given"]
        if name in _SIMPLE_MARKS:
            return _SIMPLE_MARKS[name]
        if name in ("color", "bg"):
            color = f"#{given['#']}" if "#" in given else given.get("color", "")
            return {"type": "textColor" if name == "color" else "backgroundColor", "attrs": {"color": color}}
        if name == "comment":
            return {
                "type": "annotation",
                "attrs": {"id": given.get("id", ""), "annotationType": "inlineComment"},
            }
        if name == "a":
            return {"type": "link", "attrs": _json(given.get("href", ""), {"href": given.get("href", "")})}
        marks = _json(given.get("marks", ""), [])
        if not are_marks(marks):
            self._next.append(("lost", "`marks` of `:text[…]` holds no marks as JSON"))
            marks = []
        return {"type": "exact", "marks": marks}

    def _open_link(self, token: Token, tokens: list[Token], at: int) -> None:
        mark, unknown = link_mark(token)
        self._open(mark)
        self._next.extend(("lost", f"a link has no attribute `{name}`") for name in unknown)
        if tokens[at + 1].type == "link_close":
            self._add(raw_inline("markdown", f"[]({token.attrs['href']})"))
            self._report.kept(self._nodes[-1], "a link without text is kept as its source")

    def _image(self, token: Token) -> None:
        target, alt = str(token.attrs["src"]), alt_of(token)
        linked = "link" in self._effective[-1]
        if target.startswith(images.ATTACHMENT):
            _, own = images.split(token.meta.get("given", {}))
            made: Node = {
                "type": "mediaInline",
                "attrs": {"type": "image", "id": target.removeprefix(images.ATTACHMENT), "collection": ""},
            }
            if alt:
                made["attrs"]["alt"] = alt
            attributes.apply(made, own)
            self._nodes.append(made)
        elif linked:
            self._next.append(("changed", "an image inside a link became its alternative text"))
            self._append(alt or target)
        else:
            title = f' "{token.attrs["title"]}"' if token.attrs.get("title") else ""
            self._add(raw_inline("markdown", f"![{token.content}]({target}{title})", alt))
            self._report.kept(self._nodes[-1], "an image between words is kept as its source")

    def _html(self, source: str, closing: dict[str, int]) -> None:
        found = _TAG.fullmatch(source)
        if found:
            slash, name = found[1], found[2].lower()
            if name == "br":
                self._add({"type": "hardBreak"})
                return
            if not slash and closing.get(name, 0) > self._tags.count(name) and len(self._tags) < _MANY_MARKS:
                self._tags.append(name)
                self._open(_TAGS[name])
                return
            if slash and self._tags and self._tags[-1] == name and _TAGS[name] in self._marks[-1:]:
                closing[name] -= 1
                self._tags.pop()
                self._close()
                return
        self._add(raw_inline("html", source))
        self._report.kept(self._nodes[-1], "HTML is kept as its source")

    def _atom(self, token: Token) -> None:
        found = atoms.read_atom(token.meta["name"], token.meta["label"], dict(token.meta["given"]))
        if found is None:
            self._next.append(("changed", f"`:{token.meta['name']}[…]` lacks what it needs; it stays text"))
            self._append(token.content)
            return
        node, refused = found
        self._next.extend(
            ("lost", f"`:{token.meta['name']}[…]` has no attribute `{name}`") for name in refused
        )
        if node["type"] == "text" and token.meta["name"] == "char":
            self._append(node["text"])
        else:
            self._add(node)


def _closing_tags(tokens: list[Token]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for token in tokens:
        if token.type == "html_inline" and (found := _TAG.fullmatch(token.content)) and found[1]:
            counts[found[2].lower()] = counts.get(found[2].lower(), 0) + 1
    return counts


def link_mark(token: Token) -> tuple[Mark, list[str]]:
    """The mark, and the attributes it cannot take."""
    attrs: dict[str, Any] = {"href": token.attrs["href"]}
    if token.attrs.get("title"):
        attrs["title"] = token.attrs["title"]
    mark = {"type": "link", "attrs": attrs}
    given = token.meta.get("given") if token.meta else None
    return mark, attributes.apply(mark, given) if given else []


def hand_to_opener(tokens: list[Token]) -> None:
    """Attributes stand after a link; its texts need them when it opens."""
    opener: Token | None = None
    for token in tokens:
        if token.type == "link_open":
            opener = token
        elif token.type == "link_close" and opener is not None and token.meta:
            opener.meta = token.meta


def alt_of(token: Token) -> str:
    made: list[str] = []
    for child in token.children or []:
        if child.type == "softbreak":
            made.append(" ")
        elif child.type == "image":
            made.append(alt_of(child))
        elif child.type == "atom" and child.meta["name"] == "char":
            made.append(chr(int(child.meta["label"], 16)))
        else:
            made.append(child.content)
    return "".join(made)


def _trimmed_url(url: str) -> str:
    """Without the punctuation that ends a sentence rather than an address (GFM's extended autolinks)."""
    surplus = url.count(")") - url.count("(")
    while url:
        if url[-1] in "?!.,:*_~'\"":
            url = url[:-1]
        elif url[-1] == ")" and surplus > 0:
            url = url[:-1]
            surplus -= 1
        elif url[-1] == ";" and (tail := _ENTITY_TAIL.search(url)):
            url = url[: tail.start()]
        else:
            break
    return url


def _json(value: str, otherwise: Any) -> Any:
    try:
        found = json.loads(value)
    except ValueError:
        return otherwise
    return found if isinstance(found, type(otherwise)) else otherwise
