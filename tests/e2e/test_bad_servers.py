"""Servers that misbehave: each fault has a defined outcome for its own caller, and none for anybody else."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.support.gateway import SUPPORT, Gateway, Journal, running_gateway, running_process
from tests.support.peers import ModernHttpPeer, RpcRefused, SsePeer, StreamablePeer
from tests.support.waiting import eventually

BAD = [sys.executable, "-S", str(SUPPORT / "bad_server.py")]
CALL_SECONDS = 1.5
UPSTREAM_FAILED = -31001
TIMED_OUT = -31002


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Journal:
    return Journal(tmp_path_factory.mktemp("bad") / "journal")


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory, journal: Journal) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("bad-gateway")
    patient = {
        "timeouts": {"call_seconds": CALL_SECONDS, "total_seconds": 1.5 * CALL_SECONDS},
        "breaker": {"failures": 1000},
    }
    with ExitStack() as stack:
        command = [*BAD, "--transport", "http", "--record", str(journal.path)]
        url = stack.enter_context(running_process(command))
        run = {"run": [*BAD, "--transport", "stdio"]}
        servers = [
            {"id": "stdio", "workload": run, **patient},
            {"id": "shared", "workload": run, "share": "global", **patient},
            {"id": "http", "upstream": {"url": url}, **patient},
            {"id": "other", "workload": run, **patient},
        ]
        limits = {"max_message_bytes": 64 * 1024 * 1024}
        yield stack.enter_context(running_gateway(folder, servers, limits=limits))


@pytest.fixture(params=[StreamablePeer, ModernHttpPeer, SsePeer])
def peer_kind(request: pytest.FixtureRequest) -> Any:
    return request.param


def words(result: dict[str, Any]) -> str:
    return result["content"][0]["text"]


def still_works(peer: Any) -> None:
    assert words(peer.tool("good")).startswith("good")


@pytest.mark.parametrize("server", ["stdio", "http"])
def test_a_server_that_never_answers_is_given_up_at_the_deadline(
    gateway: Gateway, server: str, peer_kind: Any
) -> None:
    with peer_kind(gateway, server) as peer:
        started = time.monotonic()
        with pytest.raises(RpcRefused, match="did not answer within") as refused:
            peer.tool("silent")
        assert refused.value.code == TIMED_OUT
        assert CALL_SECONDS <= time.monotonic() - started < CALL_SECONDS + 5
        still_works(peer)
        assert gateway.in_flight(server) == 0


@pytest.mark.parametrize("server", ["stdio", "http"])
def test_progress_moves_the_deadline_but_only_up_to_the_final_one(gateway: Gateway, server: str) -> None:
    with StreamablePeer(gateway, server) as peer:
        started = time.monotonic()
        with pytest.raises(RpcRefused) as refused:
            peer.start_tool("endless", progressToken=1).result(limit=30)
        assert refused.value.code == TIMED_OUT
        assert time.monotonic() - started >= 1.5 * CALL_SECONDS - 0.1
        assert len(peer.of("notifications/progress")) > 10


def test_a_stream_without_end_is_cut_and_its_server_hung_up_on(gateway: Gateway, journal: Journal) -> None:
    journal.forget()
    with ModernHttpPeer(gateway, "http") as peer:
        with pytest.raises(RpcRefused) as refused:
            peer.tool("endless")
        assert refused.value.code == TIMED_OUT
        eventually(lambda: journal.messages("hung up on"), "the connection to be closed")


@pytest.mark.parametrize("server", ["stdio", "http"])
def test_of_two_answers_the_first_counts(gateway: Gateway, server: str, peer_kind: Any) -> None:
    with peer_kind(gateway, server) as peer:
        pending = peer.start_tool("twice")
        assert words(pending.result()) == "first"
        still_works(peer)
        assert pending.answers.empty()
        assert peer.strays == []


def test_an_answer_to_somebody_elses_request_reaches_nobody(gateway: Gateway) -> None:
    with StreamablePeer(gateway, "shared") as victim, StreamablePeer(gateway, "shared") as peer:
        started = victim.start_tool("silent")
        assert words(peer.tool("foreign")) == "mine"
        # The server did answer the victim's request, whose id it knew; it is the strangers' ids that count.
        assert words(started.result()) == "not yours"
        assert victim.strays == peer.strays == []
        still_works(victim)
    with StreamablePeer(gateway, "http") as peer:
        with pytest.raises(RpcRefused, match="was not asked") as refused:
            peer.tool("foreign")
        assert refused.value.code == UPSTREAM_FAILED


def test_noise_on_stdout_is_logged_and_the_next_message_read(gateway: Gateway) -> None:
    with StreamablePeer(gateway, "stdio") as peer:
        assert words(peer.tool("noise")) == "after the noise"
        still_works(peer)
    log = gateway.log()
    assert "stdio: not JSON: b'Starting up...'" in log
    assert "not valid UTF-8" in log


@pytest.mark.parametrize("fault", ["invalid_json", "invalid_utf8"])
def test_a_garbled_line_costs_its_call_and_no_other(gateway: Gateway, fault: str) -> None:
    with StreamablePeer(gateway, "stdio") as peer:
        with pytest.raises(RpcRefused) as refused:
            peer.tool(fault)
        assert refused.value.code == TIMED_OUT
        still_works(peer)


@pytest.mark.parametrize(
    ("fault", "why"),
    [
        ("invalid_json", "something else than JSON-RPC"),
        ("invalid_utf8", "something else than JSON-RPC"),
        ("html", "something else than JSON-RPC"),
        ("http_500", "HTTP 500"),
        ("http_202", "will not answer"),
        ("die", "closed"),
        ("half", "closed"),
    ],
)
def test_a_garbled_http_answer_is_an_error_that_says_so(
    gateway: Gateway, fault: str, why: str, peer_kind: Any
) -> None:
    with peer_kind(gateway, "http") as peer:
        with pytest.raises(RpcRefused, match=why) as refused:
            peer.tool(fault)
        assert refused.value.code == UPSTREAM_FAILED
        still_works(peer)


def test_a_line_over_the_limit_fails_its_call_at_once_in_bounded_memory(gateway: Gateway) -> None:
    with StreamablePeer(gateway, "stdio") as peer:
        still_works(peer)
        before = gateway.memory_bytes
        with pytest.raises(RpcRefused, match="larger than") as refused:
            peer.tool("long_line")
        assert refused.value.code == UPSTREAM_FAILED
        still_works(peer)
        assert gateway.memory_bytes - before < 150 * 1024 * 1024


@pytest.mark.parametrize("fault", ["die", "die_in_a_line"])
def test_a_server_that_dies_fails_what_is_in_flight_and_the_next_call_starts_another(
    gateway: Gateway, fault: str, peer_kind: Any
) -> None:
    with peer_kind(gateway, "shared") as peer:
        first = words(peer.tool("good"))
        waiting = peer.start_tool("silent")
        eventually(lambda: gateway.in_flight("shared") == 1, "the call to be under way")
        with pytest.raises(RpcRefused, match=r"exit code 7|closed its output"):
            peer.tool(fault)
        with pytest.raises(RpcRefused, match=r"exit code 7|closed its output"):
            waiting.result()
        assert words(peer.tool("good")) != first


def test_last_words_are_heard(gateway: Gateway) -> None:
    before = gateway.status("stdio")["upstream_sessions"]
    with StreamablePeer(gateway, "stdio") as peer:
        assert words(peer.tool("answer_and_die")) == "last words"
        eventually(lambda: gateway.status("stdio")["upstream_sessions"] == before, "its end to be noticed")
        still_works(peer)


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25", "2026-07-28"])
def test_what_a_server_says_after_its_answer_breaks_nothing(gateway: Gateway, version: str) -> None:
    kind: Any = ModernHttpPeer if version == "2026-07-28" else StreamablePeer
    with kind(gateway, "http", version) as peer:
        for _ in range(3):
            assert words(peer.tool("late", progressToken="t")) == "first"
            still_works(peer)
    assert "\nTraceback" not in gateway.log()


def test_a_stream_that_stays_open_after_the_answer_is_closed(gateway: Gateway, journal: Journal) -> None:
    journal.forget()
    with StreamablePeer(gateway, "http") as peer:
        assert words(peer.tool("no_end")) == "first"
        still_works(peer)
        eventually(lambda: journal.messages("hung up on"), "the connection to be closed", limit=5)


def test_a_server_that_hangs_does_not_delay_another(gateway: Gateway) -> None:
    with StreamablePeer(gateway, "stdio") as stuck, StreamablePeer(gateway, "other") as free:
        still_works(free)
        hanging = [stuck.start_tool("silent") for _ in range(5)]
        eventually(lambda: gateway.in_flight("stdio") == 5, "the calls to be under way")
        stuck.start_tool("deaf")
        started = time.monotonic()
        for _ in range(20):
            still_works(free)
        assert time.monotonic() - started < CALL_SECONDS
        for call in hanging:
            with pytest.raises(RpcRefused, match="did not answer"):
                call.result()


def test_a_child_that_does_not_read_its_input_costs_bounded_memory(gateway: Gateway) -> None:
    with StreamablePeer(gateway, "stdio") as peer:
        eventually(lambda: gateway.in_flight("stdio") == 0, "the calls of other tests to be over")
        peer.start_tool("deaf")
        peer.wait_for("notifications/message")
        before = gateway.memory_bytes
        calls = [peer.start_tool("good", {"padding": "x" * 1_000_000}) for _ in range(20)]
        for call in calls:
            with pytest.raises(RpcRefused, match="did not answer"):
                call.result()
        assert gateway.memory_bytes - before < 100 * 1024 * 1024


def test_a_server_that_asks_without_end_and_reads_no_answer_is_hung_up_on(gateway: Gateway) -> None:
    with StreamablePeer(gateway, "stdio") as peer:
        still_works(peer)
        before = gateway.memory_bytes
        with pytest.raises(RpcRefused, match="more than it lets us answer"):
            peer.tool("pester")
        assert gateway.memory_bytes - before < 100 * 1024 * 1024
        still_works(peer)


@pytest.mark.parametrize("count", [0, 3])
def test_a_large_answer_arrives_whole(gateway: Gateway, count: int) -> None:
    size = 3_000_000 + count
    with StreamablePeer(gateway, "http") as peer:
        assert words(peer.tool("big", {"bytes": size})) == "y" * size


def test_a_command_that_cannot_start_is_an_error_with_its_reason(tmp_path: Path) -> None:
    servers = [{"id": "gone", "workload": {"run": ["no-such-program-anywhere"]}}]
    with running_gateway(tmp_path, servers) as gateway, pytest.raises(RpcRefused, match="no-such-program"):
        StreamablePeer(gateway, "gone")
