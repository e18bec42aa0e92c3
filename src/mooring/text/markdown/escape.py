"""Which characters of a text Markdown would take for markup, and how to write them so that it does not."""

import re
import string
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from markdown_it.common.utils import MD_TRIM_CHARS, isMdAsciiPunct, isWhiteSpace

from mooring.text.markdown import shortnames

# Everything that might be markup somewhere inside a line. The rest of a text is copied as it is.
_SUSPECT = re.compile(r"[\\`*_~\[\]<&{}!:@\x00-\x1f\x7f-\x9f\ufdd0-\ufdef\ufffe\uffff\ud800-\udfff]")
_SUSPECT_OR_HOST = re.compile(_SUSPECT.pattern + r"|www\.")
_DIRECTIVE_AHEAD = re.compile(r":[A-Za-z][\w-]*(?:\[|$)")
_ENTITY_AHEAD = re.compile(r"&#?\w+;")
_PAIR = re.compile(r"\[[^\[\]\\\n]*\]")
# At the start of a block these would be a task, a decision or an alert.
_ALERTS = "INFO|NOTE|TIP|IMPORTANT|WARNING|CAUTION|ERROR|SUCCESS|CUSTOM"
_BOX = re.compile(rf"\[(?:[ xX!?]\]|!|(?:{_ALERTS})\])")
_SCHEME = re.compile(r"(?:https?|ftp)\Z", re.IGNORECASE)
_TAG_START = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ/!?")

# What a line must not begin with; the group is where the backslash goes in front.
_LINE_START = re.compile(
    r"""(?:
      ()(?:\#{1,6}(?=[ \t]|$) | > | [-+*](?=[ \t]|$) | ~~~ | ::+ | \{
        | (?:-[ \t]*){3,}$ | (?:_[ \t]*){3,}$ | (?:\*[ \t]*){3,}$ )
    | \d{1,9}()(?=[.)](?:[ \t]|$))
    )""",
    re.VERBOSE,
)


@lru_cache(maxsize=4096)
def is_space(character: str) -> bool:
    """Whitespace as the flanking rules see it; the ends of a text count too."""
    return not character or isWhiteSpace(ord(character))


@lru_cache(maxsize=4096)
def is_punctuation(character: str) -> bool:
    return bool(character) and (isMdAsciiPunct(ord(character)) or unicodedata.category(character)[0] in "PS")


@lru_cache(maxsize=4096)
def is_edge(character: str) -> bool:
    """A blank, a punctuation mark or the end of the text: what a delimiter may always stand beside."""
    return is_space(character) or is_punctuation(character)


def entity(character: str) -> str:
    """A character written so that neither trimming nor line splitting can touch it."""
    code = ord(character)
    valid = character in "\t\n\f\r" or (code >= 0x20 and not 0x7F <= code <= 0x9F and code not in _NO_ENTITY)
    if valid and not 0xD800 <= code <= 0xDFFF and not 0xFDD0 <= code <= 0xFDEF:
        return "&nbsp;" if code == 0xA0 else f"&#{code};"
    return f":char[{code:x}]"


_NO_ENTITY = frozenset({0xFFFE, 0xFFFF})


_TRIMMED = frozenset(MD_TRIM_CHARS)


def text(value: str, before: str, after: str, *, bracketed: bool) -> str:
    """`value` as Markdown between the characters `before` and `after` (empty at the ends of a block).

    `before` is `\\n` at the start of a later line. `bracketed` when it stands in the `[…]` of something.
    """
    lead = tail = ""
    if value[:1] in _TRIMMED or value[-1:] in _TRIMMED:
        lead, value, tail = _edges(value, before, after)
    host = "www." in value
    if not host and not _SUSPECT.search(value):
        return lead + value + tail if lead or tail else value
    made: list[str] = [lead]
    done = 0
    for found in (_SUSPECT_OR_HOST if host else _SUSPECT).finditer(value):
        at = found.start()
        if at < done:
            continue
        character = value[at]
        previous = value[at - 1] if at else (";" if lead else before)
        following = value[at + 1] if at + 1 < len(value) else ("&" if tail else after)
        written = _written(_Spot(value, at, previous, following), "&" if tail else after, bracketed=bracketed)
        if written is None:
            continue
        made += (value[done:at], written)
        done = at + (4 if character == "w" else 1)
    made += (value[done:], tail)
    return "".join(made)


