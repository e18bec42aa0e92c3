"""`mooring serve`, and the other commands beside a real gateway."""

from __future__ import annotations

import json
import os
import pty
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import mcp
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
LIMIT_SECONDS = 20

pytestmark = pytest.mark.e2e


@contextmanager
def serving(command: Any, *words: str, expect: str = "control socket") -> Iterator[list[str]]:
    """`mooring serve` until the line that says it is ready; what it said on stderr."""
    with subprocess.Popen(
        command.arguments("serve", "--listen", "127.0.0.1:0", *words),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=command.environment,
        cwd=command.folder,
    ) as process:
        assert process.stderr is not None
        lines: list[str] = []
        while not lines or expect not in lines[-1]:
            line = process.stderr.readline()
            assert line, f"it ended: {lines}"
            lines.append(line.rstrip("\n"))
        try:
            yield lines
        finally:
            process.send_signal(signal.SIGTERM)
            out, log = process.communicate(timeout=LIMIT_SECONDS)
            lines += [f"exit {process.returncode}", out, log]


def write(folder: Path, name: str, content: object) -> str:
    (folder / name).write_text(content if isinstance(content, str) else json.dumps(content))
    return name


def notes_only(folder: Path) -> str:
    run = [sys.executable, str(EXAMPLES / "notes_server.py")]
    return write(
        folder, "mooring.yaml", {"mooring": 1, "servers": [{"id": "notes", "workload": {"run": run}}]}
    )


