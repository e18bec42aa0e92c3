"""What a workload sees of our files: one directory per server and scope, with what goes in and what comes
out.

    <root>/<server>/<view>/in/<file>/<name>     a copy of an upload, so that a tool cannot change the original
    <root>/<server>/<view>/out/<call>/<name>    where the tools of one call may write

A process in a sandbox sees its own view and no other: `in`, which it cannot write, and `out`, below a folder
that is called the same in every sandbox. A process without a sandbox sees the whole machine, and a server
that shares a folder with us the whole folder: there the path says which view is meant.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from enum import Enum
from pathlib import Path, PurePosixPath
from typing import Final
from urllib.parse import quote

from mooring.files.disk import in_thread, to_its_end, write_all
from mooring.files.handles import new_id
from mooring.files.records import FileRecord
from mooring.files.scopes import SHARED_VIEW
from mooring.files.store import FileStore
from mooring.transports.dialing import Folders, SharedFolder

BOUND_AT: Final = "/files"
"""Where a sandbox sees its view, unless `files.mounted_at` says otherwise."""
_VIEW: Final = re.compile(r"[0-9a-z-]{1,64}")
_SWEPT: Final = re.compile(rf"[0-9a-f]{{32}}|{SHARED_VIEW}")
"""What we called a view ourselves: in a folder that others share there may be anything beside."""
Seen = tuple[int, int]
_NOTHING: Final[dict[str, tuple[str, Seen]]] = {}


class Reach(Enum):
    """Who sees the folder of a server's views."""

    OURS = "ours"
    """Processes of ours, with our rights: each is told the paths of its own view."""
    SHARED = "shared"
    """A server that runs elsewhere, or as somebody else: everybody may write there."""
    BOUND = "bound"
    """Sandboxes, each of which has its own view at the same place."""


