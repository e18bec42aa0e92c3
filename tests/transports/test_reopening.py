"""Claims about the waits before a stream is opened again."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from mooring.transports.reopening import FIRST_SECONDS, LEAST_SECONDS, LONGEST_SECONDS, Reopening


def test_waits_grow_to_the_longest_and_begin_anew_when_something_came() -> None:
    reopening = Reopening()
    assert [reopening.wait_after(0.0) for _ in range(9)] == [0.5, 1, 2, 4, 8, 16, 30, 30, 30]
    reopening.heard()
    assert [reopening.wait_after(0.0) for _ in range(3)] == [0.5, 1, 2]


def test_a_quiet_stream_that_was_open_for_long_is_opened_again_at_once() -> None:
    reopening = Reopening()
    for _ in range(5):
        reopening.wait_after(0.0)
    assert [reopening.wait_after(LONGEST_SECONDS) for _ in range(3)] == [FIRST_SECONDS] * 3


def test_a_server_is_polled_as_often_as_it_wishes_while_it_says_so() -> None:
    reopening = Reopening()
    for _ in range(20):
        reopening.wished(200)
        assert reopening.wait_after(0.0) == 0.2
    assert [reopening.wait_after(0.0) for _ in range(3)] == [0.4, 0.8, 1.6]
    reopening.wished(90_000)
    assert [reopening.wait_after(0.0) for _ in range(2)] == [90, 90]


@given(st.lists(st.one_of(st.none(), st.integers(0, 10_000), st.floats(0, 100))))
def test_no_wait_is_shorter_than_the_least(events: list[float | int | None]) -> None:
    reopening = Reopening()
    for event in events:
        if event is None:
            reopening.heard()
        elif isinstance(event, int):
            reopening.wished(event)
        else:
            assert LEAST_SECONDS <= reopening.wait_after(event) <= LONGEST_SECONDS
