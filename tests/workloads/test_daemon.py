"""The user's gateway: started when needed, killed and recovered, and its workloads through all of it."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from tests.support.gateway import Journal, scripted_command
from tests.support.peers import StdioPeer, StreamablePeer
from tests.support.waiting import alive, eventually
from tests.workloads.daemon import Person, somebody
from tests.workloads.test_sandbox_http import SERVER

from mooring.workloads import cgroups

pytestmark = pytest.mark.e2e
NOTES = Path(__file__).parents[2] / "examples/notes_server.py"


class Address:
    """A gateway as the peers of the other tests want it."""

    def __init__(self, person: Person) -> None:
        self.host, self.port = "127.0.0.1", person.port
        self.address = f"http://127.0.0.1:{person.port}"
        self.socket = person.socket
        self.folder = person.folder

    def url(self, server: str) -> str:
        return f"{self.address}/mcp/{server}"


@pytest.fixture(scope="module")
def anybody(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Person]:
    with somebody(tmp_path_factory.mktemp("person")) as found:
        yield found


@pytest.fixture
def person(anybody: Person) -> Iterator[Person]:
    """One for all tests, because a gateway takes a while to start; each leaves nothing behind."""
    yield anybody
    if anybody.socket.exists():
        anybody("rm", "--all")


@pytest.fixture
def journal(tmp_path: Path) -> Journal:
    return Journal(tmp_path / "journal")


def health(person: Person) -> Any:
    with urllib.request.urlopen(f"{Address(person).address}/healthz", timeout=30) as answer:
        return json.load(answer)


def call(person: Person, name: str, text: str) -> Any:
    with StreamablePeer(Address(person), name) as peer:  # type: ignore[arg-type]
        return peer.tool("echo", {"text": text})


def test_run_starts_the_gateway_and_says_where_the_server_is(person: Person, journal: Journal) -> None:
    workload = person.run_scripted("one", journal)
    assert workload["url"] == f"http://127.0.0.1:{person.port}/mcp/one"
    assert workload["status"] == "running"
    assert "hello" in json.dumps(call(person, "one", "hello"))
    assert person.socket.stat().st_mode & 0o777 == 0o600
    assert [found["name"] for found in person.json("list")] == ["one"]


def test_two_daemons_never_run_on_one_data_directory(person: Person, journal: Journal) -> None:
    person.run_scripted("one", journal)
    second = person("serve", "--user", "--listen", "127.0.0.1:0", expect=1)
    assert f"process {person.pid}" in second.stderr
    assert person.status("one") == "running"


def test_a_server_that_does_not_start_is_gone_again_and_its_words_are_told(person: Person) -> None:
    script = "import sys; sys.exit('no database here')"
    done = person(
        "run", "--name", "bad", "--sandbox", "off", "--", "/usr/bin/env", "python3", "-c", script, expect=1
    )
    assert "`bad` did not start" in done.stderr
    assert "no database here" in done.stderr
    assert person.workloads() == []


def test_what_a_server_prints_where_messages_belong_is_in_its_log(person: Person) -> None:
    script = "import sys; print('Welcome!'); sys.exit(3)"
    words = ("--sandbox", "off", "--", "/usr/bin/env", "python3", "-c", script)
    done = person("run", "--name", "bad", *words, expect=1)
    assert "it said: not a message, on its stdout: Welcome!" in done.stderr


def test_a_server_that_ends_before_it_listens_says_why_and_is_tried_again(
    person: Person, tmp_path: Path
) -> None:
    script, ready = tmp_path / "server.py", tmp_path / "ready"
    script.write_text(
        f"import os, sys\nif not os.path.exists({str(ready)!r}): sys.exit('no database here')\n{SERVER}"
    )
    words = ("--name", "web", "--sandbox", "off", "--transport", "streamable-http", "--", "/usr/bin/env")
    done = person("run", *words, "python3", str(script), expect=1)
    assert "before it listened; it said: no database here" in done.stderr
    assert person.workloads() == []
    ready.touch()
    person("run", *words, "python3", str(script))
    ready.unlink()
    assert "it is tried again" in person("restart", "web", expect=1).stderr
    ready.touch()
    eventually(lambda: person.status("web") == "running", "the next try")


def test_stop_start_restart_and_rm_by_name_by_group_and_all(person: Person, journal: Journal) -> None:
    for name, group in (("a", "left"), ("b", "left"), ("c", "right")):
        person.run_scripted(name, journal, "--group", group)
    person("stop", "--group", "left")
    assert {found["name"]: found["status"] for found in person.workloads()} == {
        "a": "stopped", "b": "stopped", "c": "running",
    }  # fmt: skip
    refused = person("tool", "list", "a", expect=1)
    assert "start it with `mooring start a`" in refused.stderr
    shown = person("status").stdout  # it answered a moment ago, but there is nothing to call now
    assert re.search(r"^a +stopped ", shown, re.MULTILINE)
    assert re.search(r"^c +up ", shown, re.MULTILINE)
    assert "a is stopped: start it with `mooring start a`" in shown
    states = {name: told["state"] for name, told in health(person)["servers"].items()}
    assert states == {"a": "idle", "b": "idle", "c": "up"}
    assert health(person)["status"] == "ok"
    person("start", "a", "b")
    pids = [person.workload(name)["pids"] for name in ("a", "b", "c")]
    assert all(len(found) == 1 for found in pids)
    person("restart", "--all")
    assert [person.status(name) for name in ("a", "b", "c")] == ["running"] * 3
    assert not any(alive(pid) for found in pids for pid in found)
    person("rm", "--all")
    assert person.workloads() == []
    assert not any((person.data / "logs").iterdir())
    nothing = person("stop", "a", expect=1)
    assert "no workload is called `a`" in nothing.stderr
    for group in ("left", "right"):
        person("group", "rm", group)


def test_whoever_stops_waiting_for_a_start_hears_that_it_goes_on(person: Person) -> None:
    person("group", "list")  # the gateway runs
    slow = ("python3", "-c", "import time; time.sleep(60)")
    words = ("run", "--name", "slow", "--sandbox", "off", "--", *slow)
    with subprocess.Popen(
        person.command(*words), stderr=subprocess.PIPE, text=True, cwd=person.folder, env=person.environment
    ) as waiting:
        assert waiting.stderr is not None
        assert waiting.stderr.readline().startswith("slow: ")
        waiting.send_signal(signal.SIGINT)
        _, told = waiting.communicate(timeout=60)
    assert waiting.returncode == 1
    assert told.endswith(
        "slow goes on starting: see `mooring status slow`, or stop it with `mooring rm slow`\n"
    )
    assert person.status("slow") == "starting"


def test_fifty_workloads_killed_with_their_daemon_come_back_and_nothing_is_left(
    person: Person, tmp_path: Path
) -> None:
    """In sandboxes: every server is two processes deep, in namespaces and groups of its own."""
    script = tmp_path / "fifty" / "server.py"
    script.parent.mkdir()
    shutil.copy(NOTES, script)
    command = ["/usr/bin/python3", "-S", str(script)]
    person("run", "--name", "w00", "--", *command)
    for number in range(1, 50):
        status, answer = person.ask(
            "POST", "/api/v1/workloads", {"name": f"w{number:02}", "mooring": {"command": command}}
        )
        assert status == 201, answer
    person("stop", "w49")
    assert len(running_with(script)) == 49
    before = {pid for number in range(49) for pid in person.workload(f"w{number:02}")["pids"]}
    person.kill()
    eventually(lambda: not running_with(script), "no server to be left")
    eventually(lambda: not any(alive(pid) for pid in before), "no sandbox to be left")
    person("start", "w00")  # whatever needs the daemon starts it

    def back() -> bool:
        found = {workload["name"]: workload["status"] for workload in person.workloads()}
        return len(found) == 50 and sum(status == "running" for status in found.values()) == 49

    eventually(back, "every workload to run again", limit=60)
    assert person.status("w49") == "stopped"
    assert len(running_with(script)) == 49
    assert "add_note" in person("tool", "list", "w25").stdout
    person("service", "stop")
    assert not running_with(script)
    assert not person.socket.exists()
    hierarchy = cgroups.detect()
    if hierarchy is not None:
        prefix = f"mooring-{hashlib.sha256(str(person.data).encode()).hexdigest()[:10]}-"
        eventually(lambda: not cgroups.leftover_groups(hierarchy, prefix), "no control group to be left")


def running_with(script: Path) -> list[int]:
    """The processes that run this script."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
            if words[:1] == [b"/usr/bin/python3"] and str(script).encode() in words:
                found.append(int(entry.name))
    return found


