"""A document as extended Markdown that reads back to the same tree."""

import re
from collections.abc import Callable, Mapping
from typing import Any

from markdown_it.rules_block.html_block import HTML_SEQUENCES

from mooring.text.content import ALLOWED
from mooring.text.markdown import escape
from mooring.text.markdown.atoms import labelled
from mooring.text.markdown.attributes import Pairs, block_pairs, pairs_of, quote, render
from mooring.text.markdown.grammar import PANELS
from mooring.text.markdown.html import is_foreign
from mooring.text.markdown.images import image
from mooring.text.markdown.inexpressible import Inexpressible
from mooring.text.markdown.inline_writer import InlineWriter
from mooring.text.markdown.lists_writer import ListWriter
from mooring.text.markdown.tables_writer import TableWriter
from mooring.text.report import Path, Report
from mooring.text.schema import is_valid_node
from mooring.text.tree import (
    INLINE_TYPES,
    Node,
    attributes,
    children,
    is_raw,
    raw_block,
    raw_source,
)

_COLONS = re.compile(r"^[ >]*(?:(?:[-*]|\d+[.)]) +)*(:{3,})", re.MULTILINE)
_FENCES = re.compile(r"^ *(`{3,})", re.MULTILINE)
# Inside HTML these would be taken for fences when the ends of containers are looked for.
_OTHER_FENCE = re.compile(r"^[ >]*(?:(?:[-+*]|\d+[.)]) +)*(?:```|~~~|:::)", re.MULTILINE)
_LANGUAGE = re.compile(r"[^\s`{}\\&~\x00-\x1f\x7f-\x9f\ud800-\udfff]+")
# A list may follow its paragraph without a blank line only if it can interrupt one.
_INTERRUPTS = re.compile(r"(?:\{[^\n]*\}\n)?(?:[-*]|1[.)]) +\S")
_KEYS = frozenset({"type", "attrs", "content", "marks"})
_LIST_FAMILY = {"bulletList": "bullet", "taskList": "bullet", "orderedList": "number"}


def extended_writer(report: Report, users: Mapping[str, str], *, literal: bool = False) -> "BlockWriter":
    """`literal`: whatever breaks the schema is written as ADF."""
    return BlockWriter(
        report,
        InlineWriter(users=users, literal=literal),
        InlineWriter(single_line=True, users=users, literal=literal),
    )


