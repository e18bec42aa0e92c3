"""What a caller's lists have shown: the only items that a guarded caller can name.

Hidden and missing are one thing only if the gateway itself answers for both. So it knows the list: from the
lists that pass by, or by asking for one when a request names something that was not on any of them.
"""

from __future__ import annotations

import asyncio
import itertools
from collections import OrderedDict
from time import monotonic
from typing import Any, Final, cast

from msgspec import Raw

from mooring.errors import RpcError, UpstreamTimedOut
from mooring.gateway.exchange import Exchange, Handler
from mooring.policy.items import PROMPTS, TOOLS, Item, Listing, read_listing
from mooring.protocol import jsonrpc
from mooring.protocol.jsonrpc import Envelope

VIEWS: Final = 10_000
PAGES: Final = 100
LIST_SECONDS: Final = 15.0
ASK_AGAIN_SECONDS: Final = 1.0
"""However often a caller names things that are not there, the server is asked for its list this often."""
_METHODS: Final = {TOOLS: "tools/list", PROMPTS: "prompts/list"}


class View:
    """What one caller was shown of one kind."""

    __slots__ = ("asked", "digests", "hints", "items", "pending")

    def __init__(self) -> None:
        self.items: dict[str, Item] = {}
        self.pending: dict[str, Item] | None = None
        self.hints: dict[str, dict[str, Any]] = {}
        self.digests: dict[str, str] = {}
        self.asked = -ASK_AGAIN_SECONDS

    def learn(self, listing: Listing) -> None:
        if listing.first_page:
            self.pending = {}
        if self.pending is None:
            return
        self.pending.update((item.name, Item(item.name, item.raw, item.given)) for item in listing.items)
        if listing.last_page:
            self.items, self.pending = self.pending, None
            self.hints, self.digests = {}, {}

    def digest(self, name: str) -> str:
        """The hash of a definition; empty for what was never listed."""
        found = self.digests.get(name)
        if found is None:
            item = self.items.get(name)
            found = self.digests[name] = item.digest if item is not None else ""
            if len(self.digests) > len(self.items) + 100:
                self.digests.clear()
        return found

    def annotations(self, name: str) -> dict[str, Any]:
        """The hints of a tool as its server gave them."""
        found = self.hints.get(name)
        if found is None:
            item = self.items.get(name)
            given = item.value().get("annotations") if item is not None else None
            found = self.hints[name] = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
        return found


class Catalogue:
    """The lists of one server, as its callers were shown them."""

    def __init__(self) -> None:
        self._views: OrderedDict[tuple[str, str], View] = OrderedDict()
        self._asking: dict[tuple[str, str], asyncio.Task[None]] = {}
        self._numbers = itertools.count(1)

    def view(self, exchange: Exchange, kind: str) -> View:
        key = _key(exchange, kind)
        found = self._views.get(key)
        if found is None:
            found = self._views[key] = View()
            if len(self._views) > VIEWS:
                self._views.popitem(last=False)
        return found

    def learn(self, exchange: Exchange, listing: Listing) -> None:
        """A list passes by."""
        if listing.kind in _METHODS:
            self.view(exchange, listing.kind).learn(listing)

    def knows(self, exchange: Exchange, kind: str, name: str) -> bool:
        """Whether this is on the caller's list; of what cannot be listed in full, everything may be."""
        return kind not in _METHODS or name in self.view(exchange, kind).items

    async def look_up(self, exchange: Exchange, kind: str, name: str | None, handler: Handler) -> bool:
        """Ask the server for its list, because it may have grown; whether it was asked."""
        if kind not in _METHODS:
            return False
        view = self.view(exchange, kind)
        key = _key(exchange, kind)
        task = self._asking.get(key)
        if task is None:
            if name in view.items or monotonic() - view.asked < ASK_AGAIN_SECONDS:
                return False
            task = asyncio.get_running_loop().create_task(self._list(exchange, kind, view, handler))
            self._asking[key] = task
            task.add_done_callback(lambda _: self._asking.pop(key, None))
        await asyncio.shield(task)
        return True

    async def _list(self, exchange: Exchange, kind: str, view: View, handler: Handler) -> None:
        try:
            async with asyncio.timeout(LIST_SECONDS):
                await self._pages(exchange, kind, view, handler)
        except TimeoutError:
            raise UpstreamTimedOut(f"the server did not list its {kind}") from None
        view.asked = monotonic()

    async def _pages(self, exchange: Exchange, kind: str, view: View, handler: Handler) -> None:
        cursor: Raw | None = None
        for _ in range(PAGES):
            asking = self._request(exchange, kind, cursor)
            answer = await handler(asking)
            listing = read_listing(asking, answer) if answer is not None else None
            if listing is None:  # a server without such things has none of them
                view.learn(Listing(kind, True, True, [], {}))
                return
            view.learn(listing)
            cursor = listing.members.get("nextCursor")
            if cursor is None:
                return
        raise RpcError(f"the server's list of {kind} has no end")

    def _request(self, exchange: Exchange, kind: str, cursor: Raw | None) -> Exchange:
        """A list request in the name of the same caller."""
        given = jsonrpc.members(jsonrpc.members(exchange.envelope.params).get("_meta", b""))
        given.pop("progressToken", None)
        parts: dict[str, Raw | bytes] = {}
        if cursor is not None:
            parts["cursor"] = cursor
        if given:
            parts["_meta"] = jsonrpc.assemble(given)
        method = _METHODS[kind]
        number = Raw(b'"mooring-list-%d"' % next(self._numbers))
        params = Raw(jsonrpc.assemble(parts)) if parts else Raw()
        body = jsonrpc.request(number, method, params)
        asking = Exchange(
            exchange.server, exchange.client, Envelope("2.0", number, method, params), method, body, None
        )
        asking.headers = b"" if exchange.headers is not None else None
        asking.started = monotonic()
        asking.patience = LIST_SECONDS
        asking.deadline = asking.final_deadline = asking.started + LIST_SECONDS
        asking.caller = exchange.caller
        asking.begun = asking.guarded = True
        return asking


def _key(exchange: Exchange, kind: str) -> tuple[str, str]:
    client = exchange.client
    return client.key or f"principal:{client.principal}", kind
