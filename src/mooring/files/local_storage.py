"""Blobs in a directory: written under `incoming`, synced, renamed into `blobs`."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
import stat
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Final

from mooring.files.disk import (
    begin_sync,
    in_syncing_thread,
    in_thread,
    submit,
    sync_file,
    sync_folder,
    translated,
)
from mooring.files.names import SNIFF_BYTES

BLOCK_BYTES: Final = 1024 * 1024
"""How much is gathered before a thread writes it: small enough to be fair, large enough to be fast."""
SYNC_BYTES: Final = 32 * 1024 * 1024
"""How much is written before the disk is asked to take it: the end of a large file is then no long wait."""
SWEEP_BATCH: Final = 500


class LocalStorage:
    """A directory that is ours alone."""

    def __init__(self, folder: Path) -> None:
        self._blobs = folder / "blobs"
        self._incoming = folder / "incoming"

    async def open(self) -> None:
        await in_thread(self._prepare)

    def _prepare(self) -> None:
        for folder in (self._blobs, self._incoming):
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        for digit in "0123456789abcdef":
            (self._blobs / digit).mkdir(exist_ok=True, mode=0o700)

    async def close(self) -> None:
        """Nothing is held open."""

    async def create(self, blob: str) -> LocalWriter:
        return LocalWriter(self._incoming / blob, self._path(blob))

    async def settle(self, blobs: Sequence[str]) -> None:
        """Many at a time: the disk makes those durable together that wait for it together."""
        paths = [self._path(blob) for blob in blobs]
        if len(paths) == 1:
            await in_syncing_thread(_sync_both, paths[0])
            return
        await asyncio.gather(*(in_syncing_thread(sync_file, path) for path in paths))
        folders = {path.parent for path in paths}
        await asyncio.gather(*(in_syncing_thread(sync_folder, folder) for folder in folders))

    async def adopt(self, path: Path, blob: str) -> None:
        await in_thread(self._adopt, path, blob)

    def _adopt(self, path: Path, blob: str) -> None:
        sync_file(path)
        target = self._path(blob)
        target.unlink(missing_ok=True)  # from a time before a crash
        try:
            target.hardlink_to(path)
        except OSError:  # another file system, or one without links
            temporary = self._incoming / blob
            shutil.copyfile(path, temporary)
            sync_file(temporary)
            temporary.replace(target)
        sync_folder(target.parent)

    def _path(self, blob: str) -> Path:
        return self._blobs / blob[0] / blob

    def path(self, blob: str) -> Path | None:
        return self._path(blob)

    async def read(self, blob: str, start: int, stop: int) -> AsyncIterator[bytes]:
        descriptor = await in_thread(os.open, self._path(blob), os.O_RDONLY | os.O_CLOEXEC)
        ahead = submit(os.pread, descriptor, min(BLOCK_BYTES, stop - start), start)
        try:
            while start < stop:
                data = await asyncio.shield(ahead)
                if not data:
                    raise FileNotFoundError(f"blob {blob} is shorter than its record says")
                start += len(data)
                ahead = submit(os.pread, descriptor, min(BLOCK_BYTES, stop - start), start)
                yield data
        finally:
            # A thread may still be reading: the number must not belong to another file by then.
            ahead.add_done_callback(lambda _: os.close(descriptor))

    async def delete(self, blobs: Iterable[str]) -> None:
        await in_thread(self._delete, list(blobs))

    def _delete(self, blobs: list[str]) -> None:
        for blob in blobs:
            self._path(blob).unlink(missing_ok=True)

    async def sweep(self, is_known: Callable[[list[str]], set[str]], older_than: float) -> int:
        return await in_thread(self._sweep, is_known, older_than)

    def _sweep(self, is_known: Callable[[list[str]], set[str]], older_than: float) -> int:
        swept = 0
        for folder in (self._incoming, *sorted(self._blobs.iterdir())):
            old = [entry.name for entry in os.scandir(folder) if _is_old(entry, older_than)]
            for begin in range(0, len(old), SWEEP_BATCH):
                batch = old[begin : begin + SWEEP_BATCH]
                for name in set(batch) - is_known(batch):
                    (folder / name).unlink(missing_ok=True)
                    swept += 1
        return swept


def _sync_both(path: Path) -> None:
    sync_file(path)
    sync_folder(path.parent)


def _is_old(entry: os.DirEntry[str], older_than: float) -> bool:
    try:
        found = entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return False
    return stat.S_ISREG(found.st_mode) and found.st_mtime < older_than


class LocalWriter:
    """While a thread writes and hashes one block, the next one gathers here; never more than that."""

    def __init__(self, temporary: Path, target: Path) -> None:
        self.head = b""
        self.size = 0
        self._descriptor = -1
        self._temporary = temporary
        self._target = target
        self._hash = hashlib.sha256()
        self._gathered: list[bytes] = []
        self._gathered_bytes = 0
        self._writing: asyncio.Future[None] | None = None
        self._syncing: Future[None] | None = None
        self._unsynced = 0

    async def write(self, data: bytes) -> None:
        if len(self.head) < SNIFF_BYTES:
            self.head += bytes(data[: SNIFF_BYTES - len(self.head)])
        self.size += len(data)
        self._gathered.append(data)
        self._gathered_bytes += len(data)
        if self._gathered_bytes >= BLOCK_BYTES:
            await self._pass_on()

    async def _pass_on(self) -> None:
        await self._settle()
        blocks, self._gathered, self._gathered_bytes = self._gathered, [], 0
        self._writing = submit(self._write, blocks)

    async def _settle(self) -> None:
        if self._writing is not None:
            with translated():
                await asyncio.shield(self._writing)
            self._writing = None  # not before: who is cancelled here must still wait for the thread

    def _write(self, blocks: list[bytes]) -> None:
        if self._descriptor < 0:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
            self._descriptor = os.open(self._temporary, flags, 0o600)
        for block in blocks:
            left = memoryview(block)
            while left:
                left = left[os.write(self._descriptor, left) :]
            self._hash.update(block)
            self._unsynced += len(block)
        if self._unsynced >= SYNC_BYTES and (self._syncing is None or self._syncing.done()):
            self._await_sync()
            self._syncing = begin_sync(self._descriptor)
            self._unsynced = 0

    def _await_sync(self) -> None:
        """A disk that fails says so only once: whoever asked has to hear it."""
        syncing, self._syncing = self._syncing, None
        if syncing is not None:
            syncing.result()

    async def finish(self) -> str:
        await self._settle()
        blocks, self._gathered, self._gathered_bytes = self._gathered, [], 0
        self._writing = submit(self._finish, blocks)
        await self._settle()
        return self._hash.hexdigest()

    def _finish(self, blocks: list[bytes]) -> None:
        self._write(blocks)
        self._await_sync()
        os.close(self._descriptor)
        self._descriptor = -1
        self._temporary.replace(self._target)

    async def abandon(self) -> None:
        writing, self._writing = self._writing, None
        if writing is not None:
            await asyncio.wait([writing])
            writing.exception()
        await in_thread(self._abandon)

    def _abandon(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        self._temporary.unlink(missing_ok=True)
        self._target.unlink(missing_ok=True)
