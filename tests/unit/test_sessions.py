"""Claims about the life of legacy sessions; the clock is an argument."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.errors import SessionGone
from mooring.gateway.clients import STANDALONE, LegacyClient
from mooring.gateway.principal import NOBODY
from mooring.gateway.server import Server
from mooring.gateway.sessions import KEEP_ALIVE_SECONDS, SessionTable
from mooring.gateway.tracing import Tracer
from mooring.transports.sealing import Seal

TTL = 10.0
SWEEP = 0.25


class Place:
    """As much of a server as a session needs."""

    session_idle_seconds: float | None = None

    def __init__(self) -> None:
        self.id = "s"
        self.tracer = Tracer("s")
        self.left: list[LegacyClient] = []
        self.session_idle_seconds: float | None = None

    async def detach(self, client: LegacyClient) -> None:
        self.left.append(client)


def new_table() -> tuple[SessionTable, Server, Place]:
    place = Place()
    return SessionTable(Seal(bytes(32)), TTL), cast("Server", place), place


def first_expiry(table: SessionTable, start: float, until: float) -> tuple[float, list[LegacyClient]]:
    now = start
    while now < until:
        if named := table.sweep(now):
            return now, named
        now += SWEEP
    return now, []


@given(
    start=st.floats(0.5, 1e7),
    visits=st.lists(st.floats(0.0, TTL - 0.5), max_size=5),
)
def test_a_session_ends_within_a_second_after_its_time_and_never_before(
    start: float, visits: list[float]
) -> None:
    table, server, _ = new_table()
    table.sweep(start)
    client = table.create(server, start)
    now = start
    for pause in visits:
        at, named = first_expiry(table, now, now + pause)
        assert named == [], f"ended at {at - now} of {TTL} s"
        now += pause
        assert table.find(client.session_id, server, NOBODY, now) is client
    at, named = first_expiry(table, now, now + TTL + 2)
    assert named == [client]
    assert TTL <= at - now <= TTL + 1


def test_a_session_in_which_something_goes_on_is_not_idle() -> None:
    table, server, _ = new_table()
    client = table.create(server, 0.0)
    client.running[1] = cast("Any", object())
    assert first_expiry(table, 0.0, 5 * TTL)[1] == []
    ended = 5 * TTL
    client.running.clear()
    at, named = first_expiry(table, ended, ended + 2 * TTL)
    assert named == [client]
    assert TTL - 1 <= at - ended <= TTL + 1


@pytest.mark.anyio
async def test_a_session_that_was_ended_is_not_named_again() -> None:
    table, server, place = new_table()
    client, other = table.create(server, 0.0), table.create(server, 0.0)
    await table.close(client)
    assert place.left == [client]
    with pytest.raises(SessionGone):
        table.find(client.session_id, server, NOBODY, 1.0)
    assert first_expiry(table, 0.0, 2 * TTL)[1] == [other]
    await table.close(other)
    assert len(table) == 0
    assert not table._due, "nothing is kept of sessions that are over"


def test_a_long_sleep_of_the_machine_ends_what_it_outlasted() -> None:
    table, server, _ = new_table()
    old = table.create(server, 0.0)
    table.sweep(0.0)
    fresh = table.create(server, 999_999.0)
    assert table.sweep(1_000_000.0) == [old]
    assert first_expiry(table, 1_000_000.0, 1_000_020.0)[1] == [fresh]


class Outlet:
    """As much of an open stream as keeping it alive needs."""

    def __init__(self) -> None:
        self.written: list[float] = []
        self.now = 0.0

    def keep_alive(self) -> None:
        self.written.append(self.now)


def test_streams_are_kept_alive_each_in_its_turn_and_not_all_at_once() -> None:
    table, server, _ = new_table()
    outlets = [Outlet() for _ in range(120)]
    for outlet in outlets:
        stream = table.create(server, 1e9).stream(STANDALONE)
        stream.live = cast("Any", outlet)
    for look in range(1, 400):
        for outlet in outlets:
            outlet.now = look * SWEEP
        before = sum(len(outlet.written) for outlet in outlets)
        table.sweep(look * SWEEP)
        assert sum(len(outlet.written) for outlet in outlets) - before <= 4
    for outlet in outlets:
        moments = [0.0, *outlet.written, 400 * SWEEP]
        gaps = [later - earlier for earlier, later in pairwise(moments)]
        assert max(gaps) <= 2 * KEEP_ALIVE_SECONDS + 1
        assert min(gaps[1:-1]) >= KEEP_ALIVE_SECONDS - 1
