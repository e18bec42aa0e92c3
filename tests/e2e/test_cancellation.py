"""Cancelling at any moment: before the call is dispatched, while it runs, while it is answered, later."""

from __future__ import annotations

import json
import queue
import threading
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.conftest import SERVERS, Harbour
from tests.support.channels import StdioChannel, http_request
from tests.support.gateway import Journal, running_gateway, stdio_server
from tests.support.peers import (
    ModernHttpPeer,
    ModernStdioPeer,
    SsePeer,
    StdioPeer,
    StreamablePeer,
    tool_params,
)
from tests.support.waiting import LIMIT_SECONDS, eventually

KINDS = [StreamablePeer, SsePeer, StdioPeer, ModernHttpPeer, ModernStdioPeer]
ROUNDS = 25


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Any:
    return request.param


def nothing_is_left(harbour: Harbour, server: str) -> None:
    eventually(lambda: harbour.gateway.in_flight(server) == 0, "the last call to be forgotten")


def works(peer: Any) -> None:
    assert peer.tool("echo", {"text": "still"})["content"][0]["text"] == "still"


def test_a_cancel_that_races_its_call_leaves_nothing_behind(harbour: Harbour, server: str, kind: Any) -> None:
    """Sent at once, and at every later moment: either the answer came first, or there is none."""
    with kind(harbour.gateway, server) as peer:
        calls = []
        for number in range(ROUNDS):
            call = peer.start_tool("nap", {"seconds": 0.002 * (number % 5)})
            timer = threading.Timer(0.001 * number, peer.cancel, [call])
            timer.start()
            calls.append((call, timer))
        for _, timer in calls:
            timer.join()
        nothing_is_left(harbour, server)
        works(peer)
        assert all(call.answers.qsize() <= 1 for call, _ in calls)
        assert peer.strays == []


@pytest.mark.parametrize("kind", [StdioPeer, ModernStdioPeer])
def test_a_call_cancelled_in_the_same_breath_is_never_answered(
    harbour: Harbour, server: str, kind: Any
) -> None:
    with kind(harbour.gateway, server) as peer:
        params = peer.prepare(tool_params("wait"))
        request = {"jsonrpc": "2.0", "id": "same-breath", "method": "tools/call", "params": params}
        notice = {"method": "notifications/cancelled", "params": {"requestId": "same-breath"}}
        both = json.dumps(request) + "\n" + json.dumps({"jsonrpc": "2.0", **notice}) + "\n"
        harbour.journals[server].forget()
        peer.channel.write(both.encode())
        works(peer)
        nothing_is_left(harbour, server)
        assert peer.strays == []
        journal = harbour.journals[server]
        eventually(
            lambda: len(journal.events("ran", "wait")) == len(journal.events("stopped", "wait")),
            "the tool to stop, if it ran at all",
        )


def test_a_cancel_that_comes_too_late_changes_nothing(harbour: Harbour, server: str, kind: Any) -> None:
    with kind(harbour.gateway, server) as peer:
        call = peer.start_tool("echo", {"text": "quick"})
        assert call.result()["content"][0]["text"] == "quick"
        peer.cancel(call)
        peer.cancel(call)
        works(peer)


@pytest.mark.parametrize("kind", [StreamablePeer, SsePeer, StdioPeer, ModernStdioPeer])
@pytest.mark.parametrize("params", [{"requestId": 99999}, {"requestId": None}, {"requestId": [1]}, {}, None])
def test_a_cancel_of_nothing_known_is_ignored(harbour: Harbour, kind: Any, params: Any) -> None:
    with kind(harbour.gateway, "stdio-legacy") as peer:
        call = peer.start_tool("nap", {"seconds": 0.1})
        peer.notify("notifications/cancelled", params)
        assert call.result()["content"][0]["text"] == "woke up"


def test_cancelling_twice_is_cancelling_once(harbour: Harbour, server: str) -> None:
    journal = harbour.journals[server]
    journal.forget()
    with StreamablePeer(harbour.gateway, server) as peer:
        call = peer.start_tool("wait")
        eventually(lambda: journal.events("waiting"), "the tool to run")
        peer.cancel(call)
        peer.cancel(call)
        eventually(lambda: journal.events("stopped"), "the tool to stop")
        works(peer)
        assert len(journal.events("stopped")) == 1
        assert call.answers.empty()


