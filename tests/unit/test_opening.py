"""Claims about calls that are cancelled while their session opens."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

import pytest
from people import Person, call

from mooring.gateway.detection import Verdict
from mooring.gateway.tracing import Tracer
from mooring.gateway.upstream import Upstream, UpstreamPolicy
from mooring.protocol.versions import Era
from mooring.transports.dialing import Folders, Transport
from mooring.transports.wire import Answer, Leg, WireEvents

pytestmark = pytest.mark.anyio
LIMIT_SECONDS = 5
MOST_STEPS = 100
INTRODUCTION = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "serverInfo": {"name": "s", "version": "1"},
}


class Pipes:
    """To a server that introduces itself, and never answers anything else."""

    correlates = False
    label = "pipes"
    version = ""

    def __init__(self) -> None:
        self.called = False
        self.closed = False

    async def request(self, leg: Leg) -> Answer:
        if leg.method == "initialize":
            await asyncio.sleep(0)
            return Answer(version="2025-11-25", result=json.dumps(INTRODUCTION).encode())
        self.called = True
        return await asyncio.get_running_loop().create_future()

    async def send(self, message: bytes) -> None: ...

    async def close(self) -> None:
        self.closed = True


class Dialer:
    transports = (Transport.STDIO,)
    personal = False

    def __init__(self) -> None:
        self.wire = Pipes()

    async def dial(
        self, transport: Transport, events: WireEvents, folders: Folders = (), caller: object = None
    ) -> Pipes:
        return self.wire

    async def close(self) -> None: ...


async def test_a_call_that_is_cancelled_ends_at_whatever_step_of_its_opening_that_is() -> None:
    """Also just as the session is there: on Python 3.11 `asyncio.wait_for` would not hear of it."""
    for steps in range(MOST_STEPS):
        dialer = Dialer()
        pinned = Verdict(Transport.STDIO, Era.LEGACY)
        upstream = Upstream("s", cast("Any", dialer), pinned, UpstreamPolicy(share="call"), Tracer("s"))
        running = asyncio.ensure_future(upstream.call(call({"name": "t"}, client=Person())))
        for _ in range(steps):
            await asyncio.sleep(0)
        was_called = dialer.wire.called
        running.cancel()
        await asyncio.wait({running}, timeout=LIMIT_SECONDS)
        assert running.cancelled(), f"after {steps} steps"
        await upstream.close()
        assert dialer.wire.closed or steps < 2
        if was_called:
            return
    raise AssertionError("the call never began")
