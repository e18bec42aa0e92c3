"""What can begin at a character of wiki markup, and where.

The rules are those of Atlassian's own transformer: a keyword is recognised by its first
characters alone, the first match in a fixed order wins, and whether it really is that thing
is decided later by whoever reads it.
"""

import re
from enum import Enum, auto
from typing import Final

from mooring.text.wiki_emoticons import EMOTICON_START


class Kind(Enum):
    ADF = auto()
    ANCHOR = auto()
    CODE = auto()
    QUOTE_MACRO = auto()
    NOFORMAT = auto()
    PANEL = auto()
    COLOUR = auto()
    LOREM = auto()
    QUOTE_LINE = auto()
    HEADING = auto()
    RULE = auto()
    LIST = auto()
    TABLE = auto()
    LINK = auto()
    BARE_URL = auto()
    MEDIA = auto()
    NEWLINE = auto()
    FORCED_BREAK = auto()
    TWO_DASHES = auto()
    THREE_DASHES = auto()
    FOUR_DASHES = auto()
    STRONG = auto()
    MONOSPACE = auto()
    SUPERSCRIPT = auto()
    SUBSCRIPT = auto()
    EMPHASIS = auto()
    CITATION = auto()
    DELETED = auto()
    INSERTED = auto()
    EMOTICON = auto()


DASHES: Final = frozenset({Kind.TWO_DASHES, Kind.THREE_DASHES, Kind.FOUR_DASHES})
NOTHING: Final[frozenset[Kind]] = frozenset()

MAX_LIST_DEPTH: Final = 20

_MACROS: Final = {
    "adf": Kind.ADF,
    "anchor": Kind.ANCHOR,
    "code": Kind.CODE,
    "quote": Kind.QUOTE_MACRO,
    "noformat": Kind.NOFORMAT,
    "panel": Kind.PANEL,
    "color": Kind.COLOUR,
    "loremipsum": Kind.LOREM,
}
# The colour macro alone is spelled in lower case only.
_MACRO = re.compile(r"\{(?:((?i:adf|anchor|code|quote|noformat|panel|loremipsum))|(color))")

_LEADING: Final = (
    (Kind.QUOTE_LINE, re.compile(r"bq\.")),
    (Kind.HEADING, re.compile(r"h[1-6]\.")),
    (Kind.RULE, re.compile(r"-{4,5}(?:\s|\Z)")),
    (Kind.THREE_DASHES, re.compile(r"-{3}\s")),
    (Kind.TWO_DASHES, re.compile(r"-{2}\s")),
    (Kind.LIST, re.compile(rf"(?:[*#]{{1,{MAX_LIST_DEPTH}}}|-) ")),
    (Kind.TABLE, re.compile(r"\|")),
)
_LEADING_START: Final = frozenset("bh-*#|")

_KEYWORDS: Final = (
    ("[", Kind.LINK),
    ("http", Kind.BARE_URL),
    ("ftp", Kind.BARE_URL),
    ("jamfselfservice", Kind.BARE_URL),
    ("irc", Kind.BARE_URL),
    ("mailto", Kind.BARE_URL),
    ("\\\\", Kind.FORCED_BREAK),
    ("\r", Kind.NEWLINE),
    ("\n", Kind.NEWLINE),
    ("!", Kind.MEDIA),
    ("----", Kind.FOUR_DASHES),
    ("---", Kind.THREE_DASHES),
    ("--", Kind.TWO_DASHES),
    ("{-}", Kind.DELETED),
    ("{+}", Kind.INSERTED),
    ("{*}", Kind.STRONG),
    ("{^}", Kind.SUPERSCRIPT),
    ("{~}", Kind.SUBSCRIPT),
    ("{_}", Kind.EMPHASIS),
    ("{{{}", Kind.MONOSPACE),
    ("{??}", Kind.CITATION),
    ("-", Kind.DELETED),
    ("+", Kind.INSERTED),
    ("*", Kind.STRONG),
    ("^", Kind.SUPERSCRIPT),
    ("~", Kind.SUBSCRIPT),
    ("_", Kind.EMPHASIS),
    ("{{", Kind.MONOSPACE),
    ("??", Kind.CITATION),
)
_BY_FIRST: Final = {
    first: tuple((word, kind) for word, kind in _KEYWORDS if word[0] == first)
    for first in {word[0] for word, _ in _KEYWORDS}
}
# Everything that could begin a token or an escape: the reader jumps from one to the next.
STOP: Final = re.compile(r"[\[\\\r\n!\-{+*^~_:(;]|\?\?|http|ftp|jamfselfservice|irc|mailto")


def leading_keyword(text: str, at: int) -> Kind | None:
    """The block that begins at the first visible character of a line."""
    if text[at] not in _LEADING_START:
        return None
    return next((kind for kind, pattern in _LEADING if pattern.match(text, at)), None)


def macro_keyword(text: str, at: int) -> Kind | None:
    if text[at] != "{":
        return None
    found = _MACRO.match(text, at)
    return _MACROS[(found[1] or found[2]).lower()] if found else None


def inline_keyword(text: str, at: int) -> Kind | None:
    first = text[at]
    for word, kind in _BY_FIRST.get(first, ()):
        if text.startswith(word, at):
            return kind
    return Kind.EMOTICON if first in EMOTICON_START else None
