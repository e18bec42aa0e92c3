"""SQLite, mostly in a thread of its own: one connection, one transaction at a time, on disk before it is
acknowledged."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, TypeVar

T = TypeVar("T")
BUSY_SECONDS: Final = 10.0

SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS files (
    id TEXT PRIMARY KEY, kind TEXT NOT NULL, scope TEXT NOT NULL, server TEXT NOT NULL, blob TEXT NOT NULL,
    name TEXT NOT NULL, mime_type TEXT NOT NULL, size INTEGER NOT NULL, sha256 TEXT NOT NULL,
    created REAL NOT NULL, expires REAL NOT NULL, exposed INTEGER NOT NULL, note TEXT NOT NULL DEFAULT '',
    data BLOB
) STRICT;
CREATE INDEX IF NOT EXISTS files_of_scope ON files (scope, server, kind, created);
CREATE INDEX IF NOT EXISTS files_by_expiry ON files (expires);
CREATE INDEX IF NOT EXISTS files_by_blob ON files (blob);
CREATE TABLE IF NOT EXISTS tombstones (
    id TEXT PRIMARY KEY, scope TEXT NOT NULL, reason TEXT NOT NULL, at REAL NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS tombstones_by_time ON tombstones (at);
CREATE TABLE IF NOT EXISTS resumable (
    id TEXT PRIMARY KEY, scope TEXT NOT NULL, server TEXT NOT NULL, blob TEXT NOT NULL, name TEXT NOT NULL,
    sha256 TEXT NOT NULL, length INTEGER NOT NULL, expires REAL NOT NULL, finished TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE TABLE IF NOT EXISTS spent (nonce TEXT PRIMARY KEY, expires REAL NOT NULL) STRICT;
"""


class Database:
    """The state of everything that has to survive us."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="mooring-state")
        self._connection: sqlite3.Connection | None = None
        self._turn = threading.Lock()

    async def open(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, self._open)

    def _open(self) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(
            self._path, isolation_level=None, timeout=BUSY_SECONDS, check_same_thread=False
        )
        self._path.chmod(0o600)
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.executescript(SCHEMA)
        columns = {str(row["name"]) for row in connection.execute("PRAGMA table_info(files)")}
        if "data" not in columns:  # a database of before small files were kept in it
            connection.execute("ALTER TABLE files ADD COLUMN data BLOB")
        self._connection = connection

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """One transaction: all of it is on disk when this returns, or nothing of it ever was."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self.run_here, work)

    def run_here(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """The same for whoever is in a thread already; it waits for its turn."""
        with self._turn:
            connection = self._connection
            assert connection is not None, "the database is not open"
            connection.execute("BEGIN IMMEDIATE")
            try:
                outcome = work(connection)
            except BaseException:
                connection.execute("ROLLBACK")
                raise
            connection.execute("COMMIT")
            return outcome

    async def read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """A look that changes nothing, and so costs no write."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._read, work)

    def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with self._turn:
            assert self._connection is not None, "the database is not open"
            return work(self._connection)

    async def close(self) -> None:
        await asyncio.get_running_loop().run_in_executor(self._thread, self._close)
        self._thread.shutdown(wait=False)

    def _close(self) -> None:
        with self._turn:
            if self._connection is not None:
                self._connection.close()
                self._connection = None
