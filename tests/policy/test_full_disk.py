"""A disk that is full: nothing happens that the audit could not show, and everybody is told so at once."""

from __future__ import annotations

import json
import resource
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.policy.caller import Caller
from tests.support.gateway import Gateway, Journal, running_gateway, stdio_server
from tests.support.waiting import eventually

from mooring.policy.audit.verifying import public_key, verify

pytestmark = pytest.mark.e2e


def limit_files(gateway: Gateway, most: int) -> None:
    """No file of the gateway may grow beyond this: a disk that is full, for one process."""
    resource.prlimit(gateway.process.pid, resource.RLIMIT_FSIZE, (most, resource.RLIM_INFINITY))


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    server = stdio_server("one", tmp_path / "journal")
    settings = {"audit": {"enabled": True}, "auth": {"mode": "api_key"}, "telemetry": {"prometheus": True}}
    with running_gateway(tmp_path, [server], **settings) as running:
        yield running


def test_what_cannot_be_written_down_does_not_happen(gateway: Gateway, tmp_path: Path) -> None:
    made = gateway.command("key", "create", "alice").stdout.strip()
    headers = {"Authorization": f"Bearer {made}"}
    caller = Caller(gateway.address, "one", headers)
    caller.initialize()
    assert "result" in caller.tool("echo", {"text": "before"}).message
    log = gateway.folder / "data" / "audit.log"
    whole = log.stat().st_size
    limit_files(gateway, whole + 10)  # half a line fits
    assert caller.tool("echo", {"text": "lost"}).error["code"] == -32603  # which nobody could know before
    ran = Journal(tmp_path / "journal").path.read_text().count('"ran"')
    refused = caller.tool("echo", {"text": "never"}).error
    assert refused["message"] == "the audit log cannot be written, so nothing is let through"
    assert caller.modern_tool("echo", {"text": "never"}).error == refused
    assert Journal(tmp_path / "journal").path.read_text().count('"ran"') == ran
    assert Caller(gateway.address, "one", {"X-Api-Key": "wrong"}).modern_tool("echo").status == 401
    assert Caller(gateway.address, "one").modern_tool("echo").status == 401
    health = json.loads(caller.send("GET", "/healthz", b"", headers).body)
    assert health["status"] == "degraded"
    assert "audit log cannot be written" in health["servers"]["one"]["reasons"][0]
    assert log.stat().st_size == whole

    limit_files(gateway, resource.RLIM_INFINITY)
    assert "result" in caller.tool("echo", {"text": "after"}).message
    assert json.loads(caller.send("GET", "/healthz", b"", headers).body)["status"] == "ok"
    numbers = caller.send("GET", "/metrics", b"", headers).body.decode()
    assert "\nmooring_active_requests 0\n" in numbers
    subprocess.run(["kill", str(gateway.process.pid)], check=True)
    eventually(lambda: gateway.process.poll() is not None, "the gateway to end")
    report = verify(log, public_key(gateway.folder / "data" / "audit.pub"))
    assert report.findings == ()
    assert [json.loads(line)["type"] for line in log.read_text().splitlines()][-3:] == [
        "recovered", "mcp_tool_call", "checkpoint",
    ]  # fmt: skip