class Views:
    """The views of one server."""

    def __init__(
        self, root: Path, mounted_at: str | None, server_id: str, store: FileStore, reach: Reach
    ) -> None:
        self._root = root.resolve() / server_id
        self._bound = reach is Reach.BOUND
        self.is_foreign = reach is Reach.SHARED
        """Somebody else's disk may hold these files."""
        if self._bound:
            self._mounted = PurePosixPath(mounted_at or BOUND_AT)
        else:
            self._mounted = PurePosixPath(mounted_at or str(root.resolve())) / server_id
        self._store = store
        self._ours = str(self._root)
        self._theirs = str(self._mounted)
        # Whoever is in a container may be anybody there. Nobody else gets past the folder around it.
        self._mode = 0o700 if reach is Reach.OURS else 0o777
        self._made: dict[str, dict[str, tuple[str, Seen]]] = {}
        self._making: dict[tuple[str, str], asyncio.Lock] = {}
        self._spare: dict[str, str] = {}

    def folder(self, view: str) -> Path:
        """The directory of a view, on our side."""
        assert _VIEW.fullmatch(view), "views have names of our own"
        return self._root / view

    def shown(self, path: Path | str) -> str:
        """A path of ours as the workload sees it."""
        below = str(path).removeprefix(self._ours)
        assert below[0] == "/", "only what is in a view is shown"
        return f"{self._theirs}{below[below.index('/', 1) :] if self._bound else below}"

    def on_our_side(self, shown: str, view: str) -> Path | None:
        """A path as a workload that sees this view wrote it, on our side; nothing if it is in none."""
        if not shown.startswith(f"{self._mounted}/"):
            return None
        start = self.folder(view) if self._bound else self._root
        return start / shown[len(str(self._mounted)) + 1 :]

    async def folders(self, view: str) -> Folders:
        """What a sandbox sees of this view: its uploads to read, and where to write."""
        folder = await self.prepare(view)
        inside = Path(self._mounted)
        return (
            SharedFolder(folder / "in", inside / "in", writable=False),
            SharedFolder(folder / "out", inside / "out", writable=True),
        )

    async def prepare(self, view: str) -> Path:
        folder = self.folder(view)
        await in_thread(self._prepare, folder)
        return folder

    def _prepare(self, folder: Path) -> None:
        self._root.mkdir(parents=True, exist_ok=True)
        if self._bound:
            self._root.chmod(0o700)
        for part in (folder, folder / "in", folder / "out"):
            part.mkdir(exist_ok=True)
            part.chmod(self._mode)
        os.utime(folder)  # it is in use: not to be swept away

    def placed(self, record: FileRecord, view: str) -> str | None:
        """Where the file's copy in this view is, if there is one and nobody has changed it.

        One look at a directory of ours costs less than asking a thread.
        """
        made = self._made.get(view, _NOTHING).get(record.id)
        return made[0] if made is not None and _seen(made[0]) == made[1] else None

    async def place(self, record: FileRecord, view: str) -> str:
        """The file's own copy in this view, made when it is first needed or was changed since."""
        if (placed := self.placed(record, view)) is not None:
            return placed
        key = (view, record.id)
        target = self.folder(view) / "in" / record.id / record.name
        lock = self._making.setdefault(key, asyncio.Lock())
        try:
            async with lock:
                if self.placed(record, view) is None:
                    await self.prepare(view)
                    copied = await self._copy(record, target)
                    self._made.setdefault(view, {})[record.id] = str(target), copied
                return str(target)
        finally:
            if not lock.locked():
                self._making.pop(key, None)

    async def _copy(self, record: FileRecord, target: Path) -> Seen:
        temporary = target.parent / f".{new_id()}"
        await in_thread(lambda: target.parent.mkdir(exist_ok=True))
        source = self._store.path(record)
        try:
            if source is not None:
                await in_thread(shutil.copyfile, source, temporary)
            else:
                await self._download(record, temporary)
            return await in_thread(_settle, temporary, target, 0o666 if self._mode == 0o777 else 0o600)
        except BaseException:  # part of a file is in nobody's books, and in the workload's view
            await asyncio.shield(in_thread(lambda: temporary.unlink(missing_ok=True)))
            raise

    async def _download(self, record: FileRecord, temporary: Path) -> None:
        descriptor = await in_thread(os.open, temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            async for block in self._store.read(record):
                await to_its_end(write_all, descriptor, [block])
        finally:
            os.close(descriptor)

    async def fresh_output(self, view: str) -> str:
        """A new empty directory that belongs to one call."""
        spare = self._spare.pop(view, None)
        if spare is not None and _is_empty(spare):
            return spare
        return await in_thread(self._make_output, self.folder(view))

    def _make_output(self, folder: Path) -> str:
        target = folder / "out" / new_id()
        try:
            target.mkdir()
        except FileNotFoundError:  # the first call in this view
            self._prepare(folder)
            target.mkdir()
        target.chmod(self._mode)
        return str(target)

    def tidy(self, view: str, folder: str, names: list[str]) -> None:
        """Blocking: empty the directory of a call that has these files, and have one ready for the next.

        Under another name: whatever writes to the old one later does not get into another call.
        """
        try:
            for name in names:
                os.unlink(f"{folder}/{name}")  # noqa: PTH108 - as strings: many calls come here
            if view in self._spare:
                os.rmdir(folder)  # noqa: PTH106
            else:
                spare = f"{folder[: folder.rindex('/')]}/{new_id()}"
                os.rename(folder, spare)  # noqa: PTH104
                self._spare[view] = spare
        except OSError:  # something came late, or the session has ended, and the view with it
            _remove(folder)

    async def discard(self, folder: str) -> None:
        """Remove the directory of a call with whatever is left in it; links are removed, never followed."""
        await in_thread(_remove, folder)

    def forget(self, record: FileRecord) -> None:
        """The file is gone; so are its copies."""
        view = record.scope  # a handle works in the view of its scope, and in no other
        if self._made.get(view, _NOTHING).pop(record.id, None) is not None:
            _remove(self.folder(view) / "in" / record.id)

    async def drop(self, view: str) -> None:
        """The scope has ended, and with it what its workload could see."""
        self._made.pop(view, None)
        self._spare.pop(view, None)
        await in_thread(_remove, self.folder(view))

    @staticmethod
    def view_of(folder: SharedFolder) -> str:
        """Which view a sandbox sees."""
        return folder.host.parent.name

    async def sweep(self, is_alive: Callable[[str], bool], older_than: float) -> None:
        """Remove views that nobody has touched for long: left over from before a restart."""
        await in_thread(self._sweep, is_alive, older_than)

    def _sweep(self, is_alive: Callable[[str], bool], older_than: float) -> None:
        with suppress(FileNotFoundError):
            for entry in os.scandir(self._root):
                if _SWEPT.fullmatch(entry.name) and not is_alive(entry.name) and _newest(entry) < older_than:
                    _remove(Path(entry.path))


def file_uri(path: str) -> str:
    return "file://" + quote(path)


def _newest(entry: os.DirEntry[str]) -> float:
    newest = 0.0
    for name in ("", "in", "out"):
        with suppress(OSError):
            newest = max(newest, os.lstat(Path(entry.path) / name).st_mtime)
    return newest or time.time()


def _is_empty(folder: str) -> bool:
    try:
        return not os.listdir(folder)  # noqa: PTH208 - a question that a thread would cost more than
    except OSError:
        return False


def _seen(path: str) -> Seen | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino


def _settle(temporary: Path, target: Path, mode: int) -> Seen:
    temporary.chmod(mode)
    temporary.replace(target)
    found = target.lstat()
    return found.st_mtime_ns, found.st_ino


def _remove(folder: Path | str) -> None:
    shutil.rmtree(folder, ignore_errors=True)
