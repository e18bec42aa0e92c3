"""Claims about what legacy clients hear of."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from people import call

from mooring.errors import InvalidParams
from mooring.gateway.clients import LegacyClient
from mooring.gateway.exchange import Exchange
from mooring.gateway.hearing import Hearing
from mooring.gateway.tracing import Tracer
from mooring.protocol.subscriptions import Filter

pytestmark = pytest.mark.anyio
LIMIT_SECONDS = 5


class Refusing:
    """A server, and the session with it, that refuses `secret://` when it is told to go on."""

    def __init__(self) -> None:
        self.may_go_on = asyncio.Event()

    async def learn(self, client: LegacyClient) -> Refusing:
        return self

    async def session_for(self, client: LegacyClient) -> Refusing:
        return self

    def flag(self, kind: str, name: str) -> bool:
        return True

    async def subscribe(self, client: LegacyClient) -> Filter:
        wish = client.wants
        await self.may_go_on.wait()
        return Filter(
            resource_subscriptions=tuple(u for u in wish.resource_subscriptions if u != "secret://")
        )


def subscription(client: LegacyClient, uri: str) -> Exchange:
    return call({"uri": uri}, method="resources/subscribe", client=cast("Any", client))


async def test_a_refused_subscription_costs_no_other_that_was_made_meanwhile() -> None:
    server = Refusing()
    hearing = Hearing(cast("Any", server))
    client = LegacyClient(b"id", Tracer("files"), alias="a")
    wishes = [subscription(client, uri) for uri in ("secret://", "item://1")]
    both = [asyncio.create_task(hearing.change_subscription(wish)) for wish in wishes]
    await asyncio.sleep(0)
    server.may_go_on.set()
    async with asyncio.timeout(LIMIT_SECONDS):
        refused, granted = await asyncio.gather(*both, return_exceptions=True)
    assert isinstance(refused, InvalidParams)
    assert not isinstance(granted, BaseException)
    assert client.wants.resource_subscriptions == ("item://1",)
