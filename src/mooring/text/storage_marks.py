"""How storage format spells ADF's marks, and the other spellings that are kept per block of text."""

import re
from collections import Counter
from dataclasses import dataclass

from mooring.text.storage_ids import Extras, attributes_in, pack, unpack
from mooring.text.storage_links import href_of, is_page_link, write_page_link
from mooring.text.storage_xml import Element, tag
from mooring.text.tree import Mark, attributes
from mooring.text.wiki_colours import NAMED

_TAGS: dict[str, tuple[str, dict[str, str]]] = {
    "strong": ("strong", {}), "b": ("strong", {}),
    "em": ("em", {}), "i": ("em", {}),
    "u": ("underline", {}), "ins": ("underline", {}),
    "del": ("strike", {}), "s": ("strike", {}), "strike": ("strike", {}),
    "code": ("code", {}), "tt": ("code", {}),
    "sub": ("subsup", {"type": "sub"}),
    "sup": ("subsup", {"type": "sup"}),
}  # fmt: skip
_USUAL_TAG = {"strong": "strong", "em": "em", "underline": "u", "strike": "del", "code": "code"}
_COLOUR_MARKS = {"color": "textColor", "background-color": "backgroundColor"}
_COLOUR_PROPERTIES = {mark: name for name, mark in _COLOUR_MARKS.items()}
_COLOUR = re.compile(
    r"(?P<name>color|background-color):(?P<gap> ?)"
    r"(?:rgb\((?P<red>\d{1,3}),(?P<space> ?)(?P<green>\d{1,3}),(?P=space)(?P<blue>\d{1,3})\)"
    r"|(?P<hex>#[0-9a-fA-F]{6})|(?P<word>[a-z]+))(?P<end>;?)\Z"
)
# Says that marks nest in the order they are listed, not in the usual one.
NESTING = "nesting"
_USUAL_ORDER = (
    "annotation", "link", "strong", "em", "underline", "strike", "subsup", "textColor", "backgroundColor",
    "code",
)  # fmt: skip
_RANK = {name: rank for rank, name in enumerate(_USUAL_ORDER)}
# `color: rgb(1,2,3);`: what Confluence itself writes. Upper-case digits can only come from `#RRGGBB`.
USUAL_COLOUR = " rgb;"
_LINK_DATA = {
    "data-link-id": "id",
    "data-link-collection": "collection",
    "data-occurrence-key": "occurrenceKey",
}
_NAMES_BY_COLOUR = {value: name for name, value in sorted(NAMED.items(), reverse=True)}


@dataclass(frozen=True, slots=True)
class Spelled:
    """A mark, and if its spelling is not fixed, under which key and how it is spelled here."""

    mark: Mark
    key: str | None = None
    spelling: str = ""


def spelled_mark(element: Element) -> Spelled | None:
    """The mark this element stands for, or None when it is something else."""
    name, given = element.name, element.attributes
    if name in _TAGS and not given:
        kind, attrs = _TAGS[name]
        mark: Mark = {"type": kind, "attrs": dict(attrs)} if attrs else {"type": kind}
        return Spelled(mark, kind if kind in _USUAL_TAG else None, name)
    if name == "span" and set(given) == {"style"}:
        return _colour(given["style"])
    if name == "a" and "href" in given:
        return Spelled(_link(given))
    if name == "ac:inline-comment-marker" and set(given) == {"ac:ref"}:
        attrs = {"id": given["ac:ref"], "annotationType": "inlineComment"}
        return Spelled({"type": "annotation", "attrs": attrs})
    if name == "ac:link":
        href = href_of(element)
        return Spelled({"type": "link", "attrs": {"href": href}}) if href else None
    return None


def usual_spelling(key: str) -> str:
    return USUAL_COLOUR if key in _COLOUR_PROPERTIES else _USUAL_TAG[key]


def chosen_spellings(elements: list[Element]) -> dict[str, str]:
    """For each kind of mark in a block of text the spelling most of its elements use."""
    counts: dict[str, Counter[str]] = {}
    waiting = list(elements)
    while waiting:
        element = waiting.pop()
        waiting += element.elements()
        spelled = spelled_mark(element)
        if spelled and spelled.key:
            counts.setdefault(spelled.key, Counter())[spelled.spelling] += 1
    return {key: counter.most_common(1)[0][0] for key, counter in counts.items()}


def usual_nesting(listed: list[list[Mark]]) -> list[list[Mark]]:
    """The marks of neighbouring texts from the outside in: what covers more of them is further out, equals
    go in the usual order."""
    nested: list[list[Mark]] = []
    at = 0
    while at < len(listed):
        candidates = listed[at]
        if not candidates:
            nested.append([])
            at += 1
            continue
        reach = [_reach(listed, at, mark) for mark in candidates]
        chosen = min(range(len(candidates)), key=lambda i: (-reach[i], _rank(candidates[i])))
        mark, end = candidates[chosen], reach[chosen]
        below = [[other for other in each if other != mark] for each in listed[at:end]]
        nested += [[mark, *inner] for inner in usual_nesting(below)]
        at = end
    return nested


