"""Markdown inline content as ADF nodes."""

import json
import re
from typing import Any

from markdown_it.token import Token

from mooring.text.markdown import atoms, attributes, images, shortnames
from mooring.text.markdown.grammar import inline_parser
from mooring.text.markdown.quick_inline import read_quickly
from mooring.text.report import Report
from mooring.text.tree import Mark, Node, raw_inline, sort_marks

# Without any of these a text is only a text.
_SPECIAL = re.compile(r"[\\`*_~\[<&\n]|:[\w+-]+[\[:]|www\.|https?://|@")
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
# Longer texts are rare enough to go through the full rules at once.
_ORDINARY_LENGTH = 20_000


class InlineReader:
    def __init__(self, report: Report, environment: dict[str, Any]) -> None:
        self.report = report
        self._environment = environment

    def read(self, source: str) -> list[Node]:
        if not _SPECIAL.search(source):
            return [{"type": "text", "text": source}] if source else []
        quick = read_quickly(source, self.report) if len(source) < _ORDINARY_LENGTH else None
        if quick is not None:
            return quick
        tokens: list[Token] = []
        markdown = inline_parser()
        markdown.inline.parse(source, markdown, self._environment, tokens)
        return _Builder(self.report).build(tokens)

    def image(self, source: str) -> tuple[Node, attributes.Attributes] | None:
        """The media node and the attributes around it, when an image is all there is."""
        if not source.startswith(("![", "[![")):
            return None
        tokens: list[Token] = []
        markdown = inline_parser()
        markdown.inline.parse(source, markdown, self._environment, tokens)
        return self._media(tokens)

    def images(self, source: str) -> list[Node] | None:
        """The media nodes, when there are only images."""
        tokens: list[Token] = []
        markdown = inline_parser()
        markdown.inline.parse(source, markdown, self._environment, tokens)
        found: list[Node] = []
        at = 0
        while at < len(tokens):
            if tokens[at].type == "softbreak" or (
                tokens[at].type == "text" and not tokens[at].content.strip()
            ):
                at += 1
                continue
            width = 3 if tokens[at].type == "link_open" else 1
            media = self._media(tokens[at : at + width])
            if media is None:
                return None
            found.append(media[0])
            at += width
        return found

    def _media(self, tokens: list[Token]) -> tuple[Node, attributes.Attributes] | None:
        link: Mark | None = None
        if len(tokens) == 3 and tokens[0].type == "link_open" and tokens[2].type == "link_close":
            _hand_to_opener(tokens)
            link = _link_mark(tokens[0], self.report)
            tokens = tokens[1:2]
        if len(tokens) != 1 or tokens[0].type != "image":
            return None
        token = tokens[0]
        if token.attrs.get("title"):
            return None
        around, own = images.split(token.meta.get("given", {}))
        media, refused = images.read_media(str(token.attrs["src"]), _alt(token), link, own)
        for name in refused:
            self.report.lost("", f"an image has no attribute `{name}`")
        return media, around


class _Builder:
    """Turns one list of inline tokens into nodes."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._nodes: list[Node] = []
        self._marks: list[Mark] = []
        # What each depth of `_marks` amounts to: at most one mark of a kind, however deep the nesting.
        self._effective: list[dict[str, Mark]] = [{}]
        self._text: list[str] = []
        self._tags: list[str] = []

    def build(self, tokens: list[Token]) -> list[Node]:
        closing = _closing_tags(tokens)
        _hand_to_opener(tokens)
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
                self._nodes.append({"type": "hardBreak"})
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
            if last["type"] == "text" and last.get("marks", []) == marks:
                last["text"] += value
                return
        self._nodes.append(
            {"type": "text", "text": value, "marks": marks} if marks else {"type": "text", "text": value}
        )

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
            self._report.changed("", "code cannot carry other marks; they were dropped from it")
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
        return {"type": "exact", "marks": _json(given.get("marks", ""), [])}

    def _open_link(self, token: Token, tokens: list[Token], at: int) -> None:
        self._open(_link_mark(token, self._report))
        if tokens[at + 1].type == "link_close":
            source = f"[]({token.attrs['href']})"
            self._report.kept("", "a link without text is kept as its source")
            self._nodes.append(raw_inline("markdown", source))

    def _image(self, token: Token) -> None:
        target, alt = str(token.attrs["src"]), _alt(token)
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
            self._report.changed("", "an image inside a link became its alternative text")
            self._append(alt or target)
        else:
            title = f' "{token.attrs["title"]}"' if token.attrs.get("title") else ""
            self._report.kept("", "an image between words is kept as its source")
            self._nodes.append(raw_inline("markdown", f"![{token.content}]({target}{title})", alt))

    def _html(self, source: str, closing: dict[str, int]) -> None:
        found = _TAG.fullmatch(source)
        if found:
            slash, name = found[1], found[2].lower()
            if name == "br":
                self._nodes.append({"type": "hardBreak"})
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
        self._nodes.append(raw_inline("html", source))

    def _atom(self, token: Token) -> None:
        found = atoms.read_atom(token.meta["name"], token.meta["label"], dict(token.meta["given"]))
        if found is None:
            self._report.changed("", f"`:{token.meta['name']}[…]` lacks what it needs; it stays text")
            self._append(token.content)
            return
        node, refused = found
        for name in refused:
            self._report.lost("", f"`:{token.meta['name']}[…]` has no attribute `{name}`")
        if node["type"] == "text" and token.meta["name"] == "char":
            self._append(node["text"])
        else:
            self._nodes.append(node)


def _closing_tags(tokens: list[Token]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for token in tokens:
        if token.type == "html_inline" and (found := _TAG.fullmatch(token.content)) and found[1]:
            counts[found[2].lower()] = counts.get(found[2].lower(), 0) + 1
    return counts


def _link_mark(token: Token, report: Report) -> Mark:
    attrs: dict[str, Any] = {"href": token.attrs["href"]}
    if token.attrs.get("title"):
        attrs["title"] = token.attrs["title"]
    mark = {"type": "link", "attrs": attrs}
    if token.meta and "given" in token.meta:
        for name in attributes.apply(mark, token.meta["given"]):
            report.lost("", f"a link has no attribute `{name}`")
    return mark


def _hand_to_opener(tokens: list[Token]) -> None:
    """Attributes stand after a link; its texts need them when it opens."""
    opener: Token | None = None
    for token in tokens:
        if token.type == "link_open":
            opener = token
        elif token.type == "link_close" and opener is not None and token.meta:
            opener.meta = token.meta


def _alt(token: Token) -> str:
    made: list[str] = []
    for child in token.children or []:
        if child.type == "softbreak":
            made.append(" ")
        elif child.type == "image":
            made.append(_alt(child))
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
