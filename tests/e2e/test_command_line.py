"""`mooring status`, `trace`, `tool` and `proxy stdio` next to a running gateway."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.conftest import SERVERS, Harbour
from tests.support.gateway import Gateway, program
from tests.support.peers import ModernHttpPeer, ModernStdioPeer, StdioPeer, StreamablePeer
from tests.support.waiting import eventually


@pytest.fixture(scope="module")
def gateway(harbour: Harbour) -> Gateway:
    return harbour.gateway


@pytest.mark.parametrize("server", SERVERS)
def test_tools_resources_and_prompts_of_any_server_are_used_from_the_terminal(
    gateway: Gateway, server: str
) -> None:
    listed = gateway.command("tool", "list", server)
    assert listed.returncode == 0, listed.stderr
    assert "echo" in listed.stdout
    assert "whoami" in listed.stdout  # from a later page
    called = gateway.command("tool", "call", server, "echo", "text=hello")
    assert called.returncode == 0, called.stderr
    assert "hello" in called.stdout
    failed = gateway.command("tool", "call", server, "fail")
    assert failed.returncode == 1
    assert "it went wrong" in failed.stdout + failed.stderr
    read = gateway.command("tool", "read", server, "item://3")
    assert "content of item://3" in read.stdout, read.stderr
    shown = gateway.command("tool", "prompt", server, "picture", "colour=red")
    assert "paint it red" in shown.stdout, shown.stderr


def test_an_unknown_tool_or_server_is_an_error_with_a_next_step(gateway: Gateway) -> None:
    unknown = gateway.command("tool", "call", "http-legacy", "nonsense")
    assert (unknown.returncode, unknown.stdout) == (1, "")
    assert "there is no tool `nonsense`; it has: `echo`" in unknown.stderr
    nowhere = gateway.command("tool", "list", "nobody")
    assert nowhere.returncode == 1
    assert "no server is called `nobody`; `mooring status` shows" in nowhere.stderr


def test_status_says_how_each_server_is(gateway: Gateway) -> None:
    with StreamablePeer(gateway, "http-legacy") as peer:
        peer.tool("echo", {"text": "x"})
        shown = json.loads(gateway.command("status", "--format", "json").stdout)
        assert {server["id"] for server in shown["servers"]} == set(SERVERS)
        entry = next(server for server in shown["servers"] if server["id"] == "http-legacy")
        assert (entry["state"], entry["transport"]) == ("up", "streamable_http")
        assert "legacy" in entry["era"]
        assert entry["sessions"] >= 1
        assert "http-legacy" in gateway.command("status").stdout


class Trace:
    """A `mooring trace` that runs while something happens."""

    def __init__(self, gateway: Gateway, server: str, folder: Path, *options: str) -> None:
        self._file = folder / "trace"
        environment = {**os.environ, "MOORING_SOCKET": str(gateway.socket), "NO_COLOR": "1"}
        with self._file.open("wb") as output:
            self.process = subprocess.Popen(
                [program(), "trace", server, *options],
                env=environment,
                stdout=output,
                stderr=subprocess.DEVNULL,
            )

    def text(self) -> str:
        return self._file.read_text()

    def records(self) -> list[dict[str, object]]:
        return [json.loads(line) for line in self.text().splitlines(keepends=True) if line.endswith("\n")]

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(10)


@pytest.fixture
def trace(gateway: Gateway, tmp_path: Path) -> Iterator[Trace]:
    trace = Trace(gateway, "http-legacy", tmp_path, "--format", "json", "--bytes")
    yield trace
    trace.stop()


def test_trace_shows_both_legs_of_a_conversation_without_its_secrets(gateway: Gateway, trace: Trace) -> None:
    with ModernHttpPeer(gateway, "http-legacy") as peer:

        def call_and_look() -> list[dict[str, object]]:
            peer.tool("echo", {"text": "x", "password": "hunter2", "note": "Bearer abcdefghijklmnop"})
            return [record for record in trace.records() if record["method"] == "tools/call"]

        eventually(call_and_look, "the trace to begin")
        eventually(lambda: {r["leg"] for r in trace.records()} == {"client", "server"}, "both legs")
        calls = [record for record in trace.records() if record["method"] == "tools/call"]
        assert {(record["leg"], record["dir"]) for record in calls} >= {("client", "in"), ("server", "out")}
        answers = [r for r in trace.records() if r["kind"] == "response" and r["leg"] == "server"]
        assert any(isinstance(r["since_request_ms"], float) for r in answers)
        assert "hunter2" not in trace.text()
        assert "abcdefghijklmnop" not in trace.text()


def test_trace_reads_well_in_a_terminal(gateway: Gateway, tmp_path: Path) -> None:
    trace = Trace(gateway, "stdio-legacy", tmp_path)
    with StreamablePeer(gateway, "stdio-legacy") as peer:

        def call_and_look() -> bool:
            peer.tool("echo", {"text": "x"})
            return "tools/call" in trace.text()

        eventually(call_and_look, "the trace to begin")
    trace.stop()
    assert all(len(line) < 400 for line in trace.text().splitlines())


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("kind", [StdioPeer, ModernStdioPeer])
def test_the_stdio_bridge_answers_what_was_asked_and_ends_with_its_input(
    gateway: Gateway, server: str, kind: Any
) -> None:
    with kind(gateway, server) as peer:
        peer.watch()
        call = peer.start_tool("nap", {"seconds": 0.3})
        assert peer.channel.process.stdin is not None
        peer.channel.process.stdin.close()
        assert call.result()["content"][0]["text"] == "woke up"
        assert peer.channel.process.wait(10) == 0


def test_a_bridge_whose_client_has_gone_does_not_keep_its_calls_running(gateway: Gateway) -> None:
    with StdioPeer(gateway, "stdio-legacy") as peer:
        peer.start_tool("wait")
        eventually(lambda: gateway.in_flight("stdio-legacy") == 1, "the call to be under way")
        assert peer.channel.process.stdin is not None
        peer.channel.process.stdin.close()
        assert peer.channel.process.wait(10) == 0
        eventually(lambda: gateway.in_flight("stdio-legacy") == 0, "its call to be over")
