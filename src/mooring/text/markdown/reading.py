"""What the readers of lists, tables and directives need of the block reader."""

from typing import Protocol

from markdown_it.token import Token

from mooring.text.markdown.attributes import Attributes
from mooring.text.markdown.identifiers import Identifiers
from mooring.text.markdown.inline_reader import InlineReader
from mooring.text.report import Report
from mooring.text.tree import Node


class Reading(Protocol):
    report: Report
    tokens: list[Token]
    inline: InlineReader
    identifiers: Identifiers
    exempt: set[int]

    def blocks(self, at: int, end: int, parent: str) -> list[Node]: ...
    def close_of(self, at: int) -> int: ...
    def apply(self, node: Node, given: Attributes) -> Node: ...
    def text(self, source: str) -> tuple[list[Node], Attributes]: ...
