"""The guard follows its file: the very next request is judged anew, also on an open connection."""

from __future__ import annotations

import http.client
import json
import os
import signal
import threading
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.policy.caller import Caller
from tests.policy.shelf import Shelf, tool
from tests.policy.test_short_way import Sender
from tests.support.gateway import Gateway, http_server, rewrite, running_gateway
from tests.support.peers import ModernHttpPeer, ModernStdioPeer, StdioPeer, StreamablePeer
from tests.support.waiting import eventually

from mooring.interfaces.door import local_principal
from mooring.policy.audit.verifying import public_key, verify

pytestmark = pytest.mark.e2e
Json = dict[str, Any]
LOOK = 'permit(principal, action == Action::"call_tool", resource == Tool::"look");'
ALL = "permit(principal, action, resource);"


def events(gateway: Gateway, name: str = "audit.log") -> list[Json]:
    path = gateway.folder / "data" / name
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


class OpenConnection:
    """One connection and one session: the head of its requests never changes."""

    def __init__(self, connection: http.client.HTTPConnection, gateway: Gateway) -> None:
        self._connection = connection
        caller = Caller(gateway.address, "one")
        caller.initialize()
        self._headers = {
            "Content-Type": "application/json",
            "Accept": "application/json, text/event-stream",
            **caller.session,
        }

    def call(self, name: str) -> Json:
        params = {"name": name, "arguments": {}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        self._connection.request("POST", "/mcp/one", json.dumps(message), self._headers)
        return json.loads(self._connection.getresponse().read())


def with_tools(folder: Path, work: Callable[[Gateway, OpenConnection, Json], None], **settings: Any) -> None:
    shelf = Shelf(folder / "s", tool("look"), tool("touch"))
    with (
        shelf.http("one") as server,
        running_gateway(folder, [server], **settings) as gateway,
        closing(http.client.HTTPConnection(gateway.host, gateway.port, timeout=10)) as connection,
    ):
        opened = OpenConnection(connection, gateway)
        for _ in range(4):  # by now its requests take the short way
            assert "result" in opened.call("touch")
        work(gateway, opened, server)


def test_a_policy_that_is_switched_on_holds_for_the_next_call(tmp_path: Path) -> None:
    (tmp_path / "look.cedar").write_text(LOOK)
    (tmp_path / "all.cedar").write_text(ALL)

    def work(gateway: Gateway, opened: OpenConnection, _: Json) -> None:
        rewrite(gateway, authorization={"type": "cedarv1", "policies": [str(tmp_path / "look.cedar")]})
        assert opened.call("touch")["error"]["message"] == "Unknown tool: touch"
        assert "result" in opened.call("look")
        rewrite(gateway, authorization={"type": "cedarv1", "policies": [str(tmp_path / "all.cedar")]})
        assert "result" in opened.call("touch")
        rewrite(gateway, authorization={"type": "none"})
        assert "result" in opened.call("touch")

    with_tools(tmp_path, work)


def test_a_changed_filter_holds_at_once_and_its_session_lives_on(tmp_path: Path) -> None:
    def work(gateway: Gateway, opened: OpenConnection, server: Json) -> None:
        rewrite(gateway, servers=[{**server, "tools": {"deny": ["touch"]}}])
        assert opened.call("touch")["error"]["message"] == "Unknown tool: touch"
        rewrite(gateway, servers=[{**server, "tools": {"override": {"touch": {"name": "poke"}}}}])
        assert "result" in opened.call("poke")
        assert "reloaded: changed one" in gateway.log()

    with_tools(tmp_path, work)


def test_limits_come_and_go_without_a_restart(tmp_path: Path) -> None:
    def work(gateway: Gateway, opened: OpenConnection, _: Json) -> None:
        rewrite(gateway, limits={"rate": [{"count": 1, "seconds": 3600, "per": "all"}]})
        assert "result" in opened.call("touch")
        assert opened.call("touch")["error"]["code"] == -31005
        rewrite(gateway, limits={"rate": [{"count": 1, "seconds": 3600, "per": "all"}]}, cors={})
        assert opened.call("touch")["error"]["code"] == -31005, "what did not change goes on counting"
        rewrite(gateway, limits={})
        assert "result" in opened.call("touch")

    with_tools(tmp_path, work)


def test_a_broken_policy_changes_nothing_and_what_is_cold_says_so(tmp_path: Path) -> None:
    (tmp_path / "bad.cedar").write_text("permit(principal, action resource);")

    def work(gateway: Gateway, opened: OpenConnection, _: Json) -> None:
        section = {"type": "cedarv1", "policies": [str(tmp_path / "bad.cedar")]}
        rewrite(gateway, authorization=section, audit={"enabled": True})
        assert "nothing was changed" in gateway.log()
        assert "bad.cedar" in gateway.log()
        assert "result" in opened.call("touch")
        assert not events(gateway)
        rewrite(gateway, authorization={"type": "none"}, limits={"max_connections": 9})
        assert "`limits.max_connections` needs a restart" in gateway.log()

    with_tools(tmp_path, work)


def test_the_audit_can_be_switched_on_moved_and_off_and_its_chain_holds(tmp_path: Path) -> None:
    def work(gateway: Gateway, opened: OpenConnection, _: Json) -> None:
        rewrite(gateway, audit={"enabled": True})
        opened.call("look")
        rewrite(gateway, audit={"enabled": True, "component": "other", "sync": True})
        opened.call("look")
        rewrite(gateway, audit={"enabled": True, "file": str(gateway.folder / "data" / "second.log")})
        opened.call("look")
        rewrite(gateway, audit={"enabled": False})
        opened.call("look")
        calls = [event for event in events(gateway) if event["type"] == "mcp_tool_call"]
        assert [event["component"] for event in calls] == ["mooring", "other"]
        second = lambda: [event["type"] for event in events(gateway, "second.log")]  # noqa: E731
        eventually(lambda: second() == ["mcp_tool_call", "checkpoint"], "the second file to be sealed")
        report = verify(
            gateway.folder / "data" / "audit.log", public_key(gateway.folder / "data" / "audit.pub")
        )
        assert not report.findings

    with_tools(tmp_path, work)


def test_metrics_can_be_switched_on_and_go_on_counting(tmp_path: Path) -> None:
    def work(gateway: Gateway, opened: OpenConnection, _: Json) -> None:
        caller = Caller(gateway.address, "one")
        rewrite(gateway, telemetry={"prometheus": True})
        opened.call("look")
        rewrite(gateway, telemetry={"prometheus": True}, limits={"max_body_bytes": 1_000_000})
        opened.call("look")
        page = caller.send("GET", "/metrics", b"", {}).body.decode()
        assert 'mooring_tool_calls_total{server="one",tool="look",outcome="success"} 2' in page
        rewrite(gateway, telemetry={})
        assert caller.send("GET", "/metrics", b"", {}).status == 404

    with_tools(tmp_path, work)


def test_a_session_keeps_what_it_was_shown_first(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "s", tool("look", "looks"))
    with shelf.http("one") as server, running_gateway(tmp_path, [server]) as gateway:
        caller = Caller(gateway.address, "one")
        caller.initialize()
        caller.request("tools/list")
        rewrite(
            gateway, core={"tool_definition_pinning": {"mode": "block", "block_error_session_action": "keep"}}
        )
        shelf.put(tool("look", "looks, and deletes"))
        assert "changed" in caller.request("tools/list").error["message"]


def test_a_call_under_way_is_written_down_by_the_rules_it_came_in_with(tmp_path: Path) -> None:
    with (
        http_server("one", tmp_path / "journal") as server,
        running_gateway(tmp_path, [server], audit={"enabled": True}) as gateway,
    ):
        caller = Caller(gateway.address, "one")
        caller.initialize()
        answers: list[Json] = []
        nap = threading.Thread(
            target=lambda: answers.append(caller.tool("nap", {"seconds": 4}).message), daemon=True
        )
        nap.start()
        eventually(lambda: gateway.in_flight("one") == 1, "the call to run")
        rewrite(gateway, audit={"enabled": False})
        nap.join(20)
        assert "result" in answers[0]
        found = lambda: [event["type"] for event in events(gateway)][-2:]  # noqa: E731
        eventually(lambda: found() == ["mcp_tool_call", "checkpoint"], "the file to be sealed at its end")


def test_listeners_hear_that_their_lists_may_have_changed(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "s", tool("look"), tool("touch"))
    with (
        shelf.http("one") as server,
        running_gateway(tmp_path, [server]) as gateway,
        StreamablePeer(gateway, "one") as peer,
    ):
        peer.watch()
        rewrite(gateway, servers=[{**server, "tools": {"deny": ["touch"]}}])
        peer.wait_for("notifications/tools/list_changed")
        assert [entry["name"] for entry in peer.request("tools/list")["tools"]] == ["look"]


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_a_call_that_outlasts_its_server_is_told_so(tmp_path: Path, era: str) -> None:
    with (
        http_server("one", tmp_path / "journal") as server,
        running_gateway(tmp_path, [server]) as gateway,
    ):
        caller = Caller(gateway.address, "one")
        caller.initialize()
        call = caller.tool if era == "legacy" else caller.modern_tool
        answers: list[Json] = []
        nap = threading.Thread(
            target=lambda: answers.append(call("nap", {"seconds": 60}).message), daemon=True
        )
        nap.start()
        eventually(lambda: gateway.in_flight("one") == 1, "the call to run")
        rewrite(gateway, servers=[{**server, "timeouts": {"call_seconds": 77}}])
        nap.join(20)
        assert "was taken away or changed" in answers[0]["error"]["message"]


@pytest.mark.parametrize("peer", [StreamablePeer, ModernHttpPeer], ids=lambda peer: peer.__name__)
def test_a_subscription_ends_where_a_policy_forbids_its_resource(tmp_path: Path, peer: Any) -> None:
    policy = tmp_path / "all.cedar"
    policy.write_text(ALL)
    rules = {"type": "cedarv1", "policies": [str(policy)]}
    with (
        http_server("one", tmp_path / "journal", share="global") as server,
        running_gateway(tmp_path, [server], authorization=rules) as gateway,
        peer(gateway, "one") as listener,
    ):
        listener.watch()
        for number in (1, 2):
            listener.subscribe(f"item://{number}")
        (tmp_path / "some.cedar").write_text(
            f'{ALL} forbid(principal, action, resource == Resource::"item://1");'
        )
        rewrite(gateway, authorization={**rules, "policies": [str(tmp_path / "some.cedar")]})
        for number in (1, 2):
            listener.tool("touch", {"uri": f"item://{number}"})
        told = listener.wait_for("notifications/resources/updated")
        assert [message["params"]["uri"] for message in told] == ["item://2"]


def keep_busy(gateway: Gateway, caller: Caller) -> None:
    """A call that outlasts the test; who is told that it broke off does not matter here."""

    def nap() -> None:
        with suppress(OSError, http.client.HTTPException):
            caller.tool("nap", {"seconds": 60})

    threading.Thread(target=nap, daemon=True).start()
    eventually(lambda: gateway.in_flight("one") == 1, "the call to run")


def test_a_server_that_is_made_anew_begins_nothing_by_its_old_rules(tmp_path: Path) -> None:
    """Its last calls may end; an open connection that knows the way must not be an exception."""
    call = b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo","arguments":{"text":"x"}}}'
    with (
        http_server("one", tmp_path / "journal") as server,
        running_gateway(tmp_path, [server]) as gateway,
        closing(Sender(gateway, None)) as sender,
    ):
        for _ in range(4):  # by now its requests take the short way
            assert sender.say(call)[0] == 200
        caller = Caller(gateway.address, "one")
        caller.session = sender.session
        keep_busy(gateway, caller)
        changed = {**server, "timeouts": {"call_seconds": 77}, "tools": {"deny": ["echo"]}}
        file = gateway.folder / "mooring.yaml"
        file.write_text(json.dumps({**json.loads(file.read_text()), "servers": [changed]}))
        os.kill(gateway.process.pid, signal.SIGHUP)
        caller.session = {}
        eventually(lambda: _denied(caller), "the new rules to hold")
        assert sender.say(call)[0] == 404


def _denied(caller: Caller) -> bool:
    said = caller.modern_tool("echo")
    return "error" in said.message and said.error["message"] == "Unknown tool: echo"


@pytest.mark.parametrize("kind", [StdioPeer, ModernStdioPeer], ids=lambda kind: kind.__name__)
def test_a_command_ends_with_the_server_that_it_was_started_for(tmp_path: Path, kind: Any) -> None:
    """Its client starts it again, and is then served by what is there now."""
    with (
        http_server("one", tmp_path / "journal") as server,
        running_gateway(tmp_path, [server]) as gateway,
        kind(gateway, "one") as peer,
    ):
        assert peer.tool("echo", {"text": "a"})["content"][0]["text"] == "a"
        rewrite(gateway, servers=[{**server, "timeouts": {"call_seconds": 77}}])
        assert peer.channel.process.wait(10) == 0
        with kind(gateway, "one") as another:
            assert another.tool("echo", {"text": "b"})["content"][0]["text"] == "b"


def test_a_command_begins_nothing_at_a_server_that_is_about_to_go(tmp_path: Path) -> None:
    with (
        http_server("one", tmp_path / "journal") as server,
        running_gateway(tmp_path, [server]) as gateway,
        ModernStdioPeer(gateway, "one") as peer,
    ):
        assert peer.tool("echo", {"text": "a"})["content"][0]["text"] == "a"  # by now it is connected
        caller = Caller(gateway.address, "one")
        caller.initialize()
        keep_busy(gateway, caller)
        file = gateway.folder / "mooring.yaml"
        changed = {**server, "timeouts": {"call_seconds": 77}, "tools": {"deny": ["echo"]}}
        file.write_text(json.dumps({**json.loads(file.read_text()), "servers": [changed]}))
        os.kill(gateway.process.pid, signal.SIGHUP)
        caller.session = {}
        eventually(lambda: _denied(caller), "the new rules to hold")
        with suppress(BrokenPipeError):  # the server is gone by now, and the command with it
            pending = peer.start_tool("echo", {"text": "b"})
            gone = peer.channel.process.poll
            eventually(lambda: not pending.answers.empty() or gone() is not None, "an answer or the end")
            for answer in list(pending.answers.queue):
                assert "was taken away or changed; connect again" in answer["error"]["message"]


def test_whoever_uses_the_socket_is_known_once_callers_are_told_apart(tmp_path: Path) -> None:
    (tmp_path / "me.cedar").write_text(
        f'permit(principal == Client::"{local_principal().subject}", action, resource);'
    )
    shelf = Shelf(tmp_path / "s", tool("look"))
    policies = {"type": "cedarv1", "policies": [str(tmp_path / "me.cedar")]}

    def seen(gateway: Gateway) -> list[str]:
        with StdioPeer(gateway, "one") as client:
            return [entry["name"] for entry in client.request("tools/list")["tools"]]

    with running_gateway(tmp_path, [shelf.stdio("one")], authorization=policies) as gateway:
        assert seen(gateway) == []
        rewrite(gateway, auth={"mode": "api_key"})
        assert seen(gateway) == ["look"]
        rewrite(gateway, auth={"mode": "none"})
        assert seen(gateway) == []
