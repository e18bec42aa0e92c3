"""Where bytes are kept. A blob is written under a name nobody refers to, made durable, and only then named in
the state; it never changes after that."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from pathlib import Path
from typing import Protocol


class BlobWriter(Protocol):
    """A blob on its way in."""

    head: bytes
    """Its first bytes, enough to tell its type."""
    size: int

    async def write(self, data: bytes) -> None:
        """Take some bytes; returns when there is room for more."""
        ...

    async def finish(self) -> str:
        """It is complete, though perhaps not durable yet; the SHA-256 of what was written, in hex."""
        ...

    async def abandon(self) -> None:
        """Forget it and free what it took; also allowed after `finish`."""
        ...


class Storage(Protocol):
    """A place for blobs. Blobs have names of our own making: hex digits only."""

    async def open(self) -> None: ...
    async def close(self) -> None: ...
    async def create(self, blob: str) -> BlobWriter: ...
    async def settle(self, blobs: Sequence[str]) -> None:
        """Make finished blobs durable, together."""
        ...

    async def adopt(self, path: Path, blob: str) -> None:
        """Take a complete local file, durably; it also stays where it is, until its blob has a name."""
        ...

    def read(self, blob: str, start: int, stop: int) -> AsyncIterator[bytes]:
        """The bytes from `start` up to `stop`; `FileNotFoundError` if there is no such blob."""
        ...

    def path(self, blob: str) -> Path | None:
        """Where its bytes are on this machine's disk, if they are."""
        ...

    async def delete(self, blobs: Iterable[str]) -> None: ...
    async def sweep(self, is_known: Callable[[list[str]], set[str]], older_than: float) -> int:
        """Delete old blobs that nobody refers to; how many those were."""
        ...
