"""The coarse clock: never early, and forgiving when our own process stood still."""

from __future__ import annotations

import asyncio
import time

import pytest
from http_edge_tools import until

from mooring.transports.http_client import ClientPool, Origin
from mooring.transports.http_sweep import LOOKS_PER_SECOND, NEVER, SWEEP_SECONDS, Sweep, shared_sweep

pytestmark = pytest.mark.anyio


class Member:
    def __init__(self, sweep: Sweep) -> None:
        self.sweep = sweep
        self.deadline = NEVER
        self.passed_at: float | None = None

    def deadline_passed(self) -> None:
        self.passed_at = time.monotonic()
        self.sweep.discard(self)


async def test_a_deadline_is_never_early_and_not_much_late() -> None:
    for offset in (0.1, 0.35, 0.6):
        sweep = Sweep()
        member, companion = Member(sweep), Member(sweep)
        sweep.add(companion)
        await asyncio.sleep(offset)
        start = time.monotonic()
        member.deadline = sweep.clock + 0.5
        sweep.add(member)
        await until(lambda member=member: member.passed_at is not None, 5)
        assert member.passed_at is not None
        assert 0.49 <= member.passed_at - start < 0.5 + 6 * SWEEP_SECONDS
        sweep.discard(companion)


async def test_a_stall_of_our_own_does_not_count_against_the_peers() -> None:
    sweep = Sweep()
    member = Member(sweep)
    sweep.add(member)
    member.deadline = sweep.clock + 1.5
    await asyncio.sleep(0.3)
    time.sleep(2.0)
    await asyncio.sleep(0.3)
    assert member.passed_at is None
    await until(lambda: member.passed_at is not None, 5)


async def test_the_timer_stops_when_there_is_nothing_to_watch() -> None:
    sweep = Sweep()
    member = Member(sweep)
    sweep.add(member)
    sweep.discard(member)
    await until(lambda: sweep._timer is None, 3)
    assert member.passed_at is None
    member.deadline = sweep.clock
    sweep.add(member)
    await until(lambda: member.passed_at is not None, 3)


async def test_among_thousands_a_deadline_is_never_early_and_passes_too() -> None:
    sweep = Sweep()
    crowd = [Member(sweep) for _ in range(2 * LOOKS_PER_SECOND)]
    for each in crowd:
        sweep.add(each)
    before = sweep.clock
    await until(lambda: sweep.clock > before, 5)
    member = Member(sweep)
    start = time.monotonic()
    member.deadline = sweep.clock + 0.1
    sweep.add(member)
    await until(lambda: member.passed_at is not None, 10)
    assert member.passed_at is not None
    assert member.passed_at - start >= 0.09
    assert all(each.passed_at is None for each in crowd)
    for each in crowd:
        sweep.discard(each)


async def test_a_thousand_clients_of_one_loop_have_one_timer() -> None:
    clients = [ClientPool(Origin("http", "127.0.0.1", port)) for port in range(2000, 3000)]
    assert {client.sweep for client in clients} == {shared_sweep()}


async def test_every_loop_has_a_clock_of_its_own() -> None:
    async def ask() -> Sweep:
        return shared_sweep()

    other = await asyncio.to_thread(lambda: asyncio.run(ask()))
    assert other is not shared_sweep()
