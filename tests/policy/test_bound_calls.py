"""What waits for its caller is its caller's: a call that asked something, a stream that tells of tasks."""

from __future__ import annotations

import http.client
import json
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.policy.caller import META, MODERN, Caller
from tests.policy.test_bound_tasks import EXTENSION, asker, key, shared, start
from tests.support.gateway import Gateway, http_server, running_gateway
from tests.support.waiting import eventually

pytestmark = pytest.mark.e2e
Json = dict[str, Any]
CAPABLE: Json = {META + "clientCapabilities": {"elicitation": {}}}


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_a_foreign_call_that_waits_for_an_answer_does_not_exist(tmp_path: Path, era: str) -> None:
    with (
        http_server("one", tmp_path / "journal", era) as server,
        running_gateway(tmp_path, [server], auth={"mode": "api_key"}) as gateway,
    ):
        anna, berta = (known(gateway, key(gateway, name)) for name in ("anna", "berta"))
        call: Json = {"name": "ask", "arguments": {"kind": "elicitation"}, "_meta": CAPABLE}
        waiting = anna.modern("tools/call", call).result
        assert waiting["resultType"] == "input_required"
        answers = {name: {"action": "accept", "content": {}} for name in waiting["inputRequests"]}

        def resumed(who: Caller, state: str) -> Any:
            return who.modern("tools/call", {**call, "requestState": state, "inputResponses": answers})

        foreign, forged = resumed(berta, waiting["requestState"]), resumed(berta, "made-up")
        assert (foreign.status, foreign.error) == (forged.status, forged.error)
        assert "heard" in resumed(anna, waiting["requestState"]).result["structuredContent"]


def test_an_answer_is_taken_once_also_after_the_gateway_was_killed(tmp_path: Path) -> None:
    call: Json = {"name": "ask", "arguments": {"kind": "elicitation"}, "_meta": CAPABLE}
    with http_server("one", tmp_path / "journal", "modern") as server:
        with running_gateway(tmp_path, [server]) as gateway:
            first, second = (
                Caller(gateway.address, "one").modern("tools/call", call).result for _ in range(2)
            )
            answers = {name: {"action": "accept", "content": {}} for name in first["inputRequests"]}

            def retry(address: str, asked: Json) -> Any:
                given = {"requestState": asked["requestState"], "inputResponses": answers}
                return Caller(address, "one").modern("tools/call", {**call, **given})

            assert "heard" in retry(gateway.address, first).result["structuredContent"]
            gateway.process.kill()
        with running_gateway(tmp_path, [server]) as gateway:
            assert retry(gateway.address, first).error["message"] == "`requestState` was already used"
            assert "heard" in retry(gateway.address, second).result["structuredContent"]


def test_a_stream_tells_nobody_of_foreign_tasks(tmp_path: Path) -> None:
    with shared(tmp_path, "modern", "http", auth={"mode": "api_key"}) as gateway:
        keys = [key(gateway, name) for name in ("anna", "berta")]
        anna, berta = (asker(gateway, "modern", secret) for secret in keys)
        hers, other = start(anna, "modern"), start(berta, "modern")
        for secret, own in zip(keys, (hers, other), strict=True):
            assert granted(gateway, secret, [hers, other, "job-99"]) == [own]


def known(gateway: Gateway, secret: str) -> Caller:
    caller = Caller(gateway.address, "one", {"Authorization": f"Bearer {secret}"})
    eventually(lambda: caller.modern("tools/list").status == 200, "the key to be known")
    return caller


def granted(gateway: Gateway, secret: str, tasks: list[str]) -> list[str]:
    """Of which of these tasks a stream will tell, as it says when it opens."""
    stamp = {META + "protocolVersion": MODERN, META + "clientCapabilities": {"extensions": {EXTENSION: {}}}}
    params = {"notifications": {"taskIds": tasks}, "_meta": stamp}
    message = {"jsonrpc": "2.0", "id": 1, "method": "subscriptions/listen", "params": params}
    headers = {
        "Authorization": f"Bearer {secret}",
        "Accept": "application/json, text/event-stream",
        "Content-Type": "application/json",
        "MCP-Protocol-Version": MODERN,
        "Mcp-Method": "subscriptions/listen",
    }
    with closing(http.client.HTTPConnection(gateway.host, gateway.port, timeout=20)) as connection:
        connection.request("POST", "/mcp/jobs", json.dumps(message), headers)
        with connection.getresponse() as stream:
            for line in stream:
                if line.startswith(b"data: {"):
                    told = json.loads(line[6:])
                    assert told["method"] == "notifications/subscriptions/acknowledged", told
                    return told["params"]["notifications"].get("taskIds", [])
    raise AssertionError("the stream said nothing")
