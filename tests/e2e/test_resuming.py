"""Streams that are lost and picked up again (2025-11-25): nothing is missed, nothing comes twice."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.conftest import SERVERS, Harbour
from tests.support.channels import ACCEPT, Stream, http_request
from tests.support.gateway import SUPPORT, running_gateway, running_process
from tests.support.peers import StreamablePeer, tool_params
from tests.support.waiting import eventually


@pytest.fixture(params=SERVERS)
def server(request: pytest.FixtureRequest) -> str:
    return request.param


def call_stream(peer: StreamablePeer, name: str, arguments: dict[str, Any], number: str = "lost") -> Stream:
    """The POST of a tool call, as a stream that can be dropped."""
    params = tool_params(name, arguments, progressToken="t")
    body = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
    headers = {"Content-Type": "application/json", "Accept": ACCEPT, **peer.headers_for({})}
    return Stream(peer.channel.url, "POST", headers, json.dumps(body).encode(), lambda _: None)


def resumed(peer: StreamablePeer, last: str) -> Stream:
    headers = {"Accept": "text/event-stream", "Last-Event-ID": last, **peer.headers_for({})}
    return Stream(peer.channel.url, "GET", headers, None, lambda _: None)


def messages(stream: Stream) -> list[Any]:
    return [json.loads(event.data) for event in stream.events if event.data]


def first_id(stream: Stream) -> str:
    return eventually(lambda: stream.events[0].id if stream.events else None, "the priming event")


def test_a_result_missed_with_its_stream_is_delivered_once(harbour: Harbour, server: str) -> None:
    journal = harbour.journals[server]
    journal.forget()
    with StreamablePeer(harbour.gateway, server) as peer:
        stream = call_stream(peer, "wait", {"seconds": 1.0})
        last = first_id(stream)
        assert stream.events[0].data == ""
        stream.close()
        eventually(lambda: journal.events("waited to the end"), "the tool to finish")
        again = resumed(peer, last)
        assert again.ended.wait(10)
        assert [message["id"] for message in messages(again)] == ["lost"]
        assert "nobody stopped me" in json.dumps(messages(again))
        after = resumed(peer, again.events[-1].id or "")
        assert after.ended.wait(10)
        assert messages(after) == []
        assert len(journal.events("ran", "wait")) == 1


def test_a_stream_resumed_in_the_middle_goes_on_live(harbour: Harbour, server: str) -> None:
    journal = harbour.journals[server]
    journal.forget()
    with StreamablePeer(harbour.gateway, server) as peer:
        stream = call_stream(peer, "wait", {"seconds": 1.5})
        last = first_id(stream)
        stream.close()
        again = resumed(peer, last)
        assert again.status == 200
        assert not journal.events("waited to the end")
        assert again.ended.wait(10)
        assert [message["id"] for message in messages(again)] == ["lost"]


def test_progress_is_replayed_in_order_from_the_event_after_the_last_seen(harbour: Harbour) -> None:
    with StreamablePeer(harbour.gateway, "http-legacy") as peer:
        stream = call_stream(peer, "count", {"steps": 5})
        assert stream.ended.wait(10)
        told = [event for event in stream.events if event.data]
        again = resumed(peer, told[1].id or "")
        assert again.ended.wait(10)
        assert [event.data for event in again.events] == [event.data for event in told[2:]]
        assert [event.id for event in again.events] == [event.id for event in told[2:]]


@pytest.mark.parametrize("size", [300_000, 3_000_000])
def test_a_large_result_waits_for_its_client_too(harbour: Harbour, size: int) -> None:
    journal = harbour.journals["stdio-legacy"]
    with StreamablePeer(harbour.gateway, "stdio-legacy") as peer:
        journal.forget()
        stream = call_stream(peer, "big", {"bytes": size, "seconds": 1.0})
        last = first_id(stream)
        stream.close()
        eventually(lambda: harbour.gateway.in_flight("stdio-legacy") == 0, "the call to end")
        again = resumed(peer, last)
        assert again.ended.wait(10)
        assert len(messages(again)[0]["result"]["content"][0]["text"]) == size


@pytest.mark.parametrize("last", ["nonsense", "0-99999", "77-1", "1-", "-1", "9" * 60])
def test_an_event_that_is_not_known_is_refused(harbour: Harbour, last: str) -> None:
    with StreamablePeer(harbour.gateway, "http-legacy") as peer:
        headers = {**peer.headers_for({}), "Last-Event-ID": last}
        assert http_request(peer.channel.url, "GET", None, headers).status == 400


def test_an_event_of_another_session_is_not_known(harbour: Harbour) -> None:
    with (
        StreamablePeer(harbour.gateway, "http-legacy") as one,
        StreamablePeer(harbour.gateway, "http-legacy") as other,
    ):
        stream = call_stream(one, "count", {"steps": 3})
        assert stream.ended.wait(10)
        headers = {**other.headers_for({}), "Last-Event-ID": stream.events[1].id}
        assert http_request(other.channel.url, "GET", None, headers).status == 400


def test_older_clients_get_no_priming_event(harbour: Harbour) -> None:
    with StreamablePeer(harbour.gateway, "http-legacy", "2025-06-18") as peer:
        stream = call_stream(peer, "count", {"steps": 3})
        assert stream.ended.wait(10)
        assert all(event.data for event in stream.events)
        assert len(stream.events) == 4


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
@pytest.mark.parametrize("says_where", [True, False])
def test_changes_wait_while_the_standalone_stream_is_away(
    harbour: Harbour, version: str, says_where: bool
) -> None:
    with StreamablePeer(harbour.gateway, "stdio-legacy", version) as peer:
        stream = peer.channel.listen()
        peer.tool("change", {"what": "tools"})
        peer.wait_for("notifications/tools/list_changed")
        last = stream.events[-1].id
        stream.close()
        peer.tool("change", {"what": "prompts"})
        peer.tool("change", {"what": "resources"})
        again = peer.channel.listen(last if says_where else None)
        peer.wait_for("notifications/resources/list_changed")
        kinds = [message["method"].split("/")[1] for message in messages(again)]
        assert kinds == ["prompts", "resources"]


@contextmanager
def polling_gateway(folder: Path) -> Iterator[Any]:
    command = [sys.executable, "-S", str(SUPPORT / "bad_server.py"), "--transport", "http"]
    with (
        running_process(command) as url,
        running_gateway(folder, [{"id": "poll", "upstream": {"url": url}}]) as gateway,
    ):
        yield gateway


def test_a_server_that_wants_to_be_polled_is_and_its_client_polls_us(tmp_path: Path) -> None:
    with polling_gateway(tmp_path) as gateway, StreamablePeer(gateway, "poll") as peer:
        for size in (10, 2_000_000):
            stream = call_stream(peer, "poll", {"bytes": size}, f"poll-{size}")
            assert stream.ended.wait(10)
            assert messages(stream) == []
            retries = [event.retry for event in stream.events if event.retry is not None]
            assert retries[-1] == 300
            time.sleep(0.3)  # as asked
            again = resumed(peer, stream.events[-1].id or "")
            assert again.ended.wait(10)
            assert [len(m["result"]["content"][0]["text"]) for m in messages(again)] == [size]


def test_older_clients_need_not_poll(tmp_path: Path) -> None:
    with polling_gateway(tmp_path) as gateway, StreamablePeer(gateway, "poll", "2025-06-18") as peer:
        assert peer.tool("poll", {"bytes": 10})["content"][0]["text"] == "y" * 10


def test_a_stream_that_is_resumed_too_early_is_resumed_again(tmp_path: Path) -> None:
    with polling_gateway(tmp_path) as gateway, StreamablePeer(gateway, "poll", "2025-06-18") as peer:
        assert peer.tool("poll_slowly", {})["content"][0]["text"] == "y" * 10
