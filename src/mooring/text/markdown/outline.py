"""The sections of a Markdown text, as stretches of that text."""

from dataclasses import dataclass
from typing import Any

from markdown_it.token import Token

from mooring.text.markdown.grammar import parser
from mooring.text.markdown.inline_reader import InlineReader
from mooring.text.markdown.trimming import split_attributes
from mooring.text.report import Report
from mooring.text.storage_sections import Section, named
from mooring.text.tree import paragraph, plain_text


@dataclass(slots=True)
class _Open:
    level: int
    path: tuple[str, ...]
    identifier: str | None
    start: int
    content_start: int
    body_end: int = -1
    end: int = -1


def outline(source: str) -> list[Section]:
    """All sections in order; a section inside a directive or a quote ends where that ends."""
    tokens: list[Token] = []
    environment: dict[str, Any] = {}
    markdown = parser()
    unified = source.replace("\r\n", " \n").replace("\r", "\n")
    markdown.block.parse(unified, markdown, environment, tokens)
    starts = [0]
    for line in unified.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    starts[-1] = len(source)
    return _Walk(InlineReader(Report(), environment), starts, len(source)).run(tokens)


class _Walk:
    def __init__(self, inline: InlineReader, starts: list[int], size: int) -> None:
        self._inline = inline
        self._starts = starts
        self._found: list[_Open] = []
        # One list of open sections per container, with the line the container ends at.
        self._stack: list[tuple[list[_Open], int]] = [([], size)]

    def run(self, tokens: list[Token]) -> list[Section]:
        for at, token in enumerate(tokens):
            if token.type == "heading_open":
                self._heading(token, tokens[at + 1])
            elif token.nesting == 1 and token.type in ("directive_open", "blockquote_open", "list_item_open"):
                end = self._starts[int(token.meta.get("end", (token.map or [0, 0])[1]))]
                self._stack.append(([], end))
            elif token.nesting == -1 and token.type in (
                "directive_close",
                "blockquote_close",
                "list_item_close",
            ):
                self._close(*self._stack.pop())
        self._close(*self._stack.pop())
        return named(
            [
                (
                    each.identifier,
                    each.level,
                    each.path,
                    (each.start, each.content_start, each.body_end, each.end),
                )
                for each in self._found
            ]
        )

    def _heading(self, token: Token, inline: Token) -> None:
        level = int(token.tag[1])
        first, last = token.map or [0, 0]
        start = self._starts[first]
        sections = self._stack[-1][0]
        for each in sections:
            if each.body_end < 0:
                each.body_end = start
        while sections and sections[-1].level >= level:
            sections.pop().end = start
        words, given = split_attributes(inline.content)
        text = " ".join(plain_text(paragraph(*self._inline.read(words))).split())
        parent = next((stack[-1].path for stack, _ in reversed(self._stack) if stack), ())
        made = _Open(level, (*parent, text), given.get("#"), start, self._starts[last])
        sections.append(made)
        self._found.append(made)

    def _close(self, sections: list[_Open], end: int) -> None:
        for each in sections:
            each.end = end
            if each.body_end < 0:
                each.body_end = end
