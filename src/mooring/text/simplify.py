"""The same document with only what plain Markdown can say, for readers who know no directives.

The result is a list of units: a piece of simplified tree, and the path of the node it stands for. Layouts,
expands and bodied extensions disappear around their blocks, so one original block is always one unit and an
edited unit can be put back where it came from.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urljoin

from mooring.text.dates import iso_day
from mooring.text.report import Path, Report
from mooring.text.tree import Mark, Node, attributes, children, marks_of, paragraph, plain_text, text

# Containers that leave no trace: their blocks follow one another.
TRANSPARENT = frozenset(
    {"layoutSection", "layoutColumn", "expand", "nestedExpand", "bodiedExtension", "bodiedSyncBlock"}
)
PLAIN_MARKS = frozenset({"link", "strong", "em", "strike", "code"})
# Characters Markdown has no form for.
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0e-\x1f\x7f-\x9f\ufdd0-\ufdef\ufffe\uffff\ud800-\udfff]")
STRONG: Mark = {"type": "strong"}
CODE: Mark = {"type": "code"}


@dataclass(frozen=True, slots=True)
class Unit:
    """`node` is what the plain reader sees of the node at `path`; a `title` unit is an expand's title."""

    path: Path
    node: Node
    original: Node
    title: bool = False


@dataclass(frozen=True, slots=True)
class Simplifier:
    report: Report
    users: Mapping[str, str] = field(default_factory=dict[str, str])
    resolve_media: Callable[[Node], str | None] | None = None
    base_url: str = ""
    """What relative addresses are relative to, for a reader who is elsewhere."""

    def units(self, document: Node) -> list[Unit]:
        made: list[Unit] = []
        self._units(children(document), (), made)
        return made

    def _units(self, content: list[Node], path: Path, made: list[Unit]) -> None:
        for index, item in enumerate(content):
            here = (*path, "content", index)
            if item["type"] in TRANSPARENT:
                title = attributes(item).get("title")
                if isinstance(title, str) and title.strip():
                    made.append(Unit(here, paragraph(text(title.strip(), STRONG)), item, title=True))
                if item["type"] != "layoutColumn":
                    self.report.changed(here, f"`{item['type']}` is not shown; its content is")
                self._units(children(item), here, made)
                continue
            simple = self.block(item, here)
            if simple is not None:
                made.append(Unit(here, simple, item))
            else:
                self.report.changed(here, f"`{item['type']}` without words is not shown")

    # ------------------------------------------------------------ blocks

    def block(self, item: Node, path: Path) -> Node | None:
        kind = item["type"]
        if marks_of(item):
            self.report.lost(
                path, f"`{kind}` loses {', '.join(str(each.get('type')) for each in marks_of(item))}"
            )
        match kind:
            case "paragraph" | "caption":
                content = self.inline(children(item), path)
                return paragraph(*content) if content else None
            case "heading":
                content = self.inline(children(item), path)
                level = attributes(item).get("level")
                level = level if isinstance(level, int) and 1 <= level <= 6 else 6
                return {"type": "heading", "attrs": {"level": level}, "content": content} if content else None
            case "codeBlock":
                return _only(item, "language")
            case "rule":
                return {"type": "rule"}
            case "bulletList" | "orderedList":
                return self._list(item, path)
            case "taskList":
                return self._tasks(item, path)
            case "decisionList":
                return self._decisions(item, path)
            case "blockquote":
                return self._container(item, path, {"type": "blockquote"})
            case "panel":
                shown = attributes(item).get("panelType", "info")
                return self._container(item, path, {"type": "panel", "attrs": {"panelType": shown}})
            case "table":
                return self._table(item, path)
            case _:
                return self._other(item, path)

    def _other(self, item: Node, path: Path) -> Node | None:
        kind, attrs = item["type"], attributes(item)
        match kind:
            case "mediaSingle":
                return self._image(item, path)
            case "mediaGroup":
                items = [paragraph(self._media_link(media)) for media in children(item)]
                self.report.changed(path, "files are shown as links")
                return {
                    "type": "bulletList",
                    "content": [{"type": "listItem", "content": [each]} for each in items],
                }
            case "blockCard" | "embedCard" if isinstance(attrs.get("url"), str) and attrs["url"]:
                self.report.changed(path, "a card is shown as a link")
                return paragraph(self._bare_link(attrs["url"]))
            case "extension" | "inlineExtension":
                self.report.changed(path, "an extension is shown by its name")
                return paragraph(text(_named(item)))
            case _:
                self.report.changed(path, f"`{kind}` is shown by its words")
                words = _CONTROL.sub("\ufffd", plain_text(item).strip())
                return paragraph(text(words or f"[{kind}]"))

    def _container(self, item: Node, path: Path, made: Node) -> Node:
        made["content"] = self._blocks(children(item), path) or [{"type": "paragraph"}]
        return made

    def _blocks(self, content: list[Node], path: Path) -> list[Node]:
        """Blocks inside something that stays: transparent containers are replaced by what is in them."""
        units: list[Unit] = []
        self._units(content, path, units)
        return [unit.node for unit in units]

    def _list(self, item: Node, path: Path) -> Node:
        made = _only(item, "order")
        made["content"] = [
            {
                "type": "listItem",
                "content": self._blocks(children(each), (*path, "content", index)) or [{"type": "paragraph"}],
            }
            for index, each in enumerate(children(item))
        ]
        return made

    def _tasks(self, item: Node, path: Path) -> Node:
        content: list[Node] = []
        for index, each in enumerate(children(item)):
            here = (*path, "content", index)
            if each["type"] == "taskList":
                nested = self._tasks(each, here)
                content += [nested] if content else nested["content"]
                continue
            inline = children(each)
            if each["type"] == "blockTaskItem":
                inline = [node for block in inline for node in children(block)]
            state = attributes(each).get("state", "TODO")
            content.append(
                {"type": "taskItem", "attrs": {"state": state}, "content": self.inline(inline, here)}
            )
        return {"type": "taskList", "content": content}

    def _decisions(self, item: Node, path: Path) -> Node:
        made: list[Node] = []
        for index, each in enumerate(children(item)):
            state = attributes(each).get("state", "DECIDED")
            content = [text(f"[{state}] "), *self.inline(children(each), (*path, "content", index))]
            made.append({"type": "listItem", "content": [paragraph(*_joined(content))]})
        self.report.changed(path, "decisions are shown as a list")
        return {"type": "bulletList", "content": made}

    def _image(self, item: Node, path: Path) -> Node | None:
        media, *rest = children(item) or [{"type": "media"}]
        target = self._target(media)
        shown: Node = {"type": "media", "attrs": {"type": "external", "url": target}}
        alt = attributes(media).get("alt")
        if alt:
            shown["attrs"]["alt"] = alt
        made: Node = {"type": "mediaSingle", "attrs": {"layout": "center"}, "content": [shown]}
        words = self.inline(children(rest[0]), (*path, "content", 1)) if rest else []
        if words:
            self.report.changed(path, "a caption is shown as the image's description")
            shown["attrs"]["alt"] = " ".join(
                part for part in (alt, plain_text(paragraph(*words)).strip()) if part
            )
        return made

    def _target(self, media: Node) -> str:
        attrs = attributes(media)
        resolved = self.resolve_media(media) if self.resolve_media else None
        return resolved or self._address(str(attrs.get("url") or f"attachment:{attrs.get('id', '')}"))

    def _address(self, url: str) -> str:
        """Absolute, where we know what it is relative to; a place in the same page stays one."""
        return urljoin(self.base_url, url) if self.base_url and not url.startswith("#") else url

    def _bare_link(self, url: str) -> Node:
        return _link(self._address(url), self._address(url))

    def _media_link(self, media: Node) -> Node:
        target = self._target(media)
        return _link(_CONTROL.sub("\ufffd", str(attributes(media).get("alt") or target)), target)

    # ------------------------------------------------------------ tables

    def _table(self, item: Node, path: Path) -> Node:
        """Every cell one paragraph, every row as long as the first, the first row the header."""
        lines: list[list[list[Node]]] = []
        for at, row in enumerate(children(item)):
            cells: list[list[Node]] = []
            for index, cell in enumerate(children(row)):
                here = (*path, "content", at, "content", index)
                cells.append(self._flattened(children(cell), here))
                span = attributes(cell).get("colspan", 1)
                cells += [[] for _ in range(min(int(span), 100) - 1)] if isinstance(span, int) else []
            lines.append(cells)
        width = max((len(line) for line in lines), default=1) or 1
        rows = [
            {
                "type": "tableRow",
                "content": [
                    {"type": "tableHeader" if not at else "tableCell", "content": [paragraph(*cell)]}
                    for cell in line + [[] for _ in range(width - len(line))]
                ],
            }
            for at, line in enumerate(lines)
        ]
        return {"type": "table", "content": rows}

    def _flattened(self, blocks: list[Node], path: Path) -> list[Node]:
        """The blocks of a cell in one line."""
        made: list[Node] = []
        if len(blocks) != 1 or blocks[0]["type"] != "paragraph":
            self.report.changed(path, "blocks in a table cell are shown in one line")
        for line in self._lines(blocks, path):
            if made:
                made.append({"type": "hardBreak"})
            made += line
        return made

    def _lines(self, blocks: list[Node], path: Path, lead: str = "") -> list[list[Node]]:
        made: list[list[Node]] = []
        for index, block in enumerate(blocks):
            here = (*path, "content", index)
            shown, deeper = self.cell_lines(block, lead, here)
            made += shown if deeper is None else self._lines(children(block), here, deeper)
        return [line for line in made if line]

    def cell_lines(self, block: Node, lead: str, path: Path = ()) -> tuple[list[list[Node]], str | None]:
        """The lines of one block of a cell, or what goes in front of those of its children."""
        kind = block["type"]
        if kind in ("paragraph", "heading", "caption", "taskItem", "decisionItem"):
            inline = self.inline(children(block), path)
            return [_joined([text(lead), *inline]) if lead else inline], None
        if kind == "codeBlock":
            lines = plain_text(block).split("\n")
            return [[text(line, CODE)] if line.strip() else [] for line in lines], None
        if children(block) and kind not in ("mediaSingle", "mediaGroup"):
            return [], "• " if kind in ("listItem", "bulletList", "orderedList", "taskList") else lead
        simple = self._other(block, path)
        return [_as_line(simple) if simple else []], None

    # ------------------------------------------------------------ inline

    def inline(self, content: list[Node], path: Path) -> list[Node]:
        """The content of the node at `path` as texts, breaks and links; without blanks at the ends, which
        would be lost anyway."""
        made: list[Node] = []
        for index, item in enumerate(content):
            made += self.atom(item, (*path, "content", index))
        return trimmed(_joined(made))

    def atom(self, item: Node, path: Path) -> list[Node]:
        kind, attrs = item["type"], attributes(item)
        match kind:
            case "text":
                return [self._text(item, path)]
            case "hardBreak":
                return [{"type": "hardBreak"}]
            case "inlineCard" if isinstance(attrs.get("url"), str) and attrs["url"]:
                return [self._bare_link(attrs["url"])]
            case "mediaInline":
                return [self._media_link(item)]
            case _:
                shown = _CONTROL.sub("\ufffd", self._words(item))
                return [text(shown)] if shown else []

    def _text(self, item: Node, path: Path) -> Node:
        marks = marks_of(item)
        kept = [self._mark(each) for each in marks if each.get("type") in PLAIN_MARKS]
        if len(kept) < len(marks):
            gone = ", ".join(sorted({str(each.get("type")) for each in marks} - PLAIN_MARKS))
            self.report.lost(path, f"text loses {gone}")
        if CODE in kept:
            kept = [each for each in kept if each["type"] in ("code", "link")]
        return text(_CONTROL.sub("\ufffd", item["text"]), *kept)

    def _mark(self, mark: Mark) -> Mark:
        if mark["type"] != "link":
            return {"type": mark["type"]}
        attrs: dict[str, Any] = {"href": self._address(str(attributes(mark).get("href", "")))}
        title = attributes(mark).get("title")
        if title:
            attrs["title"] = title
        return {"type": "link", "attrs": attrs}

    def _words(self, item: Node) -> str:
        kind, attrs = item["type"], attributes(item)
        match kind:
            case "mention":
                name = self.users.get(str(attrs.get("id"))) or attrs.get("text") or str(attrs.get("id", ""))
                return f"@{str(name).removeprefix('@')}"
            case "status":
                return f"[{attrs.get('text', '')}]"
            case "date":
                stamp = str(attrs.get("timestamp", ""))
                return f"[{iso_day(stamp) or stamp}]"
            case "emoji":
                return str(attrs.get("text") or attrs.get("shortName", ""))
            case "placeholder":
                return f"[{attrs.get('text', '')}]"
            case _:
                return _named(item)


