"""Every front leads through the same chain: however a call comes in, all that guards it is there."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.support.channels import http_request
from tests.support.gateway import http_server, running_gateway
from tests.support.peers import (
    ModernHttpPeer,
    ModernStdioPeer,
    Pending,
    SsePeer,
    StdioPeer,
    StreamablePeer,
    tool_params,
)

pytestmark = pytest.mark.e2e
Json = dict[str, Any]
Call = Callable[[Any, str, Json], Json]
MOST_CALLS = 4
LARGE = 300_000


def alone(peer: Any, tool: str, arguments: Json) -> Json:
    return peer.start_tool(tool, arguments).answer()


def in_a_batch(peer: Any, tool: str, arguments: Json) -> Json:
    """Beside another request."""
    number = next(peer.ids)
    call = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": tool_params(tool, arguments)}
    batch = [{"jsonrpc": "2.0", "id": f"ping {number}", "method": "ping"}, call]
    if isinstance(peer, StreamablePeer):
        said = http_request(peer.channel.url, "POST", batch, peer.headers_for({}))
        answers = said.json() if said.body else json.loads(said.events[-1].data)
        return next(answer for answer in answers if answer["id"] == number)
    pending = peer.pending[number] = Pending(number)
    peer.channel.send(batch)
    return pending.answer()


FRONTS: dict[str, tuple[Any, str, Call]] = {
    "Streamable HTTP": (StreamablePeer, "2025-11-25", alone),
    "a batch over Streamable HTTP": (StreamablePeer, "2025-03-26", in_a_batch),
    "HTTP+SSE": (SsePeer, "2024-11-05", alone),
    "a batch over HTTP+SSE": (SsePeer, "2025-03-26", in_a_batch),
    "stdio": (StdioPeer, "2025-11-25", alone),
    "a batch over stdio": (StdioPeer, "2025-03-26", in_a_batch),
    "modern HTTP": (ModernHttpPeer, "2026-07-28", alone),
    "modern stdio": (ModernStdioPeer, "2026-07-28", alone),
}
SETTINGS: Json = {
    "audit": {"enabled": True},
    "results": {"max_inline_bytes": 20_000},
    "limits": {
        "rate": [{"count": MOST_CALLS, "seconds": 3600, "per": ["tool"], "methods": ["tools/call"]}],
    },
}


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("front", FRONTS)
def test_a_call_passes_everything_that_is_on(tmp_path: Path, front: str, era: str) -> None:
    kind, version, call = FRONTS[front]
    rules: Json = {"tools": {"deny": ["fail"], "override": {"echo": {"name": "say"}}}}
    with (
        http_server("one", tmp_path / "journal", era, **rules) as server,
        running_gateway(tmp_path, [server], **SETTINGS) as gateway,
        kind(gateway, "one", version) as peer,
    ):
        assert call(peer, "fail", {})["error"]["message"] == "Unknown tool: fail"
        assert call(peer, "echo", {})["error"]["message"] == "Unknown tool: echo"
        assert call(peer, "say", {"text": "x"})["result"]["content"][0]["text"] == "x"
        shown = json.dumps(call(peer, "big", {"bytes": LARGE})["result"])
        assert len(shown) < LARGE / 2
        assert "result://" in shown
        for _ in range(MOST_CALLS - 1):
            assert "result" in call(peer, "say", {"text": "x"})
        assert "is reached" in call(peer, "say", {"text": "x"})["error"]["message"]
        lines = (gateway.folder / "data" / "audit.log").read_text().splitlines()
        events = [event for event in map(json.loads, lines) if event["type"] == "mcp_tool_call"]
        told = [(event["target"]["name"], event["outcome"]) for event in events]
        good = [("say", "success")] * MOST_CALLS
        assert told[:2] == [("fail", "denied"), ("echo", "denied")]
        assert [entry for entry in told if entry == ("say", "success")] == good
        assert ("big", "success") in told
        assert told[-1][0] == "say"
        assert told[-1][1] != "success"
