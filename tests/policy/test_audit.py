"""The audit log: nothing that was answered is missing from it, and nothing in it can be changed unnoticed."""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import random
import signal
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.policy.caller import Caller
from tests.policy.shelf import Shelf, tool
from tests.support.gateway import Gateway, http_server, running_gateway, stdio_server
from tests.support.peers import SsePeer, StdioPeer

from mooring.policy.audit.delegation import delegation_of
from mooring.policy.audit.events import FILE_DOWNLOAD, FILE_UPLOAD, KNOWN_TYPES, TOOL_DRIFT
from mooring.policy.audit.ledger import Ledger, SigningKey, head_file, rotated_files
from mooring.policy.audit.streamed import FailureScan
from mooring.policy.audit.verifying import public_key, verify

Json = dict[str, Any]


def ledger(folder: Path, **more: Any) -> Ledger:
    wanted = {"rotate_bytes": 10**9, "keep_files": 1000, "sync": False, **more}
    return Ledger(folder / "audit.log", SigningKey(folder / "audit.key"), **wanted)


def fill(log: Ledger, count: int) -> None:
    for _ in range(count):
        log.append(json.dumps({"seq": log.seq, "prev": log.prev, "what": random.random()}).encode())


def findings(folder: Path) -> list[str]:
    return [
        found.message for found in verify(folder / "audit.log", public_key(folder / "audit.pub")).findings
    ]


def test_an_untouched_log_is_intact_across_restarts_and_rotations(tmp_path: Path) -> None:
    for _ in range(3):
        log = ledger(tmp_path, rotate_bytes=4096)
        fill(log, 50)
        log.close()
    report = verify(tmp_path / "audit.log", public_key(tmp_path / "audit.pub"))
    assert (report.findings, report.first, report.lines) == ((), 0, report.last + 1)
    assert len(rotated_files(tmp_path / "audit.log")) > 2
    assert report.sealed == report.last


def test_with_sync_every_line_is_on_the_disk_before_it_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = ledger(tmp_path, sync=True)
    really, on_disk = os.fsync, []

    def seen(descriptor: int) -> None:
        really(descriptor)
        on_disk.append(os.fstat(descriptor).st_size)

    monkeypatch.setattr(os, "fsync", seen)
    for _ in range(5):
        fill(log, 1)
        assert on_disk[-1:] == [log.path.stat().st_size]
    assert len(on_disk) == 5
    log.close()


