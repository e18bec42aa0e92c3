"""Adapters go together with the rest: names, savings, pins, locks, clean texts and tools of our own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.files.conftest import (
    PEERS,
    file_server,
    form,
    http_request,
    post,
    said,
    serving,
    upload,
    upload_url,
)
from tests.support.gateway import rewrite, stdio_server
from tests.support.peers import Peer, RpcRefused
from tests.support.waiting import eventually

pytestmark = pytest.mark.e2e
Json = dict[str, Any]
ERAS = ["legacy", "modern"]
RESULTS = {"max_inline_bytes": 2000}
MISSING = f"upload://sessions/{'0' * 32}/{'0' * 32}"


def tools_of(peer: Peer) -> dict[str, Json]:
    return {tool["name"]: tool for tool in peer.request("tools/list")["tools"]}


_RESULT_TOOLS = ("read", "search", "query", "list")


def test_the_filter_of_a_server_is_not_about_our_tools(tmp_path: Path) -> None:
    some = file_server("files", tools={"allow": ["measure", "plain"]})
    none = file_server("others", tools={"allow": ["measure"], "deny": ["others_get_upload_url", "*_search"]})
    with serving(tmp_path, some, none, results=RESULTS) as gateway:
        for era in ERAS:
            with PEERS[era](gateway, "files") as peer:
                ours = {"files_get_upload_url", *(f"files_result_{w}" for w in _RESULT_TOOLS)}
                assert set(tools_of(peer)) == {"measure", "plain"} | ours
                handle = post(upload_url(peer), ("a.txt", b"four")).json["upload_handle"]
                assert said(peer.tool("measure", {"path": handle})).startswith("4 ")
            with PEERS[era](gateway, "others") as peer:
                left = {f"others_result_{w}" for w in _RESULT_TOOLS if w != "search"}
                assert set(tools_of(peer)) == {"measure"} | left
                for hidden in ("others_get_upload_url", "others_result_search", "plain"):
                    with pytest.raises(RpcRefused, match="Unknown tool"):
                        peer.tool(hidden)


def test_a_renamed_tool_is_still_wired_and_says_so(tmp_path: Path) -> None:
    override = {
        "measure": {"name": "weigh", "description": "Weighs a file."},
        "write": {"name": "print"},
        "files_get_upload_url": {"name": "send_file"},
        "files_result_read": {"name": "more"},
    }
    server = file_server("files", tools={"override": override})
    with serving(tmp_path, server, results=RESULTS) as gateway:
        for era in ERAS:
            with PEERS[era](gateway, "files") as peer:
                tools = tools_of(peer)
                assert tools["weigh"]["description"].startswith("Weighs a file.\n\nFiles: give `path`")
                assert "`send_file`" in tools["weigh"]["description"]
                assert "`send_file`" in tools["weigh"]["inputSchema"]["properties"]["path"]["description"]
                assert "`weigh`" in tools["send_file"]["description"]
                assert "artifact" in tools["print"]["description"]
                about = peer.tool("send_file")["structuredContent"]
                handle = post(about, ("a.txt", b"four")).json["upload_handle"]
                assert said(peer.tool("weigh", {"path": handle})).startswith("4 ")
                assert "`send_file`" in said(peer.tool("weigh", {"path": "/etc/passwd"}))
                made = peer.tool("print", {"filename": "a.txt"})
                assert made["_meta"]["artifact"]["filename"] == "a.txt"
                assert "`more` reads more" in said(peer.tool("plain", {"text": "x" * 3000}))
                with pytest.raises(RpcRefused, match="Unknown tool"):
                    peer.tool("measure", {"path": handle})


def test_savings_leave_what_we_say_about_files(tmp_path: Path) -> None:
    savings = {"description_limit": 20, "collapse_whitespace": True, "strip_titles": True}
    with serving(tmp_path, file_server("files", savings=savings)) as gateway:
        for era in ERAS:
            with PEERS[era](gateway, "files") as peer:
                tools = tools_of(peer)
                assert "upload://" in tools["measure"]["description"]
                assert "files_get_upload_url" in tools["measure"]["description"]
                assert "artifact://" in tools["write"]["description"]
                assert "upload://" in tools["files_get_upload_url"]["description"]


@pytest.mark.parametrize("mode", ["strip", "block"])
def test_cleaning_a_servers_words_does_not_cut_ours(tmp_path: Path, mode: str) -> None:
    """The original cut a description after it had added its note: long ones lost it."""
    core = {"sanitize": {"mode": mode, "max_description_chars": 16, "max_schema_text_chars": 9}}
    with serving(tmp_path, core=core) as gateway:
        for era in ERAS:
            with PEERS[era](gateway, "files") as peer:
                if mode == "block":  # also before anybody has asked for a list
                    with pytest.raises(RpcRefused, match="Unknown tool"):
                        peer.tool("measure", {"path": "x"})
                tools = tools_of(peer)
                if mode == "strip":
                    assert tools["measure"]["description"].startswith("The tool measure\n\nFiles: give")
                    path = tools["measure"]["inputSchema"]["properties"]["path"]
                    assert path["description"].startswith("The file. (an `upload://` handle")
                else:
                    assert "measure" not in tools


def test_our_notes_and_tools_are_no_drift(tmp_path: Path) -> None:
    """A lock made without adapters still holds with them: it is about what the server says."""
    lock = tmp_path / "mooring.lock"
    core = {"tool_definition_lock": {"mode": "block", "file": str(lock)}}
    plain = {key: value for key, value in file_server().items() if key != "adapters"}
    with serving(tmp_path / "one", plain, core=core) as gateway, PEERS["legacy"](gateway, "files") as peer:
        assert tools_of(peer) == {}
        done = gateway.command("lock", "write")
        assert done.returncode == 0, done.stderr
        eventually(lambda: "measure" in tools_of(peer), "the lock to be read")
        approved = json.loads(lock.read_text())["servers"]["files"]
    core["tool_definition_pinning"] = {"mode": "block"}
    with serving(tmp_path / "two", core=core, results=RESULTS) as gateway:
        for era in ERAS:
            with PEERS[era](gateway, "files") as peer:
                tools = tools_of(peer)
                assert {"measure", "files_get_upload_url", "files_result_list"} <= set(tools)
                assert "upload://" in tools["measure"]["description"]
                handle = post(upload_url(peer), ("a.txt", b"four")).json["upload_handle"]
                assert said(peer.tool("measure", {"path": handle})).startswith("4 ")
                assert peer.tool("files_result_list")["structuredContent"] == {"results": []}
                assert set(tools_of(peer)) == set(tools)
        observed = json.loads((tmp_path / "two" / "data" / "definitions" / "files.json").read_text())
        assert observed == approved


def agree(_: Json) -> Json:
    return {"action": "accept", "content": {"approve": True}}


@pytest.mark.parametrize("era", ERAS)
def test_a_call_with_files_can_wait_for_its_user(tmp_path: Path, era: str) -> None:
    makes = [{"type": "artifact_producer", "tools": ["ask"], "output_path_argument": "filename"}]
    approved = file_server("files", approvals={"tools": ["write", "measure"]})
    asking = [stdio_server(f"of-{of}", tmp_path / of, of, adapters=makes) for of in ERAS]
    with serving(tmp_path, approved, *asking) as gateway:
        asks = {"elicitation/create": agree}
        with PEERS[era](gateway, "files", handlers=asks) as peer:
            assert peer.tool("write", {"filename": "a.txt"})["_meta"]["artifact"]["filename"] == "a.txt"
            handle = upload(peer, b"four")
            assert said(peer.tool("measure", {"path": handle})).startswith("4 ")
        for of in ERAS:
            with PEERS[era](gateway, f"of-{of}", handlers=asks) as peer:
                told = peer.tool("ask", {"kind": "elicitation", "filename": "a.txt"})
                assert told["structuredContent"]["heard"]["action"] == "accept"


@pytest.mark.parametrize("era", ERAS)
def test_our_own_tools_can_need_approval(tmp_path: Path, era: str) -> None:
    answers = iter([{"approve": True}, {"approve": False}])

    def person(_: Json) -> Json:
        return {"action": "accept", "content": next(answers)}

    server = file_server("files", approvals={"tools": ["files_get_upload_url"]})
    with serving(tmp_path, server) as gateway:
        with PEERS[era](gateway, "files", handlers={"elicitation/create": person}) as peer:
            assert upload_url(peer)["method"] == "POST"
            with pytest.raises(RpcRefused, match="was not approved"):
                upload_url(peer)
        with PEERS[era](gateway, "files") as peer, pytest.raises(RpcRefused):
            peer.request("tools/call", {"name": "files_get_upload_url", "requestState": "made up"})


def test_what_is_hidden_takes_no_uploads_by_its_address(tmp_path: Path) -> None:
    hidden = file_server("files", tools={"deny": ["files_get_upload_url"]})
    with serving(tmp_path, hidden, file_server("others"), auth={"mode": "api_key"}) as gateway:
        key = {"X-Api-Key": gateway.command("key", "create", "alice").stdout.strip()}

        def sent(server: str) -> int:
            body, kind = form(("a.txt", b"four"))
            headers = {**key, "Content-Type": kind}
            return http_request("POST", f"{gateway.address}/upload/{server}", body, headers).status

        assert [sent("files"), sent("others")] == [404, 200]
        rewrite(gateway, servers=[hidden, {**file_server("others"), "adapters": []}])
        assert sent("others") == 404


def test_our_tools_follow_when_others_are_hidden_or_renamed(tmp_path: Path) -> None:
    server = file_server("files", results=RESULTS)
    with serving(tmp_path, server) as gateway, PEERS["legacy"](gateway, "files") as peer:
        assert "`measure`" in tools_of(peer)["files_get_upload_url"]["description"]
        override = {"convert": {"name": "turn"}, "files_get_upload_url": {"name": "send"}}
        override["files_result_read"] = {"name": "more"}
        rewrite(gateway, servers=[{**server, "tools": {"deny": ["measure"], "override": override}}])
        told = tools_of(peer)["send"]["description"]
        assert "`turn`" in told
        assert "`measure`" not in told
        assert "`send` says how" in said(peer.tool("turn", {"path": MISSING, "filename": "a"}))
        assert "`more` reads more" in said(peer.tool("plain", {"text": "x" * 3000}))
