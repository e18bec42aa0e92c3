"""What a legacy client hears of: log messages from which level on, changes of lists, updates of resources."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Final

import msgspec

from mooring.errors import InvalidParams, MethodNotFound, RpcError, UpstreamFailed
from mooring.gateway.clients import LEVELS, LegacyClient
from mooring.gateway.exchange import Exchange
from mooring.gateway.legacy_session import LegacySession
from mooring.gateway.upstream import Upstream
from mooring.protocol import meta
from mooring.transports.wire import Answer

MAX_SUBSCRIPTIONS: Final = 1_000
REATTACH_SECONDS: Final = (0.5, 30.0)
"""First and longest wait before a lost subscription is tried again."""


class Hearing:
    """The wishes of one server's clients, put to its sessions."""

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._tasks: set[asyncio.Task[None]] = set()

    async def set_level(self, exchange: Exchange) -> Answer:
        client = exchange.client
        assert isinstance(client, LegacyClient)
        level = meta.text(exchange.read_params().level)
        if level not in LEVELS:
            raise InvalidParams(f"`level` must be one of {', '.join(LEVELS)}")
        found = await self._upstream.learn(client)
        if found.capability("logging") is None:
            raise MethodNotFound("the server does not support logging")
        client.set_level(level)
        session = await self._upstream.session_for(client)
        if isinstance(session, LegacySession) and session.owner is client:
            return await self._upstream.call(exchange)
        if isinstance(session, LegacySession):
            # Shared: the server is as verbose as anybody needs, and each client gets its own level's worth.
            await session.request("logging/setLevel", b'{"level":"debug"}')
        return Answer(version=client.version, result=b"{}")

    async def change_subscription(self, exchange: Exchange) -> Answer:
        client = exchange.client
        assert isinstance(client, LegacyClient)
        uri = meta.text(exchange.read_params().uri)
        if uri is None:
            raise InvalidParams("`uri` must be a string")
        found = await self._upstream.learn(client)
        if not found.flag("resources", "subscribe"):
            raise MethodNotFound("the server does not support subscriptions")
        session = await self._upstream.session_for(client)
        uris = [known for known in client.wants.resource_subscriptions if known != uri]
        if exchange.method == "resources/subscribe":
            uris.append(uri)
        if len(uris) > MAX_SUBSCRIPTIONS:
            raise InvalidParams(f"a session has at most {MAX_SUBSCRIPTIONS} subscriptions")
        client.wants = msgspec.structs.replace(client.wants, resource_subscriptions=tuple(uris))
        client.on_detached = partial(self._reattach_soon, client)
        granted = await session.subscribe(client)
        if exchange.method == "resources/subscribe" and uri not in granted.resource_subscriptions:
            # What it wants may have changed meanwhile: only this one goes.
            left = tuple(known for known in client.wants.resource_subscriptions if known != uri)
            client.wants = msgspec.structs.replace(client.wants, resource_subscriptions=left)
            raise InvalidParams(f"the server refused the subscription to `{uri}`")
        return Answer(version=client.version, result=b"{}")

    async def attach(self, client: LegacyClient) -> None:
        """From now on this client hears of changes; once the server is there, if it is not."""
        try:
            await self._attach(client)
        except UpstreamFailed:
            self._reattach_soon(client)

    async def _attach(self, client: LegacyClient) -> None:
        session = await self._upstream.session_for(client)
        if client not in session.subscribers and not client.closed:
            client.on_detached = partial(self._reattach_soon, client)
            await session.subscribe(client)

    def _reattach_soon(self, client: LegacyClient) -> None:
        task = asyncio.get_running_loop().create_task(self._reattach(client))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _reattach(self, client: LegacyClient) -> None:
        """No session tells this client of changes, or no longer: find it one, as long as it listens."""
        wait, longest = REATTACH_SECONDS
        while True:
            await asyncio.sleep(wait)
            if client.closed or not (client.is_listening or client.wants.resource_subscriptions):
                return
            try:
                await self._attach(client)
            except RpcError:
                wait = min(wait * 2, longest)
            else:
                return

    def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
