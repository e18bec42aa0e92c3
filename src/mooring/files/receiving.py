"""Taking in what clients send: streamed to storage while limits hold, all of a request or nothing of it."""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Final, Self

from mooring.files.faults import BadUpload, TooSlow
from mooring.files.incoming import Incoming, abandon_all
from mooring.files.multipart import MultipartReader, PartBegun, PartData, PartEnded
from mooring.files.records import FileRecord
from mooring.files.store import FileStore
from mooring.files.upload_tool import FIELD, HASH_FIELD, UploadRules

MAX_FIELD_BYTES: Final = 4096
PATIENCE_SECONDS: Final = 20.0
SLOWEST_BYTES_PER_SECOND: Final = 512.0
"""After the first seconds a sender that is slower than this, on average, only holds us up."""
_SHA256: Final = re.compile(r"[0-9a-fA-F]{64}")
Fetch = Callable[[str, "Receipt"], Awaitable[None]]


def checked_hash(value: str) -> str:
    """A SHA-256 as somebody gave it."""
    if not _SHA256.fullmatch(value.strip()):
        raise BadUpload(f"`{HASH_FIELD}` must be 64 hexadecimal digits")
    return value.strip().lower()


class Receipt:
    """The files of one request. Leaving the block without `keep` takes all of them back."""

    def __init__(self, store: FileStore, rules: UploadRules, scope: str, server: str) -> None:
        self._store = store
        self._rules = rules
        self._scope = scope
        self._server = server
        self._files: list[Incoming] = []
        self._hashes: list[str] = []
        self._current: Incoming | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        left = self._files if self._current is None else [*self._files, self._current]
        if left:
            await abandon_all(left)

    async def begin(self, name: str) -> None:
        if len(self._files) >= self._rules.max_files:
            raise BadUpload(f"at most {self._rules.max_files} files in one request: send the others after it")
        self._current = await self._store.begin("upload", self._scope, self._server, name)

    async def write(self, data: bytes) -> None:
        assert self._current is not None
        await self._current.write(data)

    async def end(self, expected: str | None = None) -> None:
        assert self._current is not None
        await self._current.finish(expected)
        self._files.append(self._current)
        self._current = None

    def add_hash(self, value: str) -> None:
        if len(self._hashes) >= self._rules.max_files:
            raise BadUpload(f"at most {self._rules.max_files} files in one request, and as many hashes")
        self._hashes.append(checked_hash(value))

    async def keep(self) -> list[FileRecord]:
        """Everything has come: check it and make it visible in one step."""
        if not self._files:
            raise BadUpload(f"there is no file in the request: put it into the field `{FIELD}`")
        if self._hashes and len(self._hashes) != len(self._files):
            raise BadUpload(
                f"{len(self._files)} files came with {len(self._hashes)} `{HASH_FIELD}` fields: give one "
                "for each file, in the same order"
            )
        if self._rules.require_sha256 and not self._hashes:
            raise BadUpload(f"every file needs its SHA-256 here: give it in the field `{HASH_FIELD}`")
        for file, expected in zip(self._files, self._hashes, strict=False):
            file.check(expected)
        made = await self._store.commit(self._files)
        self._files = []
        return made


class Receiver:
    """Receives the uploads of one server."""

    def __init__(self, store: FileStore, rules: UploadRules, server: str) -> None:
        self._store = store
        self._rules = rules
        self._server = server

    def receipt(self, scope: str) -> Receipt:
        return Receipt(self._store, self._rules, scope, self._server)

    async def multipart(
        self, scope: str, content_type: bytes, body: AsyncIterator[bytes], fetch: Fetch
    ) -> list[FileRecord]:
        """A form: files in `file`, hashes in `sha256`, addresses to import in `url`."""
        reader = MultipartReader(content_type)
        async with self.receipt(scope) as receipt:
            fields = _Fields(receipt, fetch)
            async for data in unhurried(body):
                for event in reader.feed(data):
                    await fields.take(event)
            reader.finish()
            return await receipt.keep()

    async def raw(
        self, scope: str, name: str, sha256: str | None, body: AsyncIterator[bytes]
    ) -> list[FileRecord]:
        """A file as the whole body."""
        async with self.receipt(scope) as receipt:
            await receipt.begin(name)
            async for data in unhurried(body):
                await receipt.write(data)
            await receipt.end()
            if sha256 is not None:
                receipt.add_hash(sha256)
            return await receipt.keep()


class _Fields:
    """The parts of a form, put where they belong."""

    def __init__(self, receipt: Receipt, fetch: Fetch) -> None:
        self._receipt = receipt
        self._fetch = fetch
        self._field = ""
        self._text: bytearray | None = None

    async def take(self, event: PartBegun | PartData | PartEnded) -> None:
        match event:
            case PartBegun(field, filename):
                self._field = field
                if filename is None and field in (HASH_FIELD, "url"):
                    self._text = bytearray()
                else:
                    self._text = None
                    await self._receipt.begin(filename or FIELD)
            case PartData(data):
                if self._text is None:
                    await self._receipt.write(data)
                elif len(self._text) + len(data) > MAX_FIELD_BYTES:
                    raise BadUpload(f"the field `{self._field[:40]}` is too long")
                else:
                    self._text += data
            case PartEnded():
                await self._end()

    async def _end(self) -> None:
        if self._text is None:
            await self._receipt.end()
        elif self._field == HASH_FIELD:
            self._receipt.add_hash(self._text.decode("utf-8", "replace"))
        else:
            await self._fetch(self._text.decode("utf-8", "replace").strip(), self._receipt)


async def unhurried(body: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """The body, as long as it comes fast enough to be meant; what we do with it takes time of our own."""
    received, waited = 0, 0.0
    began = time.monotonic()
    async for data in body:
        received += len(data)
        waited += time.monotonic() - began
        if waited > PATIENCE_SECONDS and received < waited * SLOWEST_BYTES_PER_SECOND:
            raise TooSlow("the bytes come too slowly: send them again, or use a resumable upload")
        yield data
        began = time.monotonic()