def _edges(value: str, before: str, after: str) -> tuple[str, str, str]:
    """Blanks at the ends of a line would be trimmed: the outermost one becomes an entity."""
    lead = tail = ""
    if value and before in ("", "\n") and value[0] in MD_TRIM_CHARS:
        lead, value = entity(value[0]), value[1:]
    if value and after in ("", "\n") and value[-1] in MD_TRIM_CHARS:
        tail, value = entity(value[-1]), value[:-1]
    return lead, value, tail


def _written(spot: "_Spot", after: str, *, bracketed: bool) -> str | None:
    """The safe form of a suspect character, or None when it is harmless there."""
    character = spot.value[spot.at]
    if character == "w":
        return "www\\."
    if character == "[":
        unsafe = bracketed or spot.previous in ("!", "]") or not _harmless_pair(spot, after)
    elif character == "]":
        unsafe = bracketed
    elif character in _CHECKS:
        unsafe = _CHECKS[character](spot)
    else:
        return entity(character)
    return "\\" + character if unsafe else None


class _Spot(NamedTuple):
    """A suspect character and its neighbours."""

    value: str
    at: int
    previous: str
    following: str

    @property
    def last(self) -> bool:
        return self.at + 1 == len(self.value)


# Character -> is it unsafe there?
_CHECKS: dict[str, Callable[[_Spot], bool]] = {
    "\t": lambda _: False,
    "`": lambda _: True,
    "\\": lambda spot: not (spot.following.isalnum() or spot.following == " "),
    "*": lambda spot: not (spot.previous in _BLANKS and spot.following in _BLANKS),
    "_": lambda spot: _opens_or_closes(spot.previous) or _opens_or_closes(spot.following),
    "~": lambda spot: "~" in (spot.previous, spot.following) or spot.at == 0 or spot.last,
    "<": lambda spot: spot.following in _TAG_START,
    "&": lambda spot: bool(_ENTITY_AHEAD.match(spot.value, spot.at)),
    "!": lambda spot: spot.following == "[" and spot.last,
    "{": lambda spot: not (spot.previous.isalnum() or spot.previous in _BEFORE_PLAIN_BRACE),
    "}": lambda spot: spot.following in ("", "\n") and spot.last,
    ":": lambda spot: _starts_directive(spot.value, spot.at),
    "@": lambda spot: spot.previous in _ADDRESS_PART and bool(_HOST_AHEAD.match(spot.value, spot.at)),
}
_BLANKS = frozenset(" \t")
_ADDRESS_PART = frozenset(string.ascii_letters + string.digits + "._+-")
_HOST_AHEAD = re.compile(r"@[A-Za-z0-9-]+\.")
# After anything else a brace might belong to a link, an image or a directive.
_BEFORE_PLAIN_BRACE = frozenset(" \"'(:,=$")


def _starts_directive(value: str, at: int) -> bool:
    """`:name[`, or the `://` of an address that would become a link."""
    if value.startswith("//", at + 1) and _SCHEME.search(value, max(0, at - 5), at):
        return True
    return bool(_DIRECTIVE_AHEAD.match(value, at) or shortnames.PATTERN.match(value, at))


def _opens_or_closes(neighbour: str) -> bool:
    """Next to blanks and punctuation an underscore can be emphasis; between letters it cannot."""
    return is_edge(neighbour)


