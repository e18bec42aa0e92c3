"""Whether a server can be used: idle, up or down with the reason, and a breaker that lets a probe through."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.gateway import SUPPORT, Gateway, Journal, running_gateway, stdio_server
from tests.support.peers import ModernHttpPeer, RpcRefused, SsePeer, StreamablePeer, tool_params
from tests.support.waiting import eventually

BAD = [sys.executable, "-S", str(SUPPORT / "bad_server.py"), "--transport", "stdio"]
OPEN_SECONDS = 1.0
STEADY_FAILURES = 5
"""How many open the breaker where nothing else is said."""


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    server = {
        "id": "frail",
        "workload": {"run": BAD},
        "share": "global",
        "timeouts": {"call_seconds": 0.5, "total_seconds": 1},
        "breaker": {"failures": 3, "open_seconds": OPEN_SECONDS},
    }
    steady = {"id": "steady", "workload": {"run": BAD}}
    with running_gateway(tmp_path, [server, steady]) as gateway:
        yield gateway


def health(gateway: Gateway) -> dict[str, Any]:
    return gateway.get("/healthz")["servers"]["frail"]


def test_a_server_is_idle_until_used_up_after_a_success_and_down_with_its_reason(gateway: Gateway) -> None:
    assert gateway.get("/healthz")["status"] == "ok"
    assert health(gateway) == {"state": "idle", "reasons": []}
    with ModernHttpPeer(gateway, "frail") as peer:
        peer.tool("good")
        assert health(gateway) == {"state": "up", "reasons": []}
        with pytest.raises(RpcRefused):
            peer.tool("die")
        assert health(gateway)["state"] == "down"
        assert "exit code 7" in health(gateway)["reasons"][0]
        assert gateway.get("/healthz")["status"] == "degraded"
        assert gateway.get("/healthz")["servers"]["steady"]["state"] == "idle"
        peer.tool("good")
        assert health(gateway)["state"] == "up"


def break_it(peer: ModernHttpPeer, fault: str) -> None:
    for _ in range(3):
        with pytest.raises(RpcRefused):
            peer.tool(fault)
    with pytest.raises(RpcRefused, match="is down"):
        peer.tool("good")


@pytest.mark.parametrize("fault", ["die", "silent"])
def test_failures_in_a_row_open_the_breaker_and_a_probe_closes_it(gateway: Gateway, fault: str) -> None:
    with ModernHttpPeer(gateway, "frail") as peer:
        peer.tool("good")
        break_it(peer, fault)
        started = time.monotonic()
        with pytest.raises(RpcRefused, match="try again in"):
            peer.tool("good")
        assert time.monotonic() - started < 0.5  # at once, not after a deadline
        assert len(health(gateway)["reasons"]) == 2
        eventually(lambda: succeeds(peer), "the probe to be let through", limit=OPEN_SECONDS + 3)
        peer.tool("good")
        assert health(gateway) == {"state": "up", "reasons": []}


def succeeds(peer: ModernHttpPeer) -> bool:
    try:
        peer.tool("good")
    except RpcRefused:
        return False
    return True


@pytest.mark.parametrize("outcome", ["cancelled", "timed out"])
def test_a_probe_that_never_ends_does_not_lock_the_server_out_for_ever(
    gateway: Gateway, outcome: str
) -> None:
    with ModernHttpPeer(gateway, "frail") as peer:
        break_it(peer, "die")
        time.sleep(OPEN_SECONDS + 0.1)  # the time that the breaker stays open
        probe = peer.start_tool("silent")
        eventually(lambda: gateway.in_flight("frail") == 1, "the probe to be under way")
        if outcome == "cancelled":
            peer.cancel(probe)
        eventually(lambda: gateway.in_flight("frail") == 0, "the probe to be over")
        eventually(lambda: succeeds(peer), "the next probe")
        assert gateway.status("frail")["state"] == "up"


STARTS_LATE_AND_DIES = """
import pathlib, sys, time
while not pathlib.Path(sys.argv[1]).exists():
    time.sleep(0.01)
