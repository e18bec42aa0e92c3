"""Modern clients that can be asked something, and servers on one channel: such calls take turns, fairly."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.support.gateway import Gateway, Journal, http_server, running_gateway, stdio_server
from tests.support.peers import ModernHttpPeer, Pending
from tests.support.waiting import eventually

LEASED_SESSIONS = 8
Start = Callable[..., tuple[Gateway, Journal]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with ExitStack() as stack:

        def begin(transport: str, share: str) -> tuple[Gateway, Journal]:
            journal = Journal(tmp_path / "journal")
            if transport == "stdio":
                server = stdio_server("s", journal.path, share=share)
            else:
                server = stack.enter_context(http_server("s", journal.path, transport="sse", share=share))
            return stack.enter_context(running_gateway(tmp_path, [server])), journal

        yield begin


def accept(_: Any) -> dict[str, Any]:
    return {"action": "accept", "content": {"colour": "blue"}}


def interactive(gateway: Gateway) -> ModernHttpPeer:
    return ModernHttpPeer(gateway, "s", handlers={"elicitation/create": accept})


def queued(gateway: Gateway, peer: ModernHttpPeer, number: int, name: str, **arguments: Any) -> Pending:
    """A call that is known to have reached the gateway as the so-manieth one in flight."""
    call = peer.start_tool(name, arguments)
    eventually(lambda: gateway.in_flight("s") == number, f"call {number} to arrive")
    return call


def ran(journal: Journal) -> list[Any]:
    return [message["params"]["arguments"].get("text") for message in journal.messages("tools/call")]


@pytest.mark.parametrize("transport", ["stdio", "sse"])
@pytest.mark.parametrize("share", ["global", "principal"])
def test_calls_that_may_be_asked_something_take_turns_in_the_order_they_came(
    start: Start, transport: str, share: str
) -> None:
    gateway, journal = start(transport, share)
    with interactive(gateway) as peer:
        first = queued(gateway, peer, 1, "wait", text="first", seconds=1.5)
        eventually(lambda: journal.events("waiting"), "the first call to run")
        waiting = [queued(gateway, peer, 2 + turn, "echo", text=f"turn {turn}") for turn in range(5)]
        assert ran(journal) == ["first"]
        assert first.result()["content"][0]["text"] == "nobody stopped me"
        for turn, call in enumerate(waiting):
            assert call.result()["content"][0]["text"] == f"turn {turn}"
        assert ran(journal) == ["first", *(f"turn {turn}" for turn in range(5))]


@pytest.mark.parametrize("transport", ["stdio", "sse"])
@pytest.mark.parametrize("share", ["global", "client"])
def test_a_cancelled_call_lets_the_next_one_have_its_turn(start: Start, transport: str, share: str) -> None:
    gateway, journal = start(transport, share)
    turns = 1 if share == "global" else LEASED_SESSIONS
    with interactive(gateway) as peer:
        holding = [queued(gateway, peer, 1 + number, "wait") for number in range(turns)]
        eventually(lambda: len(journal.events("waiting")) == turns, "every turn to be taken")
        given_up = queued(gateway, peer, turns + 1, "echo", text="given up")
        waiting = queued(gateway, peer, turns + 2, "echo", text="next")
        assert ran(journal) == [None] * turns
        peer.cancel(given_up)  # it waits for its turn: that must not keep the others from theirs
        eventually(lambda: gateway.in_flight("s") == turns + 1, "the waiting call to be forgotten")
        peer.cancel(holding[0])
        assert waiting.result()["content"][0]["text"] == "next"
        assert "given up" not in ran(journal)
        for call in holding[1:]:
            peer.cancel(call)


def test_a_call_that_waits_for_its_client_keeps_its_turn_until_it_is_resumed(start: Start) -> None:
    gateway, journal = start("stdio", "global")
    with interactive(gateway) as peer:
        asked = peer.start_tool("ask", {"kind": "elicitation"}).result()
        assert asked["resultType"] == "input_required"
        waiting = queued(gateway, peer, 2, "echo", text="next")
        assert not journal.events("ran", "echo")
        params = {"name": "ask", "arguments": {"kind": "elicitation"}}
        answers = {name: accept(None) for name in asked["inputRequests"]}
        retry = {**params, "inputResponses": answers, "requestState": asked["requestState"]}
        resumed = peer.start("tools/call", retry).result()
        assert resumed["structuredContent"]["heard"]["content"] == {"colour": "blue"}
        assert waiting.result()["content"][0]["text"] == "next"
        assert len(journal.events("ran", "ask")) == 1


def test_the_first_calls_to_a_server_that_tells_them_apart_need_not_take_turns(tmp_path: Path) -> None:
    """Whether it does is not known before the first of them has reached it."""
    with (
        http_server("s", Journal(tmp_path / "journal").path) as server,
        running_gateway(tmp_path, [server]) as gateway,
        interactive(gateway) as peer,
    ):
        calls = [peer.start_tool("ask", {"kind": "elicitation"}) for _ in range(LEASED_SESSIONS + 4)]
        assert {call.result()["resultType"] for call in calls} == {"input_required"}
