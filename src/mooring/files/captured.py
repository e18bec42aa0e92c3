"""From what a tool left behind to artifacts: copied while nobody can change what is hashed, finalised in one
step."""

from __future__ import annotations

import asyncio
import base64
import binascii
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mooring.files.confinement import NotCapturable, open_confined
from mooring.files.disk import in_thread
from mooring.files.incoming import Incoming, abandon_all
from mooring.files.names import safe_name
from mooring.files.records import FileRecord
from mooring.files.store import FileStore

BLOCK_BYTES: Final = 1024 * 1024
SETTLE_TRIES: Final = 5
SETTLE_SECONDS: Final = 0.2
"""A file that is still being written is looked at again a few times, this far apart."""


@dataclass(frozen=True, slots=True)
class OnDisk:
    """A file below the folder it must be in."""

    folder: Path
    path: Path


@dataclass(frozen=True, slots=True)
class Embedded:
    """Bytes that stood in the result itself."""

    name: str
    data: bytes
    mime_type: str = ""


Source = OnDisk | Embedded


@dataclass(frozen=True, slots=True)
class Owner:
    """For whom a file is captured."""

    scope: str
    server: str


class Capturer:
    """Makes artifacts of what tools left behind."""

    def __init__(self, store: FileStore) -> None:
        self._store = store

    async def capture(self, sources: list[Source], owner: Owner, *, exposed: bool) -> list[FileRecord]:
        """All of these files become artifacts, or none of them."""
        taken: list[Incoming] = []
        try:
            for source in sources:
                taken.append(await self._take(source, owner))  # noqa: PERF401 - those before are needed below
            return await self._store.commit(taken, exposed=exposed)
        except BaseException:
            await abandon_all(taken)
            raise

    async def _take(self, source: Source, owner: Owner) -> Incoming:
        """Copy one file. If it changes meanwhile, the copy is thrown away and made anew: never a mixture."""
        for _ in range(SETTLE_TRIES):
            file = await self._begin(source, owner)
            try:
                if isinstance(source, Embedded):
                    await file.write(source.data)
                elif not await _copy(source, file):
                    await file.abandon()
                    await asyncio.sleep(SETTLE_SECONDS)
                    continue
                await file.finish()
            except BaseException:
                await file.abandon()
                raise
            return file
        raise NotCapturable("it was still being written")

    async def _begin(self, source: Source, owner: Owner) -> Incoming:
        name = source.path.name if isinstance(source, OnDisk) else source.name
        file = await self._store.begin("artifact", owner.scope, owner.server, safe_name(name, "artifact"))
        if isinstance(source, Embedded):
            file.mime_type = source.mime_type
        return file


async def _copy(source: OnDisk, file: Incoming) -> bool:
    """Whether the file stayed the same while it was copied."""
    small = await in_thread(_read_small, source)
    if small is not None:
        await file.write(small)
        return True
    descriptor = await in_thread(open_confined, source.folder, source.path)
    try:
        before = _shape(descriptor)
        position = 0
        while data := await in_thread(os.pread, descriptor, BLOCK_BYTES, position):
            await file.write(data)
            position += len(data)
        return _shape(descriptor) == before and position == before[0]
    finally:
        os.close(descriptor)


def _read_small(source: OnDisk) -> bytes | None:
    """A file that is read in one go, if it is small and nobody writes to it."""
    descriptor = open_confined(source.folder, source.path)
    try:
        before = _shape(descriptor)
        if before[0] >= BLOCK_BYTES:
            return None
        data = os.pread(descriptor, BLOCK_BYTES, 0)
        return data if _shape(descriptor) == before and len(data) == before[0] else None
    finally:
        os.close(descriptor)


def _shape(descriptor: int) -> tuple[int, int]:
    found = os.fstat(descriptor)
    return found.st_size, found.st_mtime_ns


def decoded(text: str) -> bytes | None:
    """Base64 as it stands in a result; nothing if it is none."""
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        return None
