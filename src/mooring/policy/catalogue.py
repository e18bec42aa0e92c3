"""What a caller's lists have shown: the only items that a guarded caller can name.

Hidden and missing are one thing only if the gateway itself answers for both. So it knows the list: from the
lists that pass by, or by asking for one when a request names something that was not on any of them.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
from collections import OrderedDict
from collections.abc import Callable, Mapping
from time import monotonic
from typing import Any, Final, cast
from weakref import WeakValueDictionary

import msgspec
from msgspec import Raw

from mooring.errors import RpcError, UpstreamTimedOut
from mooring.gateway.exchange import Exchange, Handler
from mooring.policy.items import PROMPTS, TOOLS, Item, Listing, read_listing
from mooring.protocol import jsonrpc, meta
from mooring.protocol.jsonrpc import Envelope

VIEWS: Final = 10_000
PAGES: Final = 100
LIST_SECONDS: Final = 15.0
ASK_AGAIN_SECONDS: Final = 1.0
"""However often a caller names things that are not there, the server is asked for its list this often."""
_METHODS: Final = {TOOLS: "tools/list", PROMPTS: "prompts/list"}


class Hints(dict[str, Any]):
    """What a server says of the nature of a tool."""

    __slots__ = ("key", "text")

    def __init__(self, given: dict[str, Any]) -> None:
        super().__init__(given)
        self.key = tuple(sorted(map(str, given.items())))
        """Stands for all of it where decisions are remembered."""
        plain = {name: value for name, value in given.items() if isinstance(value, (str, bool))}
        self.text = msgspec.json.encode(plain).decode() if plain else ""
        """What policies can look at, as it is written down."""


_NO_HINTS: Final = Hints({})


def key_of(hints: Mapping[str, Any]) -> tuple[str, ...]:
    return hints.key if isinstance(hints, Hints) else Hints(dict(hints)).key


class Shown:
    """A list as it was given: one object, however many callers were shown the same."""

    __slots__ = ("__weakref__", "digests", "hints", "items")

    def __init__(self, items: dict[str, Item]) -> None:
        self.items = items
        self.hints: dict[str, Hints] = {}
        self.digests: dict[str, str] = {}


Judge = Callable[[Exchange, str], str | None]
"""What a caller knows a tool of the server as; None: they do not see it."""
Lists = WeakValueDictionary[bytes, Shown]
"""By what is in them; one that nobody remembers is forgotten."""


class View:
    """What one caller was shown of one kind."""

    __slots__ = ("_lists", "asked", "pending", "shown")

    def __init__(self, lists: Lists) -> None:
        self._lists = lists
        self.shown = Shown({})
        self.pending: dict[str, Item] | None = None
        self.asked = -ASK_AGAIN_SECONDS

    @property
    def items(self) -> dict[str, Item]:
        return self.shown.items

    def learn(self, listing: Listing) -> None:
        if listing.first_page:
            self.pending = {}
        if self.pending is None:
            return
        self.pending.update((item.name, Item(item.name, item.raw, item.given)) for item in listing.items)
        if listing.last_page:
            key = _content(self.pending)
            found = self._lists.get(key)
            if found is None:
                found = self._lists[key] = Shown(self.pending)
            self.shown, self.pending = found, None

    def digest(self, name: str) -> str:
        """The hash of a definition; empty for what was never listed."""
        shown = self.shown
        item = shown.items.get(name)
        if item is None:  # any name that a client makes up: nothing to remember
            return ""
        found = shown.digests.get(name)
        if found is None:
            found = shown.digests[name] = item.digest
        return found

    def annotations(self, name: str) -> Hints:
        """The hints of a tool as its server gave them."""
        shown = self.shown
        item = shown.items.get(name)
        if item is None:
            return _NO_HINTS
        found = shown.hints.get(name)
        if found is None:
            given = item.value().get("annotations")
            hints = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
            found = shown.hints[name] = Hints(hints)
        return found


def _content(items: dict[str, Item]) -> bytes:
    """The same for lists that say the same, also about what the gateway changed in them."""
    content = hashlib.sha256()
    for item in items.values():
        given = item.given
        parts = (item.raw, b"", b"") if given is None else (item.raw, given.raw, given.note.encode())
        for part in parts:
            content.update(b"%d:" % len(memoryview(part)))
            content.update(part)
        content.update(b"-" if given is None else b"+")
    return content.digest()


class Catalogue:
    """The lists of one server, as its callers were shown them."""

    def __init__(self) -> None:
        self._views: OrderedDict[tuple[str, str], View] = OrderedDict()
        self._lists: Lists = WeakValueDictionary()
        self._asking: dict[View, asyncio.Task[None]] = {}
        self._numbers = itertools.count(1)
        self.judges: list[Judge] = []

    def shown(self, exchange: Exchange, tool: str) -> str | None:
        """What this caller knows a tool as, by everybody who has a say in it; None: they do not see it."""
        name = tool
        for judge in self.judges:
            found = judge(exchange, tool)
            if found is None:
                return None
            if found != tool:
                name = found
        return name

    def view(self, exchange: Exchange, kind: str) -> View:
        client = exchange.client
        key = client.key or f"principal:{client.principal}", kind
        found = self._views.get(key)
        if found is None:
            found = self._views[key] = View(self._lists)
            if len(self._views) > VIEWS:
                self._views.popitem(last=False)
        return found

    def learn(self, exchange: Exchange, listing: Listing) -> None:
        """A list passes by."""
        if listing.kind in _METHODS:
            self.view(exchange, listing.kind).learn(listing)

    def knows(self, exchange: Exchange, kind: str, name: str) -> bool:
        """Whether this is on the caller's list; of what cannot be listed in full, everything may be."""
        return kind not in _METHODS or name in self.view(exchange, kind).shown.items

    async def look_up(self, exchange: Exchange, kind: str, name: str | None, handler: Handler) -> bool:
        """Ask the server for its list, because it may have grown; whether it was asked."""
        if kind not in _METHODS:
            return False
        view = self.view(exchange, kind)
        task = self._asking.get(view)
        if task is None:
            if name in view.items or monotonic() - view.asked < ASK_AGAIN_SECONDS:
                return False
            task = asyncio.get_running_loop().create_task(self._list(exchange, kind, view, handler))
            self._asking[view] = task
            task.add_done_callback(lambda _: self._asking.pop(view, None))
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
        given = meta.entries(jsonrpc.members(exchange.envelope.params))
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
