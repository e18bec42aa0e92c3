"""`mooring status`."""

from __future__ import annotations

import json
from typing import Any

import pytest

UP = {
    "id": "notes",
    "url": "http://127.0.0.1:7433/mcp/notes",
    "kind": "process",
    "state": "up",
    "reasons": [],
    "era": "legacy",
    "transport": "stdio",
    "sessions": 2,
    "calls": 31,
    "errors": 1,
    "last_success_seconds_ago": 3.4,
}
DOWN = {
    "id": "web",
    "url": "http://127.0.0.1:7433/mcp/web",
    "kind": "remote",
    "state": "down",
    "reasons": ["connection refused by 127.0.0.1:9\x1b[2J"],
    "era": None,
    "transport": None,
    "sessions": 0,
    "calls": 0,
    "errors": 7,
    "last_success_seconds_ago": None,
}


def test_each_server_has_a_line_and_a_down_one_its_reason(mooring: Any, gateway: Any) -> None:
    gateway.status["servers"] = [UP, DOWN]
    done = mooring("status")
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "id     state  kind     era     transport  sessions  calls  errors  last success  url",
        "notes  up     process  legacy  stdio      2         31     1       3 s ago       http://127.0.0.1:7433/mcp/notes",
        "web    down   remote   -       -          0         0      7       never         http://127.0.0.1:7433/mcp/web",
        "web is down: connection refused by 127.0.0.1:9\\u001b[2J",
    ]
    assert done.stderr == "mooring 9.9, up for 1 min 1 s\n"


def test_at_a_narrow_terminal_each_server_still_has_a_line(mooring: Any, gateway: Any) -> None:
    gateway.status["servers"] = [UP, DOWN]
    code, shown = mooring.at_a_terminal(80, "status")
    assert code == 0
    assert shown == [
        "mooring 9.9, up for 1 min 1 s",
        "id     state  calls  errors  last success  url",
        "notes  up     31     1       3 s ago       http://127.0.0.1:7433/mcp/notes",
        "web    down   0      7       never         http://127.0.0.1:7433/mcp/web",
        "web is down: connection refused by 127.0.0.1:9\\u001b[2J",
    ]
    _, shown = mooring.at_a_terminal(80, "status", "--long")
    assert "state: up  kind: process  era: legacy  transport: stdio  sessions: 2" in "".join(shown)


def test_a_server_that_is_only_connected_to_is_shown_closely(mooring: Any, gateway: Any) -> None:
    gateway.status["servers"] = [UP, DOWN]
    done = mooring("status", "web")
    assert done.stdout.splitlines()[:3] == [
        "name      web",
        "state     down",
        "because   connection refused by 127.0.0.1:9\\u001b[2J",
    ]
    done = mooring("status", "wbe")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "error: no server is called `wbe`; there are: `notes`, `web`\n"


@pytest.mark.parametrize("words", [["logs"], ["stop"], ["start"], ["restart"], ["rm"], ["export"]])
def test_what_only_processes_have_is_said_of_a_server_that_is_connected_to(
    mooring: Any, gateway: Any, words: list[str]
) -> None:
    gateway.status["servers"] = [UP, DOWN]
    done = mooring(*words, "web")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: `web` is a server that is only connected to")
    assert done.stderr.endswith("with `mooring status web` and what it says with `mooring trace web`\n")


def test_json_is_what_the_gateway_says(mooring: Any, gateway: Any) -> None:
    gateway.status["servers"] = [UP, DOWN]
    done = mooring("status", "--format", "json")
    assert json.loads(done.stdout) == gateway.status
    assert done.stderr == ""


def test_a_gateway_without_servers_says_what_to_do(mooring: Any) -> None:
    done = mooring("status")
    assert done.stdout == ""
    assert "add one under `servers`" in done.stderr


def test_a_list_fits_and_says_once_what_holds_for_several(mooring: Any, gateway: Any) -> None:
    gateway.workloads = [
        {
            "name": name,
            "status": "stopped",
            "group": "default",
            "transport_type": "stdio",
            "package": "python3 a_server_with_a_long_name.py",
            "url": f"http://127.0.0.1:7433/mcp/{name}",
            "status_context": "idle; the next call starts it",
        }
        for name in ("clock", "notes")
    ]
    _, shown = mooring.at_a_terminal(80, "list")
    assert shown == [
        "name   status   url",
        "clock  stopped  http://127.0.0.1:7433/mcp/clock",
        "notes  stopped  http://127.0.0.1:7433/mcp/notes",
        "clock, notes are stopped: idle; the next call starts it",
    ]
