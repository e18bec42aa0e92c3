"""Policies about workloads: what is forbidden does not run, and what ran until now is stopped."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.policy.caller import Caller
from tests.policy.shelf import Shelf, tool
from tests.support.gateway import Journal, ask_socket, running_gateway, scripted_command, stdio_server
from tests.support.peers import StreamablePeer
from tests.support.waiting import eventually

pytestmark = pytest.mark.e2e
CALLS = "permit(principal, action, resource);\n"
NO_SANDBOX = (
    'forbid(principal, action == Action::"run_workload", resource) when { context.arg_sandbox == "off" };\n'
)


def test_a_workload_that_a_policy_forbids_does_not_run_or_is_stopped(tmp_path: Path) -> None:
    journal, policies = Journal(tmp_path / "journal"), tmp_path / "policies.cedar"
    policies.write_text(CALLS)
    settings = {"type": "cedarv1", "policies": [str(policies)]}
    with running_gateway(tmp_path, [stdio_server("s", journal.path)], authorization=settings) as gateway:
        with StreamablePeer(gateway, "s") as peer:
            peer.tool("echo", {"text": "allowed so far"})
        policies.write_text(CALLS + NO_SANDBOX)

        def status() -> dict[str, str]:
            return ask_socket(gateway.socket, "/api/v1/workloads/s")

        eventually(lambda: status()["status"] == "policy_stopped", "the policy to be obeyed", limit=30)
        assert "a policy forbids `run_workload`" in status()["status_context"]
        assert str(policies) in status()["status_context"]
        started = gateway.command("start", "s")
        assert started.returncode == 1
        assert "the policy does not allow `s`" in started.stderr
        command = scripted_command(journal.path, "stdio", "legacy")
        refused = gateway.command("run", "--name", "t", "--sandbox", "off", "--", *command)
        assert refused.returncode == 1
        assert "the policy does not allow `t`" in refused.stderr
        assert [
            found["name"] for found in json.loads(gateway.command("list", "--format", "json").stdout)
        ] == ["s"]
        policies.write_text(CALLS)
        assert gateway.command("start", "s").returncode == 0
        assert status()["status"] == "running"


def test_policies_that_do_not_speak_of_workloads_stop_none(tmp_path: Path) -> None:
    journal, policies = Journal(tmp_path / "journal"), tmp_path / "policies.cedar"
    policies.write_text('permit(principal, action == Action::"call_tool", resource == Tool::"echo");\n')
    settings = {"type": "cedarv1", "policies": [str(policies)]}
    with (
        running_gateway(tmp_path, [stdio_server("s", journal.path)], authorization=settings) as gateway,
        StreamablePeer(gateway, "s") as peer,
    ):
        assert "hello" in json.dumps(peer.tool("echo", {"text": "hello"}))


def test_a_workload_whose_approved_tool_changed_is_stopped_until_somebody_approves(tmp_path: Path) -> None:
    shelf = Shelf(tmp_path / "shelf", tool("a", "reads"), tool("b", "writes"))
    core = {"tool_definition_lock": {"mode": "block"}}
    with running_gateway(tmp_path, [shelf.stdio("s")], core=core) as gateway:
        caller = Caller(gateway.address, "s")
        assert caller.modern("tools/list").result["tools"] == [], "nothing was approved: nothing is shown"

        def status() -> dict[str, str]:
            return ask_socket(gateway.socket, "/api/v1/workloads/s")

        assert status()["status"] == "running", "and nothing is stopped for it"
        assert gateway.command("lock", "write").returncode == 0
        eventually(lambda: len(caller.modern("tools/list").result["tools"]) == 2, "the lock to be read")
        shelf.put(tool("a", "reads"), tool("b", "writes, and tells everybody"))
        assert [entry["name"] for entry in caller.modern("tools/list").result["tools"]] == ["a"]
        eventually(lambda: status()["status"] == "policy_stopped", "the server to be stopped", limit=30)
        assert "`b` is not as it was approved (changed: description)" in status()["status_context"]
        refused = caller.modern_tool("a").error["message"]
        assert "policy_stopped" in refused
        assert gateway.command("lock", "approve").returncode == 0
        assert gateway.command("start", "s").returncode == 0
        eventually(lambda: len(caller.modern("tools/list").result["tools"]) == 2, "the approval to count")
        assert status()["status"] == "running"
