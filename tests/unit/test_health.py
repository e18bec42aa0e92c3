"""Claims about the circuit breaker and the health report."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.gateway.health import RECENT_SECONDS, BreakerPolicy, Health, State

POLICY = BreakerPolicy(failures=3, open_seconds=10.0)


def tripped(at: float = 0.0) -> Health:
    health = Health(POLICY)
    for _ in range(POLICY.failures):
        assert health.blocked_for(at) == 0
        health.failed(at, "refused")
    return health


def test_nobody_knows_anything_of_a_server_never_used() -> None:
    health = Health(POLICY)
    assert health.state(0.0) is State.IDLE
    assert health.reasons(0.0) == []
    assert health.since_success(0.0) is None
    assert not health.tripped


def test_a_success_counts_for_a_while_and_then_no_more() -> None:
    health = Health(POLICY)
    health.succeeded(100.0)
    assert health.state(100.0) is State.UP
    assert health.state(100.0 + RECENT_SECONDS) is State.UP
    assert health.state(100.1 + RECENT_SECONDS) is State.IDLE
    assert health.since_success(104.0) == 4.0


def test_one_failure_is_down_with_its_reason_but_lets_calls_through() -> None:
    health = Health(POLICY)
    health.succeeded(1.0)
    health.failed(2.0, "connection refused")
    assert health.state(2.0) is State.DOWN
    assert health.reasons(2.0) == ["connection refused"]
    assert health.blocked_for(2.0) == 0
    assert (health.calls, health.errors) == (2, 1)


def test_failures_in_a_row_open_the_breaker_and_a_success_between_them_does_not() -> None:
    health = Health(POLICY)
    for at in range(10):
        health.failed(at, "x")
        health.failed(at, "x")
        health.succeeded(at + 0.5)
        assert not health.tripped
    assert tripped().tripped


def test_an_open_breaker_says_for_how_long_and_blocks_until_then() -> None:
    health = tripped(100.0)
    assert health.blocked_for(100.0) == 10.0
    assert health.blocked_for(109.5) == 0.5
    assert "another 5 s after 3 failures" in health.reasons(105.0)[1]
    assert health.blocked_for(110.0) == 0.0


@given(st.lists(st.floats(0, 9.99), max_size=20))
def test_half_open_lets_exactly_one_probe_through(offsets: list[float]) -> None:
    health = tripped()
    start = 10.0
    passed = [health.blocked_for(start + offset) == 0 for offset in [0.0, *sorted(offsets)]]
    assert passed.count(True) == 1


def test_a_probe_that_succeeds_closes_the_breaker() -> None:
    health = tripped()
    assert health.blocked_for(10.0) == 0
    health.succeeded(11.0)
    assert not health.tripped
    assert [health.blocked_for(11.0) for _ in range(5)] == [0.0] * 5
    assert health.state(11.0) is State.UP
    health.failed(12.0, "x")
    assert not health.tripped, "counting starts anew"


def test_a_probe_that_fails_opens_it_again_at_once() -> None:
    health = tripped()
    assert health.blocked_for(10.0) == 0
    health.failed(11.0, "still dead")
    assert health.blocked_for(11.0) == 10.0
    assert health.reasons(11.0)[0] == "still dead"


def test_a_probe_that_was_given_up_does_not_block_for_ever() -> None:
    health = tripped()
    for turn in range(1, 50):
        assert health.blocked_for(turn * 10.0) == 0, "the next probe goes when the one before was given up"
        assert 0 < health.blocked_for(turn * 10.0 + 1) <= POLICY.open_seconds


events = st.lists(
    st.tuples(st.sampled_from(["succeeded", "failed", "asked"]), st.floats(0, RECENT_SECONDS * 1.5)),
    max_size=40,
)


@given(events, st.floats(0, RECENT_SECONDS * 2))
def test_never_up_without_a_recent_success_and_never_blocked_for_ever(
    sequence: list[tuple[str, float]], later: float
) -> None:
    health = Health(POLICY)
    now = 0.0
    last_success = last_failure = None
    in_a_row = 0
    for what, pause in sequence:
        now += pause
        if what == "succeeded":
            health.succeeded(now)
            last_success, in_a_row = now, 0
        elif what == "failed":
            health.failed(now, "reason")
            last_failure, in_a_row = now, in_a_row + 1
        else:
            assert 0 <= health.blocked_for(now) <= POLICY.open_seconds
        assert health.tripped <= (in_a_row > 0)
        assert health.tripped or in_a_row < POLICY.failures
    now += later
    state = health.state(now)
    if state is State.UP:
        assert last_success is not None
        assert now - last_success <= RECENT_SECONDS
        assert last_failure is None or last_failure <= last_success
    assert (state is State.DOWN) == bool(health.reasons(now)), "down always says why"
    waited = health.blocked_for(now)
    assert health.blocked_for(now + waited) == 0 or waited == 0


@pytest.mark.parametrize("failures", [1, 2, 5])
def test_the_policy_says_how_many_failures_are_too_many(failures: int) -> None:
    health = Health(BreakerPolicy(failures=failures, open_seconds=1.0))
    for _ in range(failures - 1):
        health.failed(0.0, "x")
    assert not health.tripped
    health.failed(0.0, "x")
    assert health.tripped
