"""Confluence storage format as a small tree that remembers where in the source each part stands.

expat reads it: no network, no foreign entities (a document type declaration is refused, so nothing can be
declared that explodes), HTML's named characters known, and byte offsets for verbatim copies.
"""

import re
from dataclasses import dataclass, field
from html.entities import name2codepoint
from xml.parsers import expat

from mooring.text.errors import Position, UnreadableSource

MAX_DEPTH = 256
_NAMED_CHARACTERS = frozenset(name2codepoint) - {"amp", "lt", "gt", "quot", "apos"}
_NAME = re.compile(rb"&([A-Za-z][A-Za-z0-9]*);")
_START_TAG = re.compile(rb"""<[^>"']*(?:"[^"]*"[^>"']*|'[^']*'[^>"']*)*>""")
_DECLARATION = re.compile(rb"\s*<\?xml\s[^>]*\?>")
_FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")


@dataclass(slots=True, eq=False)
class Element:
    name: str
    attributes: dict[str, str]
    start: int
    end: int = 0
    children: "list[Child]" = field(default_factory=list["Child"])

    def elements(self) -> "list[Element]":
        return [child for child in self.children if isinstance(child, Element)]

    def first(self, name: str) -> "Element | None":
        return next((child for child in self.elements() if child.name == name), None)

    def has_only_elements(self) -> bool:
        """No words between the elements; white space does not count."""
        return not any(
            isinstance(child, Markup) or (isinstance(child, str) and child.strip()) for child in self.children
        )

    def text(self) -> str:
        """All character data below, in order."""
        pieces: list[str] = []
        waiting: list[Child] = [self]
        while waiting:
            current = waiting.pop()
            if isinstance(current, str):
                pieces.append(current)
            elif isinstance(current, Element):
                waiting.extend(reversed(current.children))
        return "".join(pieces)

    def only_text(self) -> str | None:
        """The character data, if there is nothing else in here."""
        if all(isinstance(child, str) for child in self.children):
            return "".join(child for child in self.children if isinstance(child, str))
        return None


@dataclass(frozen=True, slots=True)
class Markup:
    """A comment or processing instruction: nothing to read, but not to be lost."""

    start: int
    end: int


Child = Element | Markup | str


@dataclass(slots=True)
class Source:
    """The parsed text: its children, and the bytes they were cut from."""

    data: bytes
    children: list[Child]

    def verbatim(self, child: Child) -> str:
        """The child exactly as written (a string is written anew)."""
        if isinstance(child, str):
            return escape_text(child)
        return self.data[child.start : child.end].decode("utf-8")


def parse(text: str | bytes) -> Source:
    """Read a storage format text; `UnreadableSource` says where it is not well-formed."""
    data = _encoded(text)
    declaration = _DECLARATION.match(data)
    skipped = declaration.end() if declaration else 0
    prefix, suffix = _prefix(data), b"</mooring-root>"
    builder = _Builder(data, len(prefix) - skipped)
    parser = expat.ParserCreate("utf-8")
    parser.buffer_text = True
    parser.ordered_attributes = False
    builder.attach(parser)
    try:
        parser.Parse(prefix + data[skipped:] + suffix, True)
    except expat.ExpatError as error:
        raise _unreadable(error, data, skipped) from error
    return Source(data, builder.root.children)


class Unwritable(ValueError):
    """A text holds a character that XML cannot."""


def escape_text(value: str) -> str:
    if not is_writable(value):
        raise Unwritable
    return (
        value.replace("&", "&amp;")
        .replace("<", "&lt;")
        .replace(">", "&gt;")
        .replace("\r", "&#13;")
        .replace("\xa0", "&nbsp;")
    )


def escape_attribute(value: str) -> str:
    escaped = escape_text(value).replace('"', "&quot;")
    return escaped.replace("\n", "&#10;").replace("\t", "&#9;")


def cdata(value: str) -> str:
    """A CDATA section; an end mark inside is split over two sections, a carriage return is a reference."""
    if not value:
        return ""
    if not is_writable(value):
        raise Unwritable
    body = value.replace("]]>", "]]]]><![CDATA[>").replace("\r", "]]>&#13;<![CDATA[")
    return f"<![CDATA[{body}]]>"


def is_writable(value: object) -> bool:
    """Is this a text, and can XML hold every character of it?"""
    return isinstance(value, str) and _FORBIDDEN.search(value) is None


def tag(name: str, attributes: dict[str, str] | None = None, content: str | None = None) -> str:
    """One element; without content it closes itself."""
    written = "".join(f' {key}="{escape_attribute(value)}"' for key, value in (attributes or {}).items())
    return f"<{name}{written} />" if content is None else f"<{name}{written}>{content}</{name}>"


Shape = tuple[str, tuple[tuple[str, str], ...], tuple["Shape | str", ...]]


