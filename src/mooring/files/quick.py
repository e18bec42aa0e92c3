"""The short way: the few small files of a call become artifacts in one visit to a thread.

A change of thread costs as much as writing a small file, and the long way makes seven. Bytes that are few
stand in the same row as what is known of them: then there is one write to wait for, not three. Whatever is
unusual in a folder is left to the long way, which looks closer and says what is wrong.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mooring.files import records
from mooring.files.confinement import FILE_FLAGS, FOLDER_FLAGS
from mooring.files.disk import in_syncing_thread
from mooring.files.handles import new_id
from mooring.files.local_storage import LocalStorage
from mooring.files.names import SNIFF_BYTES, safe_name, sniff, with_extension
from mooring.files.quotas import too_large
from mooring.files.records import FileRecord
from mooring.files.store import FileStore

MOST_FILES: Final = 8
MOST_BYTES: Final = 256 * 1024
ROW_BYTES: Final = 64 * 1024
"""What fits into a row; more is a file of its own."""


@dataclass(frozen=True, slots=True)
class Small:
    """A file that was read whole."""

    name: str
    data: bytes


@dataclass(frozen=True, slots=True)
class Kept:
    """What a folder held, as artifacts: the names of the files, and what became of each."""

    names: list[str]
    made: list[FileRecord]


class QuickKeeper:
    """Makes artifacts of small files, where bytes are kept on a disk of ours."""

    def __init__(self, store: FileStore) -> None:
        self._store = store
        self._storage = store.storage if isinstance(store.storage, LocalStorage) else None

    async def keep(
        self, folder: Path, scope: str, server: str, *, exposed: bool, tidy: Callable[[list[str]], None]
    ) -> Kept | None:
        """Keep what is in the folder, then `tidy` it; None if that is for the long way."""
        storage = self._storage
        if storage is None:
            return None
        self._store.refuse_ended(scope)

        def work() -> Kept | None:
            found = small_files(folder)
            if not found:
                return None if found is None else Kept([], [])
            made = self._commit(storage, found, scope, server, exposed=exposed)
            names = [file.name for file in found]
            tidy(names)
            return Kept(names, made)

        kept = await in_syncing_thread(work)
        if kept is not None:
            self._store.remember(kept.made)
        return kept

    def _commit(
        self, storage: LocalStorage, files: list[Small], scope: str, server: str, *, exposed: bool
    ) -> list[FileRecord]:
        counted: list[FileRecord] = []
        few: dict[str, bytes] = {}
        try:
            for file in files:
                record = self._record(file, scope, server, exposed=exposed)
                self._store.usage.add_artifact(scope, server, record.size)
                counted.append(record)
                if record.blob:
                    storage.write_now(record.blob, file.data)
                else:
                    few[record.id] = file.data
            self._store.refuse_ended(scope)
            self._store.database.run_here(lambda connection: records.insert(connection, counted, few))
        except BaseException:
            for record in counted:
                self._store.usage.remove_artifact(scope, server, record.size)
                if record.blob:
                    storage.remove_now(record.blob)
            raise
        return counted

    def _record(self, file: Small, scope: str, server: str, *, exposed: bool) -> FileRecord:
        rule, size = self._store.rules.of("artifact"), len(file.data)
        if size > rule.max_file_bytes:
            raise too_large(rule.max_file_bytes)
        name = safe_name(file.name, "artifact")
        mime_type = sniff(file.data[:SNIFF_BYTES], name)
        identifier, now = new_id(), self._store.clock()
        return FileRecord(
            id=identifier,
            kind="artifact",
            scope=scope,
            server=server,
            blob=identifier if size > ROW_BYTES else "",
            name=with_extension(name, mime_type),
            mime_type=mime_type,
            size=size,
            sha256=hashlib.sha256(file.data).hexdigest(),
            created=now,
            expires=now + rule.ttl_seconds,
            exposed=exposed,
        )


def small_files(folder: Path) -> list[Small] | None:
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
        if not is_ordinary or before.st_size > MOST_BYTES:
            return None
        data = os.read(descriptor, MOST_BYTES + 1)
        after = os.fstat(descriptor)
        is_same = (after.st_size, after.st_mtime_ns) == (before.st_size, before.st_mtime_ns)
        return Small(name, data) if is_same and len(data) == before.st_size else None
    finally:
        os.close(descriptor)
