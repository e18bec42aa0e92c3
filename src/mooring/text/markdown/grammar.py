"""The parser: CommonMark and GFM tables by markdown-it, plus our rules for directives and attributes.

Three block rules (`::: name`, `::name[…]`, a line of `{…}`) and two inline ones (`:name[…]`, `{…}` after a
link or an image). Anything that is not exactly one of the known names stays ordinary text.
"""

import re
from functools import cache
from typing import Any

from markdown_it import MarkdownIt
from markdown_it.common.utils import mdTrim
from markdown_it.ruler import RuleOptionsType
from markdown_it.rules_block import StateBlock, fence, heading, list_block, table
from markdown_it.rules_inline import StateInline

from mooring.text.errors import Position, UnreadableSource
from mooring.text.markdown import atoms, attributes
from mooring.text.markdown.labels import Helpers

# Levels of quotes, items and directives; each costs the parser a few frames of Python's stack.
MAX_DEPTH = 100
MAX_INLINE_DEPTH = 40

PANELS = ("info", "note", "tip", "warning", "error", "success")
CONTAINERS = frozenset({
    *PANELS, "panel", "expand", "nestedExpand", "layout", "section", "column", "caption", "files",
    "decisions", "table", "row", "cell", "header", "macro", "sync", "adf",
})  # fmt: skip
LEAVES = frozenset({"p", "card", "embed", "macro", "sync", "cell", "header"})
MARKS = frozenset({"b", "i", "s", "u", "sub", "sup", "color", "bg", "comment", "code", "text", "a"})

_LABEL = r"\[((?:[^\[\]\\\n]|\\.)*)\]"
_OPENER = re.compile(rf"(:{{3,}})[ \t]*([A-Za-z]\w*)(?:[ \t]*{_LABEL})?[ \t]*(?=\{{|$)")
_LEAF = re.compile(r"::([A-Za-z]\w*)(?=[\[{]|[ \t]*$)")
_INLINE = re.compile(r":([A-Za-z]\w*)(?=\[)")
_ATOM_LABEL = re.compile(_LABEL)
_PREFIX = re.compile(r"[ \t>]*(?:(?:[-+*]|\d{1,9}[.)])[ \t]+)*")
_COLONS = re.compile(r"(:{3,})[ \t]*(?:([A-Za-z]\w*).*)?$")
_FENCE = re.compile(r"(`{3,})[^`]*$|(~{3,})")
# The start of a line that can only be a paragraph, and of one that can only be an item.
_WORD = re.compile(r"[^\W\d_]|\*\*[^\W\d_]|_[^\W\d_]|:[A-Za-z]")
_ITEM = re.compile(r"[-*] (?:[^\W\d_]|\[|\{)")
_INTERRUPTS: RuleOptionsType = {"alt": ["paragraph", "reference", "blockquote", "list"]}


@cache
def parser() -> MarkdownIt:
    """For blocks."""
    return _parser(MAX_DEPTH + 20)


@cache
def inline_parser() -> MarkdownIt:
    """For inline content, where every level of brackets may cost a look at the rest of the text."""
    return _parser(MAX_INLINE_DEPTH)


def _parser(max_nesting: int) -> MarkdownIt:
    markdown = MarkdownIt("commonmark", {"maxNesting": max_nesting})
    markdown.helpers = Helpers  # pyright: ignore[reportAttributeAccessIssue]
    markdown.enable(["table", "strikethrough"])
    # Targets are kept as written: percent-encoding them would not read back the same.
    markdown.normalizeLink = markdown.normalizeLinkText = _same  # pyright: ignore[reportAttributeAccessIssue]
    markdown.validateLink = _always  # pyright: ignore[reportAttributeAccessIssue]
    block = markdown.block.ruler
    block.before("table", "quick", _quick)
    block.before("table", "depth", _depth)
    block.before("table", "container", _container, _INTERRUPTS)
    block.before("table", "leaf", _leaf, _INTERRUPTS)
    block.before("table", "attribute_line", _attribute_line, _INTERRUPTS)
    inline = markdown.inline.ruler
    inline.before("newline", "directive", _directive)
    inline.before("newline", "trailing_attributes", _trailing_attributes)
    return markdown


def _same(value: str) -> str:
    return value


def _always(_: str) -> bool:
    return True


# ---------------------------------------------------------------- blocks


