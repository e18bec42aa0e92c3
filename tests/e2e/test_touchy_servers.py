"""Legacy processes that take it badly to be asked how they speak, and ones that work for a long time."""

from __future__ import annotations

import socket
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from tests.support.gateway import SUPPORT, running_gateway
from tests.support.peers import ModernHttpPeer, RpcRefused, StreamablePeer


def touchy(habit: str, **more: Any) -> dict[str, Any]:
    run = [sys.executable, "-S", str(SUPPORT / "touchy_server.py"), habit]
    return {"id": "s", "workload": {"run": run}, **more}


def words(result: dict[str, Any]) -> str:
    return result["content"][0]["text"]


def accept(_: Any) -> dict[str, Any]:
    return {"action": "accept", "content": {}}


@pytest.mark.parametrize("habit", ["exits", "ignores"])
@pytest.mark.parametrize("share", ["client", "global", "call"])
def test_a_server_that_cannot_bear_the_question_is_greeted_in_the_old_way(
    tmp_path: Path, habit: str, share: str
) -> None:
    with (
        running_gateway(tmp_path, [touchy(habit, share=share)]) as gateway,
        ModernHttpPeer(gateway, "s", handlers={"elicitation/create": accept}) as peer,
    ):
        assert words(peer.tool("good")).isdigit()
        assert "accept" in words(peer.tool("ask"))


def test_a_question_nobody_waits_for_any_more_leaves_no_connection_behind(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(10)
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        server = {"id": "s", "upstream": {"url": url}, "timeouts": {"connect_seconds": 1}}
        with (
            running_gateway(tmp_path, [server]) as gateway,
            ModernHttpPeer(gateway, "s") as peer,
        ):
            with pytest.raises(RpcRefused, match="did not answer within"):
                peer.tool("good")
            connection = listener.accept()[0]
            connection.settimeout(5)
            with connection:
                assert b"server/discover" in connection.recv(1 << 16)
                assert connection.recv(1 << 16) == b""


def test_a_session_is_not_idle_right_after_a_long_call(tmp_path: Path) -> None:
    with (
        running_gateway(tmp_path, [touchy("ignores", timeouts={"idle_stop_seconds": 2})]) as gateway,
        StreamablePeer(gateway, "s") as peer,
    ):
        process = words(peer.tool("wait", {"seconds": 4}))
        time.sleep(1)
        assert words(peer.tool("good")) == process