def _named(item: Node) -> str:
    attrs = attributes(item)
    return _CONTROL.sub("\ufffd", str(attrs.get("text") or f"[{attrs.get('extensionKey') or item['type']}]"))


def _link(words: str, href: str) -> Node:
    return text(words, {"type": "link", "attrs": {"href": href}})


def _as_line(block: Node) -> list[Node]:
    if block["type"] == "mediaSingle":
        attrs = block["content"][0]["attrs"]
        return [_link(attrs.get("alt") or attrs["url"], attrs["url"])]
    return [
        each
        for child in children(block)
        for each in ([child] if child["type"] in ("text", "hardBreak") else _as_line(child))
    ]


def _only(item: Node, *names: str) -> Node:
    made = {key: value for key, value in item.items() if key in ("type", "content")}
    attrs = {name: attributes(item)[name] for name in names if name in attributes(item)}
    return {**made, "attrs": attrs} if attrs else made


def _joined(content: list[Node]) -> list[Node]:
    made: list[Node] = []
    for item in content:
        last = made[-1] if made else None
        if last and item["type"] == last["type"] == "text" and marks_of(item) == marks_of(last):
            made[-1] = {**last, "text": last["text"] + item["text"]}
        elif item["type"] != "text" or item["text"]:
            made.append(item)
    return made


def trimmed(content: list[Node]) -> list[Node]:
    """Without blanks and breaks at either end."""
    made = list(content)
    while made and not _strip(made, 0):
        del made[0]
    while made and not _strip(made, -1):
        del made[-1]
    return made


def _strip(content: list[Node], at: int) -> bool:
    item = content[at]
    if item["type"] == "hardBreak":
        return False
    if any(mark["type"] == "code" for mark in marks_of(item)):
        return True
    words = item["text"].lstrip() if at == 0 else item["text"].rstrip()
    content[at] = {**item, "text": words}
    return bool(words)