class BlockWriter:
    """Writes blocks; what has no syntax is kept as JSON and said so in the report."""

    def __init__(self, report: Report, inline: InlineWriter, line: InlineWriter) -> None:
        self.report = report
        self.inline = inline
        self.line = line
        self._path: list[int] = []
        self._lists = ListWriter(self, explicit=not inline.plain)
        self._tables = TableWriter(self)
        self._handlers: dict[str, Callable[[Node, str, str], str]] = {
            "paragraph": self._paragraph,
            "heading": self._heading,
            "bulletList": self._lists.bullets,
            "orderedList": self._lists.numbers,
            "taskList": self._lists.tasks,
            "decisionList": self._lists.decisions,
            "blockquote": self._quote,
            "codeBlock": self._code,
            "rule": self._rule,
            "panel": self._panel,
            "expand": self._expand,
            "nestedExpand": self._expand,
            "layoutSection": self._layout,
            "table": self._tables.table,
            "mediaSingle": self._media_single,
            "mediaGroup": self._media_group,
            "blockCard": self._card,
            "embedCard": self._embed,
            "extension": self._extension,
            "bodiedExtension": self._bodied_extension,
            "syncBlock": self._sync,
            "bodiedSyncBlock": self._bodied_sync,
        }

    @property
    def path(self) -> Path:
        return tuple(step for index in self._path for step in ("content", index))

    def sequence(self, content: list[Node], parent: str, *, tight: bool = False) -> str:
        """Blocks one after another."""
        if len(content) == 1:
            return self.parts(content, parent)[0]
        made: list[str] = []
        previous = ""
        for item, block in zip(content, self.parts(content, parent), strict=True):
            kind = item["type"]
            if made:
                joined = (
                    tight and previous == "paragraph" and kind in _LIST_FAMILY and _INTERRUPTS.match(block)
                )
                made.append("\n" if joined else "\n\n")
            made.append(block)
            previous = kind
        return "".join(made)

    def parts(self, content: list[Node], parent: str) -> list[str]:
        """Each block by itself; neighbouring lists of a kind get different markers."""
        made: list[str] = []
        previous, marker = None, "-"
        path = self._path
        path.append(0)
        for index, item in enumerate(content):
            family = _LIST_FAMILY.get(item["type"])
            marker = "*" if family and family == previous and marker == "-" else "-"
            path[-1] = index
            made.append(self.block(item, parent, marker))
            previous = family
        path.pop()
        return made

    def at(self, index: int, item: Node) -> str:
        """One block of the document."""
        self._path = [index]
        return self.block(item, "doc")

    def block(self, item: Node, parent: str, marker: str = "-") -> str:
        kind = item["type"]
        handler = self._handlers.get(kind)
        if self.inline.literal and not is_valid_node(item):
            return self.as_json(item)
        allowed = ALLOWED.get(parent)
        if handler and (allowed is None or kind in allowed) and _KEYS.issuperset(item):
            try:
                return handler(item, parent, marker)
            except Inexpressible:
                pass
        return self.as_json(item)

    def as_json(self, item: Node) -> str:
        """A node without a syntax of its own: its words stay readable when its children are ordinary."""
        content = children(item)
        self.report.escaped(self.path, f"`{item['type']}` has no Markdown form here; written as ADF")
        if content and isinstance(item.get("content"), list):
            shell = quote({key: value for key, value in item.items() if key != "content"})
            kinds = {child.get("type") for child in content}
            if kinds & INLINE_TYPES:
                body = self.text(content)
                if body:
                    return self.container("adf", [("json", shell), ("inline", "true")], body)
            else:
                return self.container("adf", [("json", shell)], self.sequence(content, "?"))
        return _fence(item)

    def fence(self, item: Node, path: Path) -> str:
        """The whole node as JSON."""
        self.report.escaped(path, f"`{item['type']}` does not follow the schema; written as ADF")
        return _fence(item)

    def container(self, name: str, pairs: Pairs, body: str, label: str | None = None) -> str:
        longest = max((len(run) for run in _COLONS.findall(body)), default=2) if ":::" in body else 2
        fence = ":" * (longest + 1)
        head = [f"{fence} {name}", f"[{label}]" if label is not None else "", render(pairs)]
        opening = " ".join(part for part in head if part)
        return f"{opening}\n{body}\n{fence}" if body else f"{opening}\n{fence}"

    # ------------------------------------------------------------ text blocks

    def text(self, content: list[Node]) -> str:
        """Inline content as lines that cannot be taken for other blocks."""
        made = escape.lines(self.inline.write(content))
        if not any(child["type"] == "inlineExtension" and is_raw(child) for child in content):
            return made
        if _starts_html_or_image(made, content):
            return escape.lines(InlineWriter(users=self.inline.users, verbatim=False).write(content))
        return made

    def _paragraph(self, item: Node, parent: str, _: str) -> str:
        if len(item) == 2 and "content" in item:
            return self.text(children(item)) or "::p"
        given = render(block_pairs(item, parent))
        made = self.text(children(item))
        if not made:
            return f"::p{given}"
        return f"{made} {given}" if given else made

    def _heading(self, item: Node, parent: str, _: str) -> str:
        level = attributes(item).get("level")
        if not isinstance(level, int) or not 1 <= level <= 6:
            raise Inexpressible
        made = self.line.write(children(item))
        given = render(block_pairs(item, parent, without=("level",)))
        if made.endswith("#"):
            stem = made.rstrip("#")
            made = f"{stem}\\{made[len(stem) :]}" if not stem or stem[-1] in " \t" else made
        return " ".join(part for part in ("#" * level, made, given) if part)

    def _code(self, item: Node, parent: str, _: str) -> str:
        content = children(item)
        if any(
            child["type"] != "text" or child.get("marks") or not {"type", "text", "marks"}.issuperset(child)
            for child in content
        ):
            raise Inexpressible
        code = content[0]["text"] if len(content) == 1 else "".join(child["text"] for child in content)
        if "\r" in code or "\0" in code or (code and not code.isascii() and _has_surrogate(code)):
            raise Inexpressible
        language = attributes(item).get("language")
        named = isinstance(language, str)
        bare = named and _LANGUAGE.fullmatch(language) and language != "adf"
        pairs = block_pairs(item, parent, without=("language",) if named else ())
        if named and not bare:
            pairs.append(("language", language))
        longest = max((len(run) for run in _FENCES.findall(code)), default=2) if "```" in code else 2
        fence = "`" * (longest + 1)
        info = " ".join(part for part in (language if bare else "", render(pairs, delicate=True)) if part)
        return f"{fence}{info}\n{code}\n{fence}" if content else f"{fence}{info}\n{fence}"

    def _rule(self, item: Node, parent: str, _: str) -> str:
        if item.get("content"):
            raise Inexpressible
        return self.with_line(item, parent, "---")

    def _quote(self, item: Node, parent: str, _: str) -> str:
        body = self._body(item)
        if body == "::p":
            return self.with_line(item, parent, ">")
        quoted = "\n".join(f"> {line}" if line else ">" for line in body.split("\n"))
        return self.with_line(item, parent, quoted)

    def with_line(
        self, item: Node, parent: str, block: str, extra: Pairs | None = None, without: tuple[str, ...] = ()
    ) -> str:
        """A block with its attributes on a line of their own before it."""
        given = render(block_pairs(item, parent, without=without) + (extra or []))
        return f"{given}\n{block}" if given else block

    # ------------------------------------------------------------ containers

    def _body(self, item: Node) -> str:
        content = children(item)
        if not content:
            raise Inexpressible
        return self.sequence(content, item["type"])

    def _panel(self, item: Node, parent: str, _: str) -> str:
        kind = attributes(item).get("panelType")
        if kind in PANELS:
            return self.container(kind, block_pairs(item, parent, without=("panelType",)), self._body(item))
        pairs: Pairs = [("type", "custom")] if kind == "custom" else []
        without = ("panelType",) if kind == "custom" else ()
        return self.container("panel", pairs + block_pairs(item, parent, without=without), self._body(item))

    def _expand(self, item: Node, parent: str, _: str) -> str:
        title = attributes(item).get("title")
        label = escape.label(title) if isinstance(title, str) and title else None
        pairs = block_pairs(item, parent, without=("title",) if label is not None else ())
        return self.container("expand", pairs, self._body(item), label)

    def _layout(self, item: Node, parent: str, _: str) -> str:
        columns = children(item)
        if not 2 <= len(columns) <= 3:
            raise Inexpressible
        made: list[str] = []
        for index, column in enumerate(columns):
            if column["type"] != "layoutColumn" or not _KEYS.issuperset(column) or not children(column):
                raise Inexpressible
            self._path.append(index)
            body = self.sequence(children(column), "layoutColumn")
            made.append(self.container("column", pairs_of(column), body))
            self._path.pop()
        return self.container("layout", block_pairs(item, parent), "\n".join(made))

    def _bodied_extension(self, item: Node, parent: str, _: str) -> str:
        return self._labelled_container("macro", item, parent, "extensionKey")

    def _bodied_sync(self, item: Node, parent: str, _: str) -> str:
        return self._labelled_container("sync", item, parent, "resourceId")

    def _labelled_container(self, name: str, item: Node, parent: str, shown: str) -> str:
        value: Any = attributes(item).get(shown)
        label = escape.label(value) if isinstance(value, str) and value else None
        if label is None:
            raise Inexpressible
        return self.container(name, block_pairs(item, parent, without=(shown,)), self._body(item), label)

    # ------------------------------------------------------------ leaves

    def _card(self, item: Node, _parent: str, _: str) -> str:
        return labelled("::card", _leaf(item), "url")

    def _embed(self, item: Node, _parent: str, _: str) -> str:
        return labelled("::embed", _leaf(item), "url")

    def _sync(self, item: Node, parent: str, _: str) -> str:
        value = attributes(item).get("resourceId")
        label = escape.label(value) if isinstance(value, str) and value else None
        given = render(block_pairs(_leaf(item), parent, without=("resourceId",) if label else ()))
        return f"::sync[{label or ''}]{given}"

    def _extension(self, item: Node, _parent: str, _: str) -> str:
        source = raw_source(item) if is_raw(item, "html") else None
        if source and item == raw_block("html", source) and _is_html_block(source):
            return source
        return labelled("::macro", _leaf(item), "extensionKey")

    def _media_single(self, item: Node, _parent: str, _: str) -> str:
        content = children(item)
        kinds = [child["type"] for child in content]
        if kinds not in (["media"], ["media", "caption"]):
            raise Inexpressible
        single = pairs_of(item)
        if "layout" not in attributes(item):
            single.append(("layout", "none"))
        shown = image(content[0], [pair for pair in single if pair != ("layout", "center")])
        if len(content) == 1:
            return shown
        caption = content[1]
        if not _KEYS.issuperset(caption):
            raise Inexpressible
        return f"{shown}\n" + self.container("caption", pairs_of(caption), self.text(children(caption)))

    def _media_group(self, item: Node, parent: str, _: str) -> str:
        content = children(item)
        if not content or any(child["type"] != "media" for child in content):
            raise Inexpressible
        return self.container(
            "files", block_pairs(item, parent), "\n".join(image(child, []) for child in content)
        )


