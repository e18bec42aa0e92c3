"""What a link of wiki markup becomes: a file, a person, a card, or linked words."""

import re
from collections.abc import Callable
from typing import Final

from mooring.text.tree import Node
from mooring.text.wiki_links import Link, is_safe, link_mark
from mooring.text.wiki_nodes import block, text_node, with_mark
from mooring.text.wiki_tokens import DASHES, Kind

CARDS: Final = {
    "smart-card": "blockCard",
    "block-link": "blockCard",
    "smart-link": "inlineCard",
    "smart-embed": "embedCard",
}
_ACCOUNT = re.compile(r"accountid:([0-9a-f]{24}|\d+:[0-9a-f-]{36}|(?:qm|ug):.+)\Z", re.IGNORECASE)
_IN_LINK = DASHES | {Kind.BARE_URL}

Inner = Callable[..., list[Node]]


def linked_nodes(link: Link, inner: Inner) -> list[Node] | None:
    """Nothing for brackets that are only text; None when the address may not be linked."""
    if link.attachment:
        file: Node = {"type": "media", "attrs": {"type": "file", "id": link.attachment, "collection": ""}}
        return [block("mediaGroup", [file])]
    if link.target == "~" or link.target.lower() == "~accountid:":
        return []
    if link.target.startswith("~"):
        account = _ACCOUNT.match(link.target, 1)
        identifier = account[1] if account else link.target[1:]
        return [{"type": "mention", "attrs": {"id": identifier, "text": "", "accessLevel": ""}}]
    if link.title in CARDS:
        card = CARDS[link.title]
        layout = {"layout": "center", "width": 100} if card == "embedCard" else {}
        return [{"type": card, "attrs": {"url": link.target, **layout}}]
    return _linked_words(link, inner) if is_safe(link.target) else None


def _linked_words(link: Link, inner: Inner) -> list[Node]:
    shown, mark = link.text or link.target, link_mark(link.target)
    content = [with_mark(node, mark) for node in inner(shown.removeprefix("mailto:"), _IN_LINK)]
    if not any(node["type"] == "text" for node in content) and shown:
        content.append(text_node(shown, mark))
    return content
