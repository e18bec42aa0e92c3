"""What survives a `kill -9`: workloads, groups, owners of tasks and what was used up, in SQLite.

Every change is one transaction and is durable against the end of our process when its call returns (against
the end of the machine a moment later: WAL with `synchronous=NORMAL`). All statements run in one thread.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Self, TypeVar

import msgspec
from msgspec import Struct

from mooring.errors import MooringError
from mooring.workloads.lifecycle import Phase, Status, Wanted

DEFAULT_GROUP = "default"
VERSION = 1
OWNERS_KEPT = 50_000
"""Whoever started more tasks than this ago has to start anew: no server keeps them for ever either."""
T = TypeVar("T")

_SCHEMA = """
CREATE TABLE IF NOT EXISTS groups (
    name TEXT PRIMARY KEY,
    created_at REAL NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS workloads (
    name TEXT PRIMARY KEY,
    config TEXT NOT NULL,
    in_group TEXT NOT NULL REFERENCES groups (name) ON UPDATE CASCADE,
    phase TEXT NOT NULL,
    wanted TEXT NOT NULL,
    context TEXT NOT NULL DEFAULT '',
    asleep INTEGER NOT NULL DEFAULT 0,
    attempts INTEGER NOT NULL DEFAULT 0,
    failures INTEGER NOT NULL DEFAULT 0,
    resolved TEXT,
    runtime TEXT,
    created_at REAL NOT NULL,
    started_at REAL
) STRICT;
CREATE TABLE IF NOT EXISTS task_owners (
    place TEXT NOT NULL,
    task TEXT NOT NULL,
    owner TEXT NOT NULL,
    PRIMARY KEY (place, task)
) STRICT;
CREATE TABLE IF NOT EXISTS spent (
    value TEXT PRIMARY KEY,
    until REAL NOT NULL
) STRICT;
"""


class BrokenState(MooringError):
    """The database cannot be used; the message says what to do about it."""


class Record(Struct, frozen=True):
    """A workload as the books have it. `config` is its RunConfig as JSON."""

    name: str
    config: bytes
    group: str
    status: Status
    created_at: float
    started_at: float | None = None
    resolved: bytes | None = None
    """What its source turned out to be when it last ran."""
    runtime: str | None = None


class Group(Struct, frozen=True):
    """Servers with one purpose."""

    name: str
    created_at: float


_PASSING = (
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_BUSY,
)


def _passes(error: sqlite3.Error) -> bool:
    """Whether the database may be sound, and what is around it is not. The low byte is the kind of error."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _PASSING


class Store:
    """The database of one data directory. An async context manager."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="mooring-store")
        self._connection: sqlite3.Connection | None = None

    async def __aenter__(self) -> Self:
        try:
            await self._run(self._open)
        except sqlite3.DatabaseError as error:
            self._thread.shutdown()
            if _passes(error):  # nothing is wrong with it: whoever moved it away would lose their workloads
                raise BrokenState(
                    f"`{self._path}` cannot be used now ({error}): make room on its disk, see that you "
                    "may write there, and start again"
                ) from error
            raise BrokenState(
                f"`{self._path}` cannot be used ({error}): move it away to start with no workloads, or put "
                "a backup in its place"
            ) from error
        except BaseException:
            self._thread.shutdown()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._run(lambda connection: connection.close())
        self._thread.shutdown()

    # Workloads

    async def workloads(self) -> list[Record]:
        return await self._run(
            lambda connection: [
                _record(row) for row in connection.execute("SELECT * FROM workloads ORDER BY name")
            ]
        )

    async def put(self, record: Record) -> None:
        """Write all of it, making its group if that is not there."""
        await self._run(lambda connection: _put(connection, record))

    async def set_status(self, name: str, status: Status, started_at: float | None) -> None:
        values = (*_status_values(status), started_at, name)
        await self._run(lambda connection: connection.execute(_SET_STATUS, values))

    async def set_resolved(self, name: str, resolved: bytes, runtime: str) -> None:
        sql = "UPDATE workloads SET resolved = ?, runtime = ? WHERE name = ?"
        await self._run(lambda connection: connection.execute(sql, (resolved.decode(), runtime, name)))

    async def move(self, name: str, group: str, config: bytes) -> None:
        sql = "UPDATE workloads SET in_group = ?, config = ? WHERE name = ?"
        await self._run(lambda connection: connection.execute(sql, (group, config.decode(), name)))

    async def delete(self, name: str) -> None:
        await self._run(
            lambda connection: connection.execute("DELETE FROM workloads WHERE name = ?", (name,))
        )

    # Groups

    async def groups(self) -> list[Group]:
        return await self._run(
            lambda connection: [
                Group(row["name"], row["created_at"])
                for row in connection.execute("SELECT * FROM groups ORDER BY name")
            ]
        )

    async def add_group(self, name: str) -> None:
        await self._run(lambda connection: _add_group(connection, name))

    async def delete_group(self, name: str) -> None:
        await self._run(lambda connection: connection.execute("DELETE FROM groups WHERE name = ?", (name,)))

    # Tasks that servers keep

    async def own_task(self, place: str, task: str, owner: str) -> None:
        await self._run(lambda connection: _own_task(connection, (place, task, owner)))

    async def task_owners(self, place: str, tasks: Iterable[str]) -> dict[str, str]:
        wanted = msgspec.json.encode(list(tasks)).decode()
        sql = (
            "SELECT task, owner FROM task_owners WHERE place = ? AND task IN (SELECT value FROM json_each(?))"
        )
        return await self._run(lambda connection: dict(connection.execute(sql, (place, wanted)).fetchall()))

    # What may be used once

    async def spend(self, value: str, until: float) -> bool:
        return await self._run(lambda connection: _spend(connection, value, until))

    # The thread

    def _open(self, _: Any) -> None:
        connection = sqlite3.connect(self._path, isolation_level=None, check_same_thread=False)
        self._path.chmod(0o600)
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA foreign_keys = ON")
        found = connection.execute("PRAGMA user_version").fetchone()[0]
        if found > VERSION:
            connection.close()
            raise BrokenState(
                f"`{self._path}` was written by a newer version of mooring: install that one, or use another "
                "data directory"
            )
        connection.executescript(_SCHEMA)
        connection.execute(f"PRAGMA user_version = {VERSION}")
        _add_group(connection, DEFAULT_GROUP)
        self._connection = connection

    async def _run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        def job() -> T:
            connection = self._connection
            return work(connection)  # type: ignore[arg-type] - None only for `_open`, which makes it

        return await asyncio.get_running_loop().run_in_executor(self._thread, job)


_SET_STATUS = (
    "UPDATE workloads SET phase = ?, wanted = ?, context = ?, asleep = ?, attempts = ?, failures = ?, "
    "started_at = ? WHERE name = ?"
)
_PUT = (
    "INSERT INTO workloads (name, config, in_group, phase, wanted, context, asleep, attempts, failures, "
    "resolved, runtime, created_at, started_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (name) DO UPDATE SET config = excluded.config, in_group = excluded.in_group, "
    "phase = excluded.phase, wanted = excluded.wanted, context = excluded.context, asleep = excluded.asleep, "
    "attempts = excluded.attempts, failures = excluded.failures, resolved = excluded.resolved, "
    "runtime = excluded.runtime, started_at = excluded.started_at"
)


def _put(connection: sqlite3.Connection, record: Record) -> None:
    resolved = None if record.resolved is None else record.resolved.decode()
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        _add_group(connection, record.group)
        connection.execute(
            _PUT,
            (
                record.name,
                record.config.decode(),
                record.group,
                *_status_values(record.status),
                resolved,
                record.runtime,
                record.created_at,
                record.started_at,
            ),
        )


def _own_task(connection: sqlite3.Connection, row: tuple[str, str, str]) -> None:
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("INSERT OR REPLACE INTO task_owners VALUES (?, ?, ?)", row)
        connection.execute(
            "DELETE FROM task_owners WHERE rowid <= (SELECT max(rowid) FROM task_owners) - ?", (OWNERS_KEPT,)
        )


def _spend(connection: sqlite3.Connection, value: str, until: float) -> bool:
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("DELETE FROM spent WHERE until < ?", (time.time(),))
        done = connection.execute("INSERT OR IGNORE INTO spent VALUES (?, ?)", (value, until))
        return done.rowcount == 1


def _add_group(connection: sqlite3.Connection, name: str) -> None:
    connection.execute("INSERT OR IGNORE INTO groups (name, created_at) VALUES (?, ?)", (name, time.time()))


def _status_values(status: Status) -> tuple[str, str, str, int, int, int]:
    return (
        status.phase.value,
        status.wanted.value,
        status.context,
        int(status.asleep),
        status.attempts,
        status.failures,
    )


def _record(row: sqlite3.Row) -> Record:
    status = Status(
        phase=Phase(row["phase"]),
        wanted=Wanted(row["wanted"]),
        context=row["context"],
        asleep=bool(row["asleep"]),
        attempts=row["attempts"],
        failures=row["failures"],
    )
    resolved = row["resolved"]
    return Record(
        name=row["name"],
        config=row["config"].encode(),
        group=row["in_group"],
        status=status,
        created_at=row["created_at"],
        started_at=row["started_at"],
        resolved=None if resolved is None else resolved.encode(),
        runtime=row["runtime"],
    )
