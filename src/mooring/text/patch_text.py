"""Patching storage format, wiki markup and Markdown: cut the stretch of text out, put the new text in."""

from typing import Any, Literal

from mooring.text import formats
from mooring.text.blocks import Block, blocks, is_text
from mooring.text.errors import PatchRefused
from mooring.text.outline import Target, by_heading, choose, require_unchanged
from mooring.text.report import Report
from mooring.text.tree import Node, attributes, children, doc, equal, plain_text

_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


class TextPatch:
    def __init__(self, text: str, source_format: str, report: Report) -> None:
        self._text = text
        self._format = source_format
        self._report = report
        self._sections: list[Any] = formats.module(source_format).outline(text)

    def replace(self, target: Target, nodes: list[Node]) -> str:
        section = self._section(target)
        if isinstance(section, Block):
            return self._put_block(section, nodes)
        if nodes and nodes[0]["type"] == "heading" and _repeats(nodes[0], section):
            nodes = nodes[1:]
        return self._put(section.content_start, self._stop(section, target), nodes)

    def append(self, target: Target, nodes: list[Node]) -> str:
        section = self._section(target)
        _require_section(section)
        stop = self._stop(section, target)
        return self._put(stop, stop, nodes)

    def prepend(self, target: Target, nodes: list[Node]) -> str:
        section = self._section(target)
        _require_section(section)
        return self._put(section.content_start, section.content_start, nodes)

    def insert_before(self, target: Target, nodes: list[Node]) -> str:
        section = self._section(target)
        self._require_own_lines(section)
        return self._put(section.start, section.start, nodes)

    def insert_after(self, target: Target, nodes: list[Node]) -> str:
        section = self._section(target)
        self._require_own_lines(section)
        return self._put(section.end, section.end, nodes)

    def delete(self, target: Target) -> str:
        section = self._section(target)
        self._require_own_lines(section)
        return self._text[: section.start] + self._text[self._stop(section, target) :]

    def move(self, target: Target, destination: Target, side: Literal["before", "after"]) -> str:
        section, goal = self._section(target), self._section(destination)
        if section.start <= goal.start < section.end:
            raise PatchRefused(f"{target} cannot be moved into itself")
        moved = self._text[section.start : section.end]
        at = goal.start if side == "before" else goal.end
        if at <= section.start:
            return self._text[:at] + moved + self._text[at : section.start] + self._text[section.end :]
        if at >= section.end:
            return self._text[: section.start] + self._text[section.end : at] + moved + self._text[at:]
        raise PatchRefused(f"{target} is part of {destination}; move it somewhere else")

    def set_attrs(self, target: Target, attrs: dict[str, Any]) -> str:
        """The block, or the heading of the section, read, given the attributes and written again."""
        section = self._section(target)
        start, end = section.start, section.end if isinstance(section, Block) else section.content_start
        read = formats.reader(self._format)
        found = children(read(self._text[start:end], Report()))
        if len(found) != 1:
            raise PatchRefused(f"{target} is not one block; name a smaller part")
        merged = {**attributes(found[0]), **attrs}
        node = {**found[0], "attrs": {name: value for name, value in merged.items() if value is not None}}
        written = formats.writer(self._format)(doc(node), Report(), dialect="extended")
        if not equal(doc(*children(read(written, Report()))), doc(node)):
            names = ", ".join(f"`{name}`" for name in attrs)
            raise PatchRefused(
                f"`{self._format}` has no form for {names} of `{node['type']}`; nothing was changed"
            )
        return self._put_block(Block(start, end, "", prefix=getattr(section, "prefix", "")), [node])

    def find_replace(self, target: Target, find: str, replacement: str, count: int) -> str:
        """Words of the source text (in storage format: of its texts, with their entities)."""
        if not find:
            raise PatchRefused("`find_replace` needs the words to `find`")
        if self._format == "storage":
            find, replacement = find.translate(_ESCAPES), replacement.translate(_ESCAPES)
        start, stop = 0, len(self._text)
        if target.heading or target.ref is not None or target.text is not None:
            section = self._section(target)
            start, stop = section.start, self._stop(section, target)
        part = self._text[start:stop]
        found = part.count(find)
        if found != count:
            raise PatchRefused(
                f"`{find}` occurs {found} times, not {count}; give the right `count` or a smaller target"
            )
        return self._text[:start] + part.replace(find, replacement) + self._text[stop:]

    def _section(self, target: Target) -> Any:
        matching: list[Any]
        if target.text is not None:
            matching = self._blocks(text=target.text)
        elif target.ref is not None:
            matching = [each for each in self._sections if each.ref == target.ref] or self._blocks(
                ref=target.ref
            )
        else:
            matching = by_heading(self._sections, target.heading)
        section = choose(matching, self._sections, target)
        require_unchanged(self._text[section.start : section.end], target)
        return section

    def _stop(self, section: Any, target: Target) -> int:
        return section.end if target.scope == "subtree" else section.body_end

    def _blocks(self, *, ref: str | None = None, text: str | None = None) -> list[Block]:
        """The blocks with this id, or the innermost ones with exactly these words."""
        found = blocks(self._text, self._format)
        if ref is not None:
            return [each for each in found if each.ref == ref]
        wanted = " ".join((text or "").split())
        same = [each for each in found if " ".join(each.text.split()) == wanted]
        if self._format == "wiki":
            same = [each for each in same if is_text(self._text, each)]
        return [each for each in same if not any(_holds(each, other) for other in same)]

    def _require_own_lines(self, section: Any) -> None:
        if isinstance(section, Block) and section.prefix:
            raise PatchRefused(
                f"`{section.text}` stands in a list or a quote; replace it, or patch its section"
            )

    def _put_block(self, block: Block, nodes: list[Node]) -> str:
        written = formats.writer(self._format)(doc(*nodes), self._report, dialect="extended").strip("\n")
        if self._format == "storage":
            if block.inside and len(nodes) == 1 and nodes[0]["type"] == "paragraph":
                written = written.removeprefix("<p>").removesuffix("</p>")
        elif block.prefix:
            if self._format == "wiki" and "\n" in written:
                raise PatchRefused(
                    "the line behind a marker can only hold one line; patch its section instead"
                )
            first, *rest = written.split("\n")
            written = "\n".join([first, *((block.prefix + line).rstrip() for line in rest)])
        old = self._text[block.start : block.end]
        tail = old[len(old.rstrip("\r\n")) :] if self._format != "storage" else ""
        return self._text[: block.start] + written + tail + self._text[block.end :]

    def _put(self, start: int, stop: int, nodes: list[Node]) -> str:
        written = formats.writer(self._format)(doc(*nodes), self._report, dialect="extended").strip("\n")
        before, after = self._text[:start], self._text[stop:]
        if self._format == "storage":
            return before + written + after
        old = self._text[start:stop]
        if old.strip():
            lead, tail = old[: len(old) - len(old.lstrip("\r\n"))], old[len(old.rstrip("\r\n")) :]
            return before + lead + written + (tail or "\n") + after
        lead = "" if not before or before.endswith("\n\n") else "\n" if before.endswith("\n") else "\n\n"
        tail = "" if not after else "\n" if after.startswith("\n") else "\n\n"
        return before + lead + written + (tail or "\n") + after


def _holds(outer: Block, inner: Block) -> bool:
    return outer is not inner and outer.start <= inner.start and inner.end <= outer.end


def _require_section(section: Any) -> None:
    if isinstance(section, Block):
        raise PatchRefused("a block has no body of its own; use `replace`, `insert_before` or `insert_after`")


def _repeats(heading: Node, section: Any) -> bool:
    same_words = " ".join(plain_text(heading).split()) == section.text
    return same_words and attributes(heading).get("level") == section.level
