"""What does not pass the chain is watched too: notifications, streams, whoever was not let in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from mooring.gateway.exchange import Client, Exchange
from mooring.gateway.principal import Caller
from mooring.policy.audit.events import SSE_CONNECTION


class Rates(Protocol):
    def admits(self, caller: Caller, method: str) -> bool: ...


class Record(Protocol):
    def notification(self, client: Client, method: str) -> None: ...
    def connection(self, client: Client, kind: str) -> None: ...
    def refused(self, caller: Caller, status: int, reason: str) -> None: ...
    def files(self, caller: Caller, kind: str, status: int, details: dict[str, Any]) -> None: ...
    def drifted(self, exchange: Exchange, details: dict[str, Any]) -> None: ...


class Numbers(Protocol):
    def refused(self, status: int) -> None: ...
    def drifted(self) -> None: ...


class Watch:
    """The guard of one server, for whatever is not a request."""

    def __init__(self) -> None:
        self.audit: Record | None = None
        self.rates: Rates | None = None
        self.metrics: Numbers | None = None
        self.spend: Callable[[Caller, str], Awaitable[None]] | None = None
        """Counts a request that is no exchange against the limits; raises where one is reached."""
        self.may_call: Callable[[Caller, str], bool] | None = None
        """Whether the policies let this caller call this tool."""
        self.may_read: Callable[[Caller, str], bool] | None = None
        """Whether the policies let this caller read this resource."""
        self.troubles: list[Callable[[], str | None]] = []

    @property
    def is_needed(self) -> bool:
        watching = (self.audit, self.rates, self.metrics, self.spend, self.may_call)
        return bool(self.troubles) or any(part is not None for part in watching)

    def reasons(self) -> list[str]:
        """What is wrong with parts of the guard now."""
        return [reason for trouble in self.troubles if (reason := trouble()) is not None]

    def admits(self, client: Client, method: str) -> bool:
        """Whether a notification may go on."""
        if self.rates is not None and not self.rates.admits(client.caller, method):
            return False
        if self.audit is not None:
            self.audit.notification(client, method)
        return True

    def lets_read(self, caller: Caller, uri: str) -> bool:
        """Whether this caller may hear of a resource."""
        return self.may_read is None or self.may_read(caller, uri)

    def connected(self, client: Client) -> None:
        """A stream for changes was opened."""
        if self.audit is not None:
            self.audit.connection(client, SSE_CONNECTION)

    def drifted(self, exchange: Exchange, details: dict[str, Any]) -> None:
        """Tool definitions are not what they were."""
        if self.audit is not None:
            self.audit.drifted(exchange, details)
        if self.metrics is not None:
            self.metrics.drifted()

    def files(self, caller: Caller, kind: str, status: int, details: dict[str, Any]) -> None:
        """A file was sent or fetched, or was meant to be."""
        if self.audit is not None:
            self.audit.files(caller, kind, status, details)

    def refused(self, caller: Caller, status: int, reason: str) -> None:
        """Somebody was not let in."""
        if self.audit is not None:
            self.audit.refused(caller, status, reason)
        if self.metrics is not None:
            self.metrics.refused(status)


class Watches(Watch):
    """Two of them as one: the gateway's, and the one that the server has of its own."""

    def __init__(self, first: Watch, second: Watch) -> None:
        super().__init__()
        self._watches = (first, second)
        self.troubles = [*first.troubles, *second.troubles]
        self.spend = self._spend if first.spend or second.spend else None
        self.may_call = self._may_call if first.may_call or second.may_call else None

    async def _spend(self, caller: Caller, method: str) -> None:
        for watch in self._watches:
            if watch.spend is not None:
                await watch.spend(caller, method)

    def _may_call(self, caller: Caller, tool: str) -> bool:
        return all(watch.may_call is None or watch.may_call(caller, tool) for watch in self._watches)

    def lets_read(self, caller: Caller, uri: str) -> bool:
        return all(watch.lets_read(caller, uri) for watch in self._watches)

    def admits(self, client: Client, method: str) -> bool:
        return all(watch.admits(client, method) for watch in self._watches)

    def connected(self, client: Client) -> None:
        for watch in self._watches:
            watch.connected(client)

    def files(self, caller: Caller, kind: str, status: int, details: dict[str, Any]) -> None:
        for watch in self._watches:
            watch.files(caller, kind, status, details)

    def refused(self, caller: Caller, status: int, reason: str) -> None:
        for watch in self._watches:
            watch.refused(caller, status, reason)
