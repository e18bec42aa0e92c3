"""The data directory of one daemon: who holds it, and where things are in it."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import Self

from mooring.errors import MooringError

LOCK_NAME = "mooring.lock"
DATABASE_NAME = "mooring.db"
LOGS_NAME = "logs"


class DirectoryTaken(MooringError):
    """Another daemon works on this data directory."""


class DataDirectory:
    """Held by one process at a time. The kernel lets go of it with the process, however that ends."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._descriptor: int | None = None

    @property
    def database(self) -> Path:
        return self.root / DATABASE_NAME

    @property
    def logs(self) -> Path:
        return self.root / LOGS_NAME

    def __enter__(self) -> Self:
        self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = self.root / LOCK_NAME
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            _lock(descriptor)
        except OSError as error:
            holder = os.read(descriptor, 32).decode("ascii", "replace").strip()
            os.close(descriptor)
            raise DirectoryTaken(
                f"a gateway{f' (process {holder})' if holder else ''} already runs on `{self.root}`: stop it "
                "first"
            ) from error
        # Not unlinked at the end: somebody else may have opened it meanwhile and would lock a nameless file.
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
        self._descriptor = descriptor
        return self

    def __exit__(self, *_: object) -> None:
        if self._descriptor is not None:
            with contextlib.suppress(OSError):
                os.ftruncate(self._descriptor, 0)
            os.close(self._descriptor)
            self._descriptor = None


def holder_of(root: Path) -> int | None:
    """The process that holds this data directory, if one does."""
    try:
        descriptor = os.open(root / LOCK_NAME, os.O_RDWR)
    except OSError:
        return None
    try:
        _lock(descriptor)
    except OSError:
        text = os.read(descriptor, 32).decode("ascii", "replace").strip()
        return int(text) if text.isdigit() else None
    finally:
        os.close(descriptor)
    return None


if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int) -> None:
        os.lseek(descriptor, 64, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        finally:
            os.lseek(descriptor, 0, os.SEEK_SET)

else:
    import fcntl

    def _lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
