"""Pinning: the tools that a session was first shown are its baseline, and what differs later is drift."""

from __future__ import annotations

import hashlib
import logging
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Final, Literal

from mooring.errors import FORBIDDEN, RpcError
from mooring.gateway.exchange import Client, Exchange
from mooring.policy.catalogue import Catalogue
from mooring.policy.items import TOOLS, Listing, absent, read_listing, subject
from mooring.policy.pinning.drift import fields
from mooring.policy.pinning.notes import tell, warn
from mooring.protocol import jsonrpc
from mooring.protocol.versions import Era
from mooring.transports.wire import Answer

log = logging.getLogger(__name__)

SESSIONS: Final = 50_000
Report = Callable[[Exchange, dict[str, Any]], None]


class DefinitionsChanged(RpcError):
    """The tools are not those that this session was shown first."""

    code = FORBIDDEN
    by = "pinning and lock"


class Baseline:
    """What one session was shown: a hash for each page, and the definition of each tool."""

    __slots__ = ("complete", "drifted", "names", "pages", "seen", "tools")

    def __init__(self) -> None:
        self.pages: dict[bytes, bytes] = {}
        self.tools: dict[str, dict[str, Any]] = {}
        self.names: dict[str, str | None] = {}
        """Of tools that the session knows by another name: that name; None: it was not shown them."""
        self.complete = False
        self.drifted: dict[str, str] = {}
        self.seen: set[str] = set()


Baselines = OrderedDict[str, Baseline]
"""By the key of the session."""


class Pinning:
    """Compares the lists of one server with what each session saw first. Costs a hash per list."""

    def __init__(
        self,
        mode: Literal["warn", "block"],
        strategy: Literal["error", "baseline_subset"],
        *,
        report: Report,
        end_session: Callable[[Client], None] | None,
        catalogue: Catalogue,
        baselines: Baselines | None = None,
    ) -> None:
        """`baselines` are those of the sessions that were there before."""
        self._mode = mode
        self._strategy = strategy
        self._report = report
        self._end_session = end_session
        self._catalogue = catalogue
        self._baselines: Baselines = OrderedDict() if baselines is None else baselines
        self._shared: dict[bytes, dict[str, dict[str, Any]]] = {}

    def check(self, exchange: Exchange) -> None:
        """A call, in a session whose tools have drifted."""
        if exchange.method != "tools/call" or exchange.client.era is not Era.LEGACY:
            return
        baseline = self._baselines.get(exchange.client.key)
        if baseline is None or not baseline.drifted:
            return
        found = subject(exchange)
        assert found is not None
        if self._strategy == "error":
            raise self._refusal(exchange, baseline)
        if found[1] in baseline.drifted:
            raise absent(exchange, *found, "pinning and lock")

    def settle(self, exchange: Exchange, answer: Answer) -> Answer:
        """A list on its way to a session."""
        if exchange.method != "tools/list" or answer.error or exchange.client.era is not Era.LEGACY:
            return answer  # a client without sessions is what the lock is for
        baseline = self._baseline(exchange)
        members = jsonrpc.members(answer.result)
        digest = hashlib.sha256(members.get(TOOLS, b"")).digest()
        page = bytes(jsonrpc.members(exchange.envelope.params).get("cursor", b""))
        if baseline.pages.get(page) == digest and not baseline.drifted:
            return answer
        listing = read_listing(exchange, answer)
        if listing is None:
            return answer
        if not baseline.complete and page not in baseline.pages:
            self._learn(exchange, baseline, page, digest, listing)
            return answer
        return self._compare(exchange, baseline, listing, answer)

    def _baseline(self, exchange: Exchange) -> Baseline:
        key = exchange.client.key
        found = self._baselines.get(key)
        if found is None:
            found = self._baselines[key] = Baseline()
            if len(self._baselines) > SESSIONS:
                self._baselines.popitem(last=False)
        return found

    def _learn(
        self, exchange: Exchange, baseline: Baseline, page: bytes, digest: bytes, listing: Listing
    ) -> None:
        shared = self._shared.get(digest)
        if shared is None:
            if len(self._shared) > 100:
                self._shared.clear()
            shared = self._shared[digest] = {
                item.name: item.given_value() for item in listing.items if not item.is_own
            }
        # Sessions that were shown the same list share its memory.
        baseline.tools = shared if not baseline.tools else {**baseline.tools, **shared}
        baseline.pages[page] = digest
        baseline.complete = listing.last_page
        if self._catalogue.judges:
            self._catalogue.learn(exchange, listing)  # they may ask what it says about a tool
            given = ((name, self._catalogue.shown(exchange, name)) for name in shared)
            baseline.names |= {name: shown for name, shown in given if shown != name}

    def _compare(self, exchange: Exchange, baseline: Baseline, listing: Listing, answer: Answer) -> Answer:
        self._catalogue.learn(exchange, listing)
        drift = {
            name: why
            for name, why in self._differences(baseline, listing).items()
            if self._name(exchange, baseline, name) is not None
        }
        news = {name: why for name, why in drift.items() if baseline.drifted.get(name) != why}
        baseline.drifted |= drift
        if not baseline.drifted:
            return answer
        if news:
            self._announce(exchange, baseline, news)
        if self._mode == "block" and self._strategy == "error":
            if self._end_session is not None:
                self._end_session(exchange.client)
            raise self._refusal(exchange, baseline)
        if self._mode == "block":
            listing.items = [item for item in listing.items if item.name not in baseline.drifted]
        else:
            for item in listing.items:
                if item.name in drift:
                    warn(item, f"this tool is not as it was when the session began: {drift[item.name]}")
            exchange.given = {item.name: item.given for item in listing.items if item.given is not None}
        return Answer(version=answer.version, result=listing.encode(), status=answer.status)

    def _differences(self, baseline: Baseline, listing: Listing) -> dict[str, str]:
        found: dict[str, str] = {}
        if listing.first_page:
            baseline.seen = set()
        for item in listing.items:
            if item.is_own:
                continue
            baseline.seen.add(item.name)
            known = baseline.tools.get(item.name)
            if known is None:
                found[item.name] = "it is new"
            elif changed := fields(known, item.given_value()):
                found[item.name] = f"changed: {', '.join(changed)}"
        if listing.last_page:
            found |= {name: "it is gone" for name in baseline.tools if name not in baseline.seen}
        return found

    def _name(self, exchange: Exchange, baseline: Baseline, tool: str) -> str | None:
        """What the session knows a tool as; None: it never saw it, so that its changes are no news to it."""
        known = baseline.names.get(tool, tool) if tool in baseline.tools else None
        return known or self._catalogue.shown(exchange, tool)

    def _told(self, exchange: Exchange, baseline: Baseline, drift: dict[str, str]) -> dict[str, str]:
        return {self._name(exchange, baseline, name) or name: why for name, why in drift.items()}

    def _announce(self, exchange: Exchange, baseline: Baseline, news: dict[str, str]) -> None:
        words = "; ".join(f"`{name}`: {why}" for name, why in sorted(news.items()))
        log.warning("%s: tool definitions changed during a session: %s", exchange.server.id, words)
        told = {"tools": self._told(exchange, baseline, news)}
        tell(exchange, "tool definitions have changed since this session began", told)
        self._report(exchange, {"drift": news, "mode": self._mode})

    def _refusal(self, exchange: Exchange, baseline: Baseline) -> DefinitionsChanged:
        return DefinitionsChanged(
            "the server's tools have changed since this session began; start a new session to accept them",
            data={"tools": self._told(exchange, baseline, baseline.drifted)},
        )
