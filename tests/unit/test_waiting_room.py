"""Claims about how many calls may wait for input."""

from __future__ import annotations

import pytest

from mooring.errors import TooMuch
from mooring.gateway.principal import ANONYMOUS, Caller, Principal
from mooring.gateway.waiting_room import (
    MAX_BYTES,
    MAX_BYTES_PER_CALLER,
    MAX_CALLS,
    MAX_CALLS_PER_CALLER,
    WaitingRoom,
)

ANNA = Caller(Principal("anna", "anna"), "10.0.0.1")


def somebody(number: int) -> Caller:
    return Caller(ANONYMOUS, f"10.0.1.{number}")


def fill(room: WaitingRoom, caller: Caller, count: int, size: int = 1) -> list[str]:
    calls = [f"{caller.principal.id} {caller.address} {number}" for number in range(count)]
    for number, call in enumerate(calls):
        room.enter(call, caller, size, 60.0 + number, 0.0)
    return calls


def test_a_caller_has_so_many_places_wherever_it_calls_from() -> None:
    room = WaitingRoom()
    calls = fill(room, ANNA, MAX_CALLS_PER_CALLER)
    elsewhere = Caller(ANNA.principal, "10.0.0.2")
    with pytest.raises(TooMuch, match=r"100 calls of this caller wait .* try again in 50 s"):
        room.enter("one more", elsewhere, 1, 70.0, 10.0)
    fill(room, somebody(1), MAX_CALLS_PER_CALLER)
    room.leave(calls[0])
    room.enter("one more", elsewhere, 1, 70.0, 10.0)


def test_all_together_have_so_many_places() -> None:
    room = WaitingRoom()
    callers = MAX_CALLS // MAX_CALLS_PER_CALLER
    calls = [call for number in range(callers) for call in fill(room, somebody(number), MAX_CALLS_PER_CALLER)]
    with pytest.raises(TooMuch, match="too many calls wait for input already; try again in 60 s"):
        room.enter("one more", ANNA, 1, 60.0, 0.0)
    room.leave(calls[0])
    room.enter("one more", ANNA, 1, 60.0, 0.0)


def test_large_calls_take_the_places_of_others() -> None:
    room = WaitingRoom()
    half = MAX_BYTES_PER_CALLER // 2
    calls = fill(room, ANNA, 2, half)
    with pytest.raises(TooMuch, match="2 calls of this caller"):
        room.enter("one more", ANNA, 1, 60.0, 0.0)
    for number in range(MAX_BYTES // MAX_BYTES_PER_CALLER - 1):
        fill(room, somebody(number), 2, half)
    with pytest.raises(TooMuch, match="too many calls"):
        room.enter("one more", somebody(99), 1, 60.0, 0.0)
    room.leave(calls[0])
    room.leave(calls[0])
    fill(room, somebody(99), 1, half)


def test_the_largest_call_there_may_be_has_a_place_if_it_is_alone() -> None:
    room = WaitingRoom()
    fill(room, ANNA, 1, 2 * MAX_BYTES)


def test_a_call_that_has_a_place_keeps_it() -> None:
    room = WaitingRoom()
    calls = fill(room, ANNA, MAX_CALLS_PER_CALLER)
    room.enter(calls[0], ANNA, MAX_BYTES, 60.0, 0.0)
    for call in calls:
        room.leave(call)
    fill(room, ANNA, MAX_CALLS_PER_CALLER)