def test_a_server_that_crashes_is_started_again(person: Person, journal: Journal) -> None:
    person.run_scripted("one", journal)
    [pid] = person.workload("one")["pids"]
    os.kill(pid, signal.SIGKILL)

    def again() -> bool:
        found = person.workload("one")
        return found["status"] == "running" and found["pids"] not in ([], [pid])

    eventually(again, "another process")
    lines = person("logs", "one", "--events").stdout
    assert "was ended by signal 9" in lines
    assert "back" in json.dumps(call(person, "one", "back"))


@pytest.mark.slow
def test_a_server_that_keeps_crashing_is_left_alone_and_says_why(person: Person, tmp_path: Path) -> None:
    """It greets properly and dies right after: the start is fine, the life is short."""
    journal, marker = Journal(tmp_path / "journal"), tmp_path / "die"
    script = tmp_path / "flapping.py"
    inner = scripted_command(journal.path, "stdio", "legacy")
    script.write_text(
        "import os, pathlib, subprocess, sys, threading, time\n"
        f"inner = subprocess.Popen({inner!r})\n"
        f"marker = pathlib.Path({str(marker)!r})\n"
        "def look():\n"
        "    while not marker.exists():\n"
        "        time.sleep(0.02)\n"
        "    time.sleep(0.3)\n"
        "    inner.kill()\n"
        "    os._exit(3)\n"
        "threading.Thread(target=look).start()\n"
    )
    command = [scripted_command(journal.path, "stdio", "legacy")[0], str(script)]
    person("run", "--name", "flap", "--sandbox", "off", "--", *command)
    marker.touch()
    found = eventually(
        lambda: (view := person.workload("flap"))["status"] == "error" and view, "it to be given up", limit=60
    )
    assert "times in a row" in found["status_context"]
    assert "exit code 3" in found["status_context"]
    told = health(person)
    assert (told["status"], told["servers"]["flap"]["state"]) == ("degraded", "down")
    assert "times in a row" in told["servers"]["flap"]["reasons"][0]
    refused = person("tool", "list", "flap", expect=1)
    assert "mooring start flap" in refused.stderr
    marker.unlink()
    person("start", "flap")
    assert person.status("flap") == "running"


