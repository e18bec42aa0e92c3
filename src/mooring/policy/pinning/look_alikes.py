"""Characters that a reader does not see, and letters that a reader takes for others."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

_KEPT: Final = "\n\t\r"
_BLANK: Final = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u180b\u180c\u180d\u2800\u3164\uffa0")
"""Letters and marks, says Unicode, of which nothing is to be seen."""
_SELECTORS: Final = range(0xFE00, 0xFE10)
"""Choose how the character before looks; one behind an emoji is what they are for."""
_MORE_SELECTORS: Final = range(0xE0100, 0xE01F0)
"""For ideographs; elsewhere text is hidden in rows of them."""

# Cyrillic, Greek and Armenian letters, and the Latin ones that they look like.
_LATIN: Final = str.maketrans(
    "аеіјкорсѕухһԁԛԝүАВЕІЈКМНОРСЅТУХҺԌԚԜҮαινορτυχΑΒΕΖΗΙΚΜΝΟΡΤΥΧհոսՕՍ",
    "aeijkopcsyxhdqwyABEIJKMHOPCSTYXHGQWYaivoptuxABEZHIKMNOPTYXhnuOU",
)
_WORD: Final = re.compile(r"[^\W\d_]+")
_LATIN_LETTER: Final = re.compile(r"[A-Za-z]")


def invisible(text: str) -> list[str]:
    """The characters of a text that cannot be seen, in their order."""
    if text.isascii() and text.isprintable():
        return []
    return [character for place, character in enumerate(text) if _is_invisible(text, place)]


def visible(text: str) -> str:
    """The text without them."""
    return "".join(character for place, character in enumerate(text) if not _is_invisible(text, place))


def _is_invisible(text: str, place: int) -> bool:
    character = text[place]
    code = ord(character)
    if code in _SELECTORS:
        before = text[place - 1] if place else " "
        return before.isalpha() or before.isspace() or ord(before) in _SELECTORS
    if character in _BLANK or code in _MORE_SELECTORS:
        return True
    return character not in _KEPT and unicodedata.category(character) in ("Cf", "Cc", "Co", "Cn", "Cs")


def mixed_words(text: str) -> list[str]:
    """Words of Latin letters with others among them that look like Latin ones."""
    return [] if text.isascii() else [word for word in _WORD.findall(text) if _is_mixed(word)]


def latinised(text: str) -> str:
    """The text with such letters written as the ones they look like."""
    return _WORD.sub(lambda found: found[0].translate(_LATIN) if _is_mixed(found[0]) else found[0], text)


def _is_mixed(word: str) -> bool:
    return _LATIN_LETTER.search(word) is not None and any(ord(letter) in _LATIN for letter in word)
