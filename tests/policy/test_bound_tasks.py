"""Tasks that a shared server keeps belong to whoever started them: for everybody else there are none."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.policy.caller import META, Caller, Said
from tests.support.gateway import Gateway, running_gateway, running_process
from tests.support.waiting import eventually

pytestmark = pytest.mark.e2e
SCRIPT = str(Path(__file__).parent / "task_server.py")
EXTENSION = "io.modelcontextprotocol/tasks"
Json = dict[str, Any]
Ask = Callable[[str, Json], Said]


def command(folder: Path, era: str, transport: str) -> list[str]:
    line = [sys.executable, "-S", SCRIPT, "--transport", transport, "--era", era]
    return [*line, "--record", str(folder / "journal")]


@contextmanager
def shared(folder: Path, era: str, transport: str, **settings: Any) -> Iterator[Gateway]:
    """A gateway before one server that all callers share."""
    run = command(folder, era, transport)
    with ExitStack() as stack:
        if transport == "stdio":
            entry: Json = {"workload": {"run": run}}
        else:
            entry = {"upstream": {"url": stack.enter_context(running_process(run))}}
        servers = [{"id": "jobs", "share": "global", **entry}]
        yield stack.enter_context(running_gateway(folder, servers, **settings))


def key(gateway: Gateway, name: str) -> str:
    return gateway.command("key", "create", name).stdout.strip()


def asker(gateway: Gateway, era: str, secret: str | None) -> Ask:
    """Somebody with this key, who speaks one era."""
    headers: Json = {} if secret is None else {"Authorization": f"Bearer {secret}"}
    caller = Caller(gateway.address, "jobs", headers)

    def modern(method: str, params: Json) -> Said:
        declared = {META + "clientCapabilities": {"extensions": {EXTENSION: {}}}}
        headers = {"Mcp-Name": params["taskId"]} if "taskId" in params else {}
        return caller.modern(method, {**params, "_meta": declared}, **headers)

    if era == "modern":
        eventually(lambda: modern("tools/list", {}).status == 200, "the key to be known")
        return modern
    eventually(lambda: caller.initialize().status == 200, "the key to be known")
    return caller.request


def start(ask: Ask, era: str) -> str:
    params: Json = {"name": "echo", "arguments": {"text": "x"}}
    result = ask("tools/call", params if era == "modern" else {**params, "task": {}}).result
    return (result if era == "modern" else result["task"])["taskId"]


@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_a_foreign_task_of_a_shared_server_does_not_exist(tmp_path: Path, era: str, transport: str) -> None:
    methods = ["tasks/get", "tasks/cancel", "tasks/result" if era == "legacy" else "tasks/update"]
    with shared(tmp_path, era, transport, auth={"mode": "api_key"}) as gateway:
        anna, berta = (asker(gateway, era, key(gateway, name)) for name in ("anna", "berta"))
        hers, other = start(anna, era), start(berta, era)
        for method in methods:
            foreign, absent = (berta(method, {"taskId": name}) for name in (hers, "job-99"))
            assert (foreign.status, foreign.error) == (absent.status, absent.error)
            assert foreign.error == {"code": -32602, "message": "no such task"}
        assert anna("tasks/get", {"taskId": hers}).result["status"] == "working"
        assert berta("tasks/get", {"taskId": other}).result["taskId"] == other
        if era == "legacy":
            assert [task["taskId"] for task in anna("tasks/list", {}).result["tasks"]] == [hers]
            assert anna("tasks/result", {"taskId": hers}).result["content"][0]["text"] == f"result of {hers}"
        assert anna("tasks/cancel", {"taskId": hers}).status == 200
        assert anna("tasks/get", {"taskId": hers}).result["status"] == "cancelled"


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_without_authentication_the_server_s_tasks_are_everybody_s(tmp_path: Path, era: str) -> None:
    with shared(tmp_path, era, "stdio") as gateway:
        one, other = asker(gateway, era, None), asker(gateway, era, None)
        name = start(one, era)
        assert other("tasks/get", {"taskId": name}).result["taskId"] == name


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_who_started_a_task_is_known_after_the_gateway_was_killed(tmp_path: Path, era: str) -> None:
    with running_process(command(tmp_path, era, "http")) as url:
        servers = [{"id": "jobs", "share": "global", "upstream": {"url": url}}]
        settings: Json = {"auth": {"mode": "api_key"}}
        with running_gateway(tmp_path, servers, **settings) as gateway:
            keys = [key(gateway, name) for name in ("anna", "berta")]
            hers = start(asker(gateway, era, keys[0]), era)
            gateway.process.kill()
        with running_gateway(tmp_path, servers, **settings) as gateway:
            anna, berta = (asker(gateway, era, known) for known in keys)
            foreign, absent = (berta("tasks/get", {"taskId": name}) for name in (hers, "job-99"))
            assert (foreign.status, foreign.error) == (absent.status, absent.error)
            assert anna("tasks/get", {"taskId": hers}).result["status"] == "working"
            if era == "legacy":
                assert berta("tasks/list", {}).result["tasks"] == []
                assert [task["taskId"] for task in anna("tasks/list", {}).result["tasks"]] == [hers]


def test_processes_of_two_callers_may_give_their_tasks_the_same_names(tmp_path: Path) -> None:
    servers = [{"id": "jobs", "workload": {"run": command(tmp_path, "legacy", "stdio")}}]
    with running_gateway(tmp_path, servers, auth={"mode": "api_key"}) as gateway:
        anna, berta = (asker(gateway, "legacy", key(gateway, name)) for name in ("anna", "berta"))
        names = {start(anna, "legacy"), start(berta, "legacy")}
        assert len(names) == 1
        for ask in (anna, berta):
            assert ask("tasks/cancel", {"taskId": next(iter(names))}).result["status"] == "cancelled"


def test_a_name_that_a_server_gives_anew_belongs_to_whoever_got_it_last(tmp_path: Path) -> None:
    run = command(tmp_path, "legacy", "stdio")
    servers = [{"id": "jobs", "share": "global", "workload": {"run": run}}]
    with running_gateway(tmp_path, servers, auth={"mode": "api_key"}) as gateway:
        anna, berta = (asker(gateway, "legacy", key(gateway, name)) for name in ("anna", "berta"))
        hers = start(anna, "legacy")
        assert gateway.command("restart", "jobs").returncode == 0
        assert eventually(lambda: start(berta, "legacy"), "the server to run again") == hers
        assert berta("tasks/get", {"taskId": hers}).result["taskId"] == hers
        assert anna("tasks/get", {"taskId": hers}).error["message"] == "no such task"
