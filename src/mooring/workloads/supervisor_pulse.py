"""Whether a workload lives: a session of our own that greets it, and pings when nobody else calls."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Final

from mooring.errors import UpstreamFailed
from mooring.gateway.clients import LegacyClient
from mooring.gateway.detection import PROBE
from mooring.gateway.legacy_session import OWN_INFO, LegacySession
from mooring.gateway.server import Server
from mooring.gateway.upstream_session import UpstreamSession
from mooring.protocol import routing_headers
from mooring.protocol.jsonrpc import Envelope
from mooring.protocol.versions import LATEST_LEGACY, LATEST_MODERN
from mooring.transports.dialing import Transport
from mooring.transports.http_client import Origin
from mooring.transports.wire import Leg

PING_SECONDS: Final = 20.0
"""After so long without a sign of life we ask for one."""
ANSWER_SECONDS: Final = 5.0
_ALIAS: Final = "supervisor"


class Pulse:
    """Our own ear at one server."""

    def __init__(self, server: Server, *, shared: bool, knock_at: Callable[[], str | None]) -> None:
        self._server = server
        self._shared = shared
        self._knock_at = knock_at
        client = LegacyClient(b"", server.tracer, alias=_ALIAS)
        client.introduce(LATEST_LEGACY, b"{}", OWN_INFO)
        self._client = client

    async def greet(self) -> None:
        """Open a session, so that we know that it can be; UpstreamFailed or OSError if it cannot."""
        url = self._knock_at()
        if url is None:
            await self._server.upstream.session_for(self._client)
        else:
            await _knock(url)

    async def ask(self) -> None:
        """A ping on whatever session is open; UpstreamFailed if there is no answer."""
        session = next((found for found in self._server.upstream.sessions if found.lost is None), None)
        if session is None:
            await self.greet()
            return
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await _ping(session)
        except TimeoutError:
            raise UpstreamFailed(f"no answer to a ping within {ANSWER_SECONDS:g} s") from None

    def make_room(self) -> None:
        """Our own process is one too many once a client has its own."""
        upstream = self._server.upstream
        if (
            self._shared
            or upstream.session_count < 2
            or upstream.verdicts[0].transport is not Transport.STDIO
        ):
            return
        own = next((found for found in upstream.sessions if found.owner is self._client), None)
        if own is not None and own.idle:
            upstream.discard(own, "a client has its own process")


async def _knock(url: str) -> None:
    """Somebody accepts connections: all we can learn where only users are let in."""
    origin = Origin.of(url)
    async with asyncio.timeout(ANSWER_SECONDS):
        _, writer = await asyncio.open_connection(origin.host, origin.port)
    writer.close()
    with suppress(OSError):
        await writer.wait_closed()


async def _ping(session: UpstreamSession) -> None:
    """Any answer is a sign of life, also one that says there is no such method."""
    if isinstance(session, LegacySession):
        await session.request("ping")
        return
    leg = Leg("server/discover", PROBE, _ignore)
    if session.wire.correlates:
        leg.headers = routing_headers.write(LATEST_MODERN, "server/discover", None)
    await session.wire.request(leg)


def _ignore(_envelope: Envelope, _data: bytes) -> None:
    """Nothing that the server says meanwhile is for us."""
