"""Macros of wiki markup: code, quotes, panels, colours, and ADF as JSON."""

import json
from collections.abc import Callable
from typing import Any, Final, cast

from mooring.text.tree import Node
from mooring.text.wiki_colours import panel_type, text_colour
from mooring.text.wiki_nodes import (
    InlineNode,
    SealedNode,
    as_blocks,
    block,
    bold_paragraph,
    text_node,
    with_mark,
)
from mooring.text.wiki_scan import Macro
from mooring.text.wiki_tokens import DASHES, Kind

Inner = Callable[..., list[Node]]

# fmt: off
LANGUAGES: Final = (
    "abap", "actionscript", "ada", "arduino", "autoit", "c", "c++", "clojure", "coffeescript", "csharp",
    "css", "cuda", "d", "dart", "delphi", "elixir", "erlang", "fortran", "foxpro", "go", "groovy",
    "haskell", "haxe", "html", "java", "javascript", "json", "julia", "kotlin", "latex", "livescript",
    "lua", "mathematica", "matlab", "objective-c", "objective-j", "objectpascal", "ocaml", "octave",
    "perl", "php", "powershell", "prolog", "puppet", "python", "qml", "r", "racket", "restructuredtext",
    "ruby", "rust", "sass", "scala", "scheme", "shell", "smalltalk", "sql", "standardml", "swift",
    "tcl", "tex", "typescript", "vala", "vbnet", "verilog", "vhdl", "xml", "xquery",
)
# fmt: on
_IN_PANEL: Final = frozenset({"paragraph", "heading", "orderedList", "bulletList"})
_IN_QUOTE: Final = _IN_PANEL - {"heading"} | {"codeBlock", "mediaSingle", "mediaGroup"}
_GREY: Final[Node] = {"type": "textColor", "attrs": {"color": "#97a0af"}}
_IN_COLOUR = DASHES | {Kind.TABLE}


def _code(_inner: Inner, macro: Macro) -> list[Node]:
    settings = parameters(macro.parameters)
    words = {key.lower() for key in settings}
    fallback = "objective-c" if "objc" in words else "java"
    language = next((name for name in LANGUAGES if name in words), fallback)
    return [*_titled(settings), _code_block(macro.content, language=language)]


def _noformat(_inner: Inner, macro: Macro) -> list[Node]:
    return [*_titled(parameters(macro.parameters)), _code_block(macro.content)]


def _code_block(content: str, **attributes: Any) -> Node:
    trimmed = content.strip(_JS_SPACE)
    return block("codeBlock", [text_node(trimmed)] if trimmed else [], **attributes)


def _quote_macro(inner: Inner, macro: Macro) -> list[Node]:
    return read_quote(inner, macro.content)


def read_quote(inner: Inner, raw: str) -> list[Node]:
    if not raw:
        return [block("blockquote", [block("paragraph")])]
    output: list[Node] = []
    held: list[Node] = []
    for node in as_blocks(inner(raw)):
        if node["type"] == "heading":
            held.append(_heading_in_quote(node))
        elif node["type"] in _IN_QUOTE:
            held.append(node)
        else:
            output += [block("blockquote", held)] if held else []
            output.append(node)
            held = []
    return output + ([block("blockquote", held)] if held else [])


def _heading_in_quote(heading: Node) -> Node:
    level: int = heading["attrs"]["level"]
    content: list[Node] = []
    for child in heading.get("content") or ():
        node: Node = child
        if level == 1 and node["type"] == "text":
            node = {**node, "text": node["text"].upper()}
        for mark, wanted in (
            ({"type": "strong"}, level <= 4),
            ({"type": "em"}, level in (2, 5)),
            (_GREY, level > 3),
        ):
            node = with_mark(node, mark) if wanted else node
        content.append(node)
    return block("paragraph", content)


def _panel(inner: Inner, macro: Macro) -> list[Node]:
    settings = parameters(macro.parameters)
    kind = panel_type(settings.get("bgColor"))
    output: list[Node] = []
    held = _titled(settings)
    for node in as_blocks(inner(macro.content)):
        if node["type"] in _IN_PANEL:
            held.append(node)
        else:
            output += [block("panel", held or [block("paragraph")], panelType=kind), node]
            held = []
    return output + ([block("panel", held, panelType=kind)] if held else [])


def _colour(inner: Inner, macro: Macro) -> list[Node]:
    name = next(iter(parameters(macro.parameters)), "")
    mark = {"type": "textColor", "attrs": {"color": text_colour(name) or "#000000"}}
    return [with_mark(node, mark) for node in inner(macro.content, _IN_COLOUR)]


def _adf(_inner: Inner, macro: Macro) -> list[Node]:
    try:
        node: object = json.loads(macro.content)
    except (ValueError, RecursionError):
        node = None
    if isinstance(node, dict) and isinstance(cast(Node, node).get("type"), str):
        sealed = InlineNode if "display=inline" in macro.parameters else SealedNode
        return [sealed(cast(Node, node))]
    content = [text_node(f"Invalid ADF Macro: {macro.content}")] if macro.content else []
    return [block("codeBlock", content)]


def parameters(written: str, separator: str = "|") -> dict[str, str]:
    """`a=1|b` as a mapping; the first value of a key that is not empty stays."""
    output: dict[str, str] = {}
    for part in written.split(separator) if written else ():
        key, _, value = part.partition("=")
        if not output.get(key):
            output[key] = value
    return output


def _titled(settings: dict[str, str]) -> list[Node]:
    return [bold_paragraph(settings["title"])] if settings.get("title") else []


_JS_SPACE: Final = " \t\n\r\v\f\xa0\ufeff\u1680\u2028\u2029\u202f\u205f\u3000" + "".join(
    map(chr, range(0x2000, 0x200B))
)

MACRO_READERS: Final[dict[Kind, Callable[[Inner, Macro], list[Node]]]] = {
    Kind.CODE: _code,
    Kind.NOFORMAT: _noformat,
    Kind.QUOTE_MACRO: _quote_macro,
    Kind.PANEL: _panel,
    Kind.COLOUR: _colour,
    Kind.ADF: _adf,
}