def test_idle_servers_stop_and_the_next_call_starts_them(person: Person, journal: Journal) -> None:
    person.run_scripted("one", journal, "--idle-stop", "2s", "--share", "global")
    found = eventually(
        lambda: (view := person.workload("one"))["status"] == "stopped" and view, "it to fall asleep"
    )
    assert found["status_context"] == "idle; the next call starts it"
    assert health(person)["servers"]["one"] == {"state": "idle", "reasons": []}
    assert not any(alive(pid) for pid in journal.pids())
    assert "awake" in json.dumps(call(person, "one", "awake"))
    assert person.status("one") == "running"


def test_a_server_stays_up_when_its_last_client_leaves(person: Person, journal: Journal) -> None:
    person.run_scripted("one", journal, "--idle-stop", "never")
    [own] = person.workload("one")["pids"]
    with StdioPeer(Address(person), "one") as peer:  # type: ignore[arg-type]
        assert "hello" in json.dumps(peer.tool("echo", {"text": "hello"}))
        eventually(lambda: own not in person.workload("one")["pids"], "the spare process to go")
        [theirs] = person.workload("one")["pids"]
    seen: set[str] = set()

    def another() -> bool:
        found = person.workload("one")
        seen.add(found["status"])
        return found["pids"] not in ([], [theirs])

    eventually(another, "a process of our own again")
    assert seen == {"running"}


