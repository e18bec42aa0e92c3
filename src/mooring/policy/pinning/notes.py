"""What a warning looks like: a line before a tool's description, a message to the client, an audit event."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from mooring.gateway.exchange import Exchange, Given
from mooring.policy.items import Item
from mooring.protocol import jsonrpc

MARK: Final = "[mooring] "


def warn(item: Item, words: str) -> None:
    """Put a line of ours before the description; it is added last, so that no limit cuts it. What the server
    itself said stays known: our line is no change of its."""
    description = item.value().get("description")
    text = f"{MARK}{words}"
    known = item.given or Given(bytes(item.raw))
    item.given = Given(known.raw, f"{known.note}\n{text}" if known.note else text)
    item.replace(description=f"{text}\n{description}" if isinstance(description, str) else text)


def tell(exchange: Exchange, words: str, data: dict[str, Any]) -> None:
    """A log message to the client, if it wants any."""
    client = exchange.client
    if not client.wants_log("warning"):
        return
    params = {"level": "warning", "logger": "mooring", "data": {"message": words, **data}}
    message = jsonrpc.notification("notifications/message", msgspec.json.encode(params))
    if exchange.sink is not None:
        exchange.emit(message)
    else:
        client.push(message)