sys.exit("no luck today")
"""


@pytest.mark.parametrize("method", ["tools/list", "server/discover"])
def test_a_start_that_fails_is_one_failure_however_many_wait_for_it(tmp_path: Path, method: str) -> None:
    gate, callers = tmp_path / "gate", 8
    server = {
        "id": "frail",
        "workload": {"run": [sys.executable, "-S", "-c", STARTS_LATE_AND_DIES, str(gate)], "era": "legacy"},
        "share": "global",
        "breaker": {"failures": callers, "open_seconds": 600},
    }
    with running_gateway(tmp_path, [server]) as gateway, ModernHttpPeer(gateway, "frail") as peer:
        calls = [peer.start(method) for _ in range(callers)]
        eventually(lambda: gateway.in_flight("frail") == callers, "all of them to wait")
        gate.touch()
        for call in calls:
            assert "error" in call.answer()
        assert gateway.status("frail")["errors"] >= callers
        assert len(health(gateway)["reasons"]) == 1  # and none that says for how long it is not tried


def test_a_death_is_one_failure_however_many_calls_it_ends(gateway: Gateway) -> None:
    with ModernHttpPeer(gateway, "steady") as peer:
        calls = [peer.start_tool("silent") for _ in range(STEADY_FAILURES)]
        eventually(lambda: gateway.in_flight("steady") == len(calls), "all of them to run")
        calls.append(peer.start_tool("die"))
        for call in calls:
            assert "error" in call.answer()
        assert peer.tool("good")


def test_an_error_of_a_tool_is_no_failure_of_its_server(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    server = stdio_server("s", journal.path, breaker={"failures": 2, "open_seconds": 60})
    with running_gateway(tmp_path, [server]) as gateway, ModernHttpPeer(gateway, "s") as peer:
        for _ in range(3):
            assert peer.tool("fail")["isError"] is True
            with pytest.raises(RpcRefused, match="no tool"):
                peer.tool("nonsense")
        assert gateway.status("s")["state"] == "up"


@pytest.mark.parametrize("kind", [StreamablePeer, SsePeer, ModernHttpPeer])
@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_a_person_may_take_longer_than_a_server(tmp_path: Path, kind: Any, era: str) -> None:
    def answer_slowly(_: Any) -> dict[str, Any]:
        time.sleep(1.5)
        return {"action": "accept", "content": {"colour": "slow"}}

    journal = Journal(tmp_path / "journal")
    server = stdio_server("s", journal.path, era, timeouts={"call_seconds": 0.6, "total_seconds": 10})
    with (
        running_gateway(tmp_path, [server]) as gateway,
        kind(gateway, "s", handlers={"elicitation/create": answer_slowly}) as peer,
    ):
        heard = peer.tool("ask", {"kind": "elicitation"})["structuredContent"]["heard"]
        assert heard["content"] == {"colour": "slow"}


@pytest.mark.parametrize("kind", [StreamablePeer, SsePeer])
def test_an_answered_question_does_not_hurry_the_one_that_is_still_open(tmp_path: Path, kind: Any) -> None:
    journal = Journal(tmp_path / "journal")
    server = stdio_server("s", journal.path, timeouts={"call_seconds": 0.6, "total_seconds": 30})

    def answer_slowly(_: Any) -> dict[str, Any]:
        eventually(lambda: journal.events("heard"), "the other question to be answered")
        time.sleep(1.5)  # more than the server may take
        return {"role": "assistant", "content": {"type": "text", "text": "hi"}, "model": "m"}

    handlers = {
        "elicitation/create": lambda _: {"action": "decline"},
        "sampling/createMessage": answer_slowly,
    }
    with running_gateway(tmp_path, [server]) as gateway, kind(gateway, "s", handlers=handlers) as peer:
        heard = peer.tool("ask_both")["structuredContent"]
        assert heard["elicitation"] == {"action": "decline"}
        assert heard["sampling"]["content"]["text"] == "hi"


def test_questions_asked_a_moment_apart_reach_a_modern_client_together(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    handlers = {"elicitation/create": lambda _: {}, "sampling/createMessage": lambda _: {}}
    with (
        running_gateway(tmp_path, [stdio_server("s", journal.path)]) as gateway,
        ModernHttpPeer(gateway, "s", handlers=handlers) as peer,
    ):
        asked = peer.start_tool("ask_both", {"pause": 0.015}).result()
        assert sorted(q["method"] for q in asked["inputRequests"].values()) == sorted(handlers)
        peer.start("tools/call", {**tool_params("ask_both", {"pause": 0.015}), **_answers(asked)}).result()
        assert len(journal.events("ran")) == 1


def _answers(asked: dict[str, Any]) -> dict[str, Any]:
    responses = {name: {"action": "decline"} for name in asked["inputRequests"]}
    return {"inputResponses": responses, "requestState": asked["requestState"]}


@pytest.mark.parametrize("share", ["client", "call"])
def test_the_start_of_a_server_does_not_count_as_its_answer(tmp_path: Path, share: str) -> None:
    slow = (
        "import runpy, sys, time; time.sleep(2); del sys.argv[0];"
        "runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    run = [sys.executable, "-S", "-c", slow, str(SUPPORT / "bad_server.py"), "--transport", "stdio"]
    server = {"id": "s", "workload": {"run": run, "era": "legacy"}, "share": share}
    patient = {**server, "timeouts": {"connect_seconds": 30, "call_seconds": 1}}
    with running_gateway(tmp_path, [patient]) as gateway, ModernHttpPeer(gateway, "s") as peer:
        assert peer.tool("good")["content"][0]["text"].startswith("good")
        with pytest.raises(RpcRefused, match="did not answer within"):
            peer.tool("silent")


def test_a_server_that_only_ever_died_has_no_success(tmp_path: Path) -> None:
    dies = {"id": "dies", "workload": {"run": [sys.executable, "-c", "raise SystemExit(3)"]}}
    with running_gateway(tmp_path, [dies]) as gateway:
        assert gateway.command("tool", "list", "dies").returncode == 1
        [server] = json.loads(gateway.command("status", "--format", "json").stdout)["servers"]
    assert server["last_success_seconds_ago"] is None
    assert server["calls"] == server["errors"]
