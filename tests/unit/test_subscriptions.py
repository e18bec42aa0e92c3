"""Claims about who hears of which changes."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from mooring.protocol import subscriptions
from mooring.protocol.subscriptions import CHANGES, LIST_CHANGES, NOTHING, Filter

subjects = st.sampled_from(["a:1", "a:2", "a:3", "task-1"])
filters = st.builds(
    Filter,
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.lists(subjects, unique=True, max_size=3).map(tuple),
    st.lists(subjects, unique=True, max_size=3).map(tuple),
)
changes = st.tuples(st.sampled_from([*sorted(CHANGES), "notifications/other"]), st.none() | subjects)


class Listener:
    """A subscriber that writes down what it hears."""

    def __init__(self, wants: Filter) -> None:
        self.wants = wants
        self.heard: list[tuple[str, bytes]] = []

    def deliver(self, method: str, params: Raw | bytes) -> None:
        self.heard.append((method, bytes(params)))

    def end(self, reason: str) -> None:
        self.heard.append(("end", reason.encode()))


@given(st.lists(filters, max_size=4), changes)
def test_a_union_wants_what_any_of_its_wishes_wants(
    wishes: list[Filter], change: tuple[str, str | None]
) -> None:
    assert subscriptions.union(wishes).matches(*change) == any(wish.matches(*change) for wish in wishes)


@given(filters, filters, changes)
def test_the_granted_part_of_a_wish_wants_what_both_want(
    wish: Filter, granted: Filter, change: tuple[str, str | None]
) -> None:
    assert wish.within(granted).matches(*change) == (wish.matches(*change) and granted.matches(*change))


@given(filters, filters)
def test_wishes_behave_like_sets(one: Filter, other: Filter) -> None:
    assert one.within(one) == one
    assert one.within(subscriptions.union([one, other])) == one
    assert subscriptions.union([one, one]) == one
    assert subscriptions.union([one, NOTHING]) == one
    assert one.within(NOTHING) == NOTHING
    assert subscriptions.union([]) == NOTHING


@given(filters)
def test_a_wish_survives_the_wire_and_leaves_out_what_it_does_not_want(wish: Filter) -> None:
    raw = msgspec.json.encode(wish)
    assert msgspec.json.decode(raw, type=Filter) == wish
    assert all(json.loads(raw).values())


def test_a_wish_is_spelled_as_the_specification_spells_it() -> None:
    wish = Filter(True, True, True, ("a:1",), ("t",))
    assert json.loads(msgspec.json.encode(wish)) == {
        "toolsListChanged": True,
        "promptsListChanged": True,
        "resourcesListChanged": True,
        "resourceSubscriptions": ["a:1"],
        "taskIds": ["t"],
    }


def test_whoever_wants_lists_hears_of_lists_alone() -> None:
    heard = {method for method in CHANGES if LIST_CHANGES.matches(method, "a:1")}
    assert heard == {method for method in CHANGES if method.endswith("/list_changed")}


@given(st.lists(filters, max_size=4), changes)
def test_a_change_reaches_everybody_who_asked_and_nobody_else(
    wishes: list[Filter], change: tuple[str, str | None]
) -> None:
    method, subject = change
    listeners = [Listener(wish) for wish in wishes]
    name = "taskId" if method == subscriptions.TASK_CHANGED else "uri"
    params = json.dumps({name: subject, "vendor": 1}).encode() if subject else b""
    subscriptions.deliver(listeners, method, params)
    for listener in listeners:
        assert listener.heard == ([(method, params)] if listener.wants.matches(method, subject) else [])


def test_a_listener_that_leaves_while_being_told_does_not_cost_the_others_their_turn() -> None:
    listeners: list[Listener] = []

    class Leaving(Listener):
        def deliver(self, method: str, params: Raw | bytes) -> None:
            super().deliver(method, params)
            listeners.remove(self)

    everyone = [Leaving(LIST_CHANGES), Listener(LIST_CHANGES), Leaving(LIST_CHANGES)]
    listeners += everyone
    subscriptions.deliver(listeners, subscriptions.TOOLS_CHANGED, b"")
    assert [len(listener.heard) for listener in everyone] == [1, 1, 1]


@pytest.mark.parametrize(
    ("params", "subject"),
    [
        *(
            (b"", None),
            (b"{}", None),
            (b"[]", None),
            (b"{", None),
            (b'{"uri":5}', None),
            (b'{"uri":null}', None),
        ),
        *((b'{"uri":"a:1"}', "a:1"), (b'{"taskId":"t","x":[1]}', "t"), (b'{"uri":"\xff"}', None)),
        (b'{"uri":"a:1","deep":' + b"[" * 5000 + b"]" * 5000 + b"}", None),
    ],
)
def test_the_subject_of_a_change_is_found_or_there_is_none(params: bytes, subject: str | None) -> None:
    assert subscriptions.subject_of(params) == subject
