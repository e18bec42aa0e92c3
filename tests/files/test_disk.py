"""Files are opened in threads, which finish what they began whether anybody waits or not."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

from tests.support.waiting import eventually

from mooring.files.disk import opened

LIMIT_SECONDS = 10.0


def open_at(path: Path) -> int:
    """How often this process has it open."""
    links = [Path("/proc/self/fd") / name for name in os.listdir("/proc/self/fd")]
    return sum(1 for link in links if link.is_symlink() and os.path.realpath(link) == str(path))


def test_an_opening_that_is_given_up_leaves_nothing_open(tmp_path: Path) -> None:
    slow = tmp_path.resolve() / "slow"
    os.mkfifo(slow)  # opens for reading once somebody opens it for writing

    async def read_it() -> None:
        async with opened(slow):
            raise AssertionError("it was given up")

    async def run() -> None:
        async with asyncio.timeout(LIMIT_SECONDS):
            reading = asyncio.ensure_future(read_it())
            await asyncio.sleep(0.1)
            reading.cancel()
            await asyncio.wait([reading])
            assert reading.cancelled()
            writer = os.open(slow, os.O_WRONLY)
            eventually(lambda: open_at(slow) == 2)
            os.close(writer)
            await asyncio.to_thread(eventually, lambda: not open_at(slow))

    asyncio.run(run())