def eventually(ask: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + LIMIT_SECONDS
    while time.monotonic() < deadline:
        if ask():
            return True
        time.sleep(0.05)
    return False


def test_it_says_where_it_is_and_stops_when_told(alone: Any, tmp_path: Path) -> None:
    notes_only(tmp_path)
    with serving(alone, "--print-snippet") as lines:
        assert lines[0].startswith("mooring ")
        url = lines[0].split()[-1]
        assert lines[2].split() == ["notes", "process", f"{url}/mcp/notes"]
        assert lines[-1] == f"control socket: {tmp_path}/data/mooring.sock"
        assert alone("status").returncode == 0
    exit_code, out, _ = lines[-3:]
    assert exit_code == "exit 0"
    assert json.loads(out) == {"mcpServers": {"notes": {"type": "http", "url": f"{url}/mcp/notes"}}}


def test_a_desktop_file_is_served_as_it_is_and_says_what_it_may_touch(alone: Any, tmp_path: Path) -> None:
    entry = {"command": sys.executable, "args": [str(EXAMPLES / "notes_server.py")]}
    name = write(
        tmp_path, "mcp.json", {"mcpServers": {"My Notes": entry, "Off": {"command": "x", "disabled": True}}}
    )
    with serving(alone, "--config", name) as lines:
        assert "note: `My Notes` is served as `my-notes`" in lines
        assert any("`my-notes` runs in a sandbox that sees the internet;" in line for line in lines)
        assert "note: `Off` is disabled in the file and was left out" in lines
        done = alone("tool", "call", "my-notes", "add_note", "title=a", "text=b", "--config", name)
        assert json.loads(done.stdout) == {"id": 2, "uri": "note://2"}


def test_a_wrong_file_is_said_in_full_and_nothing_starts(alone: Any, tmp_path: Path) -> None:
    write(tmp_path, "mooring.yaml", "mooring: 1\nlisten: 0.0.0.0:1\nservers:\n  - {id: a, upsteam: {}}\n")
    done = alone("serve")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: mooring.yaml has 2 problems:\n  line 2, column 1: `listen` is")
    assert "did you mean `upstream`?" in done.stderr
    assert not (tmp_path / "data").exists()


def test_a_missing_file_is_said_with_the_flag_that_names_one(alone: Any) -> None:
    done = alone("serve")
    assert done.returncode == 1
    way = "name a file with `--config FILE`, or serve what you run with `--user`"
    assert done.stderr == f"error: there is no mooring.yaml here: {way}\n"


@pytest.mark.parametrize(
    ("root", "reason"), [("/proc/data", "no such file"), ("mooring.yaml", "file exists")]
)
def test_a_data_directory_that_cannot_be_made_is_said(
    alone: Any, tmp_path: Path, root: str, reason: str
) -> None:
    write(tmp_path, "mooring.yaml", f"mooring: 1\nlisten: 127.0.0.1:0\nstorage: {{root: {root}}}\n")
    done = alone("serve")
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (1, "", 1)
    assert done.stderr.startswith("error: cannot use `/")
    assert reason in done.stderr
    assert done.stderr.endswith("; data is kept where `storage.root` says\n")


def test_a_taken_port_is_said_with_the_way_out(alone: Any, tmp_path: Path) -> None:
    notes_only(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        done = alone("serve", "--listen", address)
    assert done.returncode == 1
    reason = "address already in use; choose another address with --listen"
    assert done.stderr == f"error: cannot listen on `{address}`: {reason}\n"


def test_an_address_that_is_none_is_the_flags_fault(alone: Any, tmp_path: Path) -> None:
    notes_only(tmp_path)
    done = alone("serve", "--listen", "foo")
    wanted = "must be `host:port`, for example `127.0.0.1:7433`, not `foo`"
    assert (done.returncode, done.stderr) == (2, f"error: `--listen` {wanted}\n")


def test_what_a_server_says_on_the_side_is_in_the_log(alone: Any, tmp_path: Path) -> None:
    code = "import sys; print('stray \\x1b[2J print'); sys.stdout.flush(); sys.stderr.write('on stderr\\n')"
    run = [sys.executable, "-c", f"{code}; sys.stderr.flush(); sys.stdin.read()"]
    server = {"id": "odd", "workload": {"run": run}, "timeouts": {"connect_seconds": 1}}
    write(tmp_path, "mooring.yaml", {"mooring": 1, "servers": [server]})
    for level, expected in (("info", True), ("error", False)):
        with serving(alone, "--log-level", level) as lines:
            assert alone("tool", "list", "odd").returncode == 1
        log = lines[-1]
        assert ("odd: on stderr" in log) == expected
        assert ("warning: odd: " in log) == expected
        assert "\x1b" not in log


def test_the_wire_is_shown_live(alone: Any, tmp_path: Path) -> None:
    notes_only(tmp_path)
    with serving(alone), (tmp_path / "trace.txt").open("w+") as shown:
        watching = subprocess.Popen(
            alone.arguments("trace", "notes", "--bytes"),
            stdout=shown,
            stderr=subprocess.DEVNULL,
            env=alone.environment,
            cwd=tmp_path,
        )

        def text() -> str:
            return (tmp_path / "trace.txt").read_text()

        def is_watching() -> bool:
            alone("tool", "list", "notes")
            return "tools/list" in text()

        assert eventually(is_watching)
        alone("tool", "call", "notes", "add_note", "title=Milk", "text=two", "password=hunter2")
        assert eventually(lambda: "session ended" in text().rpartition("tools/call")[2])
        watching.send_signal(signal.SIGINT)
        assert watching.wait(LIMIT_SECONDS) == 0
    lanes = ("client ──▶ mooring", "mooring ──▶ server", "mooring ◀── server", "client ◀── mooring")
    call = [line for line in text().splitlines() if "tools/call #" in line]
    assert [next(lane for lane in lanes if lane in line) for line in call] == list(lanes)
    assert "result of tools/call" in call[3]
    assert "ms" in call[3]
    assert '"title": "Milk"' in text()
    assert "hunter2" not in text()


@pytest.mark.anyio
async def test_a_client_that_launches_commands_uses_the_gateway(alone: Any, tmp_path: Path) -> None:
    notes_only(tmp_path)
    words = alone.arguments("proxy", "stdio", "notes")
    parameters = mcp.StdioServerParameters(
        command=words[0], args=words[1:], env=alone.environment, cwd=str(tmp_path)
    )
    with serving(alone), anyio.fail_after(LIMIT_SECONDS):
        async with mcp.Client(parameters) as client:
            result = await client.call_tool("add_note", {"title": "a", "text": "b"})
            assert result.structured_content == {"id": 2, "uri": "note://2"}


def test_a_modern_server_s_question_reaches_the_person_at_the_terminal(alone: Any, tmp_path: Path) -> None:
    command = [sys.executable, str(EXAMPLES / "weather_server.py"), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as weather:
        try:
            assert weather.stdout is not None
            url = weather.stdout.readline().strip()
            config = {"mooring": 1, "servers": [{"id": "weather", "upstream": {"url": url}}]}
            write(tmp_path, "mooring.yaml", config)
            with serving(alone):
                out, err = at_a_terminal(
                    alone, b"\nsunday\n", "tool", "call", "weather", "plan_trip", "city=Oslo"
                )
        finally:
            weather.kill()
    assert out.startswith("trip planned. Oslo, sunday: ")
    assert "the server asks: Which day in Oslo?" in err


def at_a_terminal(command: Any, typed: bytes, *words: str) -> tuple[str, str]:
    master, terminal = pty.openpty()
    with subprocess.Popen(
        command.arguments(*words),
        stdin=terminal,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=command.environment,
        cwd=command.folder,
    ) as process:
        os.close(terminal)
        os.write(master, typed)
        out, err = process.communicate(timeout=LIMIT_SECONDS)
    os.close(master)
    return out.decode(), err.decode()


def test_it_is_up_since_it_is_ready_and_not_since_somebody_asked(alone: Any, tmp_path: Path) -> None:
    notes_only(tmp_path)
    with serving(alone):
        ready = time.monotonic()
        alone("version")  # some time passes
        passed = time.monotonic() - ready
        assert json.loads(alone("status", "--format", "json").stdout)["uptime_seconds"] > passed