CHANGES = {
    "a line was edited": lambda lines: lines.__setitem__(5, lines[5].replace(b"what", b"whax")),
    "a line was removed": lambda lines: lines.pop(5),
    "two lines changed places": lambda lines: lines.__setitem__(slice(5, 7), [lines[6], lines[5]]),
    "a line was put in": lambda lines: lines.insert(5, lines[4]),
    "a line was forged": lambda lines: lines.insert(5, b'{"seq":5,"prev":"00","what":1}'),
    "the last lines are gone": lambda lines: lines.__delitem__(slice(-2, None)),
    "everything is gone": lambda lines: lines.clear(),
    "a line was garbled": lambda lines: lines.__setitem__(5, b"{" + lines[5]),
    "the checkpoint was edited": lambda lines: lines.__setitem__(
        -1, lines[-1].replace(b'"signature":"', b'"signature":"00')
    ),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_found(tmp_path: Path, change: str) -> None:
    log = ledger(tmp_path)
    fill(log, 10)
    log.close()
    assert findings(tmp_path) == []
    lines = (tmp_path / "audit.log").read_bytes().splitlines()
    CHANGES[change](lines)
    (tmp_path / "audit.log").write_bytes(b"".join(line + b"\n" for line in lines))
    assert findings(tmp_path) != []


@settings(deadline=None, max_examples=25)
@given(data=st.data())
def test_no_single_changed_byte_goes_unnoticed(tmp_path_factory: pytest.TempPathFactory, data: Any) -> None:
    folder = tmp_path_factory.mktemp("a")
    log = ledger(folder)
    fill(log, 5)
    log.close()
    content = bytearray((folder / "audit.log").read_bytes())
    place = data.draw(st.integers(0, len(content) - 2))
    content[place] ^= data.draw(st.integers(1, 255))
    (folder / "audit.log").write_bytes(content)
    assert findings(folder) != []


def test_a_rewritten_log_with_a_new_key_is_not_the_old_one(tmp_path: Path) -> None:
    log = ledger(tmp_path)
    fill(log, 10)
    log.close()
    forged = tmp_path / "forged"
    other = ledger(forged)
    fill(other, 10)
    other.close()
    for name in ("audit.log", "audit.log.head"):
        (tmp_path / name).write_bytes((forged / name).read_bytes())
    assert any("signature" in found for found in findings(tmp_path))


def test_a_torn_last_line_is_gone_on_from_and_shown(tmp_path: Path) -> None:
    log = ledger(tmp_path)
    fill(log, 5)
    log.close()
    with (tmp_path / "audit.log").open("ab") as file:
        file.write(b'{"seq":6,"pre')
    assert findings(tmp_path) != []
    again = ledger(tmp_path)
    fill(again, 3)
    again.close()
    assert findings(tmp_path) == []


def test_without_the_head_nothing_is_promised_about_the_end(tmp_path: Path) -> None:
    log = ledger(tmp_path)
    fill(log, 3)
    log.close()
    head_file(tmp_path / "audit.log").unlink()
    assert any("cut off" in found for found in findings(tmp_path))


# Through a gateway


def events(gateway: Gateway) -> list[Json]:
    lines = (gateway.folder / "data" / "audit.log").read_text().splitlines()
    return [entry for entry in map(json.loads, lines) if "target" in entry]


@pytest.mark.e2e
def test_every_kind_of_request_is_written_down(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "s", tool("say"), tool("broken"), resources=["shelf://a"])
    section = {"enabled": True, "include_request_data": True, "include_response_data": True}
    with (
        shelf.http("one") as server,
        running_gateway(tmp_path, [{**server, "tools": {"deny": ["hidden"]}}], audit=section) as gateway,
    ):
        caller = Caller(gateway.address, "one", {"User-Agent": "tester"})
        caller.initialize()
        caller.tool("say", {"text": "hi", "password": "swordfish"})
        caller.tool("broken")
        caller.tool("hidden")
        caller.tool("absent")
        caller.request("resources/read", {"uri": "shelf://a"})
        caller.request("tools/list")
        caller.session = {}
        caller.modern_tool("say", {"text": "x" * 5000})
        found = [
            (e["type"], e["outcome"], e["target"].get("name") or e["target"].get("uri"))
            for e in events(gateway)
        ]
        assert found == [
            ("mcp_initialize", "success", None),
            ("mcp_notification", "success", None),
            ("mcp_tool_call", "success", "say"),
            ("mcp_tool_call", "application_error", "broken"),
            ("mcp_tool_call", "denied", "hidden"),
            ("mcp_tool_call", "failure", "absent"),
            ("mcp_resource_read", "success", "shelf://a"),
            ("mcp_tools_list", "success", None),
            ("mcp_tool_call", "success", "say"),
        ]
        call = events(gateway)[2]
        assert call["source"] == {"type": "network", "value": "127.0.0.1", "extra": {"user_agent": "tester"}}
        assert call["subjects"]["client_name"] == "t"
        assert call["data"]["request"]["arguments"] == {"text": "hi", "password": "[redacted]"}
        assert call["definition_hash"]
        assert call["metadata"]["extra"]["transport"] == "streamable-http"
        assert "swordfish" not in (gateway.folder / "data" / "audit.log").read_text()
        assert events(gateway)[-1]["data"]["request"]["bytes"] > 5000
        checked = gateway.command("audit", "verify")
        assert checked.returncode == 0, checked.stdout
        shown = gateway.command("audit", "show", "--outcome", "denied")
        assert "hidden" in shown.stdout
        assert "absent" not in shown.stdout
    assert "intact" in gateway.command("audit", "verify").stdout


@pytest.mark.e2e
def test_on_stdout_the_lines_are_chained_too(tmp_path: Path) -> None:
    servers = [stdio_server("one", tmp_path / "journal")]
    with running_gateway(tmp_path, servers, audit={"enabled": True, "output": "stdout"}) as gateway:
        caller = Caller(gateway.address, "one")
        caller.initialize()
        caller.tool("echo", {"text": "hi"})
        lines = [line for line in gateway.log().splitlines() if line.startswith('{"seq"')]
        kinds = [json.loads(line)["type"] for line in lines]
        assert [kind for kind in kinds if kind in ("mcp_initialize", "mcp_tool_call")] == [
            "mcp_initialize",
            "mcp_tool_call",
        ]
        before = [json.loads(line)["prev"] for line in lines[1:]]
        assert before == [hashlib.sha256(line.encode()).hexdigest() for line in lines[:-1]]


@pytest.mark.e2e
def test_failed_authentication_is_written_down(tmp_path: Path) -> None:
    servers = [stdio_server("one", tmp_path / "journal")]
    with running_gateway(tmp_path, servers, audit={"enabled": True}, auth={"mode": "api_key"}) as gateway:
        Caller(gateway.address, "one", {"Authorization": "Bearer nonsense"}).initialize()
        event = events(gateway)[-1]
        assert (event["type"], event["outcome"]) == ("http_request", "denied")
        assert event["metadata"]["extra"]["status"] == 401
        assert event["source"]["value"] == "127.0.0.1"


@pytest.mark.e2e
@pytest.mark.parametrize("trusted", [True, False])
def test_whose_address_counts_is_decided_by_the_operator(tmp_path: Path, trusted: bool) -> None:
    servers = [stdio_server("one", tmp_path / "journal")]
    with running_gateway(tmp_path, servers, audit={"enabled": True}, trust_proxy_headers=trusted) as gateway:
        Caller(gateway.address, "one", {"X-Forwarded-For": "1.2.3.4, 203.0.113.9"}).initialize()
        assert events(gateway)[0]["source"]["value"] == ("203.0.113.9" if trusted else "127.0.0.1")


@pytest.mark.e2e
def test_streams_and_pipes_are_written_down_too(tmp_path: Path) -> None:
    servers = [stdio_server("one", tmp_path / "journal")]
    with running_gateway(tmp_path, servers, audit={"enabled": True}) as gateway:
        with SsePeer(gateway, "one") as client:
            client.tool("echo", {"text": "a"})
        with StdioPeer(gateway, "one") as client:
            client.tool("echo", {"text": "b"})
        kinds = [(e["type"], e["metadata"]["extra"].get("transport")) for e in events(gateway)]
        assert ("mcp_tool_call", "sse") in kinds
        assert ("mcp_initialize", "sse") in kinds
        assert kinds.count(("sse_connection", None)) >= 1
        assert len([kind for kind in kinds if kind[0] == "mcp_tool_call"]) == 2


@pytest.mark.e2e
def test_after_a_kill_no_answered_call_is_missing(tmp_path: Path) -> None:
    servers = [stdio_server("one", tmp_path / "journal")]
    with running_gateway(tmp_path, servers, audit={"enabled": True}) as gateway:
        caller = Caller(gateway.address, "one")
        caller.initialize()
        answered = 0
        for _ in range(30):
            answered += caller.tool("echo", {"text": "x"}).status == 200
        os.kill(gateway.process.pid, signal.SIGKILL)
        gateway.process.wait(5)
        calls = [event for event in events(gateway) if event["type"] == "mcp_tool_call"]
        assert len(calls) == answered == 30
        for child in Path(tmp_path / "journal").read_text().splitlines()[:1]:
            assert "pid" in child


@pytest.mark.e2e
@pytest.mark.parametrize(("failed", "outcome"), [(False, "success"), (True, "application_error")])
def test_an_answer_that_flows_through_is_written_down_before_its_end(
    tmp_path: Path, failed: bool, outcome: str
) -> None:
    with (
        http_server("one", tmp_path / "journal") as server,
        running_gateway(tmp_path, [server], audit={"enabled": True}) as gateway,
    ):
        caller = Caller(gateway.address, "one")
        caller.initialize()
        said = caller.tool("big", {"bytes": 3_000_000, "failed": failed})
        calls = [event for event in events(gateway) if event["type"] == "mcp_tool_call"]
        assert [event["outcome"] for event in calls] == [outcome]
        assert calls[0]["metadata"]["extra"]["streamed"]
        assert calls[0]["metadata"]["extra"]["response_size_bytes"] == len(said.body)


@pytest.mark.e2e
def test_the_beginning_of_an_answer_that_flows_through_is_kept_if_wanted(tmp_path: Path) -> None:
    section = {"enabled": True, "include_response_data": True, "max_data_bytes": 200}
    with (
        http_server("one", tmp_path / "journal") as server,
        running_gateway(tmp_path, [server], audit=section) as gateway,
    ):
        caller = Caller(gateway.address, "one")
        caller.initialize()
        said = caller.tool("big", {"bytes": 3_000_000})
        [call] = [event for event in events(gateway) if event["type"] == "mcp_tool_call"]
        assert call["metadata"]["extra"]["streamed"]
        kept = call["data"]["response"]
        assert kept["bytes"] == len(said.body)
        assert said.body.decode().startswith(kept["truncated"])
        assert len(kept["truncated"]) == 200


@pytest.mark.e2e
def test_every_type_of_event_happens(tmp_path: Path) -> None:
    """All that the documentation names, but for drift and files, which have tests of their own."""
    servers = [stdio_server("one", tmp_path / "journal")]
    settings: Json = {"audit": {"enabled": True}, "auth": {"mode": "api_key"}}
    with running_gateway(tmp_path, servers, **settings) as gateway:
        assert Caller(gateway.address, "one").initialize().status == 401
        key = gateway.command("key", "create", "ann").stdout.strip()
        caller = Caller(gateway.address, "one", {"Authorization": f"Bearer {key}"})
        caller.initialize()
        for method, params in (
            ("ping", {}),
            ("tools/list", {}),
            ("tools/call", {"name": "echo", "arguments": {"text": "a"}}),
            ("resources/list", {}),
            ("resources/templates/list", {}),
            ("resources/read", {"uri": "scripted://none"}),
            ("resources/subscribe", {"uri": "scripted://none"}),
            ("prompts/list", {}),
            ("prompts/get", {"name": "greeting", "arguments": {"name": "ann"}}),
            ("logging/setLevel", {"level": "error"}),
            (
                "completion/complete",
                {"ref": {"type": "ref/prompt", "name": "greeting"}, "argument": ARGUMENT},
            ),
        ):
            caller.request(method, params)
        caller.post({"jsonrpc": "2.0", "method": "notifications/roots/list_changed"})
        with closing(http.client.HTTPConnection(caller.host, timeout=20)) as stream:
            stream.request(
                "GET",
                caller.path,
                headers={"Accept": "text/event-stream", **caller.headers, **caller.session},
            )
            assert stream.getresponse().status == 200
        found = {event["type"] for event in events(gateway)}
        assert found == KNOWN_TYPES - {TOOL_DRIFT, FILE_UPLOAD, FILE_DOWNLOAD}
        assert {event["subjects"]["user"] for event in events(gateway)} == {"anonymous", "ann"}


ARGUMENT = {"name": "name", "value": "a"}


@pytest.mark.e2e
def test_a_renamed_tool_is_written_down_under_both_names_and_with_what_it_is(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "s", tool("pay", annotations={"destructiveHint": True}), tool("say"))
    tools = {"override": {"pay": {"name": "transfer"}}}
    with (
        shelf.http("one", tools=tools, group="money") as server,
        running_gateway(tmp_path, [server], audit={"enabled": True}, limits=ONE_CALL_OF_SAY) as gateway,
    ):
        caller = Caller(gateway.address, "one")
        caller.initialize()
        for name in ("transfer", "pay", "say", "say"):
            caller.tool(name)
        calls = [event for event in events(gateway) if event["type"] == "mcp_tool_call"]
        target = calls[0]["target"]
        assert (target["name"], target["own_name"], target["group"]) == ("transfer", "pay", "money")
        assert target["hints"] == {"destructiveHint": True}
        assert calls[0]["definition_hash"]
        assert calls[0]["metadata"]["extra"]["request_id"] == 1
        assert "hints" not in calls[2]["target"]
        refused = [call["metadata"]["extra"].get("refused_by") for call in calls]
        assert refused == [None, "filter and override", None, "rate limits"]
        shown = gateway.command("audit", "show", "--tool", "pay", "--outcome", "success").stdout
        assert "tools/call transfer" in shown


ONE_CALL_OF_SAY = {"rate": [{"count": 1, "tools": ["say"]}]}


def test_who_acts_for_whom_is_told_as_far_as_it_can_be_read() -> None:
    assert delegation_of({"sub": "alice"}) is None
    inner = {"sub": "agent", "iss": "https://a.example", "act": {"sub": "robot"}}
    found = delegation_of({"act": inner})
    assert msgspec.to_builtins(found) == {
        "chain": [{"sub": "agent", "iss": "https://a.example"}, {"sub": "robot"}]
    }
    assert msgspec.to_builtins(delegation_of({"act": inner}, 1)) == {
        "chain": [{"sub": "agent", "iss": "https://a.example"}],
        "truncated": True,
        "omitted": 1,
    }
    broken = msgspec.to_builtins(delegation_of({"act": {"sub": "agent", "act": "robot"}}))
    assert broken["chain"] == [{"sub": "agent"}]
    assert broken["malformed"]
    assert broken["malformedReason"]


VALUES = st.recursive(
    st.one_of(st.booleans(), st.sampled_from(["isError", '"isError":true', "\\", '"', "}", "[{"]), st.text()),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["isError", "text", '"isError":true,', "a"]), inner, max_size=3),
    ),
    max_leaves=8,
)


