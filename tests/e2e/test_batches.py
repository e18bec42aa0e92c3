"""Batches (2025-03-26): received, split, gathered, answered as a batch; refused in every other revision."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.conftest import SERVERS, Harbour
from tests.support.channels import http_request
from tests.support.gateway import http_server, running_gateway
from tests.support.peers import SsePeer, StdioPeer, StreamablePeer, tool_params
from tests.support.waiting import eventually

BATCH = [
    {"jsonrpc": "2.0", "id": "a", "method": "tools/call", "params": tool_params("nap", {"seconds": 0.2})},
    {"jsonrpc": "2.0", "id": "b", "method": "tools/call", "params": tool_params("echo", {"text": "bee"})},
    {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"},
    {"jsonrpc": "2.0", "id": "c", "method": "nonsense/method"},
]


def by_id(answers: list[Any]) -> dict[str, Any]:
    return {answer["id"]: answer for answer in answers}


def check(answers: list[Any]) -> None:
    found = by_id(answers)
    assert sorted(found) == ["a", "b", "c"]
    assert found["a"]["result"]["content"][0]["text"] == "woke up"
    assert found["b"]["result"]["content"][0]["text"] == "bee"
    assert found["c"]["error"]["code"] == -32601


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("accept", ["application/json, text/event-stream", "application/json"])
def test_a_batch_is_answered_as_one(harbour: Harbour, server: str, accept: str) -> None:
    with StreamablePeer(harbour.gateway, server, "2025-03-26") as peer:
        answer = http_request(peer.channel.url, "POST", BATCH, {**peer.headers_for({}), "Accept": accept})
        assert answer.status == 200
        check(answer.json() if answer.body else json.loads(answer.events[-1].data))


def test_a_batch_over_http_sse_is_answered_as_one_event(harbour: Harbour) -> None:
    with SsePeer(harbour.gateway, "stdio-legacy", "2025-03-26") as peer:
        before = len(peer.channel.stream.events)
        peer.channel.send(BATCH)
        events = eventually(lambda: peer.channel.stream.events[before:], "the answer")
        assert len(events) == 1
        check(json.loads(events[0].data))


def test_a_batch_over_stdio_is_answered_on_one_line(harbour: Harbour) -> None:
    with StdioPeer(harbour.gateway, "stdio-legacy", "2025-03-26") as peer:
        before = len(peer.channel.lines)
        peer.channel.send(BATCH)
        lines = eventually(lambda: peer.channel.lines[before:], "the answer")
        assert len(lines) == 1
        check(json.loads(lines[0]))


def test_a_batch_without_requests_is_only_accepted(harbour: Harbour) -> None:
    with StreamablePeer(harbour.gateway, "stdio-legacy", "2025-03-26") as peer:
        answer = http_request(peer.channel.url, "POST", BATCH[2:3], peer.headers_for({}))
        assert (answer.status, answer.body) == (202, b"")


def test_a_cancelled_part_of_a_batch_is_left_out_of_the_answer(harbour: Harbour) -> None:
    wait = {"jsonrpc": "2.0", "id": "w", "method": "tools/call", "params": tool_params("wait")}
    notice = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "w"}}
    with StreamablePeer(harbour.gateway, "stdio-legacy", "2025-03-26") as peer:
        answer = http_request(peer.channel.url, "POST", [wait, BATCH[1], notice], peer.headers_for({}))
        assert list(by_id(answer.json() if answer.body else json.loads(answer.events[-1].data))) == ["b"]


@pytest.mark.parametrize(
    ("batch", "why"),
    [
        ([], "empty"),
        ([{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}], "initialize"),
        ([1], "not a JSON-RPC message"),
    ],
)
def test_what_is_no_batch_is_refused(harbour: Harbour, batch: list[Any], why: str) -> None:
    with StreamablePeer(harbour.gateway, "stdio-legacy", "2025-03-26") as peer:
        answer = http_request(peer.channel.url, "POST", batch, peer.headers_for({}))
        assert answer.status == 400
        assert why in answer.json()["error"]["message"]


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
def test_later_revisions_have_no_batches(harbour: Harbour, version: str) -> None:
    with StreamablePeer(harbour.gateway, "stdio-legacy", version) as peer:
        answer = http_request(peer.channel.url, "POST", BATCH, peer.headers_for({}))
        assert answer.status == 400
        assert answer.json()["error"]["code"] == -32600
        assert "has no batches" in answer.json()["error"]["message"]


def test_a_modern_client_cannot_batch(harbour: Harbour) -> None:
    headers = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call"}
    answer = http_request(harbour.gateway.url("http-modern"), "POST", BATCH, headers)
    assert answer.status == 400
    assert "batch" in answer.json()["error"]["message"]


def test_later_revisions_have_no_batches_over_stdio(harbour: Harbour) -> None:
    with StdioPeer(harbour.gateway, "stdio-legacy", "2025-11-25") as peer:
        before = len(peer.channel.lines)
        peer.channel.send(BATCH)
        lines = eventually(lambda: peer.channel.lines[before:], "the refusal")
        assert json.loads(lines[0])["error"]["code"] == -32600


@pytest.mark.parametrize("kind", [StreamablePeer, SsePeer, StdioPeer], ids=lambda kind: kind.__name__)
def test_every_message_of_a_batch_is_seen_on_the_wire(folder: Path, kind: Any) -> None:
    with (
        http_server("one", folder / "journal") as server,
        running_gateway(folder, [server], trace={"file": str(folder / "trace")}) as gateway,
        kind(gateway, "one", "2025-03-26") as peer,
    ):

        def seen(direction: str) -> list[tuple[str, str, str]]:
            records = [json.loads(line) for line in (folder / "trace").read_text().splitlines()]
            mine = [record for record in records if (record["leg"], record["dir"]) == ("client", direction)]
            return sorted((r["kind"], r["method"] or "", r["id"]) for r in mine if r["id"] in ('"b"', '"c"'))

        if kind is StreamablePeer:
            http_request(peer.channel.url, "POST", BATCH, peer.headers_for({}))
        else:
            peer.channel.send(BATCH)
        asked = [("request", "nonsense/method", '"c"'), ("request", "tools/call", '"b"')]
        eventually(lambda: seen("in") == asked, "the requests")
        eventually(lambda: seen("out") == [("error", "", '"c"'), ("response", "", '"b"')], "their answers")
