"""A file on its way in: limits hold for every byte, and until it is committed it never was."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from mooring.files.disk import completed
from mooring.files.faults import WrongHash
from mooring.files.handles import Kind
from mooring.files.names import OCTETS, sniff, with_extension
from mooring.files.quotas import Usage, too_large
from mooring.files.records import FileRecord
from mooring.files.storage import BlobWriter

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class KeepingRule:
    """How large a file of one kind may be and how long it is kept."""

    max_file_bytes: int
    ttl_seconds: float


@dataclass(frozen=True, slots=True)
class NewFile:
    """What a file will be, and whose."""

    kind: Kind
    scope: str
    server: str
    name: str
    id: str


class Incoming:
    """A file that is being written. Limits hold for every byte, before it is written."""

    def __init__(
        self, file: NewFile, writer: BlobWriter, rule: KeepingRule, usage: Usage, coming: set[str]
    ) -> None:
        self.scope = file.scope
        self.sha256 = ""
        self.note = ""
        self.mime_type = ""
        self._file = file
        self._writer = writer
        self._rule = rule
        self._usage = usage
        self._coming = coming
        self._counted = 0
        self._settled = False

    @property
    def size(self) -> int:
        return self._writer.size

    async def write(self, data: bytes) -> None:
        if self._writer.size + len(data) > self._rule.max_file_bytes:
            raise too_large(self._rule.max_file_bytes)
        self._usage.add(self.scope, self._file.server, len(data))
        self._counted += len(data)
        await self._writer.write(data)

    async def finish(self, expected_sha256: str | None = None) -> None:
        """The last byte has come; nobody sees the file before `commit`."""
        self.sha256 = await self._writer.finish()
        if expected_sha256 is not None:
            self.check(expected_sha256)

    def check(self, expected_sha256: str) -> None:
        if expected_sha256.lower() != self.sha256:
            name, found = self._file.name, self.sha256
            raise WrongHash(
                f"`{name}` has the SHA-256 {found}, not the one that was announced: send it again"
            )

    def record(self, now: float, *, exposed: bool) -> FileRecord:
        file = self._file
        found = sniff(self._writer.head, file.name)
        mime_type = self.mime_type if self.mime_type and found in (OCTETS, "text/plain") else found
        return FileRecord(
            id=file.id,
            kind=file.kind,
            scope=file.scope,
            server=file.server,
            blob=file.id,
            name=file.name if file.kind == "upload" else with_extension(file.name, mime_type),
            mime_type=mime_type,
            size=self._writer.size,
            sha256=self.sha256,
            created=now,
            expires=now + self._rule.ttl_seconds,
            exposed=exposed,
            note=self.note,
        )

    def settled(self) -> None:
        """It is kept: its bytes stay counted."""
        self._settled = True
        self._coming.discard(self._file.id)

    async def abandon(self) -> None:
        """It never was."""
        if self._settled:
            return
        self._settled = True
        self._usage.remove_file(self._file.kind, self.scope, self._file.server, self._counted)
        try:
            await asyncio.shield(self._writer.abandon())
        finally:
            self._coming.discard(self._file.id)


async def abandon_all(files: Sequence[Incoming]) -> None:
    """None of them ever was; whatever happens to one of them, or to whoever waits, the others go too."""
    await completed(_abandon_all(files))


async def _abandon_all(files: Sequence[Incoming]) -> None:
    for outcome in await asyncio.gather(*(file.abandon() for file in files), return_exceptions=True):
        if outcome is not None:  # its bytes are nobody's now, and are swept later
            log.warning("a file that came to nothing could not be deleted now: %s", outcome)
