"""The files that we keep: written whole or not at all, found by handle, gone when their time is over."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, cast

from mooring.files import listing, records
from mooring.files.database import Database, give_back
from mooring.files.disk import completed
from mooring.files.faults import Away, Gone, NotFound
from mooring.files.handles import Handle, Kind, new_id
from mooring.files.incoming import Incoming, KeepingRule, NewFile
from mooring.files.names import safe_name
from mooring.files.quotas import Quotas, Usage
from mooring.files.records import FileRecord
from mooring.files.storage import Storage
from mooring.files.turns import TurnRules, Turns

log = logging.getLogger(__name__)

REMEMBERED: Final = 4096
"""Records kept at hand, so that a call with a handle need not ask the database."""
SWEEP_BATCH: Final = 200
INSPECTIONS: Final = TurnRules(
    running=4, running_per_scope=2, waiting=256, waiting_per_scope=16, wait_seconds=20.0
)
"""Searches and queries in results: each is a process with as much memory as it may want."""


@dataclass(frozen=True, slots=True)
class StoreRules:
    upload: KeepingRule
    artifact: KeepingRule
    result: KeepingRule
    tombstone_seconds: float = 86_400.0
    orphan_grace_seconds: float = 3600.0

    @property
    def shortest_ttl_seconds(self) -> float:
        return min(self.upload.ttl_seconds, self.artifact.ttl_seconds, self.result.ttl_seconds)

    def of(self, kind: Kind) -> KeepingRule:
        if kind == "upload":
            return self.upload
        return self.artifact if kind == "artifact" else self.result


class FileStore:
    """State in the database, bytes in the storage, numbers in memory."""

    def __init__(
        self,
        database: Database,
        storage: Storage,
        quotas: Quotas,
        rules: StoreRules,
        *,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.database = database
        self.storage = storage
        self.usage = Usage(quotas)
        self.rules = rules
        self.clock = clock
        self.on_removed: Callable[[FileRecord], None] | None = None
        self.on_ended: Callable[[str], Awaitable[None]] | None = None
        """Hears of a scope that has ended, when its files are gone."""
        self.result_ttl_seconds: dict[str, float] = {}
        """By server, where results are kept for another time than the rules say."""
        self.coming: set[str] = set()
        """Blobs that are on their way in, or wait for others to be named together with them."""
        self.inspections = Turns(INSPECTIONS)
        self._remembered: dict[str, FileRecord] = {}
        self._touched: dict[str, float] = {}
        self._ended: dict[str, float] = {}
        self._in_use: dict[str, tuple[FileRecord, int]] = {}

    async def open(self) -> None:
        await self.database.open()
        await self.storage.open()
        for scope, server, kind, size, count in await self.database.read(records.usage):
            self.usage.load(scope, server, cast("Kind", kind), size, count)
        self._ended = await self.database.read(records.ended_scopes)

    async def close(self) -> None:
        await self._write_touches()
        await self.storage.close()
        await self.database.close()

    # Writing

    async def begin(self, kind: Kind, scope: str, server: str, name: str) -> Incoming:
        """A new file; its bytes follow. Nobody sees it before `commit`."""
        self.refuse_ended(scope)
        file = NewFile(kind, scope, server, safe_name(name, kind), new_id())
        self.usage.add_file(kind, scope, server, 0)
        try:
            writer = await self.storage.create(file.id)
        except BaseException:
            self.usage.remove_file(kind, scope, server, 0)
            raise
        self.coming.add(file.id)
        return Incoming(file, writer, self._rule(kind, server), self.usage, self.coming)

    def _rule(self, kind: Kind, server: str) -> KeepingRule:
        rule = self.rules.of(kind)
        if kind != "result" or server not in self.result_ttl_seconds:
            return rule
        return replace(rule, ttl_seconds=self.result_ttl_seconds[server])

    @contextmanager
    def sending(self, scope: str) -> Generator[None]:
        """Somebody is sending files into this scope; only so many may at the same time."""
        self.refuse_ended(scope)
        self.usage.begin(scope)
        try:
            yield
        finally:
            self.usage.end(scope)

    def refuse_ended(self, scope: str) -> None:
        if scope in self._ended:
            raise Gone("the session that this belongs to has ended: start again in a new one")

    async def commit(self, files: Sequence[Incoming], *, exposed: bool = True) -> list[FileRecord]:
        """Make files visible, all of them in one step; they are durable when this returns."""
        for file in files:
            self.refuse_ended(file.scope)
        made = [file.record(self.clock(), exposed=exposed) for file in files]
        await self.storage.settle([record.blob for record in made])

        def settled(error: Exception | None) -> None:
            if error is None:
                self.remember(made)
                for file in files:
                    file.settled()

        def insert(connection: sqlite3.Connection) -> None:
            for file in files:
                self.refuse_ended(file.scope)  # it may have, while the disk took the bytes
            records.insert(connection, made)

        inserting = asyncio.ensure_future(self.database.run(insert, settled))
        try:
            await asyncio.shield(inserting)
        except asyncio.CancelledError:  # what is being named now must not be thrown away at the same time
            await asyncio.wait([inserting])
            raise
        return made

    def remember(self, made: Sequence[FileRecord]) -> None:
        """Keep these at hand: they are likely to be asked for."""
        for record in made:
            self._remember(record)

    # Finding

    async def find(self, handle: Handle, server: str) -> FileRecord:
        """The file behind a handle. Whatever does not fit exactly does not exist."""
        record = self._remembered.get(handle.id)
        if record is None:
            record = await self.database.read(lambda connection: records.find(connection, handle.id))
            if record is not None:
                self._remember(record)
        if record is None or record.scope in self._ended:
            raise await self._explanation(handle)
        return self._checked(record, handle, server)

    def at_hand(self, handle: Handle, server: str) -> FileRecord | None:
        """The same without a wait, for what has been used lately; None: `find` has to look."""
        record = self._remembered.get(handle.id)
        if record is None or record.scope in self._ended:
            return None
        return self._checked(record, handle, server)

    def _checked(self, record: FileRecord, handle: Handle, server: str) -> FileRecord:
        now = self.clock()
        is_same = record.kind == handle.kind and record.scope == handle.scope and record.server == server
        if not is_same or (handle.name is not None and handle.name != record.name):
            raise NotFound(f"not found: `{handle}`")
        if (expires := max(record.expires, self._touched.get(record.id, 0.0))) <= now:
            raise _gone(handle, "expired", now - expires)
        return self._touch(record, now)

    async def _explanation(self, handle: Handle) -> NotFound:
        """Who knows scope and id once had it, and may know what became of it."""
        if handle.scope in self._ended:
            return Gone(f"not found: `{handle}` is gone: its session ended")
        found = await self.database.read(
            lambda connection: records.tombstone(connection, handle.id, handle.scope)
        )
        if found is not None:
            return _gone(handle, found[0], max(0.0, self.clock() - found[1]))
        return NotFound(f"not found: `{handle}`")

    def _touch(self, record: FileRecord, now: float) -> FileRecord:
        """Use keeps a file alive; that is written down later, together."""
        self._touched[record.id] = now + self._rule(record.kind, record.server).ttl_seconds
        return record

    def hold(self, found: Sequence[FileRecord]) -> None:
        """A call works with these: they do not expire before it has let go of them."""
        for record in found:
            self._in_use[record.id] = record, self._in_use.get(record.id, (record, 0))[1] + 1

    def let_go(self, found: Sequence[FileRecord]) -> None:
        for record in found:
            self._touch(record, self.clock())
            users = self._in_use.pop(record.id)[1] - 1
            if users:
                self._in_use[record.id] = record, users

    def _remember(self, record: FileRecord) -> None:
        if len(self._remembered) >= REMEMBERED:
            del self._remembered[next(iter(self._remembered))]
        self._remembered[record.id] = record

    async def page(
        self, scope: str, server: str, kinds: Sequence[Kind], cursor: str | None = None
    ) -> listing.Page:
        """Some of the files of a scope, newest first; `cursor` is where the page before ended."""
        before = listing.START if cursor is None else listing.position(cursor)
        return listing.page_of(await self.listed(scope, server, kinds, before, listing.PAGE + 1))

    async def listed(
        self,
        scope: str,
        server: str,
        kinds: Sequence[Kind],
        before: listing.Position = listing.START,
        limit: int = listing.PAGE,
    ) -> list[FileRecord]:
        now = self.clock()
        return await self.database.read(
            lambda connection: listing.older_than(connection, scope, server, kinds, before, now, limit)
        )

    def read(self, record: FileRecord, start: int = 0, stop: int | None = None) -> AsyncIterator[bytes]:
        stop = record.size if stop is None else stop
        return (
            self.storage.read(record.blob, start, stop) if record.blob else self._small(record, start, stop)
        )

    def path(self, record: FileRecord) -> Path | None:
        """Where its bytes are a file of ours, if they are."""
        return self.storage.path(record.blob) if record.blob else None

    async def _small(self, record: FileRecord, start: int, stop: int) -> AsyncIterator[bytes]:
        data = await self.database.read(lambda connection: records.small_data(connection, record.id))
        yield data[start:stop]

    async def read_all(self, record: FileRecord, start: int = 0, stop: int | None = None) -> bytes:
        return b"".join([block async for block in self.read(record, start, stop)])

    # Ending

    async def remove(self, identifier: str, reason: str) -> None:
        await completed(self._remove(identifier, reason))

    async def _remove(self, identifier: str, reason: str) -> None:
        now = self.clock()
        await self._dispose(
            await self.database.run(lambda connection: records.take(connection, identifier, reason, now))
        )

    async def end_scope(self, scope: str, reason: str) -> None:
        """Its session is over: nothing of it can be used any more, and its files go."""
        await completed(self._end_scope(scope, reason))

    async def _end_scope(self, scope: str, reason: str) -> None:
        now = self.clock()
        self._ended[scope] = now
        await self.database.run(lambda connection: records.end_scope(connection, scope, reason, now))
        while taken := await self.database.run(
            lambda connection: records.take_scope(connection, scope, reason, now, SWEEP_BATCH)
        ):
            await self._dispose(taken)
        if self.on_ended is not None:
            await self.on_ended(scope)

    async def sweep(self) -> int:
        """Remove what has expired, a few at a time so that others get their turn."""
        removed = 0
        now = self.clock()
        for record, _ in self._in_use.values():
            self._touch(record, now)
        await self._write_touches()
        while taken := await self.database.run(
            lambda connection: records.take_expired(connection, now, SWEEP_BATCH)
        ):
            await self._dispose(taken)
            removed += len(taken)
        await self.database.run(lambda connection: self._forget_old(connection, now))
        for scope in [s for s, at in self._ended.items() if at < now - self.rules.tombstone_seconds]:
            del self._ended[scope]
        return removed

    def _forget_old(self, connection: sqlite3.Connection, now: float) -> None:
        connection.execute("DELETE FROM tombstones WHERE at < ?", (now - self.rules.tombstone_seconds,))
        connection.execute("DELETE FROM spent WHERE expires < ?", (now,))
        give_back(connection)

    async def sweep_orphans(self) -> int:
        """Blobs without a record: what a crash left behind between writing and naming them."""
        loop = asyncio.get_running_loop()

        def is_known(blobs: list[str]) -> set[str]:
            """Asked from a thread; the database answers in its own."""
            future = asyncio.run_coroutine_threadsafe(self._known(blobs), loop)
            return future.result(30)

        return await self.storage.sweep(is_known, time.time() - self.rules.orphan_grace_seconds)

    async def _known(self, blobs: list[str]) -> set[str]:
        def look(connection: sqlite3.Connection) -> set[str]:
            marks = ",".join("?" * len(blobs))
            question = (
                f"SELECT blob FROM files WHERE blob <> '' AND blob IN ({marks}) "  # noqa: S608 - question marks only
                f"UNION SELECT blob FROM resumable WHERE blob IN ({marks})"
            )
            return {str(row[0]) for row in connection.execute(question, (*blobs, *blobs))}

        coming = self.coming.intersection(blobs)  # before the look: what is named meanwhile is in one of both
        return coming | await self.database.read(look)

    async def _dispose(self, taken: list[FileRecord]) -> None:
        for record in taken:
            self._remembered.pop(record.id, None)
            self._touched.pop(record.id, None)
            self.usage.remove_file(record.kind, record.scope, record.server, record.size)
            if self.on_removed is not None:
                self.on_removed(record)
        blobs = [record.blob for record in taken if record.blob]
        if blobs:
            try:
                await self.storage.delete(blobs)
            except Away:  # no record names them any more: they are swept when the store is back
                log.warning("%d blobs could not be deleted now; they will be swept later", len(blobs))

    async def _write_touches(self) -> None:
        touched = dict(self._touched)  # they hold in memory until they are on disk
        if touched:
            rows = [(expires, identifier) for identifier, expires in touched.items()]
            await self.database.run(
                lambda connection: connection.executemany("UPDATE files SET expires = ? WHERE id = ?", rows)
            )
            for identifier, expires in touched.items():
                self._remembered.pop(identifier, None)
                if self._touched.get(identifier) == expires:
                    del self._touched[identifier]

    async def spend(self, nonce: str, expires: float) -> bool:
        """Use something up that works only once; False if it was used already."""

        def insert(connection: sqlite3.Connection) -> bool:
            done = connection.execute("INSERT OR IGNORE INTO spent VALUES (?,?)", (nonce, expires))
            return done.rowcount == 1

        return await self.database.run(insert)


def _gone(handle: Handle, reason: str, ago: float) -> Gone:
    return Gone(f"not found: `{handle}` is gone ({reason} {ago:.0f} s ago); send it again")
