"""SQLite in a thread of its own: one connection, one transaction at a time, on disk before it is
acknowledged.

Whatever waits while a transaction is being written goes into the next one together: many small writes cost
one wait for the disk. "On disk" means after a power cut too: each commit is synced (`synchronous = FULL`).
"""

from __future__ import annotations

import asyncio
import logging
import queue
import sqlite3
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec

from mooring.files.faults import DISK_FULL, Away, NoRoom

log = logging.getLogger(__name__)

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]
Settled = Callable[[Exception | None], None]
BUSY_SECONDS: Final = 10.0
_BROKEN: Final = frozenset((sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN))
SPARE_PAGES: Final = 2048
MOST_PAGES_BACK: Final = 4096
MOST_TOGETHER: Final = 64
"""Writes that share a transaction; the first of them waits for the last."""

SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS files (
    id TEXT PRIMARY KEY, kind TEXT NOT NULL, scope TEXT NOT NULL, server TEXT NOT NULL, blob TEXT NOT NULL,
    name TEXT NOT NULL, mime_type TEXT NOT NULL, size INTEGER NOT NULL, sha256 TEXT NOT NULL,
    created REAL NOT NULL, expires REAL NOT NULL, exposed INTEGER NOT NULL, note TEXT NOT NULL DEFAULT '',
    data BLOB
) STRICT;
CREATE INDEX IF NOT EXISTS files_of_scope ON files (scope, server, kind, created);
CREATE INDEX IF NOT EXISTS files_by_expiry ON files (expires);
CREATE INDEX IF NOT EXISTS files_with_blob ON files (blob) WHERE blob <> '';
DROP INDEX IF EXISTS files_by_blob;
CREATE TABLE IF NOT EXISTS tombstones (
    id TEXT PRIMARY KEY, scope TEXT NOT NULL, reason TEXT NOT NULL, at REAL NOT NULL
) STRICT;
CREATE INDEX IF NOT EXISTS tombstones_by_time ON tombstones (at);
CREATE TABLE IF NOT EXISTS resumable (
    id TEXT PRIMARY KEY, scope TEXT NOT NULL, server TEXT NOT NULL, blob TEXT NOT NULL, name TEXT NOT NULL,
    sha256 TEXT NOT NULL, length INTEGER NOT NULL, expires REAL NOT NULL, finished TEXT NOT NULL DEFAULT ''
) STRICT;
CREATE TABLE IF NOT EXISTS sessions (
    scope TEXT PRIMARY KEY, server TEXT NOT NULL, version TEXT NOT NULL, capabilities BLOB NOT NULL,
    info BLOB NOT NULL
) STRICT;
CREATE TABLE IF NOT EXISTS spent (nonce TEXT PRIMARY KEY, expires REAL NOT NULL) STRICT;
"""


def give_back(connection: sqlite3.Connection) -> None:
    """Let the disk have pages that nothing uses, a few at a time; some are kept for what comes next."""
    (unused,) = connection.execute("PRAGMA freelist_count").fetchone()
    if unused > SPARE_PAGES:
        for _ in range(min(unused - SPARE_PAGES, MOST_PAGES_BACK)):
            connection.execute("PRAGMA incremental_vacuum(1)")  # the module takes one step, which is one page


class _Wish(msgspec.Struct, eq=False):
    """Something to be done with the database, and who waits for it."""

    work: Work[Any]
    changes: bool
    waiter: asyncio.Future[Any]
    settled: Settled | None
    outcome: Any = None
    error: Exception | None = None


class Database:
    """The state of everything that has to survive us."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._wishes: queue.SimpleQueue[_Wish | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop
        self._connection: sqlite3.Connection

    async def open(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._connection = await asyncio.to_thread(self._open)
        self._thread = threading.Thread(target=self._serve, name="mooring-state", daemon=True)
        self._thread.start()

    def _open(self) -> sqlite3.Connection:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        connection = sqlite3.connect(
            self._path, isolation_level=None, timeout=BUSY_SECONDS, check_same_thread=False
        )
        self._path.chmod(0o600)
        connection.row_factory = sqlite3.Row
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")  # for a new one; others stay as they are
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.executescript(SCHEMA)
        columns = {str(row["name"]) for row in connection.execute("PRAGMA table_info(files)")}
        if "data" not in columns:  # a database of before small files were kept in it
            connection.execute("ALTER TABLE files ADD COLUMN data BLOB")
        return connection

    async def run(self, work: Work[T], settled: Settled | None = None) -> T:
        """All that `work` changes is on disk when this returns, or nothing of it ever was.

        `work` may be asked twice, if somebody else's failed in the same transaction. `settled` hears what
        came of it, even if whoever waits here is cancelled meanwhile.
        """
        return await self._ask(work, changes=True, settled=settled)

    async def read(self, work: Work[T]) -> T:
        """A look that changes nothing, and so costs no write."""
        return await self._ask(work, changes=False)

    def _ask(self, work: Work[T], *, changes: bool, settled: Settled | None = None) -> asyncio.Future[T]:
        if self._thread is None:
            raise RuntimeError("the database is not open")
        waiter: asyncio.Future[T] = self._loop.create_future()
        self._wishes.put(_Wish(work, changes, waiter, settled))
        return waiter

    async def close(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            self._wishes.put(None)
            await asyncio.to_thread(thread.join)

    # In the thread

    def _serve(self) -> None:
        is_open = True
        while is_open:
            wishes = self._gathered()
            is_open = wishes[-1] is not None
            asked = [wish for wish in wishes if wish is not None]
            # Those who look go first: they see nothing that may still fail.
            for wish in asked:
                if not wish.changes:
                    _attempt(wish, self._connection)
            self._change([wish for wish in asked if wish.changes])
            self._loop.call_soon_threadsafe(_answer, asked)
        self._connection.close()

    def _gathered(self) -> list[_Wish | None]:
        wishes = [self._wishes.get()]
        while wishes[-1] is not None and len(wishes) < MOST_TOGETHER and not self._wishes.empty():
            wishes.append(self._wishes.get())
        return wishes

    def _change(self, wishes: list[_Wish]) -> None:
        """All of them in one transaction; if that fails, each in its own."""
        if not wishes:
            return
        error = self._transaction(wishes)
        if error is None:
            return
        if len(wishes) == 1:
            wishes[0].error = error
            return
        for wish in wishes:
            wish.error = self._transaction([wish])

    def _transaction(self, wishes: list[_Wish]) -> Exception | None:
        connection = self._connection
        try:
            connection.execute("BEGIN IMMEDIATE")
            for wish in wishes:
                wish.outcome = wish.work(connection)
            connection.execute("COMMIT")
        except Exception as error:  # noqa: BLE001 - whoever asked gets it
            with suppress(sqlite3.Error):  # some failures have rolled back already
                connection.execute("ROLLBACK")
            return _translated(error)
        return None


def _attempt(wish: _Wish, connection: sqlite3.Connection) -> None:
    try:
        wish.outcome = wish.work(connection)
    except Exception as error:  # noqa: BLE001 - whoever asked gets it
        wish.error = error


def _translated(error: Exception) -> Exception:
    if not isinstance(error, sqlite3.OperationalError):
        return error
    if error.sqlite_errorcode == sqlite3.SQLITE_FULL:
        return NoRoom(DISK_FULL)
    if error.sqlite_errorcode & 0xFF in _BROKEN:  # the rest says what exactly could not be done
        log.error("the state of files cannot be written: %s", error)
        return Away("the gateway's disk does not take files now: tell whoever runs it")
    return error


def _answer(wishes: list[_Wish]) -> None:
    for wish in wishes:
        if wish.settled is not None:
            wish.settled(wish.error)
        if wish.waiter.done():  # whoever asked was cancelled
            continue
        if wish.error is not None:
            wish.waiter.set_exception(wish.error)
        else:
            wish.waiter.set_result(wish.outcome)
