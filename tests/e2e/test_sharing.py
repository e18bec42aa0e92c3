"""One server for many clients: who shares a process, what is never mixed, what happens when it dies."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.support.gateway import (
    SUPPORT,
    Gateway,
    Journal,
    http_server,
    running_gateway,
    running_process,
    stdio_server,
)
from tests.support.peers import ModernHttpPeer, RpcRefused, SsePeer, StreamablePeer
from tests.support.waiting import alive, eventually

Share = Callable[..., tuple[Gateway, Journal]]


@pytest.fixture
def sharing(tmp_path: Path) -> Iterator[Share]:
    with ExitStack() as stack:

        def start(share: str, era: str = "legacy", **more: Any) -> tuple[Gateway, Journal]:
            journal = Journal(tmp_path / "journal")
            server = stdio_server("s", journal.path, era, share=share, **more)
            return stack.enter_context(running_gateway(tmp_path, [server])), journal

        yield start


def living(journal: Journal) -> list[int]:
    return [pid for pid in journal.pids() if alive(pid)]


def pid_of(peer: Any) -> int:
    return peer.tool("whoami")["structuredContent"]["pid"]


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("share", ["global", "principal"])
def test_everybody_shares_one_process(sharing: Share, share: str, era: str) -> None:
    gateway, journal = sharing(share, era)
    with (
        StreamablePeer(gateway, "s") as one,
        SsePeer(gateway, "s") as two,
        ModernHttpPeer(gateway, "s") as three,
    ):
        assert len({pid_of(peer) for peer in (one, two, three)}) == 1
        assert len(journal.pids()) == 1


def test_modern_clients_of_every_kind_that_come_at_once_meet_in_one_process(sharing: Share) -> None:
    gateway, journal = sharing("client", "modern")
    kinds: list[tuple[str, ...]] = [(), ("elicitation/create",), ("sampling/createMessage",), ("roots/list",)]
    with ExitStack() as stack:
        peers = [
            stack.enter_context(ModernHttpPeer(gateway, "s", handlers=dict.fromkeys(kind, lambda _: {})))
            for kind in kinds
        ]
        calls = [peer.start_tool("whoami", {}) for peer in peers]
        first = {call.result()["structuredContent"]["pid"] for call in calls}
        assert first == {pid_of(peer) for peer in peers}
        assert len(first) == 1
        eventually(lambda: living(journal) == list(first), "processes that nobody needs to end")


def test_each_legacy_client_has_its_own_process_until_it_leaves(sharing: Share) -> None:
    gateway, journal = sharing("client")
    with StreamablePeer(gateway, "s") as one, StreamablePeer(gateway, "s") as two:
        assert pid_of(one) == pid_of(one) != pid_of(two)
        # Anonymous modern clients have no identity: one process for all of them.
        with ModernHttpPeer(gateway, "s") as three, ModernHttpPeer(gateway, "s") as four:
            assert pid_of(three) == pid_of(four)
            assert len({pid_of(one), pid_of(two), pid_of(three)}) == 3
        two_pid = pid_of(two)
        two.close()
        eventually(lambda: two_pid not in living(journal), "the process of the client that left to end")
        assert pid_of(one) in living(journal)


def test_each_call_has_its_own_process(sharing: Share) -> None:
    gateway, journal = sharing("call")
    with StreamablePeer(gateway, "s") as one, ModernHttpPeer(gateway, "s") as two:
        pids = [pid_of(peer) for peer in (one, one, two, two)]
        assert len(set(pids)) == 4
        eventually(lambda: not set(pids) & set(living(journal)), "their processes to end")


def test_ids_and_tokens_of_many_clients_are_never_mixed(sharing: Share) -> None:
    gateway, _ = sharing("global")
    failures: list[str] = []

    def work(number: int) -> None:
        kind: Any = (StreamablePeer, SsePeer, ModernHttpPeer)[number % 3]
        with kind(gateway, "s") as peer:
            for turn in range(8):
                call = peer.start_tool("count", {"steps": 3}, progressToken="same token")
                word = f"client {number} turn {turn}"
                if peer.tool("echo", {"text": word})["content"][0]["text"] != word:
                    failures.append(word)
                call.result()
            told = peer.of("notifications/progress")
            if len(told) != 24 or any(m["params"]["progressToken"] != "same token" for m in told):
                failures.append(f"client {number} heard {len(told)}")
            if peer.strays:
                failures.append(f"client {number} got {peer.strays}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(9)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []
    assert gateway.in_flight("s") == 0


def test_in_a_shared_process_changes_reach_only_those_who_asked(sharing: Share) -> None:
    gateway, journal = sharing("global")
    with (
        StreamablePeer(gateway, "s") as one,
        StreamablePeer(gateway, "s") as two,
        SsePeer(gateway, "s") as three,
    ):
        for peer in (one, two):
            peer.watch()
        one.subscribe("item://1")
        two.subscribe("item://1")
        three.subscribe("item://2")
        assert (
            len([m for m in journal.messages("resources/subscribe") if m["params"]["uri"] == "item://1"]) == 1
        )
        three.tool("touch", {"uri": "item://1"})
        for peer in (one, two):
            peer.wait_for("notifications/resources/updated")
        one.unsubscribe("item://1")
        assert not journal.messages("resources/unsubscribe")
        three.tool("touch", {"uri": "item://1"})
        two.wait_for("notifications/resources/updated", 2)
        two.unsubscribe("item://1")
        eventually(lambda: journal.messages("resources/unsubscribe"), "the last subscriber to be noticed")
        assert len(one.of("notifications/resources/updated")) == 1
        assert not three.of("notifications/resources/updated")


def test_in_a_shared_process_each_client_has_its_own_log_level(sharing: Share) -> None:
    gateway, _ = sharing("global")
    with StreamablePeer(gateway, "s") as loud, StreamablePeer(gateway, "s") as quiet:
        loud.set_level("debug")
        quiet.set_level("error")
        for peer in (loud, quiet):
            for level in ("debug", "warning", "error"):
                peer.tool("log", {"level": level})
        levels = [[m["params"]["level"] for m in peer.of("notifications/message")] for peer in (loud, quiet)]
        assert levels == [["debug", "warning", "error"], ["error"]]


def test_questions_go_to_the_client_whose_call_it_is(sharing: Share) -> None:
    gateway, _ = sharing("client")

    def answering(colour: str) -> Any:
        return {"elicitation/create": lambda _: {"action": "accept", "content": {"colour": colour}}}

    peers = [ModernHttpPeer(gateway, "s", handlers=answering(f"colour {n}")) for n in range(4)]
    results: dict[int, str] = {}

    def ask(number: int) -> None:
        heard = peers[number].tool("ask", {"kind": "elicitation"})["structuredContent"]["heard"]
        results[number] = heard["content"]["colour"]

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert results == {number: f"colour {number}" for number in range(4)}
    for peer in peers:
        peer.close()


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_a_killed_child_fails_what_is_in_flight_and_the_next_call_starts_another(
    sharing: Share, era: str
) -> None:
    gateway, journal = sharing("global", era)
    with StreamablePeer(gateway, "s") as one, ModernHttpPeer(gateway, "s") as two:
        first = pid_of(one)
        calls = [one.start_tool("wait"), two.start_tool("wait")]
        eventually(lambda: len(journal.events("waiting")) == 2, "both calls to run")
        os.kill(first, signal.SIGKILL)
        for call in calls:
            with pytest.raises(RpcRefused, match="signal 9"):
                call.result()
        assert pid_of(one) == pid_of(two) != first
        assert len(journal.events("ran", "wait")) == 2


def test_subscriptions_survive_the_death_of_the_child(sharing: Share) -> None:
    gateway, journal = sharing("global")
    with StreamablePeer(gateway, "s") as peer:
        peer.watch()
        peer.subscribe("item://1")
        os.kill(pid_of(peer), signal.SIGKILL)
        journal.forget()
        eventually(lambda: journal.messages("resources/subscribe"), "the subscription to be made again")
        peer.tool("touch", {"uri": "item://1"})
        told = peer.wait_for("notifications/resources/updated")
        assert [message["params"]["uri"] for message in told] == ["item://1"]


def test_an_idle_child_is_stopped_and_started_again_when_needed(sharing: Share) -> None:
    gateway, journal = sharing("client", timeouts={"idle_stop_seconds": 0.5})
    with StreamablePeer(gateway, "s") as peer:
        first = pid_of(peer)
        eventually(lambda: first not in living(journal), "the idle child to be stopped")
        assert gateway.status("s")["upstream_sessions"] == 0
        assert pid_of(peer) != first


def test_a_child_that_is_waited_for_is_not_idle(sharing: Share) -> None:
    gateway, journal = sharing("client", timeouts={"idle_stop_seconds": 0.3})
    with StreamablePeer(gateway, "s") as peer:
        assert peer.tool("wait", {"seconds": 1.2})["content"][0]["text"] == "nobody stopped me"
        assert len(journal.pids()) == 1


# Sessions that a server forgets


@pytest.fixture
def forgetful(tmp_path: Path) -> Iterator[Callable[..., tuple[Gateway, Journal]]]:
    with ExitStack() as stack:

        def start(**sessions: Any) -> tuple[Gateway, Journal]:
            journal = Journal(tmp_path / "journal")
            command = [sys.executable, "-S", str(SUPPORT / "bad_server.py"), "--transport", "http"]
            url = stack.enter_context(running_process([*command, "--record", str(journal.path)]))
            server = {"id": "f", "upstream": {"url": url}}
            return stack.enter_context(running_gateway(tmp_path, [server], sessions=sessions)), journal

        yield start


def calls_of(journal: Journal, name: str) -> int:
    return sum(message["params"]["name"] == name for message in journal.messages("tools/call"))


@pytest.mark.parametrize("kind", [StreamablePeer, ModernHttpPeer])
def test_a_forgotten_session_is_opened_anew_once(forgetful: Any, kind: Any) -> None:
    gateway, journal = forgetful()
    with kind(gateway, "f") as peer:
        peer.tool("good")
        with pytest.raises(RpcRefused):
            peer.tool("forget")  # the server forgets every session, this call's new one included
        assert calls_of(journal, "forget") == 2
        assert peer.tool("good")["content"][0]["text"].startswith("good")


def test_without_retries_a_forgotten_session_is_an_error_and_the_next_call_works(forgetful: Any) -> None:
    gateway, journal = forgetful(upstream_session_termination_retries=0)
    with StreamablePeer(gateway, "f") as peer:
        with pytest.raises(RpcRefused, match="forgotten the session"):
            peer.tool("forget")
        assert calls_of(journal, "forget") == 1
        assert peer.tool("good")["content"][0]["text"].startswith("good")


def test_an_error_that_only_reads_like_a_lost_session_runs_nothing_twice(forgetful: Any) -> None:
    gateway, journal = forgetful()
    with StreamablePeer(gateway, "f") as peer:
        with pytest.raises(RpcRefused, match="Session not found") as refused:
            peer.tool("lost_text")
        assert refused.value.code == -32000
        with pytest.raises(RpcRefused, match="HTTP 500"):
            peer.tool("http_500")
        with pytest.raises(RpcRefused, match="closed"):
            peer.tool("half")
        assert [calls_of(journal, name) for name in ("lost_text", "http_500", "half")] == [1, 1, 1]


def test_a_remote_server_that_goes_away_is_down_with_its_reason(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    with ExitStack() as outer:
        first = ExitStack()
        entry = first.enter_context(http_server("r", journal.path))
        gateway = outer.enter_context(running_gateway(tmp_path, [entry]))
        peer = outer.enter_context(StreamablePeer(gateway, "r"))
        peer.tool("echo", {"text": "one"})
        first.close()
        with pytest.raises(RpcRefused):
            peer.tool("echo", {"text": "two"})
        assert gateway.status("r")["state"] == "down"
        health = gateway.get("/healthz")
        assert health["status"] == "degraded"
        assert health["servers"]["r"]["state"] == "down"
        assert health["servers"]["r"]["reasons"]


# How a child is greeted


@pytest.mark.parametrize(
    ("speaks", "pinned", "kind", "first"),
    [
        ("legacy", "auto", ModernHttpPeer, "server/discover"),
        ("legacy", "legacy", ModernHttpPeer, "initialize"),
        ("modern", "modern", StreamablePeer, "server/discover"),
    ],
)
def test_a_child_whose_era_is_pinned_is_not_asked_for_it(
    tmp_path: Path, speaks: str, pinned: str, kind: Any, first: str
) -> None:
    journal = Journal(tmp_path / "journal")
    server = stdio_server("s", journal.path, speaks)
    server["workload"]["era"] = pinned
    with running_gateway(tmp_path, [server]) as gateway, kind(gateway, "s") as peer:
        assert peer.tool("echo", {"text": "x"})["content"][0]["text"] == "x"
        assert journal.messages()[0]["method"] == first


def test_a_child_of_another_era_than_the_pinned_one_is_an_error(tmp_path: Path) -> None:
    server = stdio_server("s", tmp_path / "journal", "modern")
    server["workload"]["era"] = "legacy"
    with (
        running_gateway(tmp_path, [server]) as gateway,
        ModernHttpPeer(gateway, "s") as peer,
        pytest.raises(RpcRefused) as refused,
    ):
        peer.tool("echo")
    assert refused.value.code < -31000
