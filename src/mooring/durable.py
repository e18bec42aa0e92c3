"""Files that survive a crash: written whole or not at all, by one process at a time.

A new version goes to a temporary name in the same folder, is synced, and takes the place of the old one in
one step. A process killed at any point leaves the old file or the new one, and at worst a stray third.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

# Whoever holds such a lock writes one small file; longer means that it hangs.
LOCK_SECONDS = 20.0
_POLL_SECONDS = 0.01


class LockTimedOut(OSError):
    """Another process held the lock for too long."""


def replace_file(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Put these bytes in the file's place; they are on the disk when this returns."""
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        # What `open` was told passes through the umask; the file is to get exactly this mode.
        temporary.chmod(mode)
        temporary.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make a rename in this folder survive a power failure."""
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def private_folder(folder: Path) -> Path:
    """The folder, made for the user alone if it is not there."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


@contextmanager
def locked(path: Path, timeout: float = LOCK_SECONDS) -> Generator[None]:
    """Hold the lock of this file or folder; it goes with the process, so it is never stale.

    A folder can be locked itself, which leaves nothing behind in it. Otherwise the file is a lock file: one
    that nobody replaces.
    """
    flags = os.O_RDONLY if path.is_dir() else os.O_RDWR | os.O_CREAT
    descriptor = os.open(path, flags, 0o600)
    try:
        _wait_for(descriptor, path, time.monotonic() + timeout)
        yield
    finally:
        os.close(descriptor)


def _wait_for(descriptor: int, path: Path, deadline: float) -> None:
    while not _try_lock(descriptor):
        if time.monotonic() > deadline:
            raise LockTimedOut(f"another process keeps `{path}` locked: try again when it is done")
        time.sleep(_POLL_SECONDS)


if sys.platform == "win32":
    import msvcrt

    def _try_lock(descriptor: int) -> bool:
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True

else:
    import fcntl

    def _try_lock(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
