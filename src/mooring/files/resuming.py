"""Resumable uploads: a file that comes in pieces, each durable before it is acknowledged (tus 1.0)."""

from __future__ import annotations

import hashlib
import math
import os
import sqlite3
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from mooring.files import records
from mooring.files.disk import completed, in_thread, sync_folder, to_its_end, write_all
from mooring.files.faults import BadUpload, FileFault, NotFound, WrongHash
from mooring.files.handles import new_id
from mooring.files.names import SNIFF_BYTES, safe_name, sniff
from mooring.files.quotas import too_large
from mooring.files.receiving import unhurried
from mooring.files.records import FileRecord
from mooring.files.store import FileStore
from mooring.files.upload_turns import UploadTurns

BLOCK_BYTES: Final = 1024 * 1024
_NONE: Final = "not found: there is no such upload; begin a new one"
_COLUMNS: Final = "id, scope, server, blob, name, sha256, length, expires, finished"


class WrongOffset(FileFault):
    """The piece does not begin where the last one ended."""

    status = 409


@dataclass(frozen=True, slots=True)
class Resumable:
    """An upload that has begun; `finished` is the handle of the complete file."""

    id: str
    scope: str
    server: str
    blob: str
    name: str
    sha256: str
    length: int
    expires: float
    finished: str = ""


