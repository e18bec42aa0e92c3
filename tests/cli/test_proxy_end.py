"""What `mooring proxy stdio` does at the end of its input."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from tests.support.gateway import running_gateway

NOTES = Path(__file__).resolve().parents[2] / "examples" / "notes_server.py"


def test_questions_before_the_end_of_input_are_still_answered(tmp_path: Path) -> None:
    servers = [{"id": "notes", "workload": {"run": [sys.executable, str(NOTES)]}}]
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    lines = [
        {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": hello},
        {"jsonrpc": "2.0", "id": 2, "method": "ping"},
    ]
    with running_gateway(tmp_path, servers) as gateway:
        done = subprocess.run(
            [
                sys.executable,
                "-m",
                "mooring.interfaces.cli.main",
                "proxy",
                "stdio",
                "notes",
                "--socket",
                str(gateway.socket),
            ],
            input="".join(json.dumps(line) + "\n" for line in lines),
            capture_output=True,
            text=True,
            timeout=30,
            check=True,
        )
    answered = {json.loads(line)["id"] for line in done.stdout.splitlines()}
    assert answered == {1, 2}
