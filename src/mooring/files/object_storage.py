"""Blobs in an S3-compatible object store. An object is visible only when its upload is complete."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import re
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, cast

import obstore
from obstore.exceptions import BaseError
from obstore.store import from_url

from mooring.files.faults import Away
from mooring.files.names import SNIFF_BYTES

log = logging.getLogger(__name__)
PART_BYTES: Final = 8 * 1024 * 1024
READ_BYTES: Final = 4 * 1024 * 1024
SWEEP_BATCH: Final = 500
_OURS: Final = re.compile(r"[0-9a-f]{32}")
RETRIES: Final[Any] = {"max_retries": 4, "retry_timeout": timedelta(seconds=20)}
"""Somebody waits for the answer."""
# Overloads for every kind of store, which differ in types that we do not need to tell apart.
_from_url: Any = from_url
_list: Any = cast("Any", obstore).list


@contextmanager
def _reached() -> Generator[None]:
    """What is wrong between us and the store is logged; whoever waits learns only that it is away."""
    try:
        yield
    except FileNotFoundError:
        raise
    except (BaseError, OSError) as error:
        log.warning("the object store: %s", error)
        raise Away("the object store cannot be reached: try again later") from error


class ObjectStorage:
    """A bucket, or a folder of one, that is ours alone: `s3://bucket/prefix`."""

    def __init__(self, url: str, options: dict[str, str]) -> None:
        self._url = url
        self._options = options
        self._store: Any = None

    async def open(self) -> None:
        config: dict[str, Any] = {
            name: value for name, value in self._options.items() if name != "allow_http"
        }
        allow_http = self._options.get("allow_http") == "true"
        self._store = _from_url(
            self._url, config=config, client_options={"allow_http": allow_http}, retry_config=RETRIES
        )

    async def close(self) -> None:
        self._store = None

    async def create(self, blob: str) -> ObjectWriter:
        return ObjectWriter(self, obstore.open_writer_async(self._store, blob, buffer_size=PART_BYTES), blob)

    async def settle(self, blobs: Sequence[str]) -> None:
        """A complete object is durable: the store says so."""

    async def adopt(self, path: Path, blob: str) -> None:
        with _reached():
            await obstore.put_async(self._store, blob, path)

    def path(self, blob: str) -> Path | None:
        del blob
        return None

    async def read(self, blob: str, start: int, stop: int) -> AsyncIterator[bytes]:
        """Piece by piece, each a request of its own: one that waited for a slow reader would be given up."""
        while start < stop:
            end = min(start + READ_BYTES, stop)
            with _reached():
                try:
                    piece = await obstore.get_range_async(self._store, blob, start=start, end=end)
                except FileNotFoundError as error:
                    raise FileNotFoundError(f"blob {blob} is not in the object store") from error
            yield bytes(piece)
            start = end

    async def delete(self, blobs: Iterable[str]) -> None:
        names = list(blobs)
        if names:
            with _reached():
                await obstore.delete_async(self._store, names)

    async def sweep(self, is_known: Callable[[list[str]], set[str]], older_than: float) -> int:
        swept = 0
        async for batch in _list(self._store, chunk_size=SWEEP_BATCH):
            old = [str(entry["path"]) for entry in batch if entry["last_modified"].timestamp() < older_than]
            ours = [path for path in old if _OURS.fullmatch(path)]  # a bucket may have other things in it
            known = await asyncio.to_thread(is_known, ours) if ours else set[str]()
            unknown = [name for name in ours if name not in known]
            await self.delete(unknown)
            swept += len(unknown)
        return swept


class ObjectWriter:
    """Sends parts as they fill up; the object appears with the last one."""

    def __init__(self, storage: ObjectStorage, writer: Any, blob: str) -> None:
        self.head = b""
        self.size = 0
        self._storage = storage
        self._writer: Any = writer
        self._blob = blob
        self._hash = hashlib.sha256()
        self._finished = False

    async def write(self, data: bytes) -> None:
        if len(self.head) < SNIFF_BYTES:
            self.head += bytes(data[: SNIFF_BYTES - len(self.head)])
        self.size += len(data)
        self._hash.update(data)
        with _reached():
            await self._writer.write(data)

    async def finish(self) -> str:
        with _reached():
            await self._writer.close()
        self._finished = True
        return self._hash.hexdigest()

    async def abandon(self) -> None:
        """Parts without an end are never visible, but they take room: so it gets an end, and goes.

        Nobody knows its name. What we cannot end because the store, or we, go away first, the store forgets
        by a rule of its own.
        """
        writer, self._writer = self._writer, None
        if writer is None:
            return
        with suppress(Away):
            if not self._finished:
                with _reached():
                    await writer.close()
            await self._storage.delete([self._blob])
