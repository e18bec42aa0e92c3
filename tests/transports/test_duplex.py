"""What a channel that everything shares remembers of calls that were given up."""

from __future__ import annotations

import asyncio
import json
import tracemalloc

import pytest

from mooring.protocol.jsonrpc import Envelope
from mooring.transports.duplex import UNANSWERED_KEPT, DuplexWire
from mooring.transports.wire import Leg


class Events:
    tracing = False

    def on_traffic(self, direction: str, data: bytes) -> None: ...
    def on_unsolicited(self, envelope: Envelope, data: bytes) -> None: ...
    def on_noise(self, data: bytes, why: str) -> None: ...
    def on_lost(self, reason: str) -> None: ...


class Wire(DuplexWire):
    """To a server that answers when the test wants it."""

    def __init__(self) -> None:
        super().__init__(Events(), "test")
        self.last = 0

    async def write(self, message: bytes) -> None:
        self.last = json.loads(message).get("id", self.last)

    async def close(self) -> None: ...

    async def give_up_one(self) -> int:
        """Begin a call and cancel it; its number."""
        call = asyncio.ensure_future(self.request(Leg("tools/call", b"{}", lambda _envelope, _data: None)))
        await asyncio.sleep(0)  # it is sent
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        return self.last

    def answer(self, number: int) -> None:
        self.receive(b'{"jsonrpc":"2.0","id":%d,"result":{}}' % number)


def test_a_server_may_work_on_a_cancelled_call_until_it_has_answered_all_of_them() -> None:
    async def talk() -> None:
        wire = Wire()
        assert not wire.has_given_up
        numbers = [await wire.give_up_one() for _ in range(UNANSWERED_KEPT)]
        for number in numbers:
            assert wire.has_given_up
            assert wire.gave_up_lately
            wire.answer(number)
        assert not wire.has_given_up

    asyncio.run(talk())


def test_calls_that_are_no_longer_remembered_still_count() -> None:
    async def talk() -> None:
        wire = Wire()
        numbers = [await wire.give_up_one() for _ in range(UNANSWERED_KEPT + 1)]
        for number in numbers[1:]:
            wire.answer(number)
        wire.answer(numbers[-1])  # twice: that says nothing of the others
        assert wire.has_given_up

    asyncio.run(talk())


def test_cancelled_calls_that_are_never_answered_cost_no_memory() -> None:
    """As the specification wants it: a server does not answer what was cancelled."""

    async def talk() -> int:
        wire = Wire()
        for _ in range(2 * UNANSWERED_KEPT):
            await wire.give_up_one()
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            for _ in range(4 * UNANSWERED_KEPT):
                await wire.give_up_one()
            return tracemalloc.get_traced_memory()[0] - before
        finally:
            tracemalloc.stop()

    assert asyncio.run(talk()) < 16 * UNANSWERED_KEPT