def _quick(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:
    """Goes straight to the rule that an ordinary line is for, past the dozen that would decline it."""
    if silent or state.level > MAX_DEPTH or state.sCount[start_line] - state.blkIndent > 3:
        return False
    source = state.src
    start = state.bMarks[start_line] + state.tShift[start_line]
    match source[start]:
        case "#":
            return heading(state, start_line, end_line, False)
        case "|":
            return table(state, start_line, end_line, False)
        case "`" if source.startswith("```", start):
            return fence(state, start_line, end_line, False)
        case "-" | "*" if _ITEM.match(source, start):
            return "|" not in source[start : state.eMarks[start_line]] and list_block(
                state, start_line, end_line, False
            )
        case _:
            return bool(_WORD.match(source, start)) and _one_line(state, start, start_line)


def _one_line(state: StateBlock, start: int, start_line: int) -> bool:
    """A paragraph of one line: nothing, a blank line or the next item of its list follows."""
    following = start_line + 1
    if following < state.lineMax and not state.isEmpty(following):
        indent = state.sCount[following]
        at = state.bMarks[following] + state.tShift[following]
        sibling = 0 <= indent < state.blkIndent and indent - state.listIndent < 4
        if not sibling or not _ITEM.match(state.src, at):
            return False
    opening = state.push("paragraph_open", "p", 1)
    inline = state.push("inline", "", 0)
    state.push("paragraph_close", "p", -1)
    opening.map = inline.map = [start_line, following]
    inline.content = mdTrim(state.src[start : state.eMarks[start_line]])
    inline.children = []
    state.line = following
    return True


def _depth(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:  # noqa: ARG001
    if state.level > MAX_DEPTH:
        raise UnreadableSource(
            f"quotes, lists and directives are nested deeper than {MAX_DEPTH} levels",
            Position(start_line + 1),
        )
    return False


def _container(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:
    start = state.bMarks[start_line] + state.tShift[start_line]
    if not state.src.startswith(":::", start) or state.is_code_block(start_line):
        return False
    line = state.src[start : state.eMarks[start_line]]
    opener = _OPENER.match(line)
    if not opener or opener[2] not in CONTAINERS:
        return False
    given = _rest(line, opener.end())
    if given is None:
        return False
    if silent:
        return True
    end = min(_closers(state).get(start_line, end_line), end_line)
    token = state.push("directive_open", "", 1)
    token.map = [start_line, end]
    token.meta = {"name": opener[2], "label": opener[3], "given": given, "end": end}
    _inside(state, start_line + 1, end)
    closed = end < end_line and state.sCount[end] >= state.blkIndent and state.line >= end
    if closed:
        state.line = end + 1
    token.map[1] = state.line
    state.push("directive_close", "", -1)
    return True


def _inside(state: StateBlock, start_line: int, end: int) -> None:
    line_max, parent = state.lineMax, state.parentType
    state.lineMax, state.parentType = end, "directive"
    state.line = start_line
    state.md.block.tokenize(state, start_line, end)
    state.lineMax, state.parentType = line_max, parent


def _rest(line: str, position: int) -> attributes.Attributes | None:
    """The attributes that end the line; None when something else is there."""
    tail = line[position:].strip(" \t")
    if not tail:
        return {}
    found = attributes.parse(tail, 0) if tail[0] == "{" else None
    return found[0] if found and found[1] == len(tail) else None


def _closers(state: StateBlock) -> dict[int, int]:
    """Opening line -> closing line of every container, found in one pass over the source."""
    found: dict[int, int] | None = state.env.get("closers")
    if found is None:
        found = state.env["closers"] = match_fences(state.src)
    return found


def match_fences(source: str) -> dict[int, int]:
    """A fence closes the nearest open one of its own length; code is not looked into."""
    matched: dict[int, int] = {}
    stack: list[tuple[int, int]] = []
    open_lengths: dict[int, int] = {}
    code: str | None = None
    quotes = 0
    for number, line in enumerate(source.split("\n")):
        if code is None and ":::" not in line and "```" not in line and "~~~" not in line:
            continue
        if code is not None:
            code = code if _inside_code(line, code, quotes) else None
            continue
        prefix = _PREFIX.match(line)
        at = prefix.end() if prefix else 0
        fence = _FENCE.match(line, at)
        if fence:
            code, quotes = fence[1] or fence[2], line.count(">", 0, at)
            continue
        colons = _COLONS.match(line, at)
        if not colons:
            continue
        length = len(colons[1])
        if colons[2]:
            if colons[2] in CONTAINERS:
                stack.append((length, number))
                open_lengths[length] = open_lengths.get(length, 0) + 1
        elif open_lengths.get(length):
            closed = -1
            while closed != length:
                closed, opener = stack.pop()
                open_lengths[closed] -= 1
                matched[opener] = number
    return matched


def _inside_code(line: str, fence: str, quotes: int) -> bool:
    """Does the code go on? It ends with a fence at least as long, or with the quote it stands in."""
    for _ in range(quotes):
        line = line.lstrip(" \t")
        if not line.startswith(">"):
            return False
        line = line[1:]
    bare = line.strip(" \t")
    return len(bare) < len(fence) or bool(bare.strip(fence[0]))


def _leaf(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:  # noqa: ARG001
    start = state.bMarks[start_line] + state.tShift[start_line]
    if not state.src.startswith("::", start) or state.is_code_block(start_line):
        return False
    line = state.src[start : state.eMarks[start_line]].rstrip(" \t")
    found = _LEAF.match(line)
    if not found or found[1] not in LEAVES:
        return False
    parts = _leaf_parts(line, found.end())
    if parts is None:
        return False
    if silent:
        return True
    token = state.push("directive_leaf", "", 0)
    token.map = [start_line, start_line + 1]
    token.meta = {"name": found[1], "label": parts[0], "given": parts[1]}
    state.line = start_line + 1
    return True


def _leaf_parts(line: str, at: int) -> tuple[str, attributes.Attributes] | None:
    """Label and attributes of `[label]{attributes}`; the label may itself hold directives."""
    rest = line[at:]
    if not rest:
        return "", {}
    if rest[0] == "{":
        given = _rest(rest, 0)
        return None if given is None else ("", given)
    if rest[-1] == "]":
        return rest[1:-1], {}
    position = rest.find("]{")
    while position > 0:
        found = attributes.parse(rest, position + 1)
        if found and found[1] == len(rest):
            return rest[1:position], found[0]
        position = rest.find("]{", position + 1)
    return None


def _attribute_line(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:  # noqa: ARG001
    start = state.bMarks[start_line] + state.tShift[start_line]
    if not state.src.startswith("{", start) or state.is_code_block(start_line):
        return False
    found = attributes.parse(state.src, start)
    if (
        not found
        or state.src[found[1] : state.eMarks[start_line]].strip(" \t")
        or found[1] > state.eMarks[start_line]
    ):
        return False
    if not found[0] and not _comes_before_attributes(state, start_line):
        return False
    if silent:
        return True
    token = state.push("attribute_line", "", 0)
    token.map = [start_line, start_line + 1]
    token.meta = {"given": found[0]}
    state.line = start_line + 1
    return True


def _comes_before_attributes(state: StateBlock, line: int) -> bool:
    """`{}` says that an item has no attributes when those of its first block follow; else it is a text."""
    if not state.blkIndent or line + 1 >= state.lineMax:
        return False
    return state.src.startswith("{", state.bMarks[line + 1] + state.tShift[line + 1])


# ---------------------------------------------------------------- inline


def _directive(state: StateInline, silent: bool) -> bool:
    start = state.pos
    if state.src[start] != ":":
        return False
    found = _INLINE.match(state.src, start, state.posMax)
    if not found:
        return False
    name, opening = found[1], found.end()
    if name in atoms.NAMES:
        return _atom(state, name, opening, silent)
    return name in MARKS and _mark(state, name, opening, silent)


def _atom(state: StateInline, name: str, opening: int, silent: bool) -> bool:
    label = _ATOM_LABEL.match(state.src, opening, state.posMax)
    if not label:
        return False
    given, end = _braces(state, label.end())
    if not silent:
        token = state.push("atom", "", 0)
        token.meta = {"name": name, "label": label[1], "given": given}
        token.content = state.src[state.pos : end]
    state.pos = end
    return True


def _mark(state: StateInline, name: str, opening: int, silent: bool) -> bool:
    closing = state.md.helpers.parseLinkLabel(state, opening)
    if closing < 0:
        return False
    given, end = _braces(state, closing + 1)
    if not silent:
        maximum = state.posMax
        state.pos, state.posMax = opening + 1, closing
        token = state.push("mark_open", "", 1)
        token.meta = {"name": name, "given": given}
        state.md.inline.tokenize(state)
        state.push("mark_close", "", -1)
        state.posMax = maximum
    state.pos = end
    return True


def _braces(state: StateInline, position: int) -> tuple[dict[str, Any], int]:
    if position < state.posMax and state.src[position] == "{":
        found = attributes.parse(state.src, position)
        if found and found[1] <= state.posMax:
            return found
    return {}, position


def _trailing_attributes(state: StateInline, silent: bool) -> bool:
    if silent or state.src[state.pos] != "{" or state.pending or not state.tokens:
        return False
    last = state.tokens[-1]
    if last.type not in ("link_close", "image") or last.meta:
        return False
    given, end = _braces(state, state.pos)
    if end == state.pos:
        return False
    last.meta = {"given": given}
    state.pos = end
    return True
