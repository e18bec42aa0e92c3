"""Counting requests: rates by the generic cell rate algorithm, and how many run at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from time import monotonic
from types import MappingProxyType
from typing import Final

from mooring.errors import TooMuch
from mooring.gateway.exchange import Exchange
from mooring.gateway.principal import Caller
from mooring.policy.gcra import Gcra
from mooring.policy.limits.rules import NEVER_LIMITED, Limit
from mooring.protocol import meta
from mooring.transports.wire import Answer

NO_NAMES: Final[Mapping[str, str]] = MappingProxyType({})


def tool_of(exchange: Exchange) -> str:
    """What its client calls it."""
    if exchange.method != "tools/call":
        return ""
    if exchange.asked is None:
        return exchange.read_name() or ""
    return meta.text(meta.read_params(exchange.asked).name) or ""


class Rates:
    """Rate limits of one gateway, kept in memory."""

    def __init__(self, limits: Sequence[Limit]) -> None:
        self._limits = [
            (limit, Gcra(limit.count, limit.seconds, limit.burst or limit.count)) for limit in limits
        ]

    def spend(self, server: str, caller: Caller, method: str, tool: str, own: str = "") -> None:
        """Take one from each allowance, or none of them and `TooMuch`."""
        now = monotonic()
        spent: list[tuple[Gcra, str]] = []
        for limit, gcra in self._limits:
            key = limit.key(server, caller, method, tool, own)
            if key is None:
                continue
            wait = gcra.wait(key, now)
            if wait > 0:
                for other, name in spent:
                    other.give_back(name)
                raise TooMuch(f"the limit `{limit.name}` is reached", wait)
            spent.append((gcra, key))


class ServerRates:
    """The rates, for the exchanges of one server."""

    def __init__(self, rates: Rates, server_id: str, own_names: Mapping[str, str] = NO_NAMES) -> None:
        """`own_names` are the server's own names of tools that clients know by others."""
        self._rates = rates
        self._server_id = server_id
        self._own = own_names

    def check(self, exchange: Exchange) -> None:
        tool = tool_of(exchange)
        own = self._own.get(tool, "")
        self._rates.spend(self._server_id, exchange.caller, exchange.method, tool, own)

    async def spend(self, caller: Caller, method: str) -> None:
        """Count what is no exchange; `TooMuch` if it is too much."""
        self._rates.spend(self._server_id, caller, method, "")

    def admits(self, caller: Caller, method: str) -> bool:
        """Whether a notification may pass."""
        if method in NEVER_LIMITED:
            return True
        try:
            self._rates.spend(self._server_id, caller, method, "")
        except TooMuch:
            return False
        return True


class Concurrency:
    """How many exchanges run at once, over all servers."""

    def __init__(self, limits: Sequence[Limit]) -> None:
        self._limits = tuple(limits)
        self._running: dict[str, int] = {}

    def enter(self, server: str, caller: Caller, method: str, tool: str, own: str = "") -> list[str]:
        """One more; or `TooMuch`."""
        concerned = self._concerned(server, caller, method, tool, own)
        for limit, key in concerned:
            if self._running.get(key, 0) >= limit.count:
                raise TooMuch(f"{limit.count} requests are running already (`{limit.name}`)", 1.0)
        return self._count([key for _, key in concerned])

    def go_on(self, server: str, caller: Caller, method: str, tool: str, own: str = "") -> list[str]:
        """One more that has been let in before."""
        return self._count([key for _, key in self._concerned(server, caller, method, tool, own)])

    def _concerned(
        self, server: str, caller: Caller, method: str, tool: str, own: str
    ) -> list[tuple[Limit, str]]:
        keys = ((limit, limit.key(server, caller, method, tool, own)) for limit in self._limits)
        return [(limit, key) for limit, key in keys if key is not None]

    def _count(self, keys: list[str]) -> list[str]:
        for key in keys:
            self._running[key] = self._running.get(key, 0) + 1
        return keys

    def leave(self, keys: list[str]) -> None:
        for key in keys:
            left = self._running[key] - 1
            if left:
                self._running[key] = left
            else:
                del self._running[key]


class ServerConcurrency:
    """The same, for the exchanges of one server: counted while they run."""

    def __init__(
        self, concurrency: Concurrency, server_id: str, own_names: Mapping[str, str] = NO_NAMES
    ) -> None:
        self._concurrency = concurrency
        self._server_id = server_id
        self._own = own_names
        self._entered: dict[Exchange, list[str]] = {}

    def check(self, exchange: Exchange) -> None:
        if exchange.method == "subscriptions/listen":
            return  # a stream that waits does no work
        self._entered[exchange] = self._concurrency.enter(*self._told(exchange))

    def _told(self, exchange: Exchange) -> tuple[str, Caller, str, str, str]:
        tool = tool_of(exchange)
        return self._server_id, exchange.caller, exchange.method, tool, self._own.get(tool, "")

    def began(self, exchange: Exchange) -> None:
        """It counts from the moment its check has passed. A call that goes on as a task counts on with it."""
        if exchange.guarded:
            self._entered[exchange] = self._concurrency.go_on(*self._told(exchange))

    def ended(self, exchange: Exchange, answer: Answer | None) -> Answer | None:
        self._leave(exchange)
        return answer

    def failed(self, exchange: Exchange, error: BaseException) -> None:
        del error
        self._leave(exchange)

    def _leave(self, exchange: Exchange) -> None:
        keys = self._entered.pop(exchange, None)
        if keys:
            self._concurrency.leave(keys)
