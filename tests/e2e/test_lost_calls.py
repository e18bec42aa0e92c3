"""Calls whose stream, session or client is lost on the way: run once, answered once, nobody else delayed."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.conftest import LEGACY_SERVERS, SERVERS, Harbour
from tests.support.gateway import (
    SUPPORT,
    Gateway,
    Journal,
    http_server,
    running_gateway,
    running_process,
    stdio_server,
)
from tests.support.peers import (
    ModernHttpPeer,
    ModernStdioPeer,
    RpcRefused,
    SsePeer,
    StdioPeer,
    StreamablePeer,
    tool_params,
)
from tests.support.waiting import eventually

UPSTREAM_FAILED = -31001
LARGE = 400_000
"""Larger than what flows through while it arrives."""


def accept(_: Any) -> dict[str, Any]:
    return {"action": "accept", "content": {"colour": "blue"}}


# Streams and refusals


@pytest.fixture
def bad(tmp_path: Path) -> Iterator[tuple[Gateway, Journal]]:
    journal = Journal(tmp_path / "bad.journal")
    command = [sys.executable, "-S", str(SUPPORT / "bad_server.py"), "--transport", "http"]
    with ExitStack() as stack:
        url = stack.enter_context(running_process([*command, "--record", str(journal.path)]))
        server = {"id": "s", "upstream": {"url": url}, "breaker": {"failures": 2, "open_seconds": 60}}
        sessions = {"upstream_session_termination_retries": 3}
        yield stack.enter_context(running_gateway(tmp_path, [server], sessions=sessions)), journal


@pytest.mark.parametrize("status", [404, 405, 500])
@pytest.mark.parametrize(
    ("kind", "version"),
    [(StreamablePeer, "2025-06-18"), (SsePeer, "2024-11-05"), (ModernHttpPeer, "2026-07-28")],
)
def test_a_call_whose_stream_cannot_be_resumed_is_never_sent_again(
    bad: tuple[Gateway, Journal], kind: Any, version: str, status: int
) -> None:
    gateway, journal = bad
    with kind(gateway, "s", version) as peer:
        with pytest.raises(RpcRefused, match="would not resume") as refused:
            peer.tool("poll_in_vain", {"status": status})
        assert refused.value.code == UPSTREAM_FAILED
        assert len(journal.messages("tools/call")) == 1
        assert len(journal.messages("GET")) == 1


@pytest.mark.parametrize("kind", [StreamablePeer, SsePeer, ModernHttpPeer])
def test_mistakes_of_clients_do_not_open_the_breaker(bad: tuple[Gateway, Journal], kind: Any) -> None:
    gateway, journal = bad
    with kind(gateway, "s") as peer:
        for _ in range(5):
            with pytest.raises(RpcRefused, match="HTTP 400"):
                peer.tool("http_400")
        assert peer.tool("good")["content"][0]["text"].startswith("good")
        assert gateway.status("s")["state"] == "up"
    assert len([m for m in journal.messages("tools/call") if m["params"]["name"] == "http_400"]) >= 5


@pytest.mark.parametrize("kind", [StreamablePeer, SsePeer, ModernHttpPeer])
def test_a_call_that_an_sse_server_answers_with_a_server_error_is_not_repeated(
    tmp_path: Path, kind: Any
) -> None:
    journal = Journal(tmp_path / "journal")
    sessions = {"upstream_session_termination_retries": 3}
    with (
        http_server("s", journal.path, transport="sse") as server,
        running_gateway(tmp_path, [server], sessions=sessions) as gateway,
        kind(gateway, "s") as peer,
    ):
        with pytest.raises(RpcRefused, match="HTTP 503") as refused:
            peer.tool("http_503")
        assert refused.value.code == UPSTREAM_FAILED
        assert len(journal.events("refused")) == 1
        assert peer.tool("echo", {"text": "still"})["content"][0]["text"] == "still"


# Questions


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("kind", [StreamablePeer, SsePeer, StdioPeer, ModernHttpPeer, ModernStdioPeer])
def test_a_large_question_reaches_its_client_whole(harbour: Harbour, server: str, kind: Any) -> None:
    asked: list[int] = []

    def answer(params: dict[str, Any]) -> dict[str, Any]:
        asked.append(len(params["message"]))
        return accept(params)

    journal = harbour.journals[server]
    journal.forget()
    with kind(harbour.gateway, server, handlers={"elicitation/create": answer}) as peer:
        result = peer.tool("ask", {"kind": "elicitation", "padding": LARGE})
        assert result["structuredContent"]["heard"]["content"] == {"colour": "blue"}
    assert asked == [LARGE]
    assert len(journal.events("finished asking")) == 1


@pytest.mark.parametrize("server", LEGACY_SERVERS)
def test_the_outcome_of_a_call_waits_for_its_client(harbour: Harbour, server: str) -> None:
    journal = harbour.journals[server]
    journal.forget()
    with ModernHttpPeer(harbour.gateway, server, handlers={"elicitation/create": accept}) as peer:
        asked = peer.start_tool("impatient").result()
        assert asked["resultType"] == "input_required"
        eventually(lambda: journal.events("went on"), "the tool to go on without an answer")
        eventually(lambda: harbour.gateway.in_flight(server) == 0, "the call to be over")
        answers = {name: accept(None) for name in asked["inputRequests"]}
        retry = {**tool_params("impatient"), "inputResponses": answers, "requestState": asked["requestState"]}
        assert peer.start("tools/call", retry).result()["content"][0]["text"] == "went on alone"
        again = peer.start("tools/call", retry).result()
        assert again["isError"], "an outcome is given out once"
        assert len(journal.events("ran", "impatient")) == 1


# Neighbours


def test_a_hung_server_keeps_nothing_else_from_being_looked_after(tmp_path: Path) -> None:
    journals = {name: Journal(tmp_path / f"{name}.journal") for name in ("hung", "other")}
    servers = [
        stdio_server("hung", journals["hung"].path, share="global"),
        stdio_server("other", journals["other"].path, timeouts={"call_seconds": 1}),
    ]
    with (
        running_gateway(tmp_path, servers, sessions={"idle_ttl_seconds": 1.5}) as gateway,
        StreamablePeer(gateway, "hung") as stuck,
    ):
        stuck.subscribe("item://1")
        stopped = stuck.tool("whoami")["structuredContent"]["pid"]
        os.kill(stopped, signal.SIGSTOP)  # it will not answer when its client's subscription ends
        try:
            eventually(lambda: gateway.status("hung")["sessions"] == 0, "the stuck session to expire")
            with StreamablePeer(gateway, "other") as free:
                with pytest.raises(RpcRefused, match="did not answer within"):
                    free.tool("wait")
                eventually(lambda: gateway.status("other")["sessions"] == 0, "the free session to expire")
            assert "did not answer `resources/unsubscribe`" not in gateway.log(), "it was waited for"
        finally:
            os.kill(stopped, signal.SIGCONT)