def test_a_cancelled_id_may_be_used_again(harbour: Harbour) -> None:
    with StdioPeer(harbour.gateway, "stdio-legacy") as peer:
        call = peer.start_tool("wait")
        peer.cancel(call)
        peer.request("ping")  # lines are read in order: by now the call has come, and its end too
        nothing_is_left(harbour, "stdio-legacy")
        message = {"id": call.id, "method": "tools/call", "params": tool_params("echo", {"text": "again"})}
        peer.channel.send({"jsonrpc": "2.0", **message})
        assert call.result()["content"][0]["text"] == "again"


def test_nobody_can_cancel_anothers_call_by_its_id(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    servers = [stdio_server("shared", journal.path, share="global")]
    with (
        running_gateway(tmp_path, servers) as gateway,
        StreamablePeer(gateway, "shared") as one,
        StreamablePeer(gateway, "shared") as other,
    ):
        mine = one.start_tool("wait", {"seconds": 1})
        eventually(lambda: journal.events("waiting"), "the tool to run")
        for number in range(20):
            other.notify("notifications/cancelled", {"requestId": number})
        assert mine.result()["content"][0]["text"] == "nobody stopped me"


def test_a_legacy_client_that_hangs_up_does_not_cancel(harbour: Harbour, server: str) -> None:
    journal = harbour.journals[server]
    journal.forget()
    with StreamablePeer(harbour.gateway, server) as peer:
        call = peer.start_tool("wait", {"seconds": 0.5})
        eventually(lambda: journal.events("waiting"), "the tool to run")
        peer.channel.cancel(call.id)  # closes the stream
        eventually(lambda: journal.events("waited to the end"), "the tool to finish")
        works(peer)
        assert not journal.messages("notifications/cancelled")


@pytest.mark.parametrize("kind", [StreamablePeer, SsePeer, StdioPeer, ModernStdioPeer])
def test_a_client_that_leaves_takes_its_calls_with_it(harbour: Harbour, server: str, kind: Any) -> None:
    journal = harbour.journals[server]
    journal.forget()
    with kind(harbour.gateway, server) as peer:
        for _ in range(3):
            peer.start_tool("wait")
        eventually(lambda: len(journal.events("waiting")) == 3, "the tools to run")
    nothing_is_left(harbour, server)
    # A child that was this client's own ends with its session; elsewhere each call is told to stop.
    eventually(
        lambda: len(journal.events("stopped", "wait")) == 3 or journal.events("end of input"), "their end"
    )
    assert not journal.events("waited to the end")


@pytest.mark.parametrize("server", ["stdio-legacy", "sse", "http-legacy"])
@pytest.mark.parametrize("kind", [StreamablePeer, SsePeer, StdioPeer])
def test_a_server_may_take_back_its_own_request(harbour: Harbour, server: str, kind: Any) -> None:
    answered = threading.Event()

    def answer_late(_: Any) -> dict[str, Any]:
        answered.wait(10)
        return {"action": "accept", "content": {"colour": "late"}}

    with kind(harbour.gateway, server, handlers={"elicitation/create": answer_late}) as peer:
        assert peer.tool("withdraw")["content"][0]["text"] == "done"
        asked = peer.wait_for("elicitation/create")[0]
        withdrawn = peer.wait_for("notifications/cancelled")[0]
        assert withdrawn["params"]["requestId"] == asked["id"]
        answered.set()
        works(peer)


def test_initialize_cannot_be_cancelled(harbour: Harbour) -> None:
    heard: queue.Queue[Any] = queue.Queue()
    channel = StdioChannel(harbour.gateway, "stdio-legacy", heard.put)
    introduction = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x"}}
    request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": introduction}
    notice = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}
    try:
        channel.write(f"{json.dumps(request)}\n{json.dumps(notice)}\n".encode())
        answer = heard.get(timeout=LIMIT_SECONDS)
        assert (answer["id"], answer["result"]["protocolVersion"]) == (1, "2025-11-25")
    finally:
        channel.close()


def test_an_unanswerable_stream_ends_when_its_call_is_cancelled(harbour: Harbour) -> None:
    """HTTP wants some response: the stream of a cancelled call ends, without an answer in it."""
    journal = harbour.journals["http-legacy"]
    journal.forget()
    with StreamablePeer(harbour.gateway, "http-legacy") as peer:
        seen: list[Any] = []
        headers = peer.headers_for({})
        body = {"jsonrpc": "2.0", "id": "x", "method": "tools/call", "params": tool_params("wait")}
        thread = threading.Thread(
            target=lambda: seen.append(http_request(peer.channel.url, "POST", body, headers))
        )
        thread.start()
        eventually(lambda: journal.events("waiting"), "the tool to run")
        peer.notify("notifications/cancelled", {"requestId": "x"})
        thread.join(10)
        assert seen[0].status in (200, 202)
        assert [event for event in seen[0].events if event.data] == []
