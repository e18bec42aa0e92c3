"""What a workload sees of our files: one directory per server and scope, with what goes in and what comes
out.

    <root>/<server>/<view>/in/<file>/<name>     a copy of an upload, so that a tool cannot change the original
    <root>/<server>/<view>/out/<call>/<name>    where the tools of one call may write
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Final
from urllib.parse import quote

from mooring.files.disk import in_thread
from mooring.files.handles import new_id
from mooring.files.records import FileRecord
from mooring.files.store import FileStore

_VIEW: Final = re.compile(r"[0-9a-z-]{1,64}")
Seen = tuple[int, int]


class Views:
    """The views of one server."""

    def __init__(
        self, root: Path, mounted_at: str | None, server_id: str, store: FileStore, *, shared: bool
    ) -> None:
        self._root = root.resolve() / server_id
        self._mounted = PurePosixPath(mounted_at or str(root.resolve())) / server_id
        self._store = store
        self._mode = 0o777 if shared else 0o700
        self._made: dict[tuple[str, str], Seen] = {}
        self._making: dict[tuple[str, str], asyncio.Lock] = {}

    def folder(self, view: str) -> Path:
        """The directory of a view, on our side."""
        assert _VIEW.fullmatch(view), "views have names of our own"
        return self._root / view

    def shown(self, path: Path) -> str:
        """A path of ours as the workload sees it."""
        return str(self._mounted / path.relative_to(self._root))

    def on_our_side(self, shown: str) -> Path | None:
        """A path as the workload wrote it, on our side; nothing if it is not below our views."""
        if not shown.startswith(f"{self._mounted}/"):
            return None
        return self._root / shown[len(str(self._mounted)) + 1 :]

    async def prepare(self, view: str) -> Path:
        folder = self.folder(view)
        await in_thread(self._prepare, folder)
        return folder

    def _prepare(self, folder: Path) -> None:
        self._root.mkdir(parents=True, exist_ok=True)
        for part in (folder, folder / "in", folder / "out"):
            part.mkdir(exist_ok=True)
            part.chmod(self._mode)

    async def place(self, record: FileRecord, view: str) -> Path:
        """The file's own copy in this view, made when it is first needed or was changed since."""
        key = (view, record.id)
        target = self.folder(view) / "in" / record.id / record.name
        # One look at a directory of ours costs less than asking a thread.
        if (seen := _seen(target)) is not None and seen == self._made.get(key):
            return target
        lock = self._making.setdefault(key, asyncio.Lock())
        try:
            async with lock:
                if (seen := _seen(target)) is None or seen != self._made.get(key):
                    await self.prepare(view)
                    self._made[key] = await self._copy(record, target)
                return target
        finally:
            if not lock.locked():
                self._making.pop(key, None)

    async def _copy(self, record: FileRecord, target: Path) -> Seen:
        temporary = target.parent / f".{new_id()}"
        await in_thread(lambda: target.parent.mkdir(exist_ok=True))
        source = self._store.storage.path(record.blob)
        if source is not None:
            await in_thread(shutil.copyfile, source, temporary)
        else:
            await self._download(record, temporary)
        return await in_thread(_settle, temporary, target, 0o666 if self._mode == 0o777 else 0o600)

    async def _download(self, record: FileRecord, temporary: Path) -> None:
        descriptor = await in_thread(os.open, temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            async for block in self._store.read(record):
                await in_thread(os.write, descriptor, block)
        finally:
            os.close(descriptor)

    async def fresh_output(self, view: str) -> Path:
        """A new empty directory that belongs to one call."""
        folder = self.folder(view)
        target = folder / "out" / new_id()
        await in_thread(self._make_output, folder, target)
        return target

    def _make_output(self, folder: Path, target: Path) -> None:
        try:
            target.mkdir()
        except FileNotFoundError:  # the first call in this view
            self._prepare(folder)
            target.mkdir()
        target.chmod(self._mode)

    async def discard(self, folder: Path) -> None:
        """Remove the directory of a call with whatever is left in it; links are removed, never followed."""
        await in_thread(_remove, folder)

    def forget(self, record: FileRecord) -> None:
        """The file is gone; so are its copies."""
        for view, identifier in [key for key in self._made if key[1] == record.id]:
            self._made.pop((view, identifier), None)
            with suppress(OSError):
                _remove(self.folder(view) / "in" / identifier)

    async def drop(self, view: str) -> None:
        """The scope has ended, and with it what its workload could see."""
        for key in [key for key in self._made if key[0] == view]:
            del self._made[key]
        await in_thread(_remove, self.folder(view))

    async def sweep(self, is_alive: Callable[[str], bool], older_than: float) -> None:
        """Remove views that nobody has touched for long: left over from before a restart."""
        await in_thread(self._sweep, is_alive, older_than)

    def _sweep(self, is_alive: Callable[[str], bool], older_than: float) -> None:
        with suppress(FileNotFoundError):
            for entry in os.scandir(self._root):
                if _VIEW.fullmatch(entry.name) and not is_alive(entry.name) and _newest(entry) < older_than:
                    _remove(Path(entry.path))


def file_uri(path: str) -> str:
    return "file://" + quote(path)


def _newest(entry: os.DirEntry[str]) -> float:
    newest = 0.0
    for name in ("", "in", "out"):
        with suppress(OSError):
            newest = max(newest, os.lstat(Path(entry.path) / name).st_mtime)
    return newest or time.time()


def _seen(path: Path) -> Seen | None:
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino


def _settle(temporary: Path, target: Path, mode: int) -> Seen:
    temporary.chmod(mode)
    temporary.replace(target)
    found = target.lstat()
    return found.st_mtime_ns, found.st_ino


def _remove(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)
