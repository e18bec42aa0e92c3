"""Tool filter and override: what is not shown cannot be called, and both under the shown name."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from tests.policy.caller import Caller
from tests.policy.shelf import Shelf, tool
from tests.support.gateway import Gateway, running_gateway
from tests.support.peers import ModernHttpPeer, ModernStdioPeer, Peer, SsePeer, StdioPeer, StreamablePeer
from tests.support.waiting import eventually

from mooring.policy.tools import Override, ToolRules

RULES: dict[str, Any] = {
    "allow": ["read_*", "search", "greet"],
    "deny": ["read_secret"],
    "override": {
        "search": {
            "name": "find",
            "description": "finds things",
            "annotations": {"readOnlyHint": True},
        }
    },
}
SHELF = [
    tool("read_file", annotations={"title": "Read"}),
    tool("read_secret"),
    tool("search", annotations={"openWorldHint": False}),
    tool("find", "another tool whose name was given away"),
    tool("delete"),
]
SHOWN = ["read_file", "find"]
SERVERS = ("stdio-legacy", "stdio-modern", "http-legacy", "http-modern")


class Filtered:
    def __init__(self, gateway: Gateway, shelves: dict[str, Shelf]) -> None:
        self.gateway = gateway
        self.shelves = shelves


@pytest.fixture(scope="module")
def filtered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Filtered]:
    folder = tmp_path_factory.mktemp("filter")
    shelves = {name: Shelf(folder / name, *SHELF) for name in SERVERS}
    with ExitStack() as stack:
        servers = []
        for name, shelf in shelves.items():
            transport, era = name.split("-")
            if transport == "stdio":
                servers.append(shelf.stdio(name, era, tools=RULES))
            else:
                servers.append(stack.enter_context(shelf.http(name, era, tools=RULES)))
        yield Filtered(stack.enter_context(running_gateway(folder, servers)), shelves)


PEERS = [StreamablePeer, SsePeer, StdioPeer, ModernHttpPeer, ModernStdioPeer]


@pytest.mark.e2e
@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("peer", PEERS, ids=lambda peer: peer.__name__)
def test_lists_and_calls_agree_for_every_client_and_server(
    filtered: Filtered, peer: Any, server: str
) -> None:
    with peer(filtered.gateway, server) as client:
        assert isinstance(client, Peer)
        listed = {entry["name"]: entry for entry in client.request("tools/list")["tools"]}
        assert sorted(listed) == sorted(SHOWN)  # 2026-07-28 wants a stable order
        assert listed["find"]["description"] == "finds things"
        assert listed["find"]["annotations"] == {"openWorldHint": False, "readOnlyHint": True}
        assert listed["read_file"].items() >= SHELF[0].items()
        called = client.tool("find", {"text": "x"})["structuredContent"]
        assert called == {"called": "search", "arguments": {"text": "x"}}
        hidden_names = ["search", "read_secret", "delete", "nothing", "READ_FILE", "read_file.", "read_fil"]
        if peer is not ModernHttpPeer:  # which would have to say it in a header
            hidden_names += ["read_file\u200b", "re\u0430d_file", "\uff52ead_file"]
        for hidden in hidden_names:
            answer = client.start_tool(hidden).answer()
            assert answer["error"] == {"code": -32602, "message": f"Unknown tool: {hidden}"}
    reached = {call["name"] for call in filtered.shelves[server].calls()}
    assert reached <= {"search", "read_file"}


@pytest.mark.e2e
@pytest.mark.parametrize("server", SERVERS)
def test_hidden_and_absent_tools_are_answered_byte_for_byte_alike(filtered: Filtered, server: str) -> None:
    caller = Caller(filtered.gateway.address, server)
    caller.initialize()
    modern = Caller(filtered.gateway.address, server)

    def seen(name: str) -> list[tuple[int, bytes]]:
        caller._number = modern._number = 7
        answers = caller.tool(name), modern.modern_tool(name)
        return [(said.status, said.text) for said in answers]

    absent = [(status, text.replace(b"secrex", b"secret")) for status, text in seen("read_secrex")]
    assert absent == seen("read_secret")


@pytest.mark.e2e
def test_a_name_given_twice_smuggles_nothing(filtered: Filtered) -> None:
    shelf = filtered.shelves["http-legacy"]
    caller = Caller(filtered.gateway.address, "http-legacy")
    caller.initialize()
    shelf.journal.forget()
    for params in (
        b'{"name":"delete","name":"read_file","arguments":{}}',
        b'{"name":"read_file","n\\u0061me":"read_file","arguments":{"text":"a","text":"b"}}',
    ):
        caller.post(b'{"jsonrpc":"2.0","id":9,"method":"tools/call","params":%b}' % params)
    raw = shelf.journal.raw("tools/call")
    assert [json.loads(text)["params"]["name"] for text in raw] == ["read_file", "read_file"]
    assert all(text.count('"name"') == 1 and text.count('"text"') <= 1 for text in raw)
    refused = caller.post(
        b'{"jsonrpc":"2.0","id":10,"method":"tools/call","params":{"name":"read_file","name":"delete"}}'
    )
    assert refused.error["message"] == "Unknown tool: delete"


@pytest.mark.e2e
def test_a_batch_is_judged_message_by_message(filtered: Filtered) -> None:
    with StreamablePeer(filtered.gateway, "http-legacy", version="2025-03-26") as client:
        caller = Caller(filtered.gateway.address, "http-legacy")
        params = {
            "protocolVersion": "2025-03-26",
            "capabilities": {},
            "clientInfo": {"name": "t", "version": "1"},
        }
        opened = caller.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
        caller.session = {"Mcp-Session-Id": opened.headers["mcp-session-id"]}
        caller.post({"jsonrpc": "2.0", "method": "notifications/initialized"})
        batch = [
            {"jsonrpc": "2.0", "id": n, "method": "tools/call", "params": {"name": name, "arguments": {}}}
            for n, name in enumerate(("find", "delete"))
        ] + [{"jsonrpc": "2.0", "id": 5, "method": "tools/list"}]
        said = caller.post(batch)
        answers = {entry["id"]: entry for entry in json.loads(said.body)}
        assert answers[0]["result"]["structuredContent"]["called"] == "search"
        assert answers[1]["error"]["message"] == "Unknown tool: delete"
        assert [entry["name"] for entry in answers[5]["result"]["tools"]] == SHOWN
        assert client is not None


@pytest.mark.e2e
def test_a_tool_that_appears_later_is_judged_by_the_same_rule(filtered: Filtered) -> None:
    shelf = filtered.shelves["http-legacy"]
    caller = Caller(filtered.gateway.address, "http-legacy")
    caller.initialize()
    assert [entry["name"] for entry in caller.request("tools/list").result["tools"]] == SHOWN
    shelf.put(*SHELF, tool("read_more"), tool("erase"))
    try:
        eventually(lambda: "result" in caller.tool("read_more").message, "the new tool to be callable")
        assert caller.tool("erase").error["message"] == "Unknown tool: erase"
        names = [entry["name"] for entry in caller.request("tools/list").result["tools"]]
        assert names == [*SHOWN, "read_more"]
    finally:
        shelf.put(*SHELF)


def test_an_empty_allow_list_means_all() -> None:
    rules = ToolRules([], ["x*"], {})
    assert (rules.shown("a"), rules.shown("x1"), rules.actual("x1")) == ("a", None, None)


def test_a_denied_tool_stays_denied_under_its_new_name() -> None:
    rules = ToolRules([], ["delete"], {"delete": Override(name="tidy")})
    assert rules.shown("delete") is None
    assert rules.actual("tidy") is None
    by_new_name = ToolRules([], ["tidy"], {"delete": Override(name="tidy")})
    assert by_new_name.shown("delete") is None


def test_names_that_swap_places_lead_to_the_right_tools() -> None:
    rules = ToolRules([], [], {"a": Override(name="b"), "b": Override(name="a")})
    assert (rules.shown("a"), rules.shown("b")) == ("b", "a")
    assert (rules.actual("a"), rules.actual("b")) == ("b", "a")
