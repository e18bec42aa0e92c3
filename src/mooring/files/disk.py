"""Blocking work on files, done in a few threads so that the loop never waits for a disk."""

from __future__ import annotations

import asyncio
import errno
import logging
import os
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

from mooring.files.faults import DISK_FULL, Away, NoRoom

log = logging.getLogger(__name__)

T = TypeVar("T")
THREADS: Final = 4
SYNCING_THREADS: Final = 16
"""They only wait for the disk."""
_FULL: Final = frozenset((errno.ENOSPC, errno.EDQUOT, errno.EFBIG))
_BROKEN: Final = frozenset((errno.EROFS, errno.EIO, errno.EACCES, errno.EPERM, errno.ESTALE))
"""What a disk says that was mounted anew after a fault, or given to somebody else."""

_threads = ThreadPoolExecutor(THREADS, thread_name_prefix="mooring-files")
_syncing = ThreadPoolExecutor(SYNCING_THREADS, thread_name_prefix="mooring-sync")


async def in_thread(work: Callable[..., T], *arguments: object) -> T:
    """Run blocking work; a full or broken disk is said as what it means for the caller."""
    with translated():
        return await asyncio.get_running_loop().run_in_executor(_threads, work, *arguments)


@asynccontextmanager
async def opened(path: Path) -> AsyncGenerator[int]:
    """A file to read from."""
    opening = submit(os.open, path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with translated():
            descriptor = await asyncio.shield(opening)
    except asyncio.CancelledError:
        opening.add_done_callback(_close_opened)  # the thread opens it whether we wait or not
        raise
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _close_opened(opening: asyncio.Future[int]) -> None:
    if not opening.cancelled() and opening.exception() is None:
        os.close(opening.result())


def submit(work: Callable[..., T], *arguments: object) -> asyncio.Future[T]:
    """Begin blocking work; whoever awaits it does so under `translated`."""
    return asyncio.get_running_loop().run_in_executor(_threads, work, *arguments)


async def to_its_end(work: Callable[..., T], *arguments: object) -> T:
    """Like `in_thread`, and nobody goes on before it has ended: not even who was cancelled meanwhile."""
    working = submit(work, *arguments)
    try:
        with translated():
            return await asyncio.shield(working)
    except asyncio.CancelledError:
        await asyncio.wait([working])
        working.exception()
        raise


async def completed(work: Coroutine[Any, Any, T]) -> T:
    """Several steps that belong together: who is cancelled meanwhile goes when the last of them is done."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        if not task.cancelled():
            task.exception()
        raise


@contextmanager
def translated() -> Generator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise NoRoom(DISK_FULL) from error
        if error.errno in _BROKEN:
            log.error("files cannot be kept: %s", error)  # noqa: TRY400 - what the system says is enough
            raise Away("the gateway's disk does not take files now: tell whoever runs it") from error
        raise


async def in_syncing_thread(work: Callable[..., T], *arguments: object) -> T:
    """The same for work that mostly waits until the disk has everything."""
    with translated():
        return await asyncio.get_running_loop().run_in_executor(_syncing, work, *arguments)


def begin_sync(descriptor: int) -> Future[None]:
    """Have the disk take what was written so far, while more is being written."""
    return _syncing.submit(_sync_and_close, os.dup(descriptor))


def _sync_and_close(descriptor: int) -> None:
    try:
        os.fdatasync(descriptor)
    finally:
        os.close(descriptor)


def write_all(descriptor: int, blocks: Sequence[bytes]) -> None:
    """A disk that is nearly full takes less than it is given, and says so only the next time."""
    for block in blocks:
        left = memoryview(block)
        while left:
            left = left[os.write(descriptor, left) :]


def sync_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Make a rename in this folder durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
