"""An edited block in the terms in which it was shown.

Reading Markdown alone changes things: an image shown by its address comes back as an attachment, a table with
the attributes that Markdown gives it. Compared with what the unedited Markdown reads as, only what the edit
changed is left.
"""

import re
from collections.abc import Callable, Iterator
from difflib import SequenceMatcher
from typing import Any, Protocol

from mooring.text.dates import timestamp_of
from mooring.text.report import Path
from mooring.text.tree import Node, attributes, canonical, children, compact_json, marks_of, paragraph, text

_BRACKETED = re.compile(r"\[([^\[\]]+)\]")
_STATE = re.compile(r"\[([^\[\]]+)\] ?")
_CARDS = frozenset({"blockCard", "embedCard"})


def comparable(item: Node) -> str:
    """A node as text, without the ids a reader may have made up."""
    return compact_json(_without_ids(canonical(item)))


def _without_ids(item: Node) -> Node:
    made = dict(item)
    attrs = {name: value for name, value in attributes(item).items() if name != "localId"}
    made.pop("attrs", None)
    if attrs:
        made["attrs"] = dict(sorted(attrs.items()))
    if "content" in made:
        made["content"] = [_without_ids(child) for child in children(item)]
    return dict(sorted(made.items()))


class AsShown:
    """Edited nodes in terms of those that were shown, and what each of them was read as."""

    def __init__(self) -> None:
        self._read: dict[int, tuple[Node, Node]] = {}

    def node(self, before: Node, read: Node, after: Node) -> Node:
        """`after`, with everything as it is in `before` that is the same in `read`, the unedited Markdown."""
        made = before if comparable(read) == comparable(after) else self._changed(before, read, after)
        self._read[id(made)] = made, after
        return made

    def as_read(self, item: Node) -> Node:
        """The node as the edited Markdown reads, for one that takes the place of the original."""
        _, found = self._read.get(id(item), (item, item))
        return found

    def _changed(self, before: Node, read: Node, after: Node) -> Node:
        if after["type"] == "text" or not before["type"] == read["type"] == after["type"]:
            return after
        made = with_changes({key: value for key, value in before.items() if key != "content"}, read, after)
        return {**made, "content": list(self._children(before, read, after))} if "content" in after else made

    def _children(self, before: Node, read: Node, after: Node) -> Iterator[Node]:
        shown, olds, news = children(before), children(read), children(after)
        if len(shown) != len(olds):
            yield from news
            return
        keys = [[comparable(each) for each in group] for group in (olds, news)]
        for operation, i1, i2, j1, j2 in SequenceMatcher(None, *keys, autojunk=False).get_opcodes():
            if operation != "delete" and i2 - i1 == j2 - j1:
                yield from map(self.node, shown[i1:i2], olds[i1:i2], news[j1:j2])
            else:
                yield from news[j1:j2]


def with_changes(item: Node, before: Node, after: Node) -> Node:
    """The node with the attributes that differ between two versions of it; ids are nobody's edit."""
    olds, news, attrs = attributes(before), attributes(after), dict(attributes(item))
    for name in (*olds, *news):
        if name == "localId" or olds.get(name) == news.get(name):
            continue
        if name in news:
            attrs[name] = news[name]
        else:
            attrs.pop(name, None)
    made = {**item, "attrs": attrs}
    if not attrs and not item.get("attrs"):
        made.pop("attrs")
    return made if attrs != attributes(item) else item


class Merging(Protocol):
    """What this needs of the merger."""

    def text_block(self, original: Node, before: Node, after: Node, path: Path) -> Node: ...


def merge_other(merging: Merging, original: Node, before: Node, after: Node, path: Path) -> Node | None:
    """An edited image, list of files or decisions, or card: something that is shown as something else, with
    everything that was not shown; None when it is another."""
    if original["type"] in _CARDS:
        return _card(original, after)
    if original["type"] == "mediaGroup":
        return _files(original, before, after)
    if original["type"] == "decisionList":
        return _decisions(merging, original, before, after, path)
    if original["type"] != "mediaSingle" or after["type"] != "mediaSingle":
        return None
    return _image(merging, original, before, after, path)


