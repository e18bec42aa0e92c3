"""Standard input and output: nothing but messages goes there, and a client that leaves ends the server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

COMMAND = [sys.executable, str(Path(__file__).parent / "scripted_server.py"), "stdio"]
LIMIT_SECONDS = 20

pytestmark = pytest.mark.e2e


def request(number: int, method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def initialize(version: str) -> dict[str, Any]:
    client = {"name": "test", "version": "1"}
    return request(0, "initialize", protocolVersion=version, capabilities={}, clientInfo=client)


def play(*lines: Any, **options: Any) -> tuple[dict[Any, Any], str]:
    """Everything at once, then the end of input: the answers by id, and what went to stderr."""
    text = "".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines)
    done = subprocess.run(
        COMMAND, input=text, capture_output=True, text=True, timeout=LIMIT_SECONDS, check=True, **options
    )
    messages = [json.loads(line) for line in done.stdout.splitlines()]
    return {message.get("id"): message for each in messages for message in _flat(each)}, done.stderr


def _flat(message: Any) -> list[Any]:
    return message if isinstance(message, list) else [message]


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_stray_prints_go_to_stderr_and_every_revision_is_spoken(version: str) -> None:
    answers, stray = play(
        initialize(version), request(1, "tools/call", name="echo", arguments={"text": "hello"})
    )
    assert answers[0]["result"]["protocolVersion"] == version
    assert answers[1]["result"]["content"] == [{"type": "text", "text": "hello"}]
    assert "a stray print hello" in stray
    assert "a stray write" in stray


def test_what_was_printed_before_the_server_ran_goes_to_stderr_too() -> None:
    program = "from mooring.authoring import Server\nprint('early')\nServer('x').run()"
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        input=json.dumps(initialize("2025-11-25")) + "\n",
        capture_output=True, text=True, timeout=LIMIT_SECONDS, check=True, env=buffered,
    )  # fmt: skip
    assert json.loads(done.stdout)["id"] == 0
    assert "early" in done.stderr


def test_nonsense_is_answered_and_harms_nobody() -> None:
    answers, _ = play("nonsense\n", "{broken\n", initialize("2099-01-01"), request(1, "tools/list"))
    assert answers[None]["error"]["code"] == -32700
    assert answers[0]["result"]["protocolVersion"] == "2025-11-25"
    assert answers[1]["result"]["tools"]


def test_nothing_is_answered_before_the_handshake() -> None:
    answers, _ = play(request(1, "tools/list"))
    assert answers[1]["error"]["code"] == -32600


def test_a_batch_is_answered_as_one_where_the_revision_has_batches() -> None:
    batch = [request(1, "ping"), {"jsonrpc": "2.0", "method": "notifications/x"}, request(2, "tools/list")]
    answers, _ = play(initialize("2025-03-26"), batch)
    assert answers[1]["result"] == {}
    assert answers[2]["result"]["tools"]
    answers, _ = play(initialize("2025-11-25"), batch)
    assert answers[None]["error"]["code"] == -32600


def test_a_running_call_does_not_keep_a_server_whose_client_has_left() -> None:
    answers, _ = play(initialize("2025-11-25"), request(1, "tools/call", name="wait"))
    assert 1 not in answers


def test_files_do_for_input_and_output(tmp_path: Path) -> None:
    given, written = tmp_path / "in", tmp_path / "out"
    given.write_text(json.dumps(initialize("2025-11-25")) + "\n")
    with given.open() as source, written.open("w") as target:
        subprocess.run(COMMAND, stdin=source, stdout=target, timeout=LIMIT_SECONDS, check=True)
    assert json.loads(written.read_text())["result"]["serverInfo"]["name"] == "scripted"
