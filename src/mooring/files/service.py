"""Everything about files in one gateway: the store, links, the adapters of each server, the clean-up."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from mooring.files.adapters import ToolFiles
from mooring.files.kept_sessions import KeptSessions
from mooring.files.links import Links
from mooring.files.middleware import FileAdapters
from mooring.files.records import FileRecord
from mooring.files.resuming import ResumableUploads
from mooring.files.scopes import Scopes
from mooring.files.server_files import ServerFiles
from mooring.files.store import FileStore
from mooring.files.views import Views

log = logging.getLogger(__name__)
SWEEP_SECONDS: Final = 10.0
ORPHAN_SECONDS: Final = 1800.0
"""How often expired files are removed, and how often we look for what a crash left behind."""


class FileService:
    """Runs from `start` to `close`."""

    def __init__(
        self, store: FileStore, links: Links, scopes: Scopes, views_folder: Path, idle_seconds: float
    ) -> None:
        self.store = store
        self.links = links
        self.scopes = scopes
        self.resumable = ResumableUploads(store, views_folder.parent / "resumable")
        self.adapters: dict[str, FileAdapters] = {}
        self._tools: dict[str, Mapping[str, ToolFiles]] = {}
        self._views_folder = views_folder
        self._cleaner: asyncio.Task[None] | None = None
        self.sessions = KeptSessions(store.database, scopes, idle_seconds)
        store.on_removed = self._removed
        store.on_ended = self.resumable.end_scope

    def adapters_for(
        self, files: ServerFiles, shared_directory: Path | None, mounted_at: str | None
    ) -> FileAdapters:
        """The middleware of one server."""
        self._tools[files.id] = files.tools
        self.store.result_ttl_seconds[files.id] = files.results.ttl_seconds
        root = shared_directory or self._views_folder
        views = Views(root, mounted_at, files.id, self.store, files.reach)
        made = self.adapters[files.id] = FileAdapters(
            files, self.store, views, self.links, self.scopes, self.sessions
        )
        return made

    def wired_tools(self, server: str) -> dict[str, ToolFiles]:
        """What the configuration says about the files of a server's tools, by the names that clients see."""
        if (adapters := self.adapters.get(server)) is None:
            return {}
        named = {adapters.shown(name): files for name, files in self._tools[server].items()}
        return {name: files for name, files in named.items() if name is not None}

    async def start(self) -> None:
        """Open the store, once; a gateway without adapters never does."""
        if self._cleaner is None:
            await self.store.open()
            await self.resumable.open()
            await self.sessions.open()
            self._cleaner = asyncio.get_running_loop().create_task(self._clean())

    @property
    def is_open(self) -> bool:
        return self._cleaner is not None

    async def close(self) -> None:
        if self._cleaner is not None:
            self._cleaner.cancel()
            await asyncio.wait([self._cleaner])
            await self.store.close()

    def leave(self) -> None:
        """The gateway ends, and with it every connection; what sessions have is for when it comes back."""
        for adapters in self.adapters.values():
            adapters.is_leaving = True

    def _removed(self, record: FileRecord) -> None:
        for adapters in self.adapters.values():
            adapters.forget(record)

    async def _clean(self) -> None:
        next_orphans = 0.0
        while True:
            now = time.monotonic()
            try:
                await self.store.sweep()
                await self.resumable.sweep()
                await self._end_unclaimed()
                if now >= next_orphans:
                    next_orphans = now + ORPHAN_SECONDS
                    await self._sweep_leftovers()
            except Exception:
                log.exception("cleaning up files failed; it will be tried again")
            await asyncio.sleep(min(SWEEP_SECONDS, self.store.rules.shortest_ttl_seconds))

    async def _end_unclaimed(self) -> None:
        for waiting in self.sessions.unclaimed():
            self.sessions.forget(waiting.scope)
            await self.store.end_scope(waiting.scope, "its session ended")
            if (adapters := self.adapters.get(waiting.server)) is not None:
                await adapters.views.drop(waiting.scope)

    async def _sweep_leftovers(self) -> None:
        await self.store.sweep_orphans()
        grace = time.time() - self.store.rules.orphan_grace_seconds
        await self.resumable.sweep_orphans(grace)
        for adapters in list(self.adapters.values()):
            await adapters.sweep_views(grace)