def _image(merging: Merging, original: Node, before: Node, after: Node, path: Path) -> Node | None:
    media, *rest = children(original)
    (old, *_), (new, *others) = children(before), children(after)
    if others:
        return None
    caption = rest[0] if rest and children(rest[0]) else None
    if caption is None:
        return {**original, "content": [with_changes(media, old, new), *rest]}
    # The words of the caption were shown after those of the image.
    alt, words = str(attributes(media).get("alt") or ""), str(attributes(new).get("alt") or "")
    unsaid = {name: value for name, value in attributes(new).items() if name != "alt"}
    shown = {name: value for name, value in attributes(old).items() if name != "alt"}
    if not words.startswith(alt) or not words.removeprefix(alt).strip():
        return None
    said = paragraph(text(words.removeprefix(alt).strip()))
    merged = merging.text_block(caption, said, said, (*path, "content", 1))
    changed = with_changes(media, {"attrs": shown}, {"attrs": unsaid})
    return {**original, "content": [changed, merged]}


def _files(original: Node, before: Node, after: Node) -> Node | None:
    olds, news = children(before), children(after)
    if after["type"] != "bulletList" or not len(olds) == len(news) == len(children(original)):
        return None
    made: list[Node] = []
    for media, old, new in zip(children(original), olds, news, strict=True):
        if comparable(old) != comparable(new):
            (words, place), (_, stood) = _only_link(new), _only_link(old)
            if not words or place != stood:
                return None
            media = {**media, "attrs": {**attributes(media), "alt": words}}  # noqa: PLW2901
        made.append(media)
    return {**original, "content": made}


def _decisions(merging: Merging, original: Node, before: Node, after: Node, path: Path) -> Node | None:
    olds, news = children(before), children(after)
    if after["type"] != "bulletList" or not len(olds) == len(news) == len(children(original)):
        return None
    made: list[Node] = []
    for index, (decision, old, new) in enumerate(zip(children(original), olds, news, strict=True)):
        if comparable(old) != comparable(new):
            said = _decision(new)
            if said is None:
                return None
            state, words = said
            merged = merging.text_block(decision, words, words, (*path, "content", index))
            decision = {**merged, "attrs": {**attributes(merged), "state": state}}  # noqa: PLW2901
        made.append(decision)
    return {**original, "content": made}


def _decision(item: Node) -> tuple[str, Node] | None:
    """The state in front, and the words after it."""
    inline = [each for block in children(item) for each in children(block)]
    found = _STATE.match(str(inline[0].get("text", ""))) if len(children(item)) == 1 and inline else None
    if found is None or marks_of(inline[0]):
        return None
    rest = found.string[found.end() :]
    return found[1], paragraph(*([text(rest)] if rest else []), *inline[1:])


def _card(original: Node, after: Node) -> Node | None:
    words, place = _only_link(after)
    return {**original, "attrs": {**attributes(original), "url": place}} if words and words == place else None


def _only_link(item: Node) -> tuple[str, str]:
    """Words and address of the one link that a block consists of; nothing when there is more."""
    while len(children(item)) == 1:
        item = children(item)[0]
    href = [attributes(mark).get("href") for mark in marks_of(item) if mark.get("type") == "link"]
    return (item["text"], str(href[0])) if item.get("type") == "text" and href else ("", "")


def _status(attrs: dict[str, Any], words: str) -> dict[str, Any]:
    return {**attrs, "text": words}


def _date(attrs: dict[str, Any], words: str) -> dict[str, Any] | None:
    stamp = timestamp_of(words)
    return {**attrs, "timestamp": stamp} if stamp else None


_RENEWED: dict[str, Callable[[dict[str, Any], str], dict[str, Any] | None]] = {
    "status": _status,
    "placeholder": _status,
    "date": _date,
}


def renewed(item: Node, shown: str) -> Node | None:
    """A status, date or placeholder with the words that now stand in its brackets."""
    found = _BRACKETED.fullmatch(shown)
    change = _RENEWED.get(item["type"])
    attrs = change(attributes(item), found[1]) if found and change else None
    return {**item, "attrs": attrs} if attrs else None
