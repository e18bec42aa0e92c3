"""Legacy processes that take it badly to be asked how they speak, and ones that work for a long time."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

from tests.support.gateway import SUPPORT, running_gateway
from tests.support.peers import StreamablePeer


def touchy(habit: str, **more: Any) -> dict[str, Any]:
    run = [sys.executable, "-S", str(SUPPORT / "touchy_server.py"), habit]
    return {"id": "s", "workload": {"run": run}, **more}


def words(result: dict[str, Any]) -> str:
    return result["content"][0]["text"]


def test_a_session_is_not_idle_right_after_a_long_call(tmp_path: Path) -> None:
    with (
        running_gateway(tmp_path, [touchy("ignores", timeouts={"idle_stop_seconds": 2})]) as gateway,
        StreamablePeer(gateway, "s") as peer,
    ):
        process = words(peer.tool("wait", {"seconds": 4}))
        time.sleep(1)
        assert words(peer.tool("good")) == process
