"""Words that must not be taken for wiki markup.

A backslash hides most signs. Where there is none that works (`h1.` at the start of a line, `:D`, an address
that is no link) an empty anchor stands in between: it shows nothing and ends whatever was beginning.
"""

import re
from typing import Final

from mooring.text.wiki_emoticons import emoticon_at
from mooring.text.wiki_scan import ESCAPABLE
from mooring.text.wiki_tokens import MAX_LIST_DEPTH

BREAK: Final = "{anchor:-}"

_SPECIAL = re.compile(r"[*_\-+^~?!\[{:;(]|http|ftp|irc|mailto|jamfselfservice")
_MARK_SIGNS: Final = frozenset("*_-+^~!")
_LINK = re.compile(r"\[[^\[\]\n]+\]")
_MACRO = re.compile(r"\{(?:\{|(?i:adf|anchor|code|quote|noformat|panel|color|loremipsum)|[-+*^~_]\}|\?\?\})")
_ADDRESS = re.compile(r"(?:https?|ftps?|irc)://|mailto:", re.IGNORECASE)
_WORD = re.compile(r"[a-zA-Z0-9]|[^\x00-\x7f\xa0]")
_LINE_START = re.compile(rf"(?:h[1-6]|bq)\.|[*#]{{1,{MAX_LIST_DEPTH}}} |- |-{{2,}}|\|")
_LONG_DASH = re.compile(r"(?<!\S)-{2,3}(?!\S)")


def escape_words(text: str, before: str, *, line_start: bool) -> str:
    """The text so that it reads as itself; `before` is the character in front of it."""
    output: list[str] = []
    at = 0
    if line_start and text:
        at = _first_on_line(text, output)
    while at < len(text):
        found = _SPECIAL.search(text, at)
        if not found:
            break
        output.append(text[at : found.start()])
        at = found.start()
        previous = text[at - 1] if at else before
        written, length = _special(text, at, previous)
        output.append(written)
        at += length
    output.append(text[at:])
    return "".join(output)


def _first_on_line(text: str, output: list[str]) -> int:
    """White space and signs that mean something at the start of a line only."""
    if text[0] in " \t":
        output.append(BREAK)
        return 0
    found = _LINE_START.match(text)
    if not found:
        return 0
    if text[0] in ESCAPABLE:
        output.append("\\" + text[0])
        return 1
    output.append(BREAK)
    return 0


def _special(text: str, at: int, previous: str) -> tuple[str, int]:
    """What to write for the sign here, and how many characters that covers."""
    sign = text[at]
    if sign == "-" and (dashes := _LONG_DASH.match(text, at)):
        return "\\-" * len(dashes[0]), len(dashes[0])
    if sign in _MARK_SIGNS:
        return ("\\" + sign if _could_open(text, at, previous) else sign), 1
    if sign == "?":
        return ("\\?" if text.startswith("??", at) else "?"), 1
    if sign == "[":
        return ("\\[" if _LINK.match(text, at) else "["), 1
    if sign == "{":
        return ("\\{" if _MACRO.match(text, at) else "{"), 1
    if sign in ":;(":
        return _not_emoticon(text, at)
    return (sign + BREAK if _ADDRESS.match(text, at) else sign), 1


def _could_open(text: str, at: int, previous: str) -> bool:
    """Could a mark begin here? Not after a word, not before a blank, not without its like further on."""
    sign = text[at]
    if previous and _WORD.match(previous):
        return False
    line_end = text.find("\n", at)
    following = text[at + 1 : line_end if line_end >= 0 else len(text)]
    return not following.startswith(" ") and (sign in following[1:] or not following)


def _not_emoticon(text: str, at: int) -> tuple[str, int]:
    found = emoticon_at(text, at)
    if not found:
        return text[at], 1
    second = text[at + 1]
    if text[at] == "(":
        return "\\(", 1
    return text[at] + ("\\" + second if second in ESCAPABLE else BREAK + second), 2
