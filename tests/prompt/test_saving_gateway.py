"""The gateway shortens lists where it is told to, for every client, and passes calls on as they are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.policy.shelf import Shelf, tool
from tests.support.gateway import Gateway, running_gateway
from tests.support.peers import ModernHttpPeer, StreamablePeer

SCHEMA = {
    "type": "object",
    "title": "SearchArguments",
    "properties": {
        "title": {"type": "string", "title": "Title", "description": "What  to look for. More on that."},
        "huge": {"type": "integer", "maximum": 123456789012345678901234567890, "multipleOf": 0.1},
    },
    "$defs": {"Unused": {"type": "string"}},
}
LONG = "Searches.   Everything. And  more of it, at length."
SHELF = [
    tool("search", LONG, inputSchema=SCHEMA),
    tool("renamed", LONG),
    tool(
        "wired", "Takes a file. Give `path` an upload:// handle, as the upload tool says.", inputSchema=SCHEMA
    ),
]
SAVINGS = {
    "strip_titles": True,
    "collapse_whitespace": True,
    "description_limit": 25,
    "drop_unused_defs": True,
}
RULES = {"override": {"renamed": {"name": "given", "description": "The operator's own words. All of them."}}}
SHORTER = {
    "type": "object",
    "properties": {
        "title": {"type": "string", "description": "What to look for."},
        "huge": {"type": "integer", "maximum": 123456789012345678901234567890, "multipleOf": 0.1},
    },
}

pytestmark = pytest.mark.e2e


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("saving")
    with ExitStack() as stack:
        servers = []
        for era in ("legacy", "modern"):
            shelf = Shelf(folder / era, *SHELF)
            servers.append(stack.enter_context(shelf.http(era, era, savings=SAVINGS, tools=RULES)))
        plain = Shelf(folder / "plain", *SHELF)
        servers.append(stack.enter_context(plain.http("plain", "legacy")))
        yield stack.enter_context(running_gateway(Path(folder), servers))


@pytest.mark.parametrize("server", ["legacy", "modern"])
@pytest.mark.parametrize("peer", [StreamablePeer, ModernHttpPeer], ids=lambda peer: peer.__name__)
def test_every_client_gets_the_shorter_list_and_calls_as_before(
    gateway: Gateway, peer: Any, server: str
) -> None:
    with peer(gateway, server) as client:
        listed = {entry["name"]: entry for entry in client.request("tools/list")["tools"]}
        assert listed["search"]["description"] == "Searches. Everything."
        assert listed["search"]["inputSchema"] == SHORTER
        assert listed["given"]["description"] == "The operator's own words. All of them."
        assert listed["wired"]["description"] == SHELF[2]["description"]
        called = client.tool("search", {"title": "x  y"})["structuredContent"]
        assert called == {"called": "search", "arguments": {"title": "x  y"}}


@pytest.mark.parametrize("server", ["legacy", "modern"])
def test_whoever_wants_to_compare_can_ask_for_the_whole_list(gateway: Gateway, server: str) -> None:
    with StreamablePeer(gateway, server) as client:
        listed = client.request("tools/list", {"_meta": {"mooring/unsaved": True}})["tools"]
    found = next(entry for entry in listed if entry["name"] == "search")
    assert (found["description"], found["inputSchema"]) == (LONG, SCHEMA)


def test_a_server_without_savings_is_listed_as_it_is(gateway: Gateway) -> None:
    with StreamablePeer(gateway, "plain") as client:
        assert [entry["inputSchema"] for entry in client.request("tools/list")["tools"]] == [
            entry["inputSchema"] for entry in SHELF
        ]
