"""Tools that can be called during office hours only: an example of a Mooring plug-in.

The package names `make` in the entry point group `mooring.middleware`; `mooring.yaml` puts it into the chain:

    plugins:
      - {name: office-hours, settings: {from: "9", to: "17"}}
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from mooring.errors import FORBIDDEN, RpcError
from mooring.gateway.exchange import Exchange, Handler, Middleware
from mooring.transports.wire import Answer


def make(server_id: str, settings: Mapping[str, str]) -> Middleware:
    """One middleware for each server; `settings` is what the configuration says."""
    first, last = int(settings.get("from", "9")), int(settings.get("to", "17"))

    async def office_hours(exchange: Exchange, handler: Handler) -> Answer | None:
        hour = datetime.now().astimezone().hour
        if exchange.method == "tools/call" and not first <= hour < last:
            raise RpcError(f"`{server_id}` is open from {first} to {last} o'clock", code=FORBIDDEN)
        return await handler(exchange)

    return office_hours
