"""Where things end in one piece of wiki markup: macros, `[…]`, and `*…*` with all its rules.

Every answer is remembered in a way that keeps the whole reading linear: a thousand stars in one
line that nobody closes are looked at once, not a thousand times.
"""

import re
from bisect import bisect_right
from dataclasses import dataclass, field
from typing import Final

from mooring.text.wiki_tokens import Kind, macro_keyword

ESCAPABLE: Final = frozenset("-#*_+?^~|%{}[]()!@")
_LINK = re.compile(r"\[([^\[\]\n]+)\]")
_MACRO_OPENING = re.compile(
    r"\{(adf|anchor|code|quote|noformat|panel|color)(?::([^{\n}]*))?\}", re.IGNORECASE
)
_WORD = re.compile(r"[a-zA-Z0-9]|[^\x00-\x7f\xa0]")
_REWRITTEN = re.compile(r"[\\{\[]")
_INLINE_MACROS: Final = frozenset({Kind.ANCHOR, Kind.COLOUR})


@dataclass(frozen=True, slots=True)
class Macro:
    kind: Kind
    parameters: str
    content: str
    end: int


@dataclass(slots=True)
class _Stretch:
    """From any index in here that is not inside a jump, the scan stops at `found`."""

    start: int
    end: int
    found: int | None
    jump_starts: list[int] = field(default_factory=list[int])
    jump_ends: list[int] = field(default_factory=list[int])

    def jump_around(self, at: int) -> int | None:
        position = bisect_right(self.jump_starts, at) - 1
        if position >= 0 and self.jump_starts[position] < at < self.jump_ends[position]:
            return self.jump_ends[position]
        return None


class Scan:
    def __init__(self, text: str) -> None:
        self.text = text
        self._found: dict[str, tuple[int, int]] = {}
        self._stretches: dict[str, _Stretch] = {}

    def find(self, wanted: str, start: int) -> int:
        """`text.find(wanted, start)`, remembering the last answer."""
        asked, answer = self._found.get(wanted, (start + 1, -1))
        if asked <= start and (answer == -1 or answer >= start):
            return answer
        answer = self.text.find(wanted, start)
        self._found[wanted] = (start, answer)
        return answer

    def link_end(self, at: int) -> int | None:
        found = _LINK.match(self.text, at)
        return found.end() if found else None

    def macro(self, at: int) -> Macro | None:
        """The macro that begins here; one that nobody closes ends with its opening."""
        kind = macro_keyword(self.text, at)
        opening = _MACRO_OPENING.match(self.text, at) if kind else None
        if kind is None or opening is None:
            return None
        start, parameters = opening.end(), opening[2] or ""
        if kind is Kind.ANCHOR:
            return Macro(kind, parameters, "", start)
        closing = "{" + opening[1] + "}"
        end = self.find(closing, start)
        if end < 0:
            return Macro(kind, parameters, "", start)
        return Macro(kind, parameters, self.text[start:end], end + len(closing))

    def macro_end(self, at: int) -> int | None:
        """Like `macro`, without copying what is in it."""
        kind = macro_keyword(self.text, at)
        opening = _MACRO_OPENING.match(self.text, at) if kind else None
        if opening is None:
            return None
        if kind is Kind.ANCHOR:
            return opening.end()
        closing = "{" + opening[1] + "}"
        end = self.find(closing, opening.end())
        return opening.end() if end < 0 else end + len(closing)

    def symbols(self, at: int, opening: str, closing: str) -> tuple[str, str]:
        """Either side of a mark may be wrapped in braces: `{*}bold{*}`."""
        wrapped = "{" + opening + "}"
        begins = wrapped if self.text.startswith(wrapped, at) else opening
        end = self.find(closing, at + len(begins))
        if end > 0 and self.text[end - 1] == "{" and self.text.startswith("}", end + len(closing)):
            return begins, "{" + closing + "}"
        return begins, closing

    def marked(self, at: int, opening: str, closing: str) -> tuple[str, int] | None:
        """What stands between the symbols, unescaped once, and where it ends."""
        text, start = self.text, at + len(opening)
        if at > 0 and not _is_wrapped(opening) and _WORD.match(text, at - 1):
            return None
        if text.startswith(" ", start) or text.startswith(closing, start):
            return None
        end = self._closing(closing, start)
        if end is None or text[end - 1] == " ":
            return None
        return self._content(start, end), end + len(closing)

    def _closing(self, closing: str, start: int) -> int | None:
        known = self._stretches.get(closing)
        stretch = _Stretch(start, start, None)
        stops = _stops(closing)
        at: int | None = start
        while at is not None:
            limit = len(self.text)
            if known and known.start <= at <= known.end:
                around = known.jump_around(at)
                if around is None:
                    stretch.found, stretch.end = known.found, max(known.end, at)
                    break
                limit = around
            stop = stops.search(self.text, at, limit)
            if stop is None:
                stretch.end = limit
                at = limit if limit < len(self.text) else None
                continue
            stretch.end = stop.start()
            at = self._step(stop[0], stop.start(), closing, stretch)
        self._stretches[closing] = stretch
        return stretch.found

    def _step(self, stop: str, at: int, closing: str, stretch: _Stretch) -> int | None:
        """Where the scan goes on after this stop, or None when it is over."""
        if stop == closing:
            after = at + len(closing)
            if not _is_wrapped(closing) and _WORD.match(self.text, after):
                return after
            stretch.found = at
            return None
        if stop in "\r\n":
            return None
        goes_on = self._over(stop, at)
        if goes_on is not None and goes_on > at + 1:
            stretch.jump_starts.append(at)
            stretch.jump_ends.append(goes_on)
        return goes_on

    def _over(self, stop: str, at: int) -> int | None:
        if stop in ("\\", "{{"):
            return at + 2
        if stop == "[":
            return self.link_end(at) or at + 1
        kind = macro_keyword(self.text, at)
        end = self.macro_end(at) if kind else None
        if end is None:
            return at + 1
        return end if kind in _INLINE_MACROS else None

    def _content(self, start: int, end: int) -> str:
        pieces: list[str] = []
        at = start
        while at < end:
            found = _REWRITTEN.search(self.text, at, end)
            if not found:
                pieces.append(self.text[at:end])
                break
            pieces.append(self.text[at : found.start()])
            at = found.start()
            piece, at = self._rewritten(at)
            pieces.append(piece)
        return "".join(pieces)

    def _rewritten(self, at: int) -> tuple[str, int]:
        character = self.text[at]
        if character == "\\":
            return escaped(self.text, at), at + 2
        if character == "{" and not self.text.startswith("{{", at):
            end = self.macro_end(at) or at + 1
            return ("" if macro_keyword(self.text, at) is Kind.ANCHOR else self.text[at:end]), end
        end = at + 2 if character == "{" else self.link_end(at) or at + 1
        return self.text[at:end], end


def escaped(text: str, at: int) -> str:
    """What a backslash and the character after it stand for."""
    following = text[at + 1 : at + 2]
    if following in ESCAPABLE and following and not (at > 0 and text[at - 1] == "\\"):
        return following
    return "\\" + following


def _is_wrapped(symbol: str) -> bool:
    return symbol.startswith("{") and symbol.endswith("}")


_STOPS: dict[str, re.Pattern[str]] = {}


def _stops(closing: str) -> re.Pattern[str]:
    if closing not in _STOPS:
        _STOPS[closing] = re.compile(rf"{re.escape(closing)}|\{{\{{|[\r\n{{\[\\]")
    return _STOPS[closing]
