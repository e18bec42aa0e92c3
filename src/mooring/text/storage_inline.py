"""Text and what stands in it: storage format into ADF's inline nodes."""

from typing import Any

from mooring.text.dates import timestamp_of
from mooring.text.storage_adf import read_inline_adf
from mooring.text.storage_ids import Extras
from mooring.text.storage_images import read_inline_image
from mooring.text.storage_links import body_of, shown_name
from mooring.text.storage_macros import read_inline_macro
from mooring.text.storage_marks import (
    NESTING,
    Spelled,
    chosen_spellings,
    spelled_mark,
    usual_nesting,
    usual_spelling,
)
from mooring.text.storage_reading import (
    Reading,
    identified,
    other_attributes,
    raw_piece,
    short_marks,
    with_extras,
)
from mooring.text.storage_xml import Child, Element
from mooring.text.tree import Mark, Node, marks_of

EMOTICONS = {
    "smile": "🙂", "sad": "😞", "cheeky": "😛", "laugh": "😃", "wink": "😉", "thumbs-up": "👍",
    "thumbs-down": "👎", "information": "ℹ️", "tick": "✅", "cross": "❌", "warning": "⚠️", "plus": "➕",
    "minus": "➖", "question": "❓", "light-on": "💡", "light-off": "💡", "yellow-star": "⭐", "heart": "❤️",
    "broken-heart": "💔", "blue-star": "💙", "red-star": "❤️", "green-star": "💚",
}  # fmt: skip
USUAL_EMOTICON = "blue-star"
_EMOJI_ATTRIBUTES = {"ac:emoji-shortname": "shortName", "ac:emoji-id": "id", "ac:emoji-fallback": "text"}
_CODE_COMPANY = frozenset({"link", "annotation"})
_MARKABLE = {"mediaInline": _CODE_COMPANY, "inlineExtension": frozenset({"annotation"})}


def read_inline(reading: Reading, children: list[Child]) -> tuple[list[Node], Extras]:
    """The inline nodes of these children, and which marks are spelled in an unusual way."""
    elements = [child for child in children if isinstance(child, Element)]
    spellings = chosen_spellings(elements)
    run = _Run(reading, spellings)
    run.walk(children, [])
    unusual = {key: spelling for key, spelling in spellings.items() if spelling != usual_spelling(key)}
    extras = {key: value for key, value in unusual.items() if key in run.used}
    if any(map(len, run.paths)) and usual_nesting(run.paths) != run.paths:
        extras[NESTING] = "own"
    return run.nodes, extras


class _Run:
    def __init__(self, reading: Reading, spellings: dict[str, str]) -> None:
        self._reading = reading
        self._spellings = spellings
        # The marks each node stands in, for telling whether two elements would melt into one.
        self.paths: list[list[Mark]] = []
        self.nodes: list[Node] = []
        self.used: set[str] = set()

    def walk(self, children: list[Child], marks: list[Mark]) -> None:
        for child in children:
            if isinstance(child, str):
                self._add({"type": "text", "text": child}, marks)
            elif isinstance(child, Element):
                self._element(child, marks)
            else:
                self._add(raw_piece(self._reading, child), marks)

    def _element(self, element: Element, marks: list[Mark]) -> None:
        reader = _READERS.get(element.name)
        node = reader(self._reading, element) if reader else None
        if node is not None:
            self._add(node, marks)
            return
        spelled = spelled_mark(element)
        if spelled and self._is_safe(element, spelled, marks):
            self._marked(element, spelled, marks)
        else:
            self._add(raw_piece(self._reading, element), marks)

    def _marked(self, element: Element, spelled: Spelled, marks: list[Mark]) -> None:
        if spelled.key:
            self.used.add(spelled.key)
        inner = [*marks, spelled.mark]
        if element.name != "ac:link":
            self.walk(element.children, inner)
        elif (body := body_of(element)) is not None:
            self.walk(body.children, inner)
        else:
            self._add({"type": "text", "text": shown_name(element)}, inner)

    def _is_safe(self, element: Element, spelled: Spelled, marks: list[Mark]) -> bool:
        """Would writing this mark give exactly this element back?"""
        content = element if element.name != "ac:link" else body_of(element)
        if content is not None and not content.children:
            return False
        if self._reading.cautious and element.name not in ("a", "ac:link"):
            return False
        if spelled.key and self._spellings[spelled.key] != spelled.spelling:
            return False
        kinds = {mark["type"] for mark in marks}
        if spelled.mark["type"] in kinds or not _keeps_company(spelled.mark["type"], kinds):
            return False
        depth = len(marks)
        before = self.paths[-1] if self.paths else []
        return not (before[:depth] == marks and before[depth : depth + 1] == [spelled.mark])

    def _add(self, node: Node, marks: list[Mark]) -> None:
        self.paths.append(marks)
        if not marks:
            self.nodes.append(node)
        elif node["type"] == "text":
            self.nodes.append({**node, "marks": list(marks)})
        elif _may_carry(node, marks):
            self.nodes.append({**node, "marks": [*marks_of(node), *marks]})
        else:
            self.nodes.append(with_extras(node, {"marks": short_marks(marks)}))


