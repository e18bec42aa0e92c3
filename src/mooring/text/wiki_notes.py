"""What wiki markup says and ADF cannot: noted on nodes while reading, reported when all places are known."""

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from mooring.text.report import Kind as Finding
from mooring.text.report import Path, Report
from mooring.text.tree import INLINE_TYPES, Node, doc, walk
from mooring.text.wiki_colours import PANEL_BACKGROUNDS, text_colour
from mooring.text.wiki_macros import LANGUAGES, parameters
from mooring.text.wiki_nodes import NOTES
from mooring.text.wiki_scan import Macro
from mooring.text.wiki_tokens import Kind

Note = tuple[Finding, str]

_UNKNOWN = re.compile(
    r"(?<!\\)\{(?!(?:adf|anchor|code|quote|noformat|panel|color)\b)[a-zA-Z][\w-]*(?::[^{}\n]*)?\}"
)
# `{anchor:-}` is what this package itself writes to keep a blank at the start of a line.
_ANCHOR = re.compile(r"\{anchor(?!:-\})(?::[^{\n}]*)?\}", re.IGNORECASE)
_HEADING = re.compile(r"^[ \t]*h[1-6]\.", re.MULTILINE)
_OF_IMAGES: Final = frozenset({"width", "height", "alt", "href", "thumbnail", ""})


def noted(nodes: list[Node], notes: list[Note]) -> list[Node]:
    """The same nodes, with the notes on the first of them."""
    if not notes or not nodes:
        return nodes
    first: dict[Any, Any] = {**nodes[0], NOTES: [*nodes[0].get(NOTES, ()), *notes]}
    return [first, *nodes[1:]]


def anchor_notes(written: str) -> list[Note]:
    return [("lost", f"`{each}` has no node; links to it lead nowhere") for each in _ANCHOR.findall(written)]


def macro_notes(macro: Macro, made: list[Node]) -> list[Note]:
    """What reading this macro could not keep."""
    describe = _DESCRIBED.get(macro.kind)
    return list(describe(macro, made)) if describe else []


def image_notes(settings: dict[str, str]) -> list[Note]:
    gone = [name for name in settings if name.strip().lower() not in _OF_IMAGES]
    return [("lost", f"{_listed(gone)} of an image has no place in ADF")] if gone else []


def link_notes(title: str | None) -> list[Note]:
    return [("lost", f"the tip `{title}` of a link has no place in ADF")] if title else []


def report_notes(source: str, blocks: list[Node], report: Report) -> None:
    """Say where each note belongs, and where macros that nobody knows are kept as text."""
    unknown = set(_UNKNOWN.findall(source))
    in_code: Path | None = None
    for path, item in walk(doc(*blocks)):
        # Texts still melt together, so what is inline has the place of its block.
        place = path[:-2] if item.get("type") in INLINE_TYPES and len(path) > 2 else path
        for kind, detail in item.get(NOTES, ()):
            getattr(report, kind)(place, detail)
        if item.get("type") == "codeBlock":
            in_code = path
        if unknown and item.get("type") == "text" and place != in_code:
            for macro in unknown.intersection(_UNKNOWN.findall(str(item.get("text")))):
                report.kept(place, f"`{macro}` is a macro that has no node; it is kept as text")


def _code(macro: Macro, _made: list[Node]) -> Iterator[Note]:
    settings = parameters(macro.parameters)
    languages = [name for name in settings if name.lower() in (*LANGUAGES, "objc")]
    if not languages and macro.kind is Kind.CODE:
        yield "changed", "`{code}` names no language that Jira knows and is read as `java`"
    yield from _settings(settings, "code", {"title", "", *languages[:1]})


def _panel(macro: Macro, made: list[Node]) -> Iterator[Note]:
    settings = parameters(macro.parameters)
    background = settings.get("bgColor")
    if background and background.lower() not in PANEL_BACKGROUNDS.values():
        yield "changed", f"the background `{background}` is read as the panel nearest to it"
    yield from _settings(settings, "panel", {"title", "bgColor", ""})
    if len(made) > 1:
        yield "changed", "what may not stand in a panel follows it"


def _settings(settings: dict[str, str], name: str, kept: set[str]) -> Iterator[Note]:
    if settings.get("title"):
        yield "changed", f"the title of `{{{name}}}` is shown in bold"
    gone = [each for each in settings if each not in kept]
    if gone:
        yield "lost", f"{_listed(gone)} of `{{{name}}}` has no place in ADF"


def _quote(macro: Macro, made: list[Node]) -> Iterator[Note]:
    if _HEADING.search(macro.content):
        yield "changed", "a heading in a quote is shown as a paragraph"
    if len(made) > 1:
        yield "changed", "what may not stand in a quote follows it"


def _colour(macro: Macro, _made: list[Node]) -> Iterator[Note]:
    name = next(iter(parameters(macro.parameters)), "")
    if text_colour(name) is None:
        yield "changed", f"`{name}` is no colour and is read as black"


def _listed(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


_DESCRIBED: Final[dict[Kind, Callable[[Macro, list[Node]], Iterator[Note]]]] = {
    Kind.CODE: _code,
    Kind.NOFORMAT: _code,
    Kind.PANEL: _panel,
    Kind.QUOTE_MACRO: _quote,
    Kind.COLOUR: _colour,
}
