"""Questions of legacy servers to modern clients: which call they belong to, and what belongs to the retry."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.conftest import LEGACY_SERVERS, Harbour
from tests.support.channels import http_request
from tests.support.gateway import Journal, running_gateway, scripted_command
from tests.support.peers import ModernHttpPeer, ModernStdioPeer, tool_params
from tests.support.waiting import eventually

ANSWER = {"action": "accept", "content": {"colour": "blue"}}
HANDLERS = {"elicitation/create": lambda _: ANSWER}


@pytest.mark.parametrize("server", LEGACY_SERVERS)
@pytest.mark.parametrize("kind", [ModernHttpPeer, ModernStdioPeer])
def test_after_the_answer_progress_belongs_to_the_retry(harbour: Harbour, server: str, kind: Any) -> None:
    with kind(harbour.gateway, server, handlers=HANDLERS) as peer:
        first = tool_params("ask", {"kind": "elicitation"}, progressToken="first")
        asked = peer.start("tools/call", first).result()
        name = next(iter(asked["inputRequests"]))
        retry = tool_params("ask", {"kind": "elicitation"}, progressToken="second")
        given = {"inputResponses": {name: ANSWER}, "requestState": asked["requestState"]}
        assert peer.start("tools/call", {**retry, **given}).result()["resultType"] == "complete"
        told = [message["params"]["progressToken"] for message in peer.of("notifications/progress")]
        assert told == ["second", "second"]


@pytest.mark.parametrize("server", ["stdio-legacy", "http-modern"])
@pytest.mark.parametrize("spelled", [r'"\ud83d"', "1e400", "1" * 40])
def test_a_call_can_ask_whatever_its_arguments_are(harbour: Harbour, server: str, spelled: str) -> None:
    """JSON allows more than a decoder takes, and such a call is recognised again all the same."""
    with ModernHttpPeer(harbour.gateway, server, handlers=HANDLERS) as peer:
        params = peer.prepare(tool_params("ask", {"kind": "elicitation", "odd": "?"}))

        def post(number: int, **more: Any) -> Any:
            message = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {**params, **more}}
            body = json.dumps(message).replace('"?"', spelled).encode()
            return http_request(peer.channel.url, "POST", body, peer.headers_for(message)).json()["result"]

        asked = post(1)
        given = dict.fromkeys(asked["inputRequests"], ANSWER)
        done = post(2, requestState=asked["requestState"], inputResponses=given)
        assert done["structuredContent"] == {"heard": ANSWER}


@pytest.mark.parametrize("share", ["client", "global"])
def test_a_server_that_wants_to_know_the_roots_at_once_disturbs_nobodys_call(
    tmp_path: Path, share: str
) -> None:
    """Over stdio nothing ties that question to a call, and none may fail because of it."""
    journal = Journal(tmp_path / "journal")
    command = [*scripted_command(journal.path, "stdio", "legacy"), "--curious"]
    servers = [{"id": "s", "workload": {"run": command}, "share": share}]
    with running_gateway(tmp_path, servers) as gateway, ModernHttpPeer(gateway, "s") as peer:
        assert peer.tool("nap", {"seconds": 0.3})["content"][0]["text"] == "woke up"
        answers = eventually(
            lambda: [m for m in journal.messages() if str(m.get("id", "")).startswith("server-")],
            "the server's question to be answered",
        )
        if share == "global":
            assert answers[0]["result"] == {"roots": []}
