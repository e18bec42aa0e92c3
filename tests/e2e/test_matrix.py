"""Every client revision and transport with every kind of server: one conversation per topic."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.e2e.conftest import SERVERS, Harbour
from tests.support.gateway import Gateway, Journal
from tests.support.peers import (
    ModernHttpPeer,
    ModernStdioPeer,
    RpcRefused,
    SsePeer,
    StdioPeer,
    StreamablePeer,
)
from tests.support.waiting import eventually

CLIENTS: dict[str, tuple[Any, str]] = {
    "sse-2024-11-05": (SsePeer, "2024-11-05"),
    "http-2025-03-26": (StreamablePeer, "2025-03-26"),
    "http-2025-06-18": (StreamablePeer, "2025-06-18"),
    "http-2025-11-25": (StreamablePeer, "2025-11-25"),
    "http-2026-07-28": (ModernHttpPeer, "2026-07-28"),
    "stdio-2025-11-25": (StdioPeer, "2025-11-25"),
    "stdio-2026-07-28": (ModernStdioPeer, "2026-07-28"),
}
HANDLERS = {
    "elicitation/create": lambda _: {"action": "accept", "content": {"colour": "blue"}},
    "sampling/createMessage": lambda _: {
        "role": "assistant",
        "content": {"type": "text", "text": "hi"},
        "model": "m",
    },
    "roots/list": lambda _: {"roots": [{"uri": "file:///here", "name": "here"}]},
}


class Pair:
    """A client connected to a server through the gateway."""

    def __init__(self, harbour: Harbour, client: str, server: str) -> None:
        self.gateway: Gateway = harbour.gateway
        self.journal: Journal = harbour.journals[server]
        self.client_kind, self.version = CLIENTS[client]
        self.server = server
        self.server_era = "modern" if server.endswith("modern") else "legacy"
        self._open: list[Any] = []

    def connect(self, *questions: str) -> Any:
        handlers = {method: HANDLERS[method] for method in questions}
        peer = self.client_kind(self.gateway, self.server, self.version, handlers)
        self._open.append(peer)
        return peer

    def close(self) -> None:
        for peer in self._open:
            peer.close()


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(params=list(CLIENTS))
def pair(request: pytest.FixtureRequest, server: str, harbour: Harbour) -> Iterator[Pair]:
    pair = Pair(harbour, request.param, server)
    pair.journal.forget()
    yield pair
    pair.close()


def text_of(result: dict[str, Any]) -> str:
    return result["content"][0]["text"]


def test_the_handshake_tells_what_the_server_is_and_can_do(pair: Pair) -> None:
    said = pair.connect().introduction
    if pair.version == "2026-07-28":
        assert said["supportedVersions"] == ["2026-07-28"]
        assert said["_meta"]["io.modelcontextprotocol/serverInfo"]["name"] == "scripted"
    else:
        assert said["protocolVersion"] == pair.version
        assert said["serverInfo"] == {"name": "scripted", "version": "1.2.3", "vendorField": {"kept": True}}
    assert said["instructions"] == "be scripted"
    assert said["capabilities"]["resources"] == {"listChanged": True, "subscribe": True}
    assert said["capabilities"]["experimental"] == {"scripted/feature": {"level": 3}}


def test_lists_come_page_by_page_and_whole(pair: Pair) -> None:
    peer = pair.connect()
    names: list[str] = []
    cursor: dict[str, str] = {}
    for _ in range(3):
        page = peer.request("tools/list", cursor)
        names += [tool["name"] for tool in page["tools"]]
        assert all(tool["vendorField"] == {"kept": tool["name"]} for tool in page["tools"])
        assert all("$defs" in tool["inputSchema"] for tool in page["tools"])
        if "nextCursor" not in page:
            break
        cursor = {"cursor": page["nextCursor"]}
    assert len(names) == len(set(names)) == 14
    assert len(peer.request("resources/list")["resources"]) == 5
    assert peer.request("resources/list", {"cursor": "5"})["resources"][-1]["uri"] == "item://7"
    assert peer.request("resources/templates/list")["resourceTemplates"][0]["uriTemplate"] == "item://{n}"


def test_progress_arrives_in_order_under_the_clients_own_token(pair: Pair) -> None:
    peer = pair.connect()
    result = peer.tool("count", {"steps": 4}, progressToken="mine")
    assert text_of(result) == "counted to 4"
    told = [message["params"] for message in peer.of("notifications/progress")]
    assert [(step["progressToken"], step["progress"]) for step in told] == [("mine", n) for n in (1, 2, 3, 4)]
    assert told[0]["message"] == "step 1"


def test_a_cancelled_call_stops_in_the_server_and_is_not_answered(pair: Pair) -> None:
    peer = pair.connect()
    pending = peer.start_tool("wait")
    eventually(lambda: pair.journal.events("waiting"), "the tool to run")
    peer.cancel(pending)
    eventually(lambda: pair.journal.events("stopped", "wait"), "the tool to stop")
    eventually(lambda: pair.gateway.in_flight(pair.server) == 0, "the gateway to forget the call")
    assert text_of(peer.tool("echo", {"text": "after"})) == "after"
    assert pending.answers.empty()
    assert not pair.journal.events("waited to the end")


@pytest.mark.parametrize("kind", ["elicitation", "sampling", "roots"])
def test_a_server_may_ask_its_client_and_the_tool_ends_once(pair: Pair, kind: str) -> None:
    method = {
        "elicitation": "elicitation/create",
        "sampling": "sampling/createMessage",
        "roots": "roots/list",
    }
    peer = pair.connect(method[kind])
    heard = peer.tool("ask", {"kind": kind})["structuredContent"]["heard"]
    expected = HANDLERS[method[kind]]({})
    assert {name: heard[name] for name in expected} == expected
    assert len(peer.of(method[kind])) == 1
    assert len(pair.journal.events("finished asking")) == 1
    if pair.server_era == "legacy":
        assert len(pair.journal.events("ran", "ask")) == 1


def test_what_a_client_did_not_declare_it_is_not_asked(pair: Pair) -> None:
    peer = pair.connect()
    try:
        told = text_of(peer.tool("ask", {"kind": "elicitation"}))
    except RpcRefused as refused:
        told = str(refused.code)
    # The call fails, or its server hears that there is nobody to ask.
    if pair.server_era == "modern":
        assert told == ("-32021" if pair.version == "2026-07-28" else "-32602")
    elif pair.version == "2026-07-28":
        assert told == "-32021" or "cancel" in told
    else:
        assert "-32601" in told
    assert not peer.of("elicitation/create")


def test_a_changed_list_is_announced(pair: Pair) -> None:
    peer = pair.connect()
    peer.watch()
    # Only once the gateway itself listens can it pass on anything.
    eventually(lambda: listens(pair), "the gateway to listen")
    peer.tool("change", {"what": "tools"})
    peer.wait_for("notifications/tools/list_changed")
    assert not peer.of("notifications/prompts/list_changed")


def listens(pair: Pair) -> bool:
    if pair.server_era == "modern":
        return bool(pair.journal.messages("subscriptions/listen"))
    if pair.server != "http-legacy":
        return True
    # Modern clients share a session with a legacy server, and with it a stream that may be open already.
    seen = pair.journal.entries() if pair.version < "2026-07-28" else Journal(pair.journal.path).entries()
    return any(entry.get("event") == "get" for entry in seen)


def test_an_updated_resource_is_told_to_its_subscribers_until_they_leave(pair: Pair) -> None:
    peer, stranger = pair.connect(), pair.connect()
    for one in (peer, stranger):
        one.watch()
    peer.subscribe("item://1")
    eventually(lambda: listens(pair), "the gateway to listen")
    peer.tool("touch", {"uri": "item://2"})
    peer.tool("touch", {"uri": "item://1"})
    heard = peer.wait_for("notifications/resources/updated")
    assert [message["params"]["uri"] for message in heard] == ["item://1"]
    assert not stranger.of("notifications/resources/updated")
    peer.unsubscribe("item://1")
    eventually(lambda: not subscribed(pair), "the server to be told")
    peer.tool("touch", {"uri": "item://1"})
    peer.tool("change", {"what": "prompts"})
    peer.wait_for("notifications/prompts/list_changed")
    assert len(peer.of("notifications/resources/updated")) == 1


def subscribed(pair: Pair) -> bool:
    """Whether the server still believes that somebody wants to hear of the resource."""
    if pair.server_era == "legacy":
        return not pair.journal.messages("resources/unsubscribe")
    wishes = [message["params"]["notifications"] for message in pair.journal.messages("subscriptions/listen")]
    return "resourceSubscriptions" in wishes[-1] and wishes[-1]["resourceSubscriptions"] == ["item://1"]


def test_log_messages_come_from_the_chosen_level_on(pair: Pair) -> None:
    peer = pair.connect()
    peer.set_level("warning")

    def speak_up() -> list[Any]:
        # On a shared channel nothing is passed on for a moment after a call there was given up.
        peer.tool("log", {"level": "info", "text": "quiet"})
        peer.tool("log", {"level": "error", "text": "loud"})
        return peer.of("notifications/message")

    eventually(speak_up, "a log message")
    assert {message["params"]["data"] for message in peer.of("notifications/message")} == {"loud"}


def test_completion_and_prompts_with_images_pass_through(pair: Pair) -> None:
    peer = pair.connect()
    reference = {"type": "ref/prompt", "name": "picture"}
    argument = {"name": "colour", "value": "r"}
    completed = peer.request("completion/complete", {"ref": reference, "argument": argument})
    assert completed["completion"] == {"values": ["red", "rose"], "total": 2, "hasMore": False}
    shown = peer.request("prompts/get", {"name": "picture", "arguments": {"colour": "red"}})
    assert shown["messages"][0]["content"]["text"] == "paint it red"
    assert shown["messages"][1]["content"]["mimeType"] == "image/png"
    assert shown["messages"][1]["content"]["data"].startswith("iVBOR")


def test_errors_keep_their_meaning(pair: Pair) -> None:
    peer = pair.connect()
    assert peer.tool("fail")["isError"] is True
    with pytest.raises(RpcRefused, match="no tool nonsense") as unknown_tool:
        peer.tool("nonsense")
    assert unknown_tool.value.code == -32602
    with pytest.raises(RpcRefused, match="no such item") as unknown_item:
        peer.request("resources/read", {"uri": "item://99"})
    assert unknown_item.value.code == (-32602 if pair.version == "2026-07-28" else -32002)
    assert unknown_item.value.error["data"] == {"uri": "item://99"}
    with pytest.raises(RpcRefused) as unknown_method:
        peer.request("nonsense/method")
    assert unknown_method.value.code == -32601


def test_many_calls_at_once_each_get_their_own_answer(pair: Pair) -> None:
    peer = pair.connect()
    started = time.monotonic()
    slow = [peer.start_tool("nap", {"seconds": 0.3}) for _ in range(4)]
    quick = [peer.start_tool("echo", {"text": f"call {n}"}) for n in range(8)]
    assert [text_of(call.result()) for call in quick] == [f"call {n}" for n in range(8)]
    assert [text_of(call.result()) for call in slow] == ["woke up"] * 4
    assert time.monotonic() - started < 5
