"""The tools of a server in fewer words, as its `savings` say; only lists change."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw

from mooring.gateway.exchange import Exchange
from mooring.policy.items import TOOLS, Item, Listing
from mooring.prompt.savings import Savings
from mooring.protocol import jsonrpc, meta

HANDLES: Final = ("upload://", "artifact://", "result://")
"""A description that speaks of these says how the gateway wants to be called: it stays whole."""
UNSAVED: Final = "mooring/unsaved"
"""In the `_meta` of a request for a list: give it in full, as `mooring tokens` asks in order to compare."""
REMEMBERED: Final = 10_000


class Saving:
    """The savings of one server."""

    def __init__(self, savings: Savings) -> None:
        self._savings = savings
        self._saved: dict[bytes, Raw] = {}

    def present(self, exchange: Exchange, listing: Listing) -> None:
        if listing.kind == TOOLS and not _wants_everything(exchange):
            for item in listing.items:
                item.raw = self._shorter(item)

    def _shorter(self, item: Item) -> Raw:
        given = bytes(item.raw)
        found = self._saved.get(given)
        if found is None:
            if len(self._saved) >= REMEMBERED:
                self._saved.clear()
            found = self._saved[given] = self._save(item)
        return found

    def _save(self, item: Item) -> Raw:
        try:
            tool = item.value()
            saved = self._savings.applied(tool)
        except (msgspec.DecodeError, RecursionError):
            return item.raw  # too deep or too odd for us may still be fine for the client
        shorter = Item(item.name, item.raw)
        changed = {name: value for name, value in saved.items() if value != tool[name]}
        if changed:
            shorter.replace(**changed)
        return shorter.raw


def _wants_everything(exchange: Exchange) -> bool:
    return UNSAVED in meta.entries(jsonrpc.members(exchange.envelope.params))
