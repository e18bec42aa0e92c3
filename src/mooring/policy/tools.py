"""Which tools of a server are shown, and under which name; lists and calls ask the same rules."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

from msgspec import Raw, Struct, field
from msgspec.json import encode

from mooring.gateway.exchange import Exchange
from mooring.policy.items import TOOLS, Item, Listing, absent, set_params, subject
from mooring.protocol import jsonrpc


class Override(Struct, frozen=True):
    """How a tool is presented; None leaves a part as the server gave it."""

    name: str | None = None
    description: str | None = None
    title: str | None = None
    annotations: Mapping[str, Any] = field(default_factory=dict[str, Any])


class ToolRules:
    """Allow, deny and override of one server. Patterns may use `*`, `?` and `[...]`; case matters.

    `own` tools are those that the gateway adds: they need not be allowed, but can be denied.
    """

    def __init__(
        self,
        allow: Sequence[str],
        deny: Sequence[str],
        overrides: Mapping[str, Override],
        own: Collection[str] = (),
        deny_regexes: Sequence[str] = (),
    ) -> None:
        self._deny_regexes = tuple(re.compile(text) for text in deny_regexes)
        self._allow = tuple(allow)
        self._own = frozenset(own)
        self._deny = tuple(deny)
        self._overrides = dict(overrides)
        self._renamed = {entry.name: actual for actual, entry in overrides.items() if entry.name}
        self._decided: dict[str, str | None] = {}

    def shown(self, actual: str) -> str | None:
        """What clients call this tool of the server; None: they do not see it."""
        if actual not in self._decided:
            if len(self._decided) > 10_000:
                self._decided.clear()
            self._decided[actual] = self._decide(actual)
        return self._decided[actual]

    def _decide(self, actual: str) -> str | None:
        override = self._overrides.get(actual)
        name = (override.name if override is not None else None) or actual
        if self._renamed.get(name, actual) != actual:
            return None  # another tool was given its name
        names = {actual, name}
        if any(_matches(names, pattern) for pattern in self._deny):
            return None
        if any(pattern.fullmatch(each) for pattern in self._deny_regexes for each in names):
            return None
        if actual in self._own:  # `allow` speaks of the server's tools
            return name
        if self._allow and not any(_matches(names, pattern) for pattern in self._allow):
            return None
        return name

    def actual(self, shown: str) -> str | None:
        """The server's own name of a tool that clients call so; None: there is no such tool for them."""
        candidate = self._renamed.get(shown, shown)
        return candidate if self.shown(candidate) == shown else None

    # In the chain

    def check(self, exchange: Exchange) -> None:
        """A call of a tool: by its shown name only, and from here on by the server's own."""
        if exchange.method != "tools/call":
            return
        found = subject(exchange)
        assert found is not None
        actual = self.actual(found[1])
        if actual is None:
            raise absent(exchange, TOOLS, found[1], "filter and override")
        if actual != found[1]:
            parts = jsonrpc.members(exchange.envelope.params)
            parts["name"] = Raw(encode(actual))
            exchange.known_as = found[1]
            set_params(exchange, parts)

    def present(self, exchange: Exchange, listing: Listing) -> None:
        """A list: without what is hidden, with what is presented otherwise."""
        del exchange
        if listing.kind != TOOLS:
            return
        kept: list[Item] = []
        for item in listing.items:
            name = self.shown(item.name)
            if name is not None:
                self._change(item, name)
                kept.append(item)
        listing.items = kept

    def _change(self, item: Item, name: str) -> None:
        override = self._overrides.get(item.name)
        if override is None:
            return
        members: dict[str, object] = {}
        if name != item.name:
            members["name"] = name
        if override.description is not None:
            note = item.given.note if item.given is not None else ""
            members["description"] = f"{override.description}\n\n{note}" if note else override.description
        if override.title is not None:
            members["title"] = override.title
        if override.annotations:
            given = item.value().get("annotations")
            members["annotations"] = {**(given if isinstance(given, dict) else {}), **override.annotations}
        item.replace(**members)
        item.name = name


def _matches(names: set[str], pattern: str) -> bool:
    return pattern in names or any(fnmatchcase(name, pattern) for name in names)
