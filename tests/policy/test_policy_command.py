"""`mooring policy`: cases, reasons, and what a changed policy would have meant."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.policy.caller import Caller
from tests.policy.shelf import Shelf, tool
from tests.support.gateway import Gateway, running_gateway

from mooring.interfaces.cli.main import main

POLICIES = """
@id("readers")
permit(principal in THVGroup::"readers", action == Action::"call_tool", resource in MCPGroup::"docs");
@id("small") permit(principal == Client::"alice", action, resource == Tool::"pay")
when { context has arg_amount && context.arg_amount < 10 };
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.cedar").write_text(POLICIES)
    servers = [{"id": "wiki", "group": "docs", "upstream": {"url": "http://127.0.0.1:1/mcp"}}]
    config = {"mooring": 1, "authorization": {"type": "cedarv1", "policies": "p.cedar"}, "servers": servers}
    (tmp_path / "mooring.yaml").write_text(json.dumps(config))
    return tmp_path


def test_cases_pass_or_fail_with_the_reason(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cases = [
        {
            "name": "small",
            "principal": "alice",
            "resource": "pay",
            "arguments": {"amount": 5},
            "expect": "allow",
        },
        {
            "name": "large",
            "principal": "alice",
            "resource": "pay",
            "arguments": {"amount": 50},
            "expect": "deny",
        },
    ]
    (folder / "cases.yaml").write_text(json.dumps({"cases": cases}))
    assert main(["policy", "test", "cases.yaml"]) == 0
    wrong = {"name": "wrong", "principal": "bob", "resource": "pay", "expect": "allow"}
    (folder / "cases.yaml").write_text(json.dumps({"cases": [*cases, wrong]}))
    assert main(["policy", "test", "cases.yaml"]) == 1
    said = capsys.readouterr()
    assert "FAILED wrong: expected allow, but it is denied, and not visible" in said.out
    assert "no policy permits it" in said.out
    assert "2 of 3 cases as expected" in said.err


@pytest.mark.parametrize(
    "text", ["cases: 5", "cases: [{principal: x}]", "cases: [{principal: a, resource: b, expect: x}]"]
)
def test_a_file_of_cases_that_cannot_be_meant_is_refused(folder: Path, text: str) -> None:
    (folder / "cases.yaml").write_text(text)
    assert main(["policy", "test", "cases.yaml"]) == 1


def test_a_decision_is_explained_with_its_policies(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["policy", "explain", "pay", "amount:=5", "--principal", "alice"]) == 0
    assert "allowed, because of the arguments\n  permitted by small, " in capsys.readouterr().out
    words = [
        "policy",
        "explain",
        "search",
        "--principal",
        "bob",
        "--claim",
        'groups:=["readers"]',
        "--server",
        "wiki",
    ]
    assert main([*words, "--format", "json"]) == 0
    said: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert said == {"allowed": True, "depends_on_arguments": False, "policies": ["readers"], "errors": []}


def test_recorded_calls_are_decided_anew(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def event(number: int, amount: int, outcome: str) -> str:
        target = {"endpoint": "/mcp/wiki", "method": "tools/call", "type": "tool", "name": "pay"}
        return json.dumps(
            {
                "seq": number,
                "audit_id": f"x-{number}",
                "type": "mcp_tool_call",
                "logged_at": "2026-01-01T00:00:00.000000Z",
                "outcome": outcome,
                "subjects": {"user": "alice", "user_id": "key:1", "claims": {"sub": "alice"}},
                "target": target,
                "data": {"request": {"name": "pay", "arguments": {"amount": amount}}},
            }
        )

    lines = [event(0, 5, "success"), event(1, 50, "denied"), event(2, 20, "success")]
    (folder / "audit.log").write_text("\n".join(lines))
    assert main(["policy", "simulate", "--file", "audit.log", "--format", "json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["calls"], [change["audit_id"] for change in said["changed"]]) == (3, ["x-2"])
    (folder / "wider.cedar").write_text("permit(principal, action, resource);")
    assert main(["policy", "simulate", "--file", "audit.log", "--policies", "wider.cedar"]) == 0
    assert "denied" in capsys.readouterr().out
    assert main(["policy", "simulate", "--file", "audit.log", "--policies", "missing.cedar"]) == 1
    assert "missing.cedar: cannot be read: no such file or directory" in capsys.readouterr().err


LIVE = """
permit(principal, action == Action::"call_tool", resource) when { resource has readOnlyHint };
permit(principal, action == Action::"call_tool", resource == Tool::"pay")
when { context has arg_amount && context.arg_amount <= 100 };
permit(principal in THVGroup::"readers", action, resource == Tool::"say");
"""


@pytest.mark.e2e
def test_the_same_policies_decide_recorded_calls_the_same_again(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "s", tool("look", annotations={"readOnlyHint": True}), tool("pay"), tool("say"))
    (tmp_path / "p.cedar").write_text(LIVE)
    settings: dict[str, Any] = {
        "authorization": {"type": "cedarv1", "policies": "p.cedar"},
        "audit": {"enabled": True, "include_request_data": True, "include_claims": True},
        "limits": {"rate": [{"count": 1, "tools": ["look"]}]},
    }
    tools = {"override": {"pay": {"name": "transfer"}}}
    with shelf.http("one", tools=tools) as server, running_gateway(tmp_path, [server], **settings) as gateway:
        caller = Caller(gateway.address, "one")
        caller.initialize()
        for name, arguments in (
            ("look", {}),
            ("look", {}),  # too often
            ("transfer", {"amount": 5}),
            ("transfer", {"amount": 500}),
            ("transfer", {"amount": 5, "note": "x" * 3_000}),  # not kept whole
            ("transfer", {"amount": 5, "token": "hush"}),  # blotted out
            ("pay", {"amount": 5}),  # not a name for clients
            ("say", {}),
        ):
            caller.tool(name, arguments)
        said = simulated(gateway)
        assert said == {
            "calls": 8,
            "changed": [],
            "refused_otherwise": 2,
            "without_claims": 0,
            "without_arguments": 2,
        }
        (tmp_path / "none.cedar").write_text("forbid(principal, action, resource);")
        said = simulated(gateway, "--policies", str(tmp_path / "none.cedar"))
        assert len(said["changed"]) == 4, "what was allowed"


def simulated(gateway: Gateway, *words: str) -> dict[str, Any]:
    config = str(gateway.folder / "mooring.yaml")
    said = gateway.command("policy", "simulate", "--config", config, "--format", "json", *words)
    assert said.returncode == 0, said.stderr
    return json.loads(said.stdout)


def test_callers_whose_claims_were_not_kept_are_left_out(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    event = {
        "audit_id": "x-0",
        "type": "mcp_tool_call",
        "logged_at": "2026-01-01T00:00:00.000000Z",
        "outcome": "success",
        "subjects": {"user": "bob", "user_id": "key:1"},
        "target": {"endpoint": "/mcp/wiki", "method": "tools/call", "type": "tool", "name": "search"},
    }
    (folder / "audit.log").write_text(json.dumps(event))
    assert main(["policy", "simulate", "--file", "audit.log"]) == 0
    said = capsys.readouterr().err
    assert "0 of 1 recorded calls would be decided otherwise" in said
    assert "left out: 1 whose callers' claims were not written down" in said


def test_a_mistake_in_a_policy_is_an_error_with_its_line(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "bad.cedar").write_text("\npermit(principal, action, resource) when { x };")
    assert main(["policy", "explain", "pay", "--policies", "bad.cedar"]) == 1
    assert "bad.cedar:2: invalid variable" in capsys.readouterr().err