def _reach(listed: list[list[Mark]], at: int, mark: Mark) -> int:
    while at < len(listed) and mark in listed[at]:
        at += 1
    return at


def _rank(mark: Mark) -> int:
    return _RANK.get(mark["type"], len(_RANK))


def write_mark(mark: Mark, content: str, spellings: Extras, *, is_plain: bool) -> str | None:
    """The content inside this mark's element, or None when storage format has none for it."""
    kind, attrs = mark["type"], attributes(mark)
    if kind in _USUAL_TAG and not attrs:
        return tag(spellings.get(kind, _USUAL_TAG[kind]), {}, content)
    if kind == "subsup" and attrs.get("type") in ("sub", "sup"):
        return tag(attrs["type"], {}, content)
    if kind in _COLOUR_PROPERTIES and isinstance(attrs.get("color"), str):
        style = _style(kind, attrs["color"], spellings.get(kind, USUAL_COLOUR))
        return tag("span", {"style": style}, content)
    if kind == "annotation" and attrs.get("annotationType") == "inlineComment":
        return tag("ac:inline-comment-marker", {"ac:ref": str(attrs.get("id", ""))}, content)
    if kind == "link" and isinstance(attrs.get("href"), str):
        if is_page_link(mark):
            return write_page_link(attrs["href"], content, is_plain=is_plain)
        return _write_link(attrs, content)
    return None


def _colour(style: str) -> Spelled | None:
    found = _COLOUR.match(style)
    if not found:
        return None
    if found["word"]:
        colour, notation = NAMED.get(found["word"]), "name"
        if colour is None or _NAMES_BY_COLOUR[colour] != found["word"]:
            return None
    elif found["hex"]:
        colour, notation = found["hex"], "hex"
    else:
        numbers = [int(found["red"]), int(found["green"]), int(found["blue"])]
        if max(numbers) > 255 or any(
            str(n) != found[k] for n, k in zip(numbers, ("red", "green", "blue"), strict=True)
        ):
            return None
        colour = "#{:02x}{:02x}{:02x}".format(*numbers)
        notation = "rgb, " if found["space"] else "rgb"
    spelling = f"{found['gap']}{notation}{found['end']}"
    kind = _COLOUR_MARKS[found["name"]]
    if notation == "hex" and colour != colour.lower() and spelling == " hex;":
        spelling = USUAL_COLOUR
    return Spelled({"type": kind, "attrs": {"color": colour}}, kind, spelling)


def _style(kind: str, colour: str, spelling: str) -> str:
    gap = " " if spelling.startswith(" ") else ""
    end = ";" if spelling.endswith(";") else ""
    notation = spelling.strip(" ;") if spelling.strip(" ;") != "rgb," else "rgb, "
    return f"{_COLOUR_PROPERTIES[kind]}:{gap}{_notated(colour, notation)}{end}"


def _notated(colour: str, notation: str) -> str:
    if not re.fullmatch(r"#[0-9a-f]{6}", colour) or notation == "hex":
        return colour
    if notation == "name" and colour in _NAMES_BY_COLOUR:
        return _NAMES_BY_COLOUR[colour]
    comma = ", " if notation == "rgb, " else ","
    return "rgb(" + comma.join(str(int(colour[i : i + 2], 16)) for i in (1, 3, 5)) + ")"


def _link(given: dict[str, str]) -> Mark:
    attrs = {"href": given["href"]}
    if "title" in given:
        attrs["title"] = given["title"]
    attrs |= {name: given[data] for data, name in _LINK_DATA.items() if data in given}
    extras = {f"@{key}": value for key, value in given.items() if key not in ("href", "title", *_LINK_DATA)}
    if extras:
        packed = pack(attrs.get("occurrenceKey"), extras)
        attrs["occurrenceKey"] = packed or ""
    return {"type": "link", "attrs": attrs}


def _write_link(attrs: dict[str, object], content: str) -> str:
    key, extras = unpack(attrs.get("occurrenceKey"))
    given = {"href": str(attrs["href"])}
    if "title" in attrs:
        given["title"] = str(attrs["title"])
    named = {"id": attrs.get("id"), "collection": attrs.get("collection"), "occurrenceKey": key}
    given |= {data: str(named[name]) for data, name in _LINK_DATA.items() if named[name] is not None}
    return tag("a", {**given, **attributes_in(extras)}, content)
