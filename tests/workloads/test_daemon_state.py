"""What a data directory keeps: who holds it, the books, the logs."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace

import pytest

from mooring.workloads import logs
from mooring.workloads.lifecycle import Phase, Status, Wanted
from mooring.workloads.logs import WorkloadLog
from mooring.workloads.state import DataDirectory, DirectoryTaken, holder_of
from mooring.workloads.store import BrokenState, Record, Store

pytestmark = pytest.mark.anyio


def record(name: str, **more: object) -> Record:
    status = Status(Phase.RUNNING, Wanted.UP, "", attempts=3, failures=1)
    return Record(name, b'{"image":"x"}', "default", status, created_at=1.5, **more)  # type: ignore[arg-type]


def test_two_daemons_never_hold_one_directory(tmp_path: Path) -> None:
    with DataDirectory(tmp_path):
        assert holder_of(tmp_path) == os.getpid()
        with (
            pytest.raises(DirectoryTaken, match=f"process {os.getpid()}.* already runs"),
            DataDirectory(tmp_path),
        ):
            pass
    assert holder_of(tmp_path) is None
    with DataDirectory(tmp_path):
        pass


def test_the_directory_of_a_killed_daemon_is_free(tmp_path: Path) -> None:
    script = (
        "import sys, pathlib, time\nfrom mooring.workloads.state import DataDirectory\n"
        "with DataDirectory(pathlib.Path(sys.argv[1])):\n    print('held', flush=True)\n    time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        assert holder_of(tmp_path) == other.pid
        other.kill()
        other.wait(10)
    with DataDirectory(tmp_path):
        assert holder_of(tmp_path) == os.getpid()


async def test_the_books_are_there_again_after_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "mooring.db"
    async with Store(path) as store:
        await store.put(record("b", resolved=b'{"version":"1"}', runtime="process"))
        await store.put(record("a"))
        await store.set_status("a", Status(Phase.ERROR, Wanted.UP, "flaps", failures=5), 2.5)
    assert path.stat().st_mode & 0o077 == 0
    async with Store(path) as store:
        a, b = await store.workloads()
        assert (a.status.phase, a.status.context, a.status.failures, a.started_at) == (
            Phase.ERROR, "flaps", 5, 2.5,
        )  # fmt: skip
        assert b == record("b", resolved=b'{"version":"1"}', runtime="process")
        await store.delete("a")
        assert [found.name for found in await store.workloads()] == ["b"]


async def test_a_group_that_is_named_is_made_and_one_in_use_is_not_lost(tmp_path: Path) -> None:
    async with Store(tmp_path / "mooring.db") as store:
        await store.put(Record("a", b"{}", "work", Status(), 1.0))
        assert [group.name for group in await store.groups()] == ["default", "work"]
        with pytest.raises(sqlite3.IntegrityError):
            await store.delete_group("work")
        await store.move("a", "default", b"{}")
        await store.delete_group("work")


async def test_a_database_that_is_none_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "mooring.db"
    path.write_bytes(b"this is not a database, however long it may be" * 100)
    with pytest.raises(BrokenState, match="move it away"):
        async with Store(path):
            pass


async def test_nobody_is_told_to_move_a_sound_database_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> sqlite3.Connection:
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise error

    monkeypatch.setattr(sqlite3, "connect", full)
    with pytest.raises(BrokenState, match="make room") as raised:
        async with Store(tmp_path / "mooring.db"):
            pass
    assert "move it away" not in str(raised.value)


async def test_a_database_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "mooring.db"
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(BrokenState, match="newer version"):
        async with Store(path):
            pass


def test_lines_of_all_kinds_are_told_apart_and_in_order(tmp_path: Path) -> None:
    log = WorkloadLog(tmp_path / "x")
    log.happened("starting")
    log.server_said(b"hello\nwor")
    log.server_said(b"ld\nlast words")
    log.server_ended()
    log.refused("evil.example:443 is not allowed")
    found = log.tail(logs.KINDS, 100)
    assert [(line.kind, line.text) for line in found] == [
        ("events", "starting"),
        ("server", "hello"),
        ("server", "world"),
        ("server", "last words"),
        ("network", "evil.example:443 is not allowed"),
    ]
    assert [line.text for line in log.tail(("server",), 2)] == ["world", "last words"]
    log.remove()
    assert not (tmp_path / "x").exists()


def test_last_words_are_as_old_as_the_start_that_they_explain(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = WorkloadLog(tmp_path)
    log.server_said(b"waiting for the database\n")
    later = datetime.now(UTC) + timedelta(seconds=61)
    monkeypatch.setattr(logs, "datetime", SimpleNamespace(now=lambda _: later))
    assert log.last_words() == []
    assert log.last_words(within=62) == ["waiting for the database"]
    log.close()


def test_a_log_does_not_grow_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "MAX_FILE_BYTES", 10_000)
    log = WorkloadLog(tmp_path)
    for number in range(2_000):
        log.server_said(b"line %d\n" % number)
    log.close()
    files = sorted(file.name for file in tmp_path.iterdir())
    assert files == ["server.log", "server.log.1", "server.log.2", "server.log.3"]
    assert all(file.stat().st_size <= 10_000 for file in tmp_path.iterdir())
    found = WorkloadLog(tmp_path).tail(("server",), 500)
    assert [line.text for line in found] == [f"line {number}" for number in range(1_500, 2_000)]


def test_one_endless_line_is_cut(tmp_path: Path) -> None:
    log = WorkloadLog(tmp_path)
    for _ in range(100):
        log.server_said(b"x" * 1000)
    assert len(log.tail(("server",), 100)) == 100_000 // logs.MAX_LINE_BYTES
    log.close()


def test_a_log_that_cannot_be_written_ends_nothing_and_spoils_no_other_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "MAX_FILE_BYTES", 1_000)
    heard: list[str] = []
    log = WorkloadLog(tmp_path / "log")
    log.watch(lambda line: heard.append(line.text))
    log.server_said(b"x" * 900 + b"\n")
    shutil.rmtree(tmp_path / "log")
    (tmp_path / "log").write_text("in the way")
    log.server_said(b"y" * 900 + b"\n")  # the full file is closed, and no new one can be opened
    with (tmp_path / "other").open("wb"):  # gets the number of the file that was closed
        log.server_said(b"z\n")
    assert (tmp_path / "other").read_bytes() == b""
    assert heard[-1] == "z"
    (tmp_path / "log").unlink()
    log.server_said(b"again\n")
    assert [line.text for line in log.tail(("server",), 9)] == ["again"]
    log.close()
