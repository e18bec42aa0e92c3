"""Adapters go together with the rest: names, savings, pins, locks, clean texts and tools of our own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.files.conftest import PEERS, file_server, post, said, serving, upload_url
from tests.support.peers import Peer, RpcRefused
from tests.support.waiting import eventually

pytestmark = pytest.mark.e2e
Json = dict[str, Any]
ERAS = ["legacy", "modern"]
RESULTS = {"max_inline_bytes": 2000}


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
