"""Patching storage format, wiki markup and Markdown: cut the stretch of text out, put the new text in."""

from typing import Any, Literal, NoReturn

from mooring.text import formats
from mooring.text.errors import PatchRefused
from mooring.text.outline import Target, by_heading, choose, require_unchanged
from mooring.text.report import Report
from mooring.text.tree import Node, attributes, doc, plain_text

_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


class TextPatch:
    def __init__(self, text: str, source_format: str, report: Report) -> None:
        self._text = text
        self._format = source_format
        self._report = report
        self._sections: list[Any] = formats.module(source_format).outline(text)

    def replace(self, target: Target, nodes: list[Node]) -> str:
        section = self._section(target)
        if nodes and nodes[0]["type"] == "heading" and _repeats(nodes[0], section):
            nodes = nodes[1:]
        return self._put(section.content_start, self._stop(section, target), nodes)

    def append(self, target: Target, nodes: list[Node]) -> str:
        stop = self._stop(self._section(target), target)
        return self._put(stop, stop, nodes)

    def prepend(self, target: Target, nodes: list[Node]) -> str:
        start = self._section(target).content_start
        return self._put(start, start, nodes)

    def insert_before(self, target: Target, nodes: list[Node]) -> str:
        start = self._section(target).start
        return self._put(start, start, nodes)

    def insert_after(self, target: Target, nodes: list[Node]) -> str:
        end = self._section(target).end
        return self._put(end, end, nodes)

    def delete(self, target: Target) -> str:
        section = self._section(target)
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

    def set_attrs(self, _target: Target, _attrs: dict[str, Any]) -> NoReturn:
        raise PatchRefused(f"`set_attrs` works on ADF; in `{self._format}` replace the block instead")

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
        if target.text is not None:
            raise PatchRefused(f"in `{self._format}` name a section by heading or ref, or use `find_replace`")
        if target.ref is not None:
            matching = [each for each in self._sections if each.ref == target.ref]
        else:
            matching = by_heading(self._sections, target.heading)
        section = choose(matching, self._sections, target)
        require_unchanged(self._text[section.start : section.end], target)
        return section

    def _stop(self, section: Any, target: Target) -> int:
        return section.end if target.scope == "subtree" else section.body_end

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


def _repeats(heading: Node, section: Any) -> bool:
    same_words = " ".join(plain_text(heading).split()) == section.text
    return same_words and attributes(heading).get("level") == section.level
