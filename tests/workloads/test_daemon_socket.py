"""The gateway's socket: for its own user only, and somebody behind it as soon as a command needs one."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from tests.support.gateway import Journal
from tests.workloads.daemon import somebody

pytestmark = pytest.mark.e2e
NOTES = Path(__file__).parents[2] / "examples" / "notes_server.py"
ASK = """
import http.client, os, socket, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
for method, path in (("GET", "/api/v1/status"), ("POST", "/mcp/s"), ("GET", "/healthz")):
    connection = http.client.HTTPConnection("localhost", timeout=30)
    connection.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.sock.connect(sys.argv[1])
    connection.request(method, path, "{}")
    answer = connection.getresponse()
    print(answer.status, answer.read().decode())
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can be another user")
def test_the_socket_is_for_its_own_user_even_if_somebody_opens_its_mode(tmp_path: Path) -> None:
    with somebody(tmp_path) as person:
        person.run_scripted("s", Journal(tmp_path / "journal"))
        assert person.socket.stat().st_mode & 0o777 == 0o600
        person.socket.chmod(0o666)
        shared = Path(tempfile.mkdtemp(prefix="mooring-peer-"))
        try:
            shared.chmod(0o755)
            (shared / "socket").hardlink_to(person.socket)  # a way to it that everybody may go
            command = ["/usr/bin/python3", "-c", ASK, str(shared / "socket")]
            said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        finally:
            shutil.rmtree(shared)
        assert said.stdout.count("403 ") == 3, said.stdout + said.stderr
        assert said.stdout.count("this is another user's gateway") == 3


def test_an_import_that_is_to_run_starts_the_gateway(tmp_path: Path) -> None:
    file = tmp_path / "mcp.json"
    entry = {"command": "/usr/bin/python3", "args": [str(NOTES)]}
    file.write_text(json.dumps({"mcpServers": {"mine": entry}}))
    with somebody(tmp_path) as person:
        person("import", str(file), "--run", "--dry-run")
        assert not person.socket.exists(), "nothing is started only to look"
        person("import", str(file), "--run", "--yes")
        assert person.status("mine") == "running"