def test_logs_show_the_server_and_what_was_done_with_it_apart(person: Person, tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    inner = scripted_command(journal.path, "stdio", "legacy")
    word = "print('a word from me', file=sys.stderr, flush=True)"
    script = f"import os, sys; {word}; os.execv({inner[0]!r}, {inner!r})"
    person("run", "--name", "chatty", "--sandbox", "off", "--", inner[0], "-c", script)
    assert "a word from me" in person("logs", "chatty", "--server").stdout
    assert "[mooring]" not in person("logs", "chatty", "--server").stdout
    events = person("logs", "chatty", "--events").stdout
    assert "running" in events
    assert "a word from me" not in events
    with subprocess.Popen(
        person.command("logs", "chatty", "-f", "--events", "--lines", "0"),
        stdout=subprocess.PIPE,
        text=True,
        env=person.environment,
        cwd=person.folder,
    ) as following:
        assert following.stdout is not None
        person("restart", "chatty")
        assert "[mooring]" in following.stdout.readline()
        following.kill()


def test_what_was_exported_runs_again(person: Person, journal: Journal) -> None:
    person.run_scripted("one", journal, "--env", "GREETING=hi", "--label", "team=red", "--tool", "echo")
    person("export", "one", "one.json")
    exported = json.loads((person.folder / "one.json").read_text())
    assert exported["schema_version"] == "v0.1.0"
    assert exported["env_vars"] == {"GREETING": "hi"}
    person("rm", "one")
    person("run", "--from-config", "one.json", "--name", "two")
    again = json.loads(person("export", "two").stdout)
    assert again == {**exported, "name": "two"}
    listed = person.json("tool", "list", "two")
    assert "echo" in json.dumps(listed)
    assert "nap" not in json.dumps(listed)
    assert [found["name"] for found in person.json("list", "--label", "team=red")] == ["two"]
    assert person.json("list", "--label", "team=blue") == []


def test_groups_are_made_listed_moved_to_and_removed(person: Person, journal: Journal) -> None:
    person("group", "create", "work")
    person.run_scripted("one", journal)
    person("group", "move", "work", "one")
    assert person.workload("one")["group"] == "work"
    person.kill()
    person("start", "one")
    assert person.workload("one")["group"] == "work", "also after a crash"
    person("group", "rm", "work")
    assert person.workload("one")["group"] == "default"
    refused = person("group", "rm", "default", expect=1)
    assert "it stays" in refused.stderr
    person("group", "create", "gone")
    person("group", "move", "gone", "one")
    assert person("group", "rm", "gone", "--with-workloads").stdout == "removed the group gone, one\n"
    assert person.workloads() == []
    assert [group["name"] for group in person.json("group", "list")] == ["default"]


def test_a_sandboxed_server_runs_without_any_flag(person: Person, tmp_path: Path) -> None:
    """Its journal is in no folder that it may write to, so it speaks without one."""
    server = Path(__file__).parents[2] / "examples" / "notes_server.py"
    person("run", "--name", "notes", "--", os.path.realpath(person.command()[0]), str(server))
    assert person.workload("notes")["sandbox"] == "on"
    assert "add_note" in person("tool", "list", "notes").stdout


def test_a_path_that_the_sandbox_hides_is_pointed_out(person: Person, tmp_path: Path) -> None:
    folder = tmp_path / "texts"
    folder.mkdir()
    command = [os.path.realpath(person.command()[0]), str(NOTES), str(folder)]
    said = person("run", "--name", "notes", "--", *command).stderr
    assert f"the sandbox hides `{folder}` from it; to let it in, add `--volume {folder}`" in said
    for name, flag in (("seen", f"--volume={folder}"), ("free", "--sandbox=off")):
        assert "hides" not in person("run", "--name", name, flag, "--", *command).stderr


@pytest.mark.parametrize("kind", ["systemd", "launchd"])
def test_the_unit_of_the_service_manager_starts_the_users_gateway(person: Person, kind: str) -> None:
    shown = person("service", "install", "--kind", kind, "--print").stdout
    assert "serve" in shown
    assert "--user" in shown
    if kind == "systemd":
        person("service", "install", "--kind", kind)
        unit = person.folder / "config" / "systemd" / "user" / "mooring.service"
        assert unit.read_text() == shown
        person("service", "uninstall", "--kind", kind)
        assert not unit.exists()
