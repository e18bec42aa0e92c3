"""One `subscriptions/listen` stream of a modern client: acknowledged first, then tagged changes, then its
end."""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec
from msgspec import Raw

from mooring.gateway.exchange import Exchange
from mooring.gateway.principal import Caller
from mooring.protocol import jsonrpc, meta
from mooring.protocol.subscriptions import Filter

MAX_EARLY: Final = 1_000
"""Changes that come in before we could say what will be delivered."""


class ListenStream:
    """A subscriber for as long as its request is open. Its id is the id of that request."""

    def __init__(self, exchange: Exchange, wish: Filter) -> None:
        self.wants = wish
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._exchange = exchange
        self._id = bytes(exchange.envelope.id)
        self._acknowledged = False
        self._early: list[tuple[str, Raw | bytes]] = []

    @property
    def principal(self) -> str:
        return self._exchange.client.principal

    @property
    def caller(self) -> Caller:
        """Who opened it, with which credential."""
        return self._exchange.caller

    def acknowledge(self, granted: Filter) -> None:
        """Say what will be delivered; what came in before that may only follow it."""
        self.wants = granted
        params = jsonrpc.assemble(
            {
                "_meta": jsonrpc.assemble({meta.SUBSCRIPTION_ID: self._id}),
                "notifications": msgspec.json.encode(granted),
            }
        )
        self._exchange.emit(jsonrpc.notification("notifications/subscriptions/acknowledged", params))
        self._acknowledged = True
        for method, early in self._early:
            self.deliver(method, early)

    def deliver(self, method: str, params: Raw | bytes) -> None:
        if not self._acknowledged:
            if len(self._early) < MAX_EARLY:
                self._early.append((method, params))
            return
        tagged = meta.with_meta(params, meta.SUBSCRIPTION_ID, self._id)
        self._exchange.emit(jsonrpc.notification(method, tagged))

    def end(self, reason: str) -> None:
        """The server is gone: end the stream in the orderly way, so that the client may open another."""
        del reason
        if not self.ended.done():
            self.ended.set_result(None)

    def closing_result(self) -> bytes:
        stamp = jsonrpc.assemble({meta.SUBSCRIPTION_ID: self._id})
        return jsonrpc.assemble({"resultType": b'"complete"', "_meta": stamp})
