"""One `subscriptions/listen` stream: acknowledged first, then tagged changes, then its end."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from mooring.authoring.calls import Call
from mooring.protocol import jsonrpc, meta
from mooring.protocol.subscriptions import Filter

Json = dict[str, Any]


class ListenStream:
    """A listener for as long as its request is open; its id is the id of that request."""

    def __init__(self, call: Call, wish: Filter) -> None:
        self.ended: asyncio.Future[Json] = asyncio.get_running_loop().create_future()
        self._call = call
        self._wish = wish
        self._tag: Json = {meta.SUBSCRIPTION_ID: jsonrpc.id_key(call.id)}

    def acknowledge(self) -> None:
        """Say what will be told."""
        self.tell(
            "notifications/subscriptions/acknowledged", {"notifications": msgspec.to_builtins(self._wish)}
        )

    def wants(self, method: str, uri: str | None) -> bool:
        return self._wish.matches(method, uri)

    def tell(self, method: str, params: Json) -> None:
        self._call.notify(method, {"_meta": self._tag, **params})

    def end(self) -> None:
        """The server stops: end in the orderly way, so that the client may come again."""
        if not self.ended.done():
            self.ended.set_result({"_meta": self._tag})
