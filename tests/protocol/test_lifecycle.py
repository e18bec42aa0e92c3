"""Claims about the life of a legacy connection: the whole table, and no way out of it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.errors import INVALID_REQUEST, RpcError
from mooring.protocol import lifecycle
from mooring.protocol.lifecycle import Phase

REFUSED = None
ORDINARY = ["tools/list", "tools/call", "resources/read", "logging/setLevel", "vendor/own", "", "Initialize"]
CONNECTED, INITIALIZING, INITIALIZED, READY, SHUTDOWN = Phase

REQUESTS: dict[tuple[Phase, str], Phase | None] = {
    (CONNECTED, "initialize"): INITIALIZING,
    (INITIALIZING, "initialize"): REFUSED,
    (INITIALIZED, "initialize"): REFUSED,
    (READY, "initialize"): REFUSED,
    (SHUTDOWN, "initialize"): REFUSED,
    (CONNECTED, "ping"): CONNECTED,
    (INITIALIZING, "ping"): INITIALIZING,
    (INITIALIZED, "ping"): INITIALIZED,
    (READY, "ping"): READY,
    (SHUTDOWN, "ping"): REFUSED,
    **{(CONNECTED, method): REFUSED for method in ORDINARY},
    **{(INITIALIZING, method): REFUSED for method in ORDINARY},
    **{(INITIALIZED, method): INITIALIZED for method in ORDINARY},
    **{(READY, method): READY for method in ORDINARY},
    **{(SHUTDOWN, method): REFUSED for method in ORDINARY},
}
NOTIFICATIONS = [
    "notifications/initialized",
    "notifications/cancelled",
    "notifications/progress",
    "notifications/roots/list_changed",
    "vendor/own",
]


@pytest.mark.parametrize(("phase", "method"), REQUESTS, ids=lambda value: getattr(value, "name", value))
def test_each_request_in_each_phase_has_its_outcome(phase: Phase, method: str) -> None:
    expected = REQUESTS[phase, method]
    if expected is REFUSED:
        with pytest.raises(RpcError) as caught:
            lifecycle.on_request(phase, method)
        assert caught.value.code == INVALID_REQUEST
    else:
        assert lifecycle.on_request(phase, method) is expected


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("method", NOTIFICATIONS)
def test_only_the_awaited_notification_changes_the_phase(phase: Phase, method: str) -> None:
    changes = phase is INITIALIZED and method == "notifications/initialized"
    assert lifecycle.on_notification(phase, method) is (READY if changes else phase)


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("method", NOTIFICATIONS)
def test_notifications_count_after_the_handshake_and_cancelling_always(phase: Phase, method: str) -> None:
    counts = phase in (INITIALIZED, READY) or method == "notifications/cancelled"
    assert lifecycle.may_act_on(phase, method) is counts


@pytest.mark.parametrize("phase", Phase)
@pytest.mark.parametrize("accepted", [True, False])
def test_the_answer_to_initialize_counts_only_while_it_is_awaited(phase: Phase, accepted: bool) -> None:
    after = lifecycle.on_initialize_answered(phase, accepted=accepted)
    if phase is INITIALIZING:
        assert after is (INITIALIZED if accepted else CONNECTED)
    else:
        assert after is phase


ALLOWED_STEPS = {
    (CONNECTED, INITIALIZING),
    (INITIALIZING, INITIALIZED),
    (INITIALIZING, CONNECTED),
    (INITIALIZED, READY),
}
events = st.tuples(
    st.just("request"), st.sampled_from(["initialize", "ping", *ORDINARY]) | st.text(max_size=9)
)
events |= st.tuples(st.just("notification"), st.sampled_from(NOTIFICATIONS) | st.text(max_size=9))
events |= st.tuples(st.just("answered"), st.sampled_from(["accepted", "refused"]))


@given(st.lists(events, max_size=30))
def test_no_sequence_of_events_leaves_the_table(sequence: list[tuple[str, str]]) -> None:
    phase = CONNECTED
    accepted_handshakes = 0
    for kind, what in sequence:
        before = phase
        try:
            if kind == "request":
                phase = lifecycle.on_request(phase, what)
            elif kind == "notification":
                phase = lifecycle.on_notification(phase, what)
            else:
                phase = lifecycle.on_initialize_answered(phase, accepted=what == "accepted")
        except RpcError:
            assert kind == "request", "only a request has somebody to tell"
            assert phase is before, "an error changes nothing"
        assert phase is before or (before, phase) in ALLOWED_STEPS
        accepted_handshakes += (before, phase) == (INITIALIZING, INITIALIZED)
    assert accepted_handshakes <= 1


@given(st.text(max_size=20))
def test_before_the_handshake_every_other_request_is_told_to_initialize(method: str) -> None:
    if method not in ("initialize", "ping"):
        with pytest.raises(RpcError, match="send `initialize` first"):
            lifecycle.on_request(CONNECTED, method)
