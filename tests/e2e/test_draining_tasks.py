"""Tasks of a server that is changed or taken away: whoever started one can still ask for it, answer it and
cancel it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.test_tasks import LONG_SECONDS, HttpPeer, LinePeer, command_of, outcome, text_of
from tests.support.channels import http_request
from tests.support.draining import (
    ANSWER,
    Slow,
    bearer,
    drain,
    ended,
    forget_session,
    keys,
    post,
    shown_as,
)
from tests.support.gateway import Journal, running_gateway, running_process, stdio_server
from tests.support.peers import RpcRefused, SsePeer, StdioPeer, StreamablePeer, tool_params
from tests.support.waiting import eventually

Json = dict[str, Any]
LEGACY = [StreamablePeer, StdioPeer]


def begin(peer: Any, tool: str, arguments: Json | None = None) -> Json:
    """Start a task (2025-11-25); what names it in requests about it."""
    wish = {**tool_params(tool, arguments), "task": {}}
    return {"taskId": peer.request("tools/call", wish)["task"]["taskId"]}


@pytest.mark.parametrize("kind", LEGACY)
def test_the_result_of_a_task_can_be_waited_for(
    tmp_path: Path, journal: Journal, fate: str, kind: Any
) -> None:
    with (
        running_gateway(tmp_path, [stdio_server("one", journal.path)]) as gateway,
        kind(gateway, "one") as peer,
    ):
        task = begin(peer, "wait", {"seconds": 2})
        eventually(lambda: journal.events("waiting"), "the task to run")
        drain(gateway, fate)
        assert peer.request("tasks/get", task)["status"] == "working"
        assert [known["taskId"] for known in peer.request("tasks/list")["tasks"]] == [task["taskId"]]
        assert text_of(peer.request("tasks/result", task)) == "nobody stopped me"
        ended(gateway)
        forget_session(peer)


@pytest.mark.parametrize("kind", LEGACY)
def test_a_result_that_came_meanwhile_waits_for_who_asks_now_and_then(
    tmp_path: Path, journal: Journal, fate: str, kind: Any
) -> None:
    with (
        running_gateway(tmp_path, [stdio_server("one", journal.path)]) as gateway,
        kind(gateway, "one") as peer,
    ):
        task = begin(peer, "wait", {"seconds": 1})
        eventually(lambda: journal.events("waiting"), "the task to run")
        drain(gateway, fate)
        eventually(lambda: peer.request("tasks/get", task)["status"] == "completed", "the task to end")
        assert text_of(peer.request("tasks/result", task)) == "nobody stopped me"
        ended(gateway)
        forget_session(peer)


@pytest.mark.parametrize("kind", LEGACY)
def test_a_task_can_be_cancelled(tmp_path: Path, journal: Journal, fate: str, kind: Any) -> None:
    with (
        running_gateway(tmp_path, [stdio_server("one", journal.path)]) as gateway,
        kind(gateway, "one") as peer,
    ):
        task = begin(peer, "wait")
        eventually(lambda: journal.events("waiting"), "the task to run")
        drain(gateway, fate)
        assert peer.request("tasks/cancel", task)["status"] == "cancelled"
        eventually(lambda: journal.events("stopped", "wait"), "the server to hear of it")
        ended(gateway)
        forget_session(peer)


def test_a_question_of_a_task_is_answered(tmp_path: Path, journal: Journal, fate: str) -> None:
    user = Slow()
    user.ready.set()
    with (
        running_gateway(tmp_path, [stdio_server("one", journal.path)]) as gateway,
        StreamablePeer(gateway, "one", handlers=user.handlers) as peer,
    ):
        task = begin(peer, "ask", {"kind": "elicitation"})
        eventually(lambda: peer.request("tasks/get", task)["status"] == "input_required", "the question")
        drain(gateway, fate)
        assert peer.request("tasks/result", task)["structuredContent"] == {"heard": ANSWER}
        ended(gateway)
        forget_session(peer)


def test_a_long_call_that_became_a_task_is_still_there(tmp_path: Path, journal: Journal, fate: str) -> None:
    """All at once, since each takes as long as a call must last for that."""
    with running_gateway(tmp_path, [stdio_server("one", journal.path)]) as gateway, ExitStack() as stack:
        running: list[tuple[Any, Any]] = []
        for kind in (HttpPeer, LinePeer):
            for tool in ("nap", "ask", "wait"):
                peer = stack.enter_context(kind(gateway, "one"))
                arguments = {"seconds": LONG_SECONDS + 1, "kind": "elicitation", "after": LONG_SECONDS}
                arguments = {} if tool == "wait" else arguments
                running.append((peer, peer.start("tools/call", tool_params(tool, arguments))))
        tasks = [(peer, pending.result(limit=40)) for peer, pending in running]
        drain(gateway, fate)
        for peer, task in (tasks[2], tasks[5]):
            peer.request("tasks/cancel", {"taskId": task["taskId"]})
        ends = threading.Barrier(len(tasks))
        found: dict[int, Json] = {}

        def look(number: int) -> None:
            ends.wait()
            found[number] = outcome(*tasks[number])

        lookers = [threading.Thread(target=look, args=[number]) for number in range(len(tasks))]
        for looker in lookers:
            looker.start()
        for looker in lookers:
            looker.join()
        said = [str(found[number].get("result")) for number in range(len(tasks))]
        assert ["woke up" in said[0], "blue" in said[1], "woke up" in said[3], "blue" in said[4]] == [
            True
        ] * 4
        assert [found[2]["status"], found[5]["status"]] == ["cancelled"] * 2
        ended(gateway)


@contextmanager
def job_server(journal: Journal, transport: str, era: str) -> Iterator[Json]:
    command = command_of(transport, era, journal.path)
    if transport == "stdio":
        yield {"id": "one", "workload": {"run": command}}
    else:
        with running_process(command) as url:
            yield {"id": "one", "upstream": {"url": url}}


@pytest.mark.parametrize("kind", LEGACY)
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_tasks_that_the_server_keeps_are_reached_while_it_has_something_to_end(
    tmp_path: Path, journal: Journal, fate: str, kind: Any, transport: str
) -> None:
    with (
        job_server(journal, transport, "legacy") as server,
        running_gateway(tmp_path, [server]) as gateway,
        kind(gateway, "one") as peer,
    ):
        task = begin(peer, "job", {"seconds": 20})
        call = peer.start_tool("wait", {"seconds": 3})
        eventually(lambda: journal.events("waiting"), "the call to run")
        drain(gateway, fate)
        assert peer.request("tasks/get", task)["status"] == "working"
        peer.request("tasks/cancel", task)
        assert journal.events("job cancelled")
        assert text_of(call.result()) == "nobody stopped me"
        ended(gateway)
        forget_session(peer)


@pytest.mark.parametrize(
    ("kind", "transport", "fate"),
    [
        (HttpPeer, "http", "changed"),
        (HttpPeer, "http", "removed"),
        (HttpPeer, "stdio", "removed"),
        (LinePeer, "http", "changed"),
        (LinePeer, "stdio", "changed"),
        (LinePeer, "stdio", "removed"),
    ],
)
def test_tasks_of_a_modern_server_are_reached_too(
    tmp_path: Path, journal: Journal, kind: Any, transport: str, fate: str
) -> None:
    with (
        job_server(journal, transport, "modern") as server,
        running_gateway(tmp_path, [server]) as gateway,
        kind(gateway, "one") as peer,
    ):
        task = {"taskId": peer.request("tools/call", tool_params("job", {"seconds": 20}))["taskId"]}
        call = peer.start_tool("wait", {"seconds": 3})
        eventually(lambda: journal.events("waiting"), "the call to run")
        drain(gateway, fate)
        assert peer.request("tasks/get", task)["status"] == "working"
        peer.request("tasks/cancel", task)
        assert journal.events("job cancelled")
        assert text_of(call.result()) == "nobody stopped me"
        ended(gateway)


def test_a_task_is_found_at_the_server_that_took_the_place_of_its_own(
    tmp_path: Path, journal: Journal
) -> None:
    """By its owner, in another session, also when all is over; and by nobody else."""
    anna, berta = keys(tmp_path, "anna", "berta")
    with running_gateway(tmp_path, [stdio_server("one", journal.path)], auth={"mode": "api_key"}) as gateway:
        with shown_as(bearer(anna))(gateway, "one") as peer:
            task = begin(peer, "wait", {"seconds": 1})
            eventually(lambda: journal.events("waiting"), "the task to run")
            drain(gateway, "changed")
            with shown_as(bearer(anna))(gateway, "one") as another:
                assert text_of(another.request("tasks/result", task)) == "nobody stopped me"
            ended(gateway)
            forget_session(peer)
        with shown_as(bearer(anna))(gateway, "one") as another:
            assert another.request("tasks/get", task)["status"] == "completed"
        with (
            shown_as(bearer(berta))(gateway, "one") as stranger,
            pytest.raises(RpcRefused, match="no such task"),
        ):
            stranger.request("tasks/get", task)


def test_who_asks_for_a_task_begins_nothing(tmp_path: Path, journal: Journal) -> None:
    with (
        running_gateway(tmp_path, [stdio_server("one", journal.path)]) as gateway,
        StreamablePeer(gateway, "one") as peer,
        StreamablePeer(gateway, "one") as idle,
        SsePeer(gateway, "one") as old,
        HttpPeer(gateway, "one") as modern,
    ):
        old.tool("echo", {"text": "it hears of changes, so that it has a process too"})
        task = begin(peer, "wait", {"seconds": 3})
        eventually(lambda: journal.events("waiting"), "the task to run")
        processes = len(journal.pids())
        drain(gateway, "removed")
        for other in (idle, old):  # each is somebody else
            with pytest.raises(RpcRefused):
                other.request("tasks/get", task)
        unknown: Json = {"jsonrpc": "2.0", "id": 9, "method": "tasks/get"}
        unknown["params"] = modern.prepare({"taskId": "mooring-task-0"})
        answer = http_request(gateway.url("one"), "POST", unknown, modern.headers_for(unknown))
        assert answer.status == 404
        for refused in ("tasks/list", "tools/list"):
            message = {"jsonrpc": "2.0", "id": 8, "method": refused}
            assert http_request(gateway.url("one"), "POST", message).status == 404
        assert post(peer, {"jsonrpc": "2.0", "id": 8, "method": "tools/list"}).status == 404
        assert text_of(peer.request("tasks/result", task)) == "nobody stopped me"
        ended(gateway)
        assert len(journal.pids()) == processes
        forget_session(peer)
        forget_session(idle)
