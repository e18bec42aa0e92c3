"""What callers do not see they are not told of: not by its name, its changes or a question."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.policy.caller import Caller, Said
from tests.policy.shelf import Shelf, tool
from tests.support.gateway import Gateway, running_gateway

pytestmark = pytest.mark.e2e

POLICIES = """
permit(principal, action == Action::"call_tool", resource == Tool::"search");
permit(principal, action == Action::"call_tool", resource == Tool::"pay")
when { context has arg_amount && context.arg_amount < 10 };
"""
RENAMED = {"override": {"pay": {"name": "transfer"}, "erase": {"name": "wipe"}}}


@contextmanager
def hiding(folder: Path, server: dict[str, Any], **settings: Any) -> Iterator[tuple[Gateway, Shelf]]:
    shelf = Shelf(folder / "shelf", tool("search"), tool("pay"), tool("erase"))
    (folder / "p.cedar").write_text(POLICIES)
    section = {"type": "cedarv1", "policies": "p.cedar"}
    with (
        shelf.http("one", **server) as entry,
        running_gateway(folder, [entry], authorization=section, **settings) as gateway,
    ):
        yield gateway, shelf


def called(gateway: Gateway, era: str, name: str, **arguments: Any) -> Said:
    caller = Caller(gateway.address, "one")
    if era == "modern":
        return caller.modern_tool(name, arguments)
    caller.initialize()
    return caller.tool(name, arguments)


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_a_refusal_speaks_of_a_tool_as_its_caller_does(tmp_path: Path, era: str) -> None:
    with hiding(tmp_path, {"tools": RENAMED, "approvals": {"tools": ["search", "pay"]}}) as (gateway, _):
        hidden, missing = called(gateway, era, "wipe"), called(gateway, era, "gone")
        assert (hidden.status, hidden.body) == (missing.status, missing.body.replace(b"gone", b"wipe"))
        refused = called(gateway, era, "transfer", amount=50).error["message"]
        assert refused == "`transfer` may not be used with these arguments"
        asked = called(gateway, era, "transfer", amount=5).error["message"]
        assert asked.startswith("the call of `transfer` needs a person's approval")


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_what_the_lock_hides_is_neither_judged_nor_asked_about(tmp_path: Path, era: str) -> None:
    core = {"tool_definition_lock": {"mode": "block"}}
    with hiding(tmp_path, {"approvals": {"tools": ["search", "gone"]}}, core=core) as (gateway, _):
        missing = called(gateway, era, "gone")
        assert missing.error["message"] == "Unknown tool: gone"
        for name in ("search", "pay"):
            said = called(gateway, era, name, amount=50)
            assert (said.status, said.body) == (missing.status, missing.body.replace(b"gone", name.encode()))
        assert json.loads(gateway.command("approve", "--format", "json").stdout) == []


@pytest.mark.parametrize("mode", ["warn", "block"])
def test_nobody_hears_that_a_tool_changed_which_they_do_not_see(tmp_path: Path, mode: str) -> None:
    core = {"tool_definition_pinning": {"mode": mode}}
    server = {"tools": {"deny": ["secret*"], "override": {"pay": {"name": "transfer"}}}}
    with hiding(tmp_path, server, core=core, audit={"enabled": True}) as (gateway, shelf):
        caller = Caller(gateway.address, "one")
        caller.initialize()
        assert [entry["name"] for entry in caller.request("tools/list").result["tools"]] == [
            "search",
            "transfer",
        ]
        shelf.put(tool("search"), tool("pay"), tool("erase", "changed"), tool("secret", "is new"))
        for _ in range(2):
            said = caller.request("tools/list")
            assert [entry["name"] for entry in said.result["tools"]] == ["search", "transfer"]
            assert b"erase" not in said.body
            assert b"secret" not in said.body
        assert "result" in caller.tool("search").message
        shelf.put(tool("search"), tool("pay", "changed"), tool("erase", "changed again"))
        said = caller.request("tools/list")
        assert b'"transfer":"changed: description"' in said.body
        assert b"erase" not in said.body
        assert b'"pay"' not in said.body
