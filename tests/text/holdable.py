"""Which CommonMark examples ADF can hold at all: judged by CommonMark's own tokens and ADF's schema."""

from collections.abc import Iterator

from markdown_it import MarkdownIt
from markdown_it.token import Token

_FEW = frozenset({"paragraph", "bullet_list", "ordered_list", "code_block", "fence"})
# What may stand in a list item or in a quote.
_INSIDE = {"list_item": _FEW, "blockquote": _FEW}
_PARSER = MarkdownIt("commonmark")


def is_holdable(markdown: str) -> bool:
    """No raw HTML; no heading, rule or quote in a list or quote; no code in emphasis; no mark twice; no
    link without text; an image only by itself and without a title."""
    return not any(_obstacles(_PARSER.parse(markdown)))


def _obstacles(tokens: list[Token]) -> Iterator[str]:
    around: list[str] = []
    for token in tokens:
        if token.nesting == -1:
            around.pop()
            continue
        kind = token.type.removesuffix("_open")
        parent = around[-1] if around else "document"
        if kind == "inline":
            yield from _inline_obstacles(token.children or [], parent)
        elif kind == "html_block" or (parent in _INSIDE and kind not in _INSIDE[parent]):
            yield f"{kind} in {parent}"
        if token.nesting == 1:
            around.append(kind)


def _inline_obstacles(tokens: list[Token], parent: str) -> Iterator[str]:
    around: list[str] = []
    for at, token in enumerate(tokens):
        kind = token.type.removesuffix("_open")
        if token.nesting == -1:
            around.pop()
        elif token.nesting == 1:
            if kind in around or (kind == "link" and tokens[at + 1].type == "link_close"):
                yield kind
            around.append(kind)
        elif kind == "html_inline" or (kind == "code_inline" and {"strong", "em"} & set(around)):
            yield kind
        elif kind == "image":
            others = {each.type for each in tokens if each is not token} - {"link_open", "link_close"}
            if others or parent != "paragraph" or token.attrs.get("title"):
                yield kind
