"""Our own `subscriptions/listen` with a modern server: one stream for everybody who wants to hear of
changes."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Final, Protocol

import msgspec

from mooring.errors import RpcError
from mooring.protocol import jsonrpc, meta, subscriptions
from mooring.protocol.jsonrpc import Envelope
from mooring.protocol.subscriptions import Filter

LISTEN_RETRY_SECONDS: Final = (0.5, 30.0)
"""First and longest wait before a broken stream is opened again."""
ACKNOWLEDGED_SECONDS: Final = 10.0


class ListeningSession(Protocol):
    """The session whose stream this is."""

    lost: str | None

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]: ...
    def on_noise(self, data: bytes, why: str) -> None: ...
    def heard_change(self, envelope: Envelope) -> None: ...
    async def listen(self, wish: Filter, listening: Listening) -> None: ...


class Listening:
    """Our listen stream to a server, opened again when it breaks."""

    def __init__(self, session: ListeningSession, wish: Filter) -> None:
        self.wish = wish
        self.granted = subscriptions.NOTHING
        self._session = session
        self._acknowledged = asyncio.Event()
        self._refused = False
        self.task = session.spawn(self._run())

    async def acknowledged(self) -> Filter:
        try:
            async with asyncio.timeout(ACKNOWLEDGED_SECONDS):
                await self._acknowledged.wait()
        except TimeoutError:
            self._session.on_noise(b"", "the server did not acknowledge `subscriptions/listen`")
        return self.granted

    def take(self, envelope: Envelope) -> bool:
        """On a shared channel: whether this belongs to the stream."""
        if (
            envelope.method == "notifications/subscriptions/acknowledged"
            or meta.read_meta(meta.read_params(envelope.params)).subscription_id
        ):
            self.heard(envelope)
            return True
        return False

    def heard(self, envelope: Envelope) -> None:
        if envelope.method == "notifications/subscriptions/acknowledged":
            raw = jsonrpc.members(envelope.params).get("notifications", b"{}")
            try:
                self.granted = msgspec.json.decode(raw, type=Filter)
            except msgspec.DecodeError:
                self.granted = self.wish
            self._acknowledged.set()
        elif envelope.method in subscriptions.CHANGES:
            self._session.heard_change(envelope)

    def refused(self) -> None:
        self._refused = True
        self._acknowledged.set()

    async def _run(self) -> None:
        wait, longest = LISTEN_RETRY_SECONDS
        while not self._refused:
            try:
                await self._session.listen(self.wish, self)
                wait = LISTEN_RETRY_SECONDS[0]
            except RpcError as error:
                self._session.on_noise(b"", f"`subscriptions/listen` broke: {error}")
            if self._session.lost is not None or self._refused:
                self._acknowledged.set()
                return
            await asyncio.sleep(wait)
            wait = min(wait * 2, longest)
