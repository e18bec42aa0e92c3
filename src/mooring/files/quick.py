"""The short way: the few small files of a call become artifacts in one visit to the database's thread.

A change of thread costs as much as writing a small file. Bytes that are few stand in the same row as what is
known of them: then there is one write to wait for, which many calls share. Whatever is unusual in a folder is
left to the long way, which looks closer and says what is wrong.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
import sqlite3
import stat
from dataclasses import dataclass
from typing import Final

from mooring.files import records
from mooring.files.confinement import FILE_FLAGS, FOLDER_FLAGS
from mooring.files.disk import submit, translated
from mooring.files.handles import new_id
from mooring.files.local_storage import LocalStorage
from mooring.files.names import SNIFF_BYTES, safe_name, sniff, with_extension
from mooring.files.quotas import too_large
from mooring.files.records import FileRecord
from mooring.files.store import FileStore
from mooring.files.views import Views

MOST_FILES: Final = 8
ROW_BYTES: Final = 256 * 1024
"""What fits into a row; more is a file of its own."""


@dataclass(frozen=True, slots=True)
class Small:
    """A file that was read whole."""

    name: str
    data: bytes


class QuickKeeper:
    """Makes artifacts of small files, where bytes are kept on a disk of ours."""

    def __init__(self, store: FileStore, views: Views) -> None:
        self._store = store
        self._views = views
        self._is_local = isinstance(store.storage, LocalStorage)

    async def keep(
        self, folder: str, view: str, scope: str, server: str, *, exposed: bool
    ) -> tuple[list[str], list[FileRecord]] | None:
        """Keep what is in the folder of a call, and give the folder back.

        The names of the files and what became of each; None if there is none, or that is for the long way.
        """
        if not self._is_local:
            return None
        store = self._store
        store.refuse_ended(scope)
        keeping = _Keeping(store, self._views, folder, view, scope, server, exposed=exposed)
        if self._views.is_foreign:  # whoever runs that disk must not keep the database waiting
            await _looked(keeping)
        await store.database.run(keeping, keeping.settled)
        return (keeping.names, keeping.made) if keeping.made else None


async def _looked(keeping: _Keeping) -> None:
    """Look in another thread; a look that somebody gave up is undone when it has ended."""
    looking = submit(keeping.look)
    try:
        with translated():
            await asyncio.shield(looking)
    except asyncio.CancelledError:
        await asyncio.wait([looking])
        looking.exception()
        keeping.forget()
        raise


class _Keeping:
    """One folder on its way into the database."""

    def __init__(
        self,
        store: FileStore,
        views: Views,
        folder: str,
        view: str,
        scope: str,
        server: str,
        *,
        exposed: bool,
    ) -> None:
        self._store = store
        self._views = views
        self._folder = folder
        self._view = view
        self._scope = scope
        self._server = server
        self._exposed = exposed
        self._data: list[bytes] | None = None
        self.names: list[str] = []
        self.made: list[FileRecord] = []

    def __call__(self, connection: sqlite3.Connection) -> None:
        if self._data is None:
            self.look()
        if self.made and self._data is not None:
            self._store.refuse_ended(self._scope)
            records.insert(connection, self.made, self._data)

    def look(self) -> None:
        """Read, count and remove what is there."""
        found = small_files(self._folder)
        self._data = [] if found is None else [file.data for file in found]
        if not found:
            return
        try:
            for file in found:
                record = self._record(file)
                self._store.usage.add_artifact(self._scope, self._server, record.size)
                self.made.append(record)
        except BaseException:
            self._data = None  # nothing was taken: whoever looks again begins anew
            self.forget()
            raise
        self.names = [file.name for file in found]
        self._views.tidy(self._view, self._folder, self.names)

    def settled(self, error: Exception | None) -> None:
        if error is None:
            self._store.remember(self.made)
        else:
            self.forget()

    def forget(self) -> None:
        """None of it counts any more."""
        made, self.made = self.made, []
        for record in made:
            self._store.usage.remove_artifact(self._scope, self._server, record.size)

    def _record(self, file: Small) -> FileRecord:
        rule, size = self._store.rules.artifact, len(file.data)
        if size > rule.max_file_bytes:
            raise too_large(rule.max_file_bytes)
        name = safe_name(file.name, "artifact")
        mime_type = sniff(file.data[:SNIFF_BYTES], name)
        now = self._store.clock()
        return FileRecord(
            id=new_id(),
            kind="artifact",
            scope=self._scope,
            server=self._server,
            blob="",
            name=with_extension(name, mime_type),
            mime_type=mime_type,
            size=size,
            sha256=hashlib.sha256(file.data).hexdigest(),
            created=now,
            expires=now + rule.ttl_seconds,
            exposed=self._exposed,
        )


def small_files(folder: str) -> list[Small] | None:
    """What is in a folder, if it is nothing but a few small ordinary files that nobody writes to just now."""
    try:
        opened = os.open(folder, FOLDER_FLAGS)
    except OSError:
        return None
    try:
        names = sorted(os.listdir(opened))  # noqa: PTH208 - what was opened, whatever stands there now
        if len(names) > MOST_FILES:
            return None
        device = os.fstat(opened).st_dev
        found = [_read(name, opened, device) for name in names]
    finally:
        os.close(opened)
    whole = [file for file in found if file is not None]
    return whole if len(whole) == len(found) else None


def _read(name: str, folder: int, device: int) -> Small | None:
    try:
        descriptor = os.open(name, FILE_FLAGS, dir_fd=folder)
    except OSError:
        return None
    try:
        before = os.fstat(descriptor)
        is_ordinary = stat.S_ISREG(before.st_mode) and before.st_nlink == 1 and before.st_dev == device
        if not is_ordinary or before.st_size > ROW_BYTES:
            return None
        data = os.read(descriptor, before.st_size + 1)  # no more: room for it is taken from the system first
        after = os.fstat(descriptor)
        is_same = (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)
        return Small(name, data) if is_same and len(data) == before.st_size else None
    finally:
        os.close(descriptor)