def _harmless_pair(spot: _Spot, after: str) -> bool:
    """`a[0] b`: closed in the same text, not followed by what would make it a link, no directive, no box."""
    pair = _PAIR.match(spot.value, spot.at)
    if not pair or spot.following == "~" or (spot.previous in ("", "\n") and _BOX.match(spot.value, spot.at)):
        return False
    following = spot.value[pair.end()] if pair.end() < len(spot.value) else after
    if following and following in "([:{":
        return False
    return not re.search(r":[A-Za-z][\w-]*\Z", spot.value[max(0, spot.at - 40) : spot.at])


def lines(markdown: str) -> str:
    """A paragraph's inline Markdown with its line beginnings made harmless."""
    if "\n" not in markdown:
        return _line(markdown, later=False)
    first, *rest = markdown.split("\n")
    return "\n".join([_line(first, later=False), *(_line(each, later=True) for each in rest)])


def _line(line: str, *, later: bool) -> str:
    found = _LINE_START.match(line)
    if found:
        at = found.start(1) if found[1] is not None else found.start(2)
        return f"{line[:at]}\\{line[at:]}"
    return "\\" + line if later and _is_underline(line) else line


def _is_underline(line: str) -> bool:
    """A later line of a paragraph that would underline it, or make it the head of a table."""
    return bool(line) and (not line.rstrip(" \t").strip("=") or ("-" in line and not line.strip("-:| \t")))


_LABEL_SUSPECT = re.compile(r"[\\\[\]&<`\x00-\x08\x0a-\x1f\x7f-\x9f\ufdd0-\ufdef\ufffe\uffff\ud800-\udfff]")


def label(value: str) -> str | None:
    """Text for the `[…]` of an atom, where nothing but escapes is read; None when it cannot be written."""
    if not _LABEL_SUSPECT.search(value):
        return value
    made: list[str] = []
    for character in value:
        if character in "\\[]&<`":
            made.append("\\" + character)
        elif _LABEL_SUSPECT.match(character):
            written = entity(character)
            if written[0] != "&":
                return None
            made.append(written)
        else:
            made.append(character)
    return "".join(made)


_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\udfff]")
_CONTROL_IN_TITLE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")
_DESTINATION = re.compile(r"[^\s<>()\\&\x00-\x1f\x7f|`\[\]*_]*")


def destination(value: str) -> str | None:
    """A link target, bare or in angle brackets; None when no form can hold it."""
    if value and _DESTINATION.fullmatch(value):
        return value
    if _CONTROL.search(value):
        return None
    if not value:
        return ""
    escaped = re.sub(r"[<>]|\\(?=[!-/:-@\[-`{-~]|$)|&(?=#?\w+;)", lambda found: "\\" + found[0], value)
    if re.fullmatch(r"[^\s<>()|`\[\]]*", value) and not value.startswith("<"):
        return escaped
    return f"<{escaped}>"


def title(value: str) -> str | None:
    """A link title in double quotes."""
    if _CONTROL_IN_TITLE.search(value):
        return None
    escaped = re.sub(r'"|\\(?=[!-/:-@\[-`{-~]|\n|$)|&(?=#?\w+;)', lambda found: "\\" + found[0], value)
    return '"' + escaped.replace("\n", "&#10;") + '"'


_CODE_SUSPECT = re.compile(r"[`\n\r\0]")


def code_span(value: str) -> str | None:
    """Inline code with a fence longer than any run inside; None when a code span cannot hold it."""
    if not _CODE_SUSPECT.search(value) and (value[0] != " " or value[-1] != " " or not value.strip(" ")):
        return f"`{value}`"
    if any(each in value for each in "\n\r\0"):
        return None
    longest = max((len(run) for run in re.findall(r"`+", value)), default=0)
    fence = "`" * (longest + 1)
    pad = value[:1] == "`" or value[-1:] == "`" or (value[0] == value[-1] == " " and value.strip(" "))
    return f"{fence} {value} {fence}" if pad else f"{fence}{value}{fence}"