class ResumableUploads:
    """The uploads of a gateway that are still coming, each a file in a folder of ours."""

    def __init__(self, store: FileStore, folder: Path) -> None:
        self._store = store
        self._folder = folder
        self._turns = UploadTurns()

    async def open(self) -> None:
        await in_thread(lambda: self._folder.mkdir(parents=True, exist_ok=True, mode=0o700))
        for upload in await self._store.database.read(_unfinished):
            self._store.usage.load(upload.scope, upload.server, "upload", upload.length, 1)

    async def create(self, scope: str, server: str, name: str, length: int, sha256: str) -> Resumable:
        """Begin an upload; its room is set aside now, so that it cannot fail for want of it at the end."""
        self._store.refuse_ended(scope)
        rule = self._store.rules.upload
        if length > rule.max_file_bytes:
            raise too_large(rule.max_file_bytes)
        identifier = new_id()
        expires = self._store.clock() + rule.ttl_seconds
        upload = Resumable(identifier, scope, server, identifier, safe_name(name), sha256, length, expires)
        await completed(self._begin(upload))
        return upload if length else await self._finish(upload)

    async def _begin(self, upload: Resumable) -> None:
        self._store.usage.add_file("upload", upload.scope, upload.server, upload.length)
        try:
            await in_thread(self._create, self._path(upload))
            await self._store.database.run(lambda connection: _insert(connection, upload))
        except BaseException:
            self._store.usage.remove_file("upload", upload.scope, upload.server, upload.length)
            raise

    def _create(self, path: Path) -> None:
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
        sync_folder(path.parent)

    async def find(self, identifier: str, scope: str, server: str) -> Resumable:
        self._store.refuse_ended(scope)
        upload = await self._store.database.read(lambda connection: _find(connection, identifier))
        if upload is None or upload.scope != scope or upload.server != server:
            raise NotFound(_NONE)
        if upload.expires <= self._store.clock():
            raise NotFound("not found: this upload has expired; begin a new one")
        return upload

    async def settled(self, identifier: str, scope: str, server: str) -> Resumable:
        """An upload when what came of it is put away. With its handle, if all of it came before a crash and
        only that was missing."""
        upload = await self.find(identifier, scope, server)  # whose it is comes before any wait for it
        if upload.finished or await self._turns.last(identifier) is not None:
            return upload
        upload = await self.find(identifier, scope, server)
        if upload.finished or identifier in self._turns or await self.offset(upload) < upload.length:
            return upload
        async with self._turns.take(identifier):
            upload = await self.find(identifier, scope, server)
            return upload if upload.finished else await self._finish(upload)

    async def kept(self, upload: Resumable) -> int:
        """How much of it a client need not send again: what is being written now may still be lost."""
        kept = self._turns.kept(upload.id)
        return await self.offset(upload) if kept is None else kept

    async def offset(self, upload: Resumable) -> int:
        if upload.finished:
            return upload.length
        try:
            return (await in_thread(os.stat, self._path(upload))).st_size
        except FileNotFoundError:  # it was completed, or removed, since it was found
            found = await self._store.database.read(lambda connection: _find(connection, upload.id))
            if found is None or not found.finished:
                raise NotFound(_NONE) from None
            return upload.length

    async def append(self, upload: Resumable, offset: int, body: AsyncIterator[bytes]) -> Resumable:
        """One more piece. What arrived before a break stays, and the client goes on from there."""
        async with self._turns.take(upload.id) as turn:
            await self._refuse_complete(upload)
            here = turn.kept = await self.offset(upload)
            if offset != here:
                raise WrongOffset(f"this upload stands at {here}, not at {offset}: go on there")
            try:
                await self._write(upload, here, turn.reading(unhurried(body)))
            finally:
                upload = await self._kept_on(upload)
            self._store.refuse_ended(upload.scope)
            return await self._finish(upload) if await self.offset(upload) == upload.length else upload

    async def _refuse_complete(self, upload: Resumable) -> None:
        """Its last piece may have come while this one waited for its turn."""
        found = await self._store.database.read(lambda connection: _find(connection, upload.id))
        if found is None:
            raise NotFound(_NONE)
        if found.finished:
            raise BadUpload("this upload is complete already")

    async def _kept_on(self, upload: Resumable) -> Resumable:
        """A piece came: there is as much time for the next one as there was for it."""
        later = replace(upload, expires=self._store.clock() + self._store.rules.upload.ttl_seconds)
        await self._store.database.run(lambda connection: _set_expiry(connection, later))
        return later

    async def _write(self, upload: Resumable, here: int, body: AsyncIterator[bytes]) -> None:
        descriptor = await in_thread(os.open, self._path(upload), os.O_WRONLY | os.O_APPEND)
        gathered: list[bytes] = []
        size = 0
        try:
            async for data in body:
                here += len(data)
                if here > upload.length:
                    raise BadUpload(f"this upload was announced with {upload.length} bytes; more came")
                gathered.append(data)
                size += len(data)
                if size >= BLOCK_BYTES:
                    # Let go of before it is written: whatever happens, no byte is written twice.
                    blocks, gathered, size = gathered, [], 0
                    await to_its_end(write_all, descriptor, blocks)
        finally:
            try:
                await to_its_end(write_all, descriptor, gathered)
                await to_its_end(os.fsync, descriptor)
            finally:
                os.close(descriptor)

    async def _finish(self, upload: Resumable) -> Resumable:
        try:
            return await self._finished(upload)
        except FileNotFoundError:  # its session ended just now, and took it along
            raise NotFound(_NONE) from None

    async def _finished(self, upload: Resumable) -> Resumable:
        path = self._path(upload)
        digest, head = await in_thread(_read_through, path)
        if upload.sha256 and digest != upload.sha256.lower():
            await self.remove(upload)
            raise WrongHash(f"`{upload.name}` has the SHA-256 {digest}, not the one announced: send it again")
        now = self._store.clock()
        record = FileRecord(
            id=upload.id,
            kind="upload",
            scope=upload.scope,
            server=upload.server,
            blob=upload.blob,
            name=upload.name,
            mime_type=sniff(head, upload.name),
            size=upload.length,
            sha256=digest,
            created=now,
            expires=now + self._store.rules.upload.ttl_seconds,
        )
        await self._store.storage.adopt(path, upload.blob)
        done = replace(upload, finished=record.uri)

        def mark(connection: sqlite3.Connection) -> None:
            if not _mark(connection, done):
                raise NotFound(_NONE)
            records.insert(connection, [record])

        try:
            await self._store.database.run(mark)
        except NotFound:
            await self._store.storage.delete([upload.blob])
            raise
        self._store.remember([record])
        # Only now: until the file has its name, a crash must find what was acknowledged.
        await in_thread(lambda: path.unlink(missing_ok=True))
        return done

    async def give_up(self, upload: Resumable) -> None:
        """The client does not want it any more, whatever has become of it."""
        async with self._turns.take(upload.id):
            await completed(self._give_up(upload))

    async def _give_up(self, upload: Resumable) -> None:
        removed = await self.remove(upload)
        if removed is not None and removed.finished:
            await self._store.remove(upload.id, "deleted")

    async def remove(self, upload: Resumable, expired: float | None = None) -> Resumable | None:
        """Forget it, or only if it has expired by then; what it was at that moment, and None if it was gone.

        Its room is given back by whoever removed it, once.
        """
        return await completed(self._remove(upload, math.inf if expired is None else expired))

    async def _remove(self, upload: Resumable, until: float) -> Resumable | None:
        removed = await self._store.database.run(lambda connection: _take(connection, upload.id, until))
        if removed is None:
            return None
        if not removed.finished:
            self._store.usage.remove_file("upload", removed.scope, removed.server, removed.length)
        await in_thread(lambda: self._path(removed).unlink(missing_ok=True))
        return removed

    async def sweep(self) -> None:
        """Forget what nobody finished in time."""
        now = self._store.clock()
        for upload in await self._store.database.read(lambda connection: _expired(connection, now)):
            if upload.id not in self._turns:
                await self.remove(upload, now)

    async def end_scope(self, scope: str) -> None:
        """Its session is over: what was still coming does not come any more."""
        for upload in await self._store.database.read(lambda connection: _unfinished(connection, scope)):
            await self.remove(upload)

    async def sweep_orphans(self, older_than: float) -> None:
        """Files that a crash left behind between writing them and writing down that they are there."""
        coming = {upload.id for upload in await self._store.database.read(_unfinished)}
        await in_thread(_sweep, self._folder, coming, older_than)

    def _path(self, upload: Resumable) -> Path:
        return self._folder / upload.id


