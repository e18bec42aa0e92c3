"""However the gateway ends, no child outlives it, and what it works on is finished first."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import subprocess
import termios
import time
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.test_sharing import living
from tests.support.gateway import Journal, program, running_gateway, stdio_server
from tests.support.peers import ModernHttpPeer, RpcRefused, StreamablePeer
from tests.support.waiting import eventually


def children(journal: Journal, count: int) -> None:
    eventually(lambda: len(living(journal)) == count, f"{count} children")


def test_a_killed_gateway_leaves_no_child_behind(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    with running_gateway(tmp_path, [stdio_server("s", journal.path)]) as gateway:
        peers = [StreamablePeer(gateway, "s") for _ in range(3)]
        for peer in peers:
            peer.tool("echo", {"text": "x"})
        peers[0].start_tool("wait")
        eventually(lambda: journal.events("waiting"), "a call to be under way")
        children(journal, 3)
        os.kill(gateway.process.pid, signal.SIGKILL)
        gateway.process.wait(5)
        children(journal, 0)
        assert not journal.events("waited to the end")
        for peer in peers:
            peer.channel.session = None
            peer.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_gateway_that_is_told_to_stop_finishes_what_it_works_on(tmp_path: Path, number: int) -> None:
    journal = Journal(tmp_path / "journal")
    with running_gateway(tmp_path, [stdio_server("s", journal.path)]) as gateway:
        with ModernHttpPeer(gateway, "s") as peer:
            call = peer.start_tool("wait", {"seconds": 1})
            eventually(lambda: journal.events("waiting"), "the call to be under way")
            gateway.process.send_signal(number)
            assert call.result()["content"][0]["text"] == "nobody stopped me"
        assert gateway.process.wait(15) == 0
        children(journal, 0)
        assert not gateway.socket.exists()


def test_a_gateway_does_not_wait_for_ever_for_a_call(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    with running_gateway(tmp_path, [stdio_server("s", journal.path)]) as gateway:
        with ModernHttpPeer(gateway, "s") as peer:
            peer.start_tool("nap", {"seconds": 60})
            eventually(lambda: journal.events("ran", "nap"), "the call to be under way")
            started = time.monotonic()
            gateway.process.send_signal(signal.SIGTERM)
            assert gateway.process.wait(20) == 0
            assert time.monotonic() - started < 15
        children(journal, 0)


def test_a_second_gateway_with_the_same_data_does_not_take_over(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    with running_gateway(tmp_path, [stdio_server("s", journal.path)]) as gateway:
        command = [*command_of(gateway.process), "serve", "--config", str(tmp_path / "mooring.yaml")]
        second = subprocess.run(command, capture_output=True, text=True, timeout=15, check=False)
        assert second.returncode == 1
        assert "already runs on" in second.stderr
        assert gateway.status("s")["state"] == "idle"  # the first one still answers on its socket


def command_of(process: subprocess.Popen[bytes]) -> list[str]:
    assert isinstance(process.args, list)
    return [str(process.args[0])]


def test_a_child_that_will_not_start_again_is_an_error_not_a_hang(tmp_path: Path) -> None:
    server: dict[str, Any] = {
        "id": "s",
        "workload": {"run": ["sleep", "60"]},
        "timeouts": {"connect_seconds": 1},
    }
    with running_gateway(tmp_path, [server]) as gateway, ModernHttpPeer(gateway, "s") as peer:
        started = time.monotonic()
        with pytest.raises(RpcRefused, match="did not answer within 1 s"):
            peer.tool("echo")
        assert time.monotonic() - started < 8
        assert gateway.status("s")["state"] == "down"


def test_a_gateway_ends_with_the_terminal_it_was_started_in(tmp_path: Path) -> None:
    """Otherwise it would hold its port with nobody left to stop it."""
    ours, its = os.openpty()
    config = {"mooring": 1, "listen": "127.0.0.1:0", "storage": {"root": str(tmp_path / "data")}}
    file = tmp_path / "mooring.yaml"
    file.write_text(json.dumps({**config, "servers": [stdio_server("one", tmp_path / "journal")]}))
    process = subprocess.Popen(
        [program(), "serve", "--config", str(file)],
        stdin=its,
        stdout=its,
        stderr=its,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - no threads here
    )
    os.close(its)
    try:
        said = b""
        while b"control socket" not in said:
            said += os.read(ours, 4096)
        process.send_signal(signal.SIGHUP)
        while b"reloaded" not in said:  # the terminal is there: then it only reads its file again
            said += os.read(ours, 4096)
        os.close(ours)
        assert process.wait(15) == 0
    finally:
        process.kill()
        process.wait(5)
