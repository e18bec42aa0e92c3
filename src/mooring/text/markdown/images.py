"""Media as images: `![alt](attachment:ID){collection=… layout=…}`, and back."""

from typing import Any

from mooring.text.markdown import attributes as lists
from mooring.text.markdown import escape
from mooring.text.markdown.inexpressible import Inexpressible
from mooring.text.tree import Mark, Node, attributes, marks_of, sort_marks

ATTACHMENT = "attachment:"
_PREFIX = "media-"
# Names a media node shares with the node around it.
_SHARED = {lists.ID: "media-id", "attrs": "media-attrs", "marks": "media-marks"}
_OWN = {short for short, _ in lists.FIELDS["media"].values()} | {"border", "border-color"}


def image(media: Node, around: lists.Pairs) -> str:
    """One media node, with the attributes of the node around it (if any) in the same braces."""
    if not {"type", "attrs", "marks"}.issuperset(media):
        raise Inexpressible
    attrs = attributes(media)
    target, hidden = _target(attrs)
    alt = attrs.get("alt")
    if isinstance(alt, str) and alt:
        hidden.append("alt")
    link, marks = _link(marks_of(media))
    own = lists.pairs_of(media, without=tuple(hidden), marks=marks)
    pairs = around + [(_SHARED.get(name, name), value) for name, value in own]
    shown = escape.text(str(alt), "[", "]", bracketed=True) if "alt" in hidden else ""
    made = f"![{shown}]({target}){lists.render(pairs, delicate=True)}"
    return f"[{made}]({link})" if link is not None else made


def _target(attrs: dict[str, Any]) -> tuple[str, list[str]]:
    """The link target, and the attributes it says."""
    kind, media_id, url = attrs.get("type"), attrs.get("id"), attrs.get("url")
    if kind == "external" and isinstance(url, str) and url:
        target, hidden = escape.destination(url), ["url"] if url.startswith(ATTACHMENT) else ["url", "type"]
    elif kind in ("file", "link") and isinstance(media_id, str) and media_id:
        target = escape.destination(ATTACHMENT + media_id)
        hidden = ["id", "type"] if kind == "file" else ["id"]
    else:
        raise Inexpressible
    if target is None:
        raise Inexpressible
    return target, hidden


def _link(marks: list[Mark]) -> tuple[str | None, list[Mark]]:
    """A plain link can be written around the image; the other marks go into the braces."""
    links = [mark for mark in marks if mark.get("type") == "link"]
    if len(links) == 1 and list(attributes(links[0])) == ["href"] and set(links[0]) == {"type", "attrs"}:
        href = links[0]["attrs"]["href"]
        target = escape.destination(href) if isinstance(href, str) and href else None
        if target is not None:
            return target, [mark for mark in marks if mark is not links[0]]
    return None, marks


def split(given: lists.Attributes) -> tuple[lists.Attributes, lists.Attributes]:
    """(attributes of the node around, attributes of the media node)"""
    back = {written: name for name, written in _SHARED.items()}
    around: lists.Attributes = {}
    own: lists.Attributes = {}
    for name, value in given.items():
        if name in back:
            own[back[name]] = value
        elif name in _OWN:
            own[name] = value
        else:
            around[name] = value
    return around, own


def read_media(target: str, alt: str, link: Mark | None, own: lists.Attributes) -> tuple[Node, list[str]]:
    kind = own.get("type") or ("file" if target.startswith(ATTACHMENT) else "external")
    attrs: dict[str, Any] = {"type": kind}
    if kind == "external":
        attrs["url"] = target
    else:
        attrs["id"] = target.removeprefix(ATTACHMENT)
        if "attrs" not in own:
            attrs["collection"] = ""
    if alt:
        attrs["alt"] = alt
    media: Node = {"type": "media", "attrs": attrs}
    refused = lists.apply(media, own)
    if link is not None:
        media["marks"] = sort_marks([link, *marks_of(media)])
    return media, refused