def shapes(children: list[Child], source: Source, *, structural: bool = True) -> tuple[Shape | str, ...]:
    """What two equal texts have in common: names, attributes in any order, character data, order.

    White space between blocks and between the parts of a macro or table says nothing.
    """
    made: list[Shape | str] = []
    loose = structural or any(isinstance(child, Element) and child.name in BLOCKS for child in children)
    for child in children:
        if isinstance(child, Markup):
            made.append(source.verbatim(child))
        elif isinstance(child, str):
            if not (loose and not child.strip(" \t\r\n")):
                made.append(child)
        else:
            inner = shapes(child.children, source, structural=child.name in STRUCTURAL)
            made.append((child.name, tuple(sorted(child.attributes.items())), inner))
    return tuple(made)


# Elements that stand for blocks: white space beside them says nothing.
BLOCKS = frozenset({
    "p", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "table", "blockquote", "hr", "pre", "div",
    "ac:layout", "ac:layout-section", "ac:task-list", "ac:adf-extension", "details", "section",
})  # fmt: skip
# Elements that hold parts, not words.
STRUCTURAL = frozenset({
    "ul", "ol", "table", "thead", "tbody", "tfoot", "tr", "colgroup", "ac:layout", "ac:layout-section",
    "ac:structured-macro", "ac:macro", "ac:task-list", "ac:task", "ac:image", "ac:link",
    "ac:adf-extension", "ac:adf-node", "ri:attachment", "ri:page", "ri:user",
})  # fmt: skip


class _Builder:
    def __init__(self, data: bytes, shift: int) -> None:
        self.root = Element("mooring-root", {}, 0)
        self._open = [self.root]
        self._data = data
        self._shift = shift
        self._parser: expat.XMLParserType | None = None

    def attach(self, parser: expat.XMLParserType) -> None:
        self._parser = parser
        parser.StartElementHandler = self._started
        parser.EndElementHandler = self._ended
        parser.CharacterDataHandler = self._text
        parser.CommentHandler = self._comment
        parser.ProcessingInstructionHandler = self._instruction

    def _index(self) -> int:
        assert self._parser
        return self._parser.CurrentByteIndex - self._shift

    def _started(self, name: str, attributes: dict[str, str]) -> None:
        if name == "mooring-root" and self._open == [self.root] and self._index() < 0:
            return
        if len(self._open) > MAX_DEPTH:
            raise UnreadableSource(
                f"nested deeper than {MAX_DEPTH} elements", _position(self._data, self._index())
            )
        made = Element(name, attributes, self._index())
        self._open[-1].children.append(made)
        self._open.append(made)

    def _ended(self, _name: str) -> None:
        if len(self._open) == 1:
            return
        index, closed = self._index(), self._open.pop()
        closed.end = index if self._closes_itself(closed, index) else self._data.index(b">", index) + 1

    def _closes_itself(self, closed: Element, index: int) -> bool:
        """expat reports the end of `<a />` behind it, that of `</a>` before it."""
        if self._data[index - 2 : index] != b"/>":
            return False
        opening = _START_TAG.match(self._data, closed.start)
        return opening is not None and opening.end() == index

    def _text(self, value: str) -> None:
        children = self._open[-1].children
        if children and isinstance(children[-1], str):
            children[-1] += value
        else:
            children.append(value)

    def _comment(self, value: str) -> None:
        start = self._index()
        end = self._data.index(b"-->", start + 4) + 3
        self._open[-1].children.append(Markup(start, end))
        del value

    def _instruction(self, _target: str, _value: str) -> None:
        start = self._index()
        self._open[-1].children.append(Markup(start, self._data.index(b"?>", start) + 2))


def _encoded(text: str | bytes) -> bytes:
    if isinstance(text, str):
        found = _FORBIDDEN.search(text)
        if found:
            line = text.count("\n", 0, found.start()) + 1
            column = found.start() - text.rfind("\n", 0, found.start())
            raise UnreadableSource(
                f"character U+{ord(found[0]):04X} is not allowed in XML", Position(line, column)
            )
        return text.removeprefix("\ufeff").encode("utf-8")
    try:
        text.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UnreadableSource(f"not UTF-8: {error.reason} at byte {error.start}") from error
    return text.removeprefix(b"\xef\xbb\xbf")


def _prefix(data: bytes) -> bytes:
    """The start of a document around the text that declares the named characters it uses, and no others."""
    used = {name.decode() for name in _NAME.findall(data)} & _NAMED_CHARACTERS
    declared = "".join(f'<!ENTITY {name} "&#{name2codepoint[name]};">' for name in sorted(used))
    return f"<!DOCTYPE mooring-root [{declared}]><mooring-root\n>".encode()


def _unreadable(error: expat.ExpatError, data: bytes, skipped: int) -> UnreadableSource:
    reason = expat.errors.messages.get(error.code, "not well-formed")
    line = max(error.lineno - 1, 1)
    column = error.offset if line == 1 else error.offset + 1
    line += data.count(b"\n", 0, skipped)
    last = data.count(b"\n") + 1
    if line > last or (line == last and column > len(data) - data.rfind(b"\n")):
        reason, line, column = "something is not closed at the end", last, len(data) - data.rfind(b"\n")
    return UnreadableSource(f"not well-formed storage format: {reason}", Position(line, column))


def _position(data: bytes, at: int) -> Position:
    return Position(data.count(b"\n", 0, at) + 1, at - data.rfind(b"\n", 0, at))
