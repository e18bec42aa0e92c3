"""A server that is changed or taken away finishes its calls: its clients can still answer and cancel them."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.test_resuming import call_stream, first_id, messages, resumed
from tests.support.channels import Response, http_request
from tests.support.draining import ANSWER, Slow, asked, bearer, drain, ended, forget_session, keys, post
from tests.support.gateway import Gateway, Journal, http_server, running_gateway, stdio_server
from tests.support.peers import (
    ModernHttpPeer,
    ModernStdioPeer,
    SsePeer,
    StdioPeer,
    StreamablePeer,
)
from tests.support.waiting import LIMIT_SECONDS, eventually

Json = dict[str, Any]
LEGACY = [StreamablePeer, SsePeer, StdioPeer]
MODERN = [ModernHttpPeer, ModernStdioPeer]


@pytest.mark.parametrize("kind", LEGACY)
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_a_question_is_answered_while_its_server_is_on_its_way_out(
    tmp_path: Path, journal: Journal, fate: str, kind: Any, transport: str
) -> None:
    user = Slow()
    with (
        one_server(transport, journal) as server,
        running_gateway(tmp_path, [server]) as gateway,
        kind(gateway, "one", handlers=user.handlers) as peer,
    ):
        call = peer.start_tool("ask", {"kind": "elicitation"})
        assert user.asked.wait(LIMIT_SECONDS)
        drain(gateway, fate)
        user.ready.set()
        assert call.result()["structuredContent"] == {"heard": ANSWER}
        ended(gateway)
        assert len(journal.events("ran", "ask")) == 1
        forget_session(peer)


@contextmanager
def one_server(transport: str, journal: Journal, **more: Any) -> Iterator[Json]:
    if transport == "stdio":
        yield stdio_server("one", journal.path, **more)
    else:
        with http_server("one", journal.path, **more) as server:
            yield server


@pytest.mark.parametrize("kind", LEGACY)
def test_a_cancel_reaches_a_server_that_is_on_its_way_out(
    tmp_path: Path, journal: Journal, fate: str, kind: Any
) -> None:
    with (
        running_gateway(tmp_path, [stdio_server("one", journal.path)]) as gateway,
        kind(gateway, "one") as peer,
    ):
        call = peer.start_tool("wait")
        eventually(lambda: journal.events("waiting"), "the call to run")
        drain(gateway, fate)
        peer.cancel(call)
        eventually(lambda: journal.events("stopped", "wait"), "the server to hear of it")
        ended(gateway)
        assert call.answers.empty()  # whoever is given up at the end of the drain is told so
        assert len(journal.messages("notifications/cancelled")) == 1
        forget_session(peer)


@pytest.mark.parametrize("kind", MODERN)
def test_a_call_that_waits_for_its_retry_runs_once_and_ends_well(
    tmp_path: Path, journal: Journal, fate: str, kind: Any
) -> None:
    """Under the name that its client knows."""
    user = Slow()
    results: list[Json] = []
    renamed = {"override": {"ask": {"name": "query"}}}
    with (
        running_gateway(tmp_path, [stdio_server("one", journal.path, tools=renamed)]) as gateway,
        kind(gateway, "one", handlers=user.handlers) as peer,
    ):
        call = threading.Thread(target=lambda: results.append(peer.tool("query", {"kind": "elicitation"})))
        call.start()
        assert user.asked.wait(LIMIT_SECONDS)
        drain(gateway, fate)
        user.ready.set()
        call.join(LIMIT_SECONDS)
        assert [result["structuredContent"] for result in results] == [{"heard": ANSWER}]
        ended(gateway)
        assert len(journal.events("ran", "ask")) == 1


@pytest.mark.parametrize("kind", MODERN)
def test_the_state_of_a_call_that_waits_opens_the_way_for_nothing_else(
    tmp_path: Path, journal: Journal, kind: Any
) -> None:
    with (
        running_gateway(tmp_path, [stdio_server("one", journal.path)]) as gateway,
        kind(gateway, "one", handlers=Slow().handlers) as peer,
    ):
        asking = {"name": "ask", "arguments": {"kind": "elicitation"}}
        waiting = peer.start("tools/call", asking).result()
        drain(gateway, "removed")
        state = {"requestState": waiting["requestState"], "inputResponses": {"colour": ANSWER}}
        journal.forget()
        others = [("tools/list", {}), ("tools/call", {"name": "echo", "arguments": {}})]
        for method, params in others:
            pending = peer.start(method, {**params, **state})
            said = eventually(lambda pending=pending: [*pending.answers.queue, *peer.strays], "an answer")
            assert "error" in said.pop()
            peer.strays.clear()
        assert not journal.messages()
        result = peer.start("tools/call", {**asking, **state}).result()
        assert result["structuredContent"] == {"heard": ANSWER}
        ended(gateway)


def test_nothing_begins_at_an_address_whose_server_is_on_its_way_out(
    tmp_path: Path, journal: Journal
) -> None:
    with running_gateway(tmp_path, [stdio_server("one", journal.path)]) as gateway:
        with StreamablePeer(gateway, "one") as peer:
            call = peer.start_tool("wait", {"seconds": 2})
            eventually(lambda: journal.events("waiting"), "the call to run")
            drain(gateway, "removed")
            request: Json = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "echo"}}
            known = http_request(gateway.url("nobody"), "POST", request)
            assert known.status == 404
            for refused in (
                post(peer, request),
                http_request(gateway.url("one"), "POST", request),
                http_request(gateway.url("one"), "POST", {**request, "method": "initialize"}),
                http_request(gateway.url("one"), "POST", b"not JSON"),
                http_request(gateway.url("one") + "/sse", "GET"),
                http_request(peer.channel.url, "GET", None, peer.headers_for({})),
                http_request(peer.channel.url, "GET", None, {**peer.headers_for({}), "Last-Event-ID": "0-0"}),
                post(peer, {"jsonrpc": "2.0", "method": "notifications/roots/list_changed"}),
                modern_echo(gateway),
            ):
                assert (refused.status, refused.body) == (404, known.body)
            assert "one" not in gateway.get("/healthz")["servers"]
            assert call.result()["content"][0]["text"] == "nobody stopped me"
            ended(gateway)
            answer = post(peer, {"jsonrpc": "2.0", "id": 1, "result": {}})
            assert (answer.status, answer.body) == (404, known.body)
            forget_session(peer)
        assert not journal.events("ran", "echo")


def modern_echo(gateway: Gateway) -> Response:
    with ModernHttpPeer(gateway, "one") as peer:
        params = peer.prepare({"name": "echo", "arguments": {}})
        message: Json = {"jsonrpc": "2.0", "id": 9, "method": "tools/call", "params": params}
        return http_request(gateway.url("one"), "POST", message, peer.headers_for(message))


def test_a_session_of_a_server_that_was_changed_begins_nothing_more(tmp_path: Path, journal: Journal) -> None:
    with (
        running_gateway(tmp_path, [stdio_server("one", journal.path)]) as gateway,
        StreamablePeer(gateway, "one") as peer,
    ):
        call = peer.start_tool("wait", {"seconds": 2})
        eventually(lambda: journal.events("waiting"), "the call to run")
        drain(gateway, "changed")
        request: Json = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "echo"}}
        assert post(peer, request).status == 404
        with StreamablePeer(gateway, "one") as another:  # the one that took its place
            assert another.tool("echo", {"text": "new"})["content"][0]["text"] == "new"
        assert call.result()["content"][0]["text"] == "nobody stopped me"
        assert len(journal.pids()) == 2
        ended(gateway)
        with StreamablePeer(gateway, "one") as another:
            assert another.tool("echo", {"text": "again"})["content"][0]["text"] == "again"
        forget_session(peer)


def test_a_stream_is_picked_up_again_while_its_server_is_on_its_way_out(
    tmp_path: Path, journal: Journal, fate: str
) -> None:
    with (
        running_gateway(tmp_path, [stdio_server("one", journal.path)]) as gateway,
        StreamablePeer(gateway, "one") as peer,
    ):
        stream = call_stream(peer, "wait", {"seconds": 2})
        last = first_id(stream)
        eventually(lambda: journal.events("waiting"), "the call to run")
        drain(gateway, fate)
        stream.close()
        again = resumed(peer, last)
        assert again.ended.wait(LIMIT_SECONDS)
        assert "nobody stopped me" in json.dumps(messages(again))
        ended(gateway)
        forget_session(peer)


def test_whoever_ends_a_session_ends_its_calls_at_a_server_on_its_way_out(
    tmp_path: Path, journal: Journal, fate: str
) -> None:
    with (
        running_gateway(tmp_path, [stdio_server("one", journal.path)]) as gateway,
        StreamablePeer(gateway, "one") as peer,
    ):
        call = peer.start_tool("wait")
        eventually(lambda: journal.events("waiting"), "the call to run")
        drain(gateway, fate)
        assert http_request(peer.channel.url, "DELETE", None, peer.headers_for({})).status == 200
        ended(gateway)
        assert call.answers.empty()
        forget_session(peer)


def test_a_batch_is_taken_if_nothing_in_it_begins(tmp_path: Path, journal: Journal, fate: str) -> None:
    with (
        running_gateway(tmp_path, [stdio_server("one", journal.path)]) as gateway,
        asked(gateway, version="2025-03-26") as (peer, call, answer),
    ):
        drain(gateway, fate)
        request: Json = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "echo"}}
        assert post(peer, [answer, request]).status == 404
        assert post(peer, [answer]).status == 202
        assert call.result()["structuredContent"] == {"heard": ANSWER}
        ended(gateway)
        assert not journal.events("ran", "echo")


def test_only_the_owner_of_a_session_answers_and_cancels(tmp_path: Path, journal: Journal, fate: str) -> None:
    anna, berta = keys(tmp_path, "anna", "berta")
    with (
        running_gateway(tmp_path, [stdio_server("one", journal.path)], auth={"mode": "api_key"}) as gateway,
        asked(gateway, bearer(anna)) as (peer, call, answer),
    ):
        drain(gateway, fate)
        notice = {"method": "notifications/cancelled", "params": {"requestId": call.id}}
        for message in (answer, {"jsonrpc": "2.0", **notice}):
            assert post(peer, message, **bearer(berta)).status == 404
            assert post(peer, message, **bearer("made-up")).status == 401
        assert not journal.events("finished asking")
        assert post(peer, answer).status == 202
        assert call.result()["structuredContent"] == {"heard": ANSWER}
        ended(gateway)


def test_an_answer_comes_in_by_the_rules_of_the_new_file(tmp_path: Path, journal: Journal, fate: str) -> None:
    """Who was nobody when the call began is nobody's owner of it, with a key too."""
    (anna,) = keys(tmp_path, "anna")
    with (
        running_gateway(tmp_path, [stdio_server("one", journal.path)]) as gateway,
        asked(gateway) as (peer, call, answer),
    ):
        drain(gateway, fate, auth={"mode": "api_key"})
        assert post(peer, answer).status == 401
        assert post(peer, answer, **bearer(anna)).status == 404
        assert "error" in call.answer()  # at the end of the drain
        assert not journal.events("finished asking")


def test_a_header_that_a_server_needs_must_come_with_the_answer_too(
    tmp_path: Path, journal: Journal, fate: str
) -> None:
    tenant = {"X-Tenant": "harbour"}
    with http_server("one", journal.path) as server:
        server["upstream"] |= {"forward_headers": list(tenant), "require_headers": list(tenant)}
        with running_gateway(tmp_path, [server]) as gateway, asked(gateway, tenant) as (peer, call, answer):
            drain(gateway, fate)
            assert post(peer, answer, **{"X-Tenant": ""}).status == 400
            assert post(peer, answer).status == 202
            assert call.result()["structuredContent"] == {"heard": ANSWER}
            ended(gateway)
