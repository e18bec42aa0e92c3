"""Bytes that wait on disk instead of in memory: in files without a name, which end with their holder."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, Self

log = logging.getLogger("mooring.wire")

SPILL_BYTES: Final = 256 * 1024
"""A message larger than this is not held in memory: it flows through while it arrives, or waits on disk."""
PIECE_BYTES: Final = 256 * 1024

_folder: Path | None = None


def keep_in(folder: Path) -> None:
    """From now on such files are made here, rather than where the system has its temporary files (which may
    be memory)."""
    global _folder  # noqa: PLW0603 - as `tempfile.tempdir`: one place for the whole process
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    _folder = folder


class Spool:
    """One such file, written at its end. It is closed when nobody refers to it any more, if not before."""

    __slots__ = ("_descriptor", "size")

    def __init__(self) -> None:
        """Raises OSError, as does everything here."""
        self._descriptor = -1
        self.size = 0
        with tempfile.TemporaryFile(buffering=0, dir=_folder) as file:
            self._descriptor = os.dup(file.fileno())

    def write(self, data: bytes | memoryview) -> None:
        """It goes to the kernel's cache, which takes it about as fast as memory does."""
        view = memoryview(data)
        while view:
            written = os.write(self._descriptor, view)
            self.size += written
            view = view[written:]

    def read(self, start: int, size: int) -> bytes:
        """Never less than this, within what was written."""
        data = os.pread(self._descriptor, size, start)
        if len(data) != min(size, self.size - start):
            raise OSError("the file is shorter than it was")
        return data

    def close(self) -> None:
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        self.close()


Slice = tuple[Spool, int, int]
"""A part of what is in a file: from where, up to where."""


class Kept:
    """Bytes in a row of which the most are on disk."""

    __slots__ = ("_in_one_line", "_parts", "length")

    def __init__(self, *parts: bytes | Slice, in_one_line: bool = False) -> None:
        """`in_one_line` is for JSON: a line break in it (never in a string) is read as a space from disk."""
        self._parts = parts
        self._in_one_line = in_one_line
        self.length = sum(len(part) if isinstance(part, bytes) else part[2] - part[1] for part in parts)

    @classmethod
    def array(cls, items: Iterable[bytes | Kept]) -> Self:
        """Several JSON values as one array."""
        parts: list[bytes | Slice] = []
        for item in items:
            parts.append(b"," if parts else b"[")
            parts += [item] if isinstance(item, bytes) else item._parts
        return cls(*parts, b"]")

    def as_line(self, before: bytes, after: bytes) -> Kept:
        """The same JSON between two other things, where a line break would have a meaning."""
        return Kept(before, *self._parts, after, in_one_line=True)

    def pieces(self) -> Iterator[bytes]:
        """One after the other, none of them large."""
        for part in self._parts:
            if isinstance(part, bytes):
                yield part
                continue
            spool, start, end = part
            while start < end:
                yield self._read(spool, start, min(PIECE_BYTES, end - start))
                start += PIECE_BYTES

    def _read(self, spool: Spool, start: int, size: int) -> bytes:
        data = spool.read(start, size)
        if self._in_one_line and (b"\n" in data or b"\r" in data):
            data = data.replace(b"\n", b" ").replace(b"\r", b" ")
        return data

    def load(self) -> bytes:
        """All of it, in memory: for whoever has to look inside."""
        return b"".join(self.pieces())


def spilled(data: bytes) -> bytes | Kept:
    """These bytes on disk, if they are too many to be held and the disk takes them."""
    if len(data) <= SPILL_BYTES:
        return data
    try:
        spool = Spool()
        spool.write(data)
    except OSError as error:
        log.warning("a large message waits in memory, for lack of disk: %s", error)
        return data
    return Kept((spool, 0, len(data)))
