"""What belongs to one client, one call or one era never shows up in another."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.conftest import LEGACY_SERVERS, Harbour
from tests.support.channels import http_request
from tests.support.gateway import (
    SUPPORT,
    Journal,
    http_server,
    running_gateway,
    running_process,
    stdio_server,
)
from tests.support.peers import (
    META,
    MODERN,
    ModernHttpPeer,
    ModernStdioPeer,
    RpcRefused,
    StdioPeer,
    StreamablePeer,
    tool_params,
)
from tests.support.waiting import eventually


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harbour]:
    """Legacy servers of which every client uses the same session."""
    folder = tmp_path_factory.mktemp("shared")
    with ExitStack() as stack:
        journals = {name: Journal(folder / f"{name}.journal") for name in LEGACY_SERVERS}
        servers = [
            stdio_server("stdio-legacy", journals["stdio-legacy"].path, share="global"),
            stack.enter_context(http_server("sse", journals["sse"].path, transport="sse", share="global")),
            stack.enter_context(http_server("http-legacy", journals["http-legacy"].path, share="global")),
        ]
        yield Harbour(stack.enter_context(running_gateway(folder, servers)), journals)


def accept(_: Any) -> dict[str, Any]:
    return {"action": "accept", "content": {"colour": "blue"}}


# Ids and tokens


def test_in_a_shared_http_session_every_request_has_an_id_of_ours(shared: Harbour) -> None:
    journal = shared.journals["http-legacy"]
    journal.forget()
    with (
        StreamablePeer(shared.gateway, "http-legacy") as one,
        StreamablePeer(shared.gateway, "http-legacy") as two,
        ModernHttpPeer(shared.gateway, "http-legacy") as three,
    ):
        calls = [
            (peer.start_tool("nap", {"seconds": 0.3}), peer.start_tool("echo", {"text": name}), name)
            for peer, name in ((one, "one"), (two, "two"), (three, "three"))
        ]
        for nap, echo, name in calls:
            assert echo.result()["content"][0]["text"] == name
            assert nap.result()["content"][0]["text"] == "woke up"
        seen = [message["id"] for message in journal.messages("tools/call")]
        assert len(set(seen)) == len(seen) == 6
        assert not set(seen) & {call.id for pair in calls for call in pair[:2]}
        assert one.strays == two.strays == three.strays == []


def test_a_cancel_in_a_shared_http_session_names_the_id_that_the_server_knows(shared: Harbour) -> None:
    journal = shared.journals["http-legacy"]
    journal.forget()
    with (
        StreamablePeer(shared.gateway, "http-legacy") as one,
        StreamablePeer(shared.gateway, "http-legacy") as two,
    ):
        kept, given_up = one.start_tool("wait", {"seconds": 2}), two.start_tool("wait")
        assert kept.id == given_up.id
        eventually(lambda: len(journal.events("waiting")) == 2, "both calls to run")
        two.cancel(given_up)
        eventually(lambda: journal.events("stopped"), "one of them to stop")
        assert kept.result()["content"][0]["text"] == "nobody stopped me"
        assert given_up.answers.empty()


ESCAPED = '{"name":"count","arguments":{"steps":2},"_meta":{"\\u0070rogressToken":"\\u0061"}}'


@pytest.mark.parametrize("server", LEGACY_SERVERS)
def test_a_progress_token_is_ours_upstream_however_the_client_spells_it(shared: Harbour, server: str) -> None:
    journal = shared.journals[server]
    journal.forget()
    body = f'{{"jsonrpc":"2.0","id":"x","method":"tools/call","params":{ESCAPED}}}'
    with StreamablePeer(shared.gateway, server) as peer, StreamablePeer(shared.gateway, server) as other:
        theirs = other.start_tool("count", {"steps": 20, "pause": 0.02}, progressToken="a")
        eventually(lambda: other.of("notifications/progress"), "the other call to make progress")
        answer = http_request(peer.channel.url, "POST", body, peer.headers_for({}))
        told = [json.loads(event.data) for event in answer.events if event.data]
        assert [m["params"]["progressToken"] for m in told if "params" in m] == ["a", "a"]
        assert [m["params"]["progress"] for m in told if "params" in m] == [1, 2]
        theirs.result()
        assert [m["params"]["progress"] for m in other.of("notifications/progress")] == list(range(1, 21))
        tokens = [message["params"]["_meta"]["progressToken"] for message in journal.messages("tools/call")]
        assert "a" not in tokens
        assert len(set(tokens)) == 2


# Questions


@pytest.mark.parametrize("server", LEGACY_SERVERS)
def test_a_question_of_a_call_that_was_given_up_reaches_nobody_else(harbour: Harbour, server: str) -> None:
    journal = harbour.journals[server]
    journal.forget()
    handlers = {"elicitation/create": accept}
    with (
        ModernHttpPeer(harbour.gateway, server, handlers=handlers) as gone,
        ModernHttpPeer(harbour.gateway, server, handlers=handlers) as other,
    ):
        nagging = gone.start_tool("nag")
        eventually(lambda: journal.events("waiting", "nag"), "the call to run")
        gone.cancel(nagging)
        for _ in range(3):
            answer = other.start_tool("wait", {"seconds": 0.3}).result()
            assert answer["resultType"] == "complete", answer
        heard = [entry["reply"] for entry in journal.events("heard", "nag")]
        assert all("error" in reply or reply["result"]["action"] == "cancel" for reply in heard)
        assert other.heard == []


@pytest.mark.parametrize("server", LEGACY_SERVERS)
def test_in_a_shared_session_a_question_of_a_cancelled_call_reaches_nobody(
    shared: Harbour, server: str
) -> None:
    journal = shared.journals[server]
    journal.forget()
    handlers = {"elicitation/create": accept}
    with (
        StreamablePeer(shared.gateway, server, handlers=handlers) as gone,
        StreamablePeer(shared.gateway, server, handlers=handlers) as other,
    ):
        nagging = gone.start_tool("nag")
        eventually(lambda: journal.events("waiting", "nag"), "the call to run")
        other.watch()
        waiting = other.start_tool("wait", {"seconds": 1})
        eventually(lambda: journal.events("waiting", "wait"), "the other call to run")
        gone.cancel(nagging)
        assert waiting.result()["content"][0]["text"] == "nobody stopped me"
        assert other.of("elicitation/create") == []


# Tasks


def test_each_client_lists_and_reads_its_own_tasks_only(harbour: Harbour) -> None:
    def start(peer: StreamablePeer, name: str, **arguments: Any) -> str:
        return peer.request("tools/call", {**tool_params(name, arguments), "task": {}})["task"]["taskId"]

    with (
        StreamablePeer(harbour.gateway, "http-legacy") as one,
        StreamablePeer(harbour.gateway, "http-legacy") as two,
        StdioPeer(harbour.gateway, "http-legacy") as three,
    ):
        mine, theirs = start(one, "echo", text="mine"), start(two, "wait")
        assert [task["taskId"] for task in one.request("tasks/list")["tasks"]] == [mine]
        assert [task["taskId"] for task in two.request("tasks/list")["tasks"]] == [theirs]
        assert three.request("tasks/list")["tasks"] == []
        for method in ("tasks/get", "tasks/result", "tasks/cancel"):
            with pytest.raises(RpcRefused, match="no such task"):
                one.request(method, {"taskId": theirs})
        assert two.request("tasks/get", {"taskId": theirs})["status"] == "working"
        assert one.request("tasks/result", {"taskId": mine})["content"][0]["text"] == "mine"


# Eras


@pytest.mark.parametrize("first", ["legacy", "modern"])
def test_a_server_of_both_eras_shows_each_client_what_it_can_do_in_its_own(
    tmp_path: Path, first: str
) -> None:
    with ExitStack() as stack:
        url = stack.enter_context(running_process([sys.executable, "-S", str(SUPPORT / "dual_server.py")]))
        servers = [{"id": "s", "upstream": {"url": url}}]
        gateway = stack.enter_context(running_gateway(tmp_path, servers))
        kinds: list[Any] = [StreamablePeer, ModernHttpPeer]
        shown = {}
        for kind in kinds if first == "legacy" else reversed(kinds):
            with kind(gateway, "s") as peer:
                shown[kind.era] = peer.introduction["capabilities"]
                assert peer.tool("any")["content"][0]["text"] == kind.era
                assert peer.introduction["capabilities"] == shown[kind.era]
        assert shown["legacy"] == {"tools": {}, "prompts": {}}
        assert shown["modern"] == {
            "tools": {},
            "resources": {},
            "extensions": {"example.com/modern": {}},
        }


# Headers


def refused_method(peer: ModernStdioPeer, method: str) -> None:
    with pytest.raises(RpcRefused) as refused:
        peer.request(method)
    assert refused.value.code == -32601


@pytest.mark.parametrize("method", ["tools/list\r\nx-evil: yes", "tools/list\nx-evil: yes", "x\r\n\r\nGET /"])
def test_a_line_break_in_a_method_never_becomes_a_header(harbour: Harbour, method: str) -> None:
    journal = harbour.journals["http-modern"]
    journal.forget()
    with ModernStdioPeer(harbour.gateway, "http-modern") as peer:
        refused_method(peer, method)
        assert peer.tool("echo", {"text": "still"})["content"][0]["text"] == "still"
    headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": "tools/list"}
    own = {META + "protocolVersion": MODERN, META + "clientCapabilities": {}}
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {"_meta": own}}
    assert http_request(harbour.gateway.url("http-modern"), "POST", body, headers).status == 400
    seen = [{name.lower() for name in entry["headers"]} for entry in journal.events("headers")]
    assert seen
    assert not any("x-evil" in names for names in seen)
    assert all(message["method"] != method for message in journal.messages())