def test_a_piece_that_ends_with_an_escaped_quote_is_still_within_its_string() -> None:
    scan = FailureScan()
    for piece in (
        b'{"result":{"isError":true,"content":{"text":"a text of more than forty characters, and then \\"',
        b'}"}},"id":1}',
    ):
        scan.feed(piece)
    assert scan.failed()


@given(data=st.data(), content=VALUES, structured=VALUES, spaced=st.booleans())
def test_a_failed_tool_is_found_however_its_answer_is_cut(
    data: Any, content: Any, structured: Any, spaced: bool
) -> None:
    said = data.draw(st.sampled_from([None, True, False]))
    members = [("content", content), ("structuredContent", structured)]
    if said is not None:
        members.insert(data.draw(st.integers(0, 2)), ("isError", said))
    response = {"jsonrpc": "2.0", "result": dict(members), "id": 1}
    separators = (" , ", " : ") if spaced else (",", ":")
    text = json.dumps(response, separators=separators).encode()
    scan = FailureScan()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    for start, end in zip((0, *cuts), (*cuts, len(text)), strict=True):
        scan.feed(text[start:end])
    assert scan.failed() is (said is True)


@pytest.mark.e2e
def test_only_the_wanted_types_are_written(tmp_path: Path) -> None:
    servers = [stdio_server("one", tmp_path / "journal")]
    section = {"enabled": True, "event_types": ["mcp_tool_call"]}
    with running_gateway(tmp_path, servers, audit=section) as gateway:
        caller = Caller(gateway.address, "one")
        caller.initialize()
        caller.tool("echo", {"text": "x"})
        assert [event["type"] for event in events(gateway)] == ["mcp_tool_call"]
