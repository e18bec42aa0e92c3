"""Bytes both ways between two connections, with back-pressure, until both directions have ended."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Final

from mooring.workloads.egress.gate import Streams

CHUNK_BYTES: Final = 65536
CLOSE_SECONDS: Final = 2.0
"""How long the last bytes may take to leave once nobody will read any more."""


async def tunnel(ours: Streams, theirs: Streams) -> None:
    """Copy both ways; returns when both sides have ended or one of them broke."""
    copies = [
        asyncio.create_task(_copy(ours[0], theirs[1])),
        asyncio.create_task(_copy(theirs[0], ours[1])),
    ]
    try:
        await asyncio.gather(*copies)
    except OSError:
        return
    finally:
        for copy in copies:
            copy.cancel()
        await asyncio.gather(*copies, return_exceptions=True)


async def _copy(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    while data := await source.read(CHUNK_BYTES):
        sink.write(data)
        await sink.drain()
    if sink.can_write_eof():
        sink.write_eof()


async def hang_up(writer: asyncio.StreamWriter) -> None:
    """Close a connection without waiting for a peer that does not read."""
    writer.close()
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(CLOSE_SECONDS):
            await writer.wait_closed()
            return
    writer.transport.abort()
