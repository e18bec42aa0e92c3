"""Images of wiki markup: `!name.png|width=300,alt="a plan"!`."""

import re
from typing import Any

from mooring.text.tree import Node
from mooring.text.wiki_links import BARE_URL, link_mark

_DIGITS = re.compile(r"\s*([+-]?\d+)")


def image_node(name: str, settings: dict[str, str]) -> Node:
    single: dict[str, Any] = {"layout": "center"}
    media: dict[str, Any] = {"width": 200, "height": 183}
    width = _DIGITS.match(settings.get("width") or "")
    height = _DIGITS.match(settings.get("height") or "")
    if (settings.get("width") or "").endswith("%"):
        media = {}
        if width:
            single["width"] = min(max(int(width[1]), 0), 100)
    else:
        media |= {"width": int(width[1])} if width else {}
        media |= {"height": int(height[1])} if height else {}
    if settings.get("alt"):
        media["alt"] = _unquoted(settings["alt"])
    external = BARE_URL.match(name) is not None
    identity = (
        {"type": "external", "url": name} if external else {"type": "file", "id": name, "collection": ""}
    )
    node: Node = {"type": "media", "attrs": {**identity, **media}}
    if settings.get("href"):
        node["marks"] = [link_mark(_unquoted(settings["href"]))]
    return {"type": "mediaSingle", "attrs": single, "content": [node]}


def _unquoted(value: str) -> str:
    return value[1:-1] if len(value) > 2 and value[0] == value[-1] == '"' else value