def _fence(item: Node) -> str:
    return f"```adf\n{quote(item)}\n```"


def _leaf(item: Node) -> Node:
    if "content" in item:
        raise Inexpressible
    return item


def _has_surrogate(value: str) -> bool:
    return any(0xD800 <= ord(each) <= 0xDFFF for each in value)


def _starts_html_or_image(made: str, content: list[Node]) -> bool:
    """Would verbatim foreign source be read as a block of its own?"""
    if len(content) == 1 and made.startswith("![") and not made.endswith('")'):
        return True
    return any(
        line.startswith("<") and any(start.search(line) for start, _, _ in HTML_SEQUENCES)
        for line in made.split("\n")
    )


def _is_html_block(source: str) -> bool:
    """Will these lines be read as one HTML block that ends where they end?"""
    lines = source.split("\n")
    first = lines[0].lstrip(" ")
    if source.strip("\n") != source or "\r" in source or "\0" in source or len(lines[0]) - len(first) > 3:
        return False
    if _OTHER_FENCE.search(source) or not is_foreign(source):
        return False
    for start, end, _ in HTML_SEQUENCES:
        if start.search(first):
            if end.search(""):
                return all(line.strip() for line in lines)
            return bool(end.search(lines[-1])) and not any(end.search(line) for line in lines[:-1])
    return False
