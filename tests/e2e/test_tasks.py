"""Tasks between every client revision and every kind of server: each pair has its way to the same outcome."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.conftest import LEGACY_SERVERS, SERVERS, Harbour
from tests.e2e.test_matrix import CLIENTS
from tests.support.gateway import SUPPORT, Journal, running_gateway, running_process
from tests.support.peers import (
    ModernHttpPeer,
    ModernStdioPeer,
    Pending,
    RpcRefused,
    StdioPeer,
    StreamablePeer,
    tool_params,
)
from tests.support.waiting import eventually

Json = dict[str, Any]
EXTENSION = "io.modelcontextprotocol/tasks"
WITH_TASKS = (StreamablePeer, StdioPeer)
LONG_SECONDS = 11
"""Longer than a call of a client that knows tasks may take without becoming one."""


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harbour]:
    """One server of each kind with a tool that runs only as a task."""
    folder = tmp_path_factory.mktemp("jobs")
    journals = {name: Journal(folder / f"{name}.journal") for name in SERVERS}
    with ExitStack() as stack:
        servers: list[Json] = []
        for name in SERVERS:
            transport, _, era = name.partition("-")
            command = command_of(transport, era or "legacy", journals[name].path)
            if transport == "stdio":
                servers.append({"id": name, "workload": {"run": command}})
            else:
                url = stack.enter_context(running_process(command))
                servers.append({"id": name, "upstream": {"url": url}})
        yield Harbour(stack.enter_context(running_gateway(folder, servers)), journals)


def command_of(transport: str, era: str, journal: Path) -> list[str]:
    options = ["--transport", transport, "--era", era, "--version", "2025-11-25", "--record", str(journal)]
    return [sys.executable, "-S", str(SUPPORT / "job_server.py"), *options]


def text_of(result: Json) -> str:
    return result["content"][0]["text"]


# Clients without tasks, tools that run only so


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("server", SERVERS)
def test_a_tool_that_runs_only_as_a_task_works_for_clients_without_tasks(
    jobs: Harbour, client: str, server: str
) -> None:
    kind, version = CLIENTS[client]
    journal = jobs.journals[server]
    journal.forget()
    with kind(jobs.gateway, server, version) as peer:
        if version == "2026-07-28" and server.endswith("modern"):  # it can be told what it lacks
            with pytest.raises(RpcRefused) as refused:
                peer.tool("job")
            assert refused.value.error["data"] == {"requiredCapabilities": {"extensions": {EXTENSION: {}}}}
        else:
            assert text_of(peer.tool("job")) == "the job is done"
            assert len(journal.events("job began")) == 1


@pytest.mark.parametrize("hesitate", [0, 0.7])
@pytest.mark.parametrize("server", SERVERS)
def test_such_a_call_is_cancelled_with_its_task(jobs: Harbour, server: str, hesitate: float) -> None:
    """Also if the server has not said yet what the task is called."""
    journal = jobs.journals[server]
    journal.forget()
    with StreamablePeer(jobs.gateway, server, "2025-06-18") as peer:
        pending = peer.start_tool("job", {"seconds": 20, "hesitate": hesitate})
        eventually(lambda: journal.events("job began"), "the job to begin")
        peer.cancel(pending)
        eventually(lambda: journal.events("job cancelled"), "the job to be cancelled")


# 2025-11-25: the client wants a task


@pytest.mark.parametrize("kind", WITH_TASKS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("has_tasks", [True, False])
def test_a_client_that_wants_a_task_gets_one_from_every_server(
    request: pytest.FixtureRequest, server: str, kind: Any, has_tasks: bool
) -> None:
    harbour: Harbour = request.getfixturevalue("jobs" if has_tasks else "harbour")
    tool, said = ("job", "the job is done") if has_tasks else ("nap", "woke up")
    with kind(harbour.gateway, server, "2025-11-25") as peer:
        wish = {**tool_params(tool, {"seconds": 0.3}), "task": {"ttl": 60_000}}
        task = peer.request("tools/call", wish)["task"]
        assert task["status"] == "working"
        about = {"taskId": task["taskId"]}
        assert about["taskId"] in [known["taskId"] for known in peer.request("tasks/list")["tasks"]]
        assert text_of(peer.request("tasks/result", about)) == said
        assert peer.request("tasks/get", about)["status"] == "completed"
        with pytest.raises(RpcRefused, match="no such task"):
            peer.request("tasks/get", {"taskId": "nobody's"})


@pytest.mark.parametrize("server", SERVERS)
def test_a_cancelled_task_stops_in_the_server(harbour: Harbour, server: str) -> None:
    journal = harbour.journals[server]
    journal.forget()
    with StreamablePeer(harbour.gateway, server) as peer:
        task = peer.request("tools/call", {**tool_params("wait"), "task": {}})["task"]
        eventually(lambda: journal.events("waiting"), "the tool to run")
        assert peer.request("tasks/cancel", {"taskId": task["taskId"]})["status"] == "cancelled"
        eventually(lambda: journal.events("stopped", "wait"), "the tool to stop")


@pytest.mark.parametrize("listens", ["with the result", "on a stream"])
@pytest.mark.parametrize("server", SERVERS)
def test_a_task_that_asks_while_nobody_listens_is_heard_by_who_comes_for_it(
    harbour: Harbour, server: str, listens: str
) -> None:
    handlers = {"elicitation/create": lambda _: {"action": "accept", "content": {"colour": "blue"}}}
    with StreamablePeer(harbour.gateway, server, handlers=handlers) as peer:
        wish = {**tool_params("ask", {"kind": "elicitation"}), "task": {}}
        about = {"taskId": peer.request("tools/call", wish)["task"]["taskId"]}
        eventually(lambda: peer.request("tasks/get", about)["status"] == "input_required", "the question")
        if listens == "on a stream":
            peer.watch()
            eventually(lambda: peer.request("tasks/get", about)["status"] == "completed", "the result")
        assert "blue" in text_of(peer.request("tasks/result", about))
        assert len(peer.of("elicitation/create")) == 1


# 2026-07-28: the server says that it is one


class _KnowsTasks:
    @property
    def capabilities(self) -> Json:
        return {"elicitation": {}, "extensions": {EXTENSION: {}}}


class HttpPeer(_KnowsTasks, ModernHttpPeer):
    def headers_for(self, message: Json) -> Json:
        task = message["params"].get("taskId")
        return super().headers_for(message) | ({"Mcp-Name": task} if task else {})


class LinePeer(_KnowsTasks, ModernStdioPeer):
    pass


def outcome(peer: Any, task: Json) -> Json:
    """The task when it has ended; what it asks on its way is answered."""
    about = {"taskId": task["taskId"]}

    def look() -> Json | None:
        found = peer.request("tasks/get", about)
        if found["status"] == "input_required":
            answers = {
                name: {"action": "accept", "content": {"colour": "blue"}} for name in found["inputRequests"]
            }
            peer.request("tasks/update", {**about, "inputResponses": answers})
        return found if found["status"] not in ("working", "input_required") else None

    return eventually(look, "the task to end", limit=30)


@pytest.mark.parametrize("kind", [HttpPeer, LinePeer], ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("server", ["stdio-modern", "http-modern"])
def test_tasks_of_a_modern_server_reach_a_client_that_knows_them(
    jobs: Harbour, server: str, kind: Any
) -> None:
    with kind(jobs.gateway, server) as peer:
        task = peer.request("tools/call", tool_params("job"))
        assert task["resultType"] == "task"
        assert text_of(outcome(peer, task)["result"]) == "the job is done"
        other = peer.request("tools/call", tool_params("job", {"seconds": 20}))
        peer.request("tasks/cancel", {"taskId": other["taskId"]})
        assert outcome(peer, other)["status"] == "cancelled"


def test_a_long_call_to_an_older_server_becomes_a_task(harbour: Harbour) -> None:
    """At the same time with all of them, since each takes as long as a call must last for that."""
    with ExitStack() as stack:
        running: list[tuple[Any, str, Pending]] = []
        for server in LEGACY_SERVERS:
            for kind in (HttpPeer, LinePeer):
                for tool, said in (("nap", "woke up"), ("ask", "blue")):
                    peer = stack.enter_context(kind(harbour.gateway, server))
                    arguments = {"seconds": LONG_SECONDS, "kind": "elicitation", "after": LONG_SECONDS}
                    running.append((peer, said, peer.start("tools/call", tool_params(tool, arguments))))
        for peer, said, pending in running:
            task = pending.result(limit=40)
            assert task["resultType"] == "task"
            ended = outcome(peer, task)
            assert ended["status"] == "completed"
            assert said in str(ended["result"])