def _sweep(folder: Path, known: set[str], older_than: float) -> None:
    for entry in list(os.scandir(folder)):
        with suppress(FileNotFoundError):  # it was completed meanwhile
            if entry.name not in known and entry.stat(follow_symlinks=False).st_mtime < older_than:
                Path(entry.path).unlink()


def _read_through(path: Path) -> tuple[str, bytes]:
    with path.open("rb") as file:
        head = file.read(SNIFF_BYTES)
        file.seek(0)
        return hashlib.file_digest(file, "sha256").hexdigest(), head


def _insert(connection: sqlite3.Connection, upload: Resumable) -> None:
    values = (
        *(upload.id, upload.scope, upload.server, upload.blob, upload.name, upload.sha256),
        *(upload.length, upload.expires, upload.finished),
    )
    connection.execute("INSERT INTO resumable VALUES (?,?,?,?,?,?,?,?,?)", values)


def _find(connection: sqlite3.Connection, identifier: str) -> Resumable | None:
    row = connection.execute(f"SELECT {_COLUMNS} FROM resumable WHERE id = ?", (identifier,)).fetchone()  # noqa: S608
    return None if row is None else Resumable(*tuple(row))


def _unfinished(connection: sqlite3.Connection, scope: str | None = None) -> list[Resumable]:
    """Those of one scope, or all."""
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM resumable WHERE finished = '' AND scope = coalesce(?, scope)",  # noqa: S608
        (scope,),
    )
    return [Resumable(*tuple(row)) for row in rows]


def _expired(connection: sqlite3.Connection, now: float) -> list[Resumable]:
    rows = connection.execute(f"SELECT {_COLUMNS} FROM resumable WHERE expires <= ?", (now,))  # noqa: S608
    return [Resumable(*tuple(row)) for row in rows]


def _mark(connection: sqlite3.Connection, upload: Resumable) -> bool:
    """Whether it is still there."""
    marked = connection.execute(
        "UPDATE resumable SET finished = ? WHERE id = ?", (upload.finished, upload.id)
    )
    return marked.rowcount == 1


def _set_expiry(connection: sqlite3.Connection, upload: Resumable) -> None:
    connection.execute("UPDATE resumable SET expires = ? WHERE id = ?", (upload.expires, upload.id))


def _take(connection: sqlite3.Connection, identifier: str, until: float) -> Resumable | None:
    """Remove an upload that has no time after this moment."""
    upload = _find(connection, identifier)
    if upload is None or upload.expires > until:
        return None
    connection.execute("DELETE FROM resumable WHERE id = ?", (identifier,))
    return upload
