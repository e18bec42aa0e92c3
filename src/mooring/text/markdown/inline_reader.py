"""Markdown inline content as ADF nodes."""

import re
from typing import Any

from markdown_it.token import Token

from mooring.text.markdown import attributes, images
from mooring.text.markdown.grammar import inline_parser
from mooring.text.markdown.inline_builder import Builder, alt_of, hand_to_opener, link_mark
from mooring.text.markdown.quick_inline import read_quickly
from mooring.text.report import Report
from mooring.text.tree import Mark, Node

# Without any of these a text is only a text.
_SPECIAL = re.compile(r"[\\`*_~\[<&\n]|:[\w+-]+[\[:]|www\.|https?://|@")
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
        return Builder(self.report).build(tokens)

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
        unknown: list[str] = []
        if len(tokens) == 3 and tokens[0].type == "link_open" and tokens[2].type == "link_close":
            hand_to_opener(tokens)
            link, unknown = link_mark(tokens[0])
            tokens = tokens[1:2]
        if len(tokens) != 1 or tokens[0].type != "image":
            return None
        token = tokens[0]
        if token.attrs.get("title"):
            return None
        around, own = images.split(token.meta.get("given", {}))
        media, refused = images.read_media(str(token.attrs["src"]), alt_of(token), link, own)
        for name in unknown:
            self.report.lost(media, f"a link has no attribute `{name}`")
        for name in refused:
            self.report.lost(media, f"an image has no attribute `{name}`")
        return media, around