def _keeps_company(kind: str, around: set[str]) -> bool:
    """Code goes with links and comments only."""
    if kind == "code":
        return around <= _CODE_COMPANY
    return "code" not in around or kind in _CODE_COMPANY


def _may_carry(node: Node, marks: list[Mark]) -> bool:
    allowed = _MARKABLE.get(node["type"], frozenset[str]())
    return not marks_of(node) and {mark["type"] for mark in marks} <= allowed


def _line_break(_reading: Reading, element: Element) -> Node | None:
    if element.children:
        return None
    return identified(
        {"type": "hardBreak"}, other_attributes(element, "local-id"), element.attributes.get("local-id")
    )


def _time(_reading: Reading, element: Element) -> Node | None:
    given = element.attributes
    timestamp = given.get("data-timestamp") or timestamp_of(given.get("datetime", ""))
    if element.children or timestamp is None:
        return None
    extras = other_attributes(element, "datetime", "data-timestamp", "local-id")
    return identified({"type": "date", "attrs": {"timestamp": timestamp}}, extras, given.get("local-id"))


def _emoticon(_reading: Reading, element: Element) -> Node | None:
    given, name = element.attributes, element.attributes.get("ac:name")
    if element.children or name is None:
        return None
    attrs: dict[str, Any] = {key: given[data] for data, key in _EMOJI_ATTRIBUTES.items() if data in given}
    extras = other_attributes(element, "ac:name", "ac:local-id", *_EMOJI_ATTRIBUTES)
    if "shortName" not in attrs:
        attrs = {"shortName": f":{name}:", **attrs}
        if "text" not in attrs and name in EMOTICONS:
            attrs["text"] = EMOTICONS[name]
            extras["no-text"] = "1"
        extras |= {"name": name, "no-shortname": "1"}
    elif name != USUAL_EMOTICON:
        extras["name"] = name
    return identified({"type": "emoji", "attrs": attrs}, extras, given.get("ac:local-id"))


def _placeholder(_reading: Reading, element: Element) -> Node | None:
    shown = element.only_text()
    if shown is None:
        return None
    extras = other_attributes(element, "ac:local-id")
    return identified(
        {"type": "placeholder", "attrs": {"text": shown}}, extras, element.attributes.get("ac:local-id")
    )


def _card(reading: Reading, element: Element) -> Node | None:
    given = element.attributes
    if given.get("data-card-appearance") != "inline" or not given.get("href"):
        return None
    extras = other_attributes(element, "href", "data-card-appearance", "local-id")
    shown = element.only_text()
    if shown != given["href"]:
        extras["shown"] = shown if shown is not None else reading.source.verbatim(element)
        if shown is None:
            return None
    return identified({"type": "inlineCard", "attrs": {"url": given["href"]}}, extras, given.get("local-id"))


def _mention(reading: Reading, element: Element) -> Node | None:
    parts = element.elements()
    if not parts or parts[0].name != "ri:user" or not element.has_only_elements() or element.attributes:
        return None
    user, bodies = parts[0], parts[1:]
    way = next(
        (key for key in ("ri:account-id", "ri:userkey", "ri:username") if key in user.attributes), None
    )
    if way is None or len(bodies) > 1 or user.children:
        return None
    extras = other_attributes(user, way, "ri:local-id")
    attrs: dict[str, Any] = {"id": user.attributes[way]}
    if way != "ri:account-id":
        extras["user"] = way
    if bodies:
        shown = bodies[0].only_text()
        if (
            not shown
            or bodies[0].attributes
            or bodies[0].name not in ("ac:link-body", "ac:plain-text-link-body")
        ):
            return raw_piece(reading, element)
        attrs["text"] = shown
        if bodies[0].name == "ac:plain-text-link-body":
            extras["body"] = "plain"
    return identified({"type": "mention", "attrs": attrs}, extras, user.attributes.get("ri:local-id"))


_READERS = {
    "br": _line_break,
    "time": _time,
    "ac:emoticon": _emoticon,
    "ac:placeholder": _placeholder,
    "ac:image": read_inline_image,
    "ac:structured-macro": read_inline_macro,
    "ac:adf-extension": read_inline_adf,
    "ac:link": _mention,
    "a": _card,
}
