"""A call lost with its session is made again only if its tool is declared to do no harm by it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.support.gateway import SUPPORT, Gateway, running_gateway, running_process
from tests.support.peers import ModernHttpPeer, RpcRefused, SsePeer, StreamablePeer

BAD = [sys.executable, "-S", str(SUPPORT / "bad_server.py")]
SERVERS = ("own", "shared", "each", "remote")


def child(identifier: str, share: str = "client") -> dict[str, Any]:
    run = {"run": [*BAD, "--transport", "stdio"], "era": "legacy"}
    return {"id": identifier, "workload": run, "share": share, "breaker": {"failures": 1000}}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    with ExitStack() as stack:
        url = stack.enter_context(running_process([*BAD, "--transport", "http"]))
        remote = {"id": "remote", "upstream": {"url": url}, "breaker": {"failures": 1000}}
        servers = [child("own"), child("shared", "global"), child("each", "call"), remote]
        yield stack.enter_context(running_gateway(tmp_path_factory.mktemp("repeating"), servers))


@pytest.fixture
def count(tmp_path: Path) -> Path:
    return tmp_path / "count"


def runs(count: Path) -> int:
    return count.stat().st_size


@pytest.fixture(params=[StreamablePeer, SsePeer, ModernHttpPeer])
def kind(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.mark.parametrize("server", SERVERS)
def test_a_lost_call_of_a_harmless_tool_is_made_again(
    gateway: Gateway, count: Path, kind: Any, server: str
) -> None:
    with kind(gateway, server) as peer:
        for number, tool in enumerate(("die_once_idempotent", "die_once_read_only")):
            here = count.with_name(tool)
            answer = peer.tool(tool, {"count": str(here)})
            assert (number, answer["content"][0]["text"], runs(here)) == (number, "second time", 2)


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("tool", ["die_once", "die_once_destructive", "die_once_unlisted"])
def test_a_lost_call_of_any_other_tool_is_not(gateway: Gateway, count: Path, server: str, tool: str) -> None:
    with StreamablePeer(gateway, server) as peer, pytest.raises(RpcRefused, match=r"exit code 7|closed"):
        peer.tool(tool, {"count": str(count)})
    assert runs(count) == 1


@pytest.mark.parametrize("server", ["own", "remote"])
def test_a_call_that_its_client_has_heard_of_is_not_made_again(
    gateway: Gateway, count: Path, kind: Any, server: str
) -> None:
    with kind(gateway, server) as peer:
        call = peer.start_tool("talk_and_die", {"count": str(count)}, progressToken="t")
        with pytest.raises(RpcRefused):
            call.result()
        assert [m["params"]["progress"] for m in peer.of("notifications/progress")] == [1]
    assert runs(count) == 1


@pytest.mark.parametrize("retries", [0, 2])
def test_it_is_made_again_as_often_as_a_session_is_opened_again(
    tmp_path: Path, count: Path, retries: int
) -> None:
    sessions = {"upstream_session_termination_retries": retries}
    with (
        running_gateway(tmp_path, [child("s")], sessions=sessions) as gateway,
        StreamablePeer(gateway, "s") as peer,
        pytest.raises(RpcRefused),
    ):
        peer.tool("die_always", {"count": str(count)})
    assert runs(count) == 1 + retries
