"""A gateway that follows its file: what did not change is not disturbed, what is broken changes nothing."""

from __future__ import annotations

import http.client
import json
import os
import signal
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from tests.support.gateway import Gateway, Journal, running_gateway, stdio_server
from tests.support.peers import StreamablePeer
from tests.support.waiting import eventually

pytestmark = pytest.mark.e2e


def rewrite(gateway: Gateway, **settings: object) -> None:
    rewrite_in(gateway.folder, **settings)


def rewrite_in(folder: Path, **settings: object) -> None:
    file = folder / "mooring.yaml"
    config = {**json.loads(file.read_text()), **settings}
    fresh = file.with_suffix(".new")
    fresh.write_text(json.dumps(config))
    fresh.replace(file)


def ids(gateway: Gateway) -> set[str]:
    return set(gateway.get("/healthz")["servers"])


def test_a_changed_file_is_followed_and_sessions_of_unchanged_servers_live_on(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    kept, gone, new = (stdio_server(name, journal.path) for name in ("kept", "gone", "new"))
    with running_gateway(tmp_path, [kept, gone]) as gateway, StreamablePeer(gateway, "kept") as peer:
        peer.tool("echo", {"text": "before"})
        with StreamablePeer(gateway, "gone") as other:
            other.tool("echo", {"text": "x"})
        children = len(journal.pids())
        rewrite(gateway, servers=[kept, new])
        eventually(lambda: ids(gateway) == {"kept", "new"}, "the new servers")
        assert "after" in json.dumps(peer.tool("echo", {"text": "after"}))
        assert len(journal.pids()) == children, "the same process serves it"
        with StreamablePeer(gateway, "new") as another:
            another.tool("echo", {"text": "hello"})
        eventually(lambda: "added new; removed gone" in gateway.log(), "a line about it")


def test_what_changes_while_the_gateway_starts_is_followed_too(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    one, two = (stdio_server(name, journal.path) for name in ("one", "two"))
    read = tmp_path / "data" / "seal.key"  # which it makes with what the file says about it

    def change() -> None:
        eventually(read.exists, "the file to be read")
        rewrite_in(tmp_path, servers=[one, two])

    with ThreadPoolExecutor(1) as thread:
        changing = thread.submit(change)
        with running_gateway(tmp_path, [one]) as gateway:
            changing.result(20)
            eventually(lambda: ids(gateway) == {"one", "two"}, "the new server")


def test_a_call_in_flight_ends_well_while_its_server_is_changed(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    server = stdio_server("s", journal.path)
    with running_gateway(tmp_path, [server]) as gateway, StreamablePeer(gateway, "s") as peer:
        pending = peer.start_tool("nap", {"seconds": 2})
        eventually(lambda: journal.events("ran", "nap"), "the call to be under way")
        rewrite(gateway, servers=[{**server, "share": "global"}])
        eventually(lambda: "reloaded: changed s" in gateway.log() or pending.answers.qsize(), "the change")
        assert "result" in pending.answers.get(timeout=15)
        eventually(lambda: "reloaded: changed s" in gateway.log(), "the change")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("{", "nothing was changed"),
        ('{"mooring": 1, "servres": []}', "`servres`"),
        ('{"mooring": 1, "listen": "127.0.0.1:1", "servers": []}', "needs a restart"),
    ],
)
def test_a_broken_file_changes_nothing_and_says_why(tmp_path: Path, text: str, reason: str) -> None:
    journal = Journal(tmp_path / "journal")
    with running_gateway(tmp_path, [stdio_server("s", journal.path)]) as gateway:
        with StreamablePeer(gateway, "s") as peer:
            peer.tool("echo", {"text": "before"})
            (tmp_path / "mooring.yaml").write_text(text)
            os.kill(gateway.process.pid, signal.SIGHUP)
            eventually(lambda: "nothing was changed" in gateway.log(), "the reason")
            assert reason in gateway.log()
            assert "after" in json.dumps(peer.tool("echo", {"text": "after"}))
        assert ids(gateway) == {"s"}


def test_a_server_of_the_file_is_a_workload_that_only_the_file_removes(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    with running_gateway(tmp_path, [stdio_server("s", journal.path)]) as gateway:
        [listed] = json.loads(gateway.command("list", "--format", "json").stdout)
        assert (listed["name"], listed["status"], listed["declared"]) == ("s", "stopped", True)
        with StreamablePeer(gateway, "s") as peer:
            peer.tool("echo", {"text": "x"})
            [listed] = json.loads(gateway.command("list", "--format", "json").stdout)
            assert listed["status"] == "running"
        refused = gateway.command("rm", "s")
        assert refused.returncode == 1
        assert "stands in the configuration file" in refused.stderr
        assert gateway.command("stop", "s").returncode == 0
        assert "start it with `mooring start s`" in gateway.command("tool", "list", "s").stderr
        assert gateway.command("start", "s").returncode == 0
        assert gateway.command("tool", "list", "s").returncode == 0


def test_an_open_connection_learns_that_its_server_is_gone(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    kept, gone = stdio_server("kept", journal.path), stdio_server("gone", journal.path)
    message = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "ping"})
    headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    with (
        running_gateway(tmp_path, [kept, gone]) as gateway,
        closing(http.client.HTTPConnection(gateway.host, gateway.port, timeout=10)) as connection,
    ):
        seen: list[int] = []
        for _ in range(4):
            connection.request("POST", "/mcp/gone", message, headers)
            answer = connection.getresponse()
            answer.read()
            seen.append(answer.status)
        assert seen == [400] * 4, "a request without a session, of a server that is there"
        rewrite(gateway, servers=[kept])
        eventually(lambda: ids(gateway) == {"kept"}, "the server to go")
        connection.request("POST", "/mcp/gone", message, headers)
        assert connection.getresponse().status == 404
