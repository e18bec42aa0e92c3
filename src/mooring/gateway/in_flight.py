"""How many calls one session may have running: counted until they have ended, however they are answered."""

from __future__ import annotations

from mooring.errors import TooMuch
from mooring.gateway.exchange import ANONYMOUS, Exchange, Handler
from mooring.transports.wire import Answer


class InFlightLimit:
    """A link of the chain. Anonymous modern callers cannot be told apart, and are not counted."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._running: dict[str, int] = {}

    async def __call__(self, exchange: Exchange, handler: Handler) -> Answer | None:
        client = exchange.client
        key = client.key or (client.principal if client.principal != ANONYMOUS else "")
        if not key or exchange.method != "tools/call":
            return await handler(exchange)
        running = self._running.get(key, 0)
        if running >= self._most and not exchange.guarded:  # a task was let in with the call that began it
            raise TooMuch(f"this session has {self._most} calls running already", 1.0)
        self._running[key] = running + 1
        try:
            return await handler(exchange)
        finally:
            left = self._running[key] - 1
            if left:
                self._running[key] = left
            else:
                del self._running[key]
