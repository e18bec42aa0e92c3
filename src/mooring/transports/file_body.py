"""A file as the body of an answer: the kernel hands it from the disk to the socket, past us.

The socket is used beside its transport, which has nothing to write meanwhile. So the head has to be gone
before the first byte, and a client that does not read is treated as if the transport waited for it.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from concurrent.futures import ThreadPoolExecutor
from typing import Final, Protocol

PIECE_BYTES: Final = 4 * 1024 * 1024
"""Handed over in one visit to a thread: a few milliseconds, after which others get their turn."""
COPIED_BYTES: Final = 256 * 1024
"""The same where the bytes go through our memory."""
_CANNOT: Final = frozenset((errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP))
_NO_WAY: Final = frozenset((errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ENETDOWN, errno.ENOTCONN))

# Not the loop's own: there others wait for locks and for the network, and downloads with them.
_threads = ThreadPoolExecutor(4, thread_name_prefix="mooring-downloads")


class Held(Protocol):
    """A connection that is held up by a client that does not read."""

    transport: asyncio.Transport

    def pause_writing(self) -> None: ...
    def resume_writing(self) -> None: ...


class Taker(Protocol):
    """The reply, once its head has been written."""

    closed: bool

    async def drain(self) -> None: ...


def can_hand_over(transport: asyncio.Transport) -> bool:
    """Whether the socket takes bytes as they are, on a system that knows how."""
    return hasattr(os, "sendfile") and transport.get_extra_info("sslcontext") is None


async def hand_over(held: Held, reply: Taker, file: int, start: int, stop: int) -> int:
    """Send an open file from `start` up to `stop`; where it ended: earlier if the client has gone or the file
    is shorter."""
    transport = held.transport
    high = transport.get_write_buffer_limits()[1]
    transport.set_write_buffer_limits(0)
    try:
        await reply.drain()
        if reply.closed:
            return start
        opened: socket.socket = transport.get_extra_info("socket")
        return await _sent(held, reply, _duplicates(opened.fileno(), file), start, stop)
    finally:
        if not reply.closed:
            transport.set_write_buffer_limits(high)


async def _sent(held: Held, reply: Taker, ends: tuple[int, int], start: int, stop: int) -> int:
    beside, file = ends
    loop = asyncio.get_running_loop()
    sending: asyncio.Future[int | None] | None = None
    try:
        while start < stop and not reply.closed:
            size = min(PIECE_BYTES, stop - start)
            sending = loop.run_in_executor(_threads, _piece, beside, file, start, size)
            sent = await asyncio.shield(sending)
            if sent is None:
                await _until_taken(held, reply, beside)
            elif sent == 0:
                break
            else:
                start += sent
        return start
    finally:
        # A thread may still be sending: these numbers must not belong to anything else by then.
        if sending is None or sending.done():
            _close(ends)
        else:
            sending.add_done_callback(lambda _: _close(ends))


def _duplicates(beside: int, file: int) -> tuple[int, int]:
    first = os.dup(beside)
    try:
        return first, os.dup(file)
    except OSError:
        os.close(first)
        raise


def _close(ends: tuple[int, int]) -> None:
    for end in ends:
        os.close(end)


def _piece(beside: int, file: int, start: int, size: int) -> int | None:
    """How much the socket took; None if it takes nothing now, 0 if there is no more or nobody takes it."""
    try:
        return _passed(beside, file, start, size)
    except BlockingIOError:
        return None
    except (ConnectionError, TimeoutError):
        return 0
    except OSError as error:
        if error.errno in _NO_WAY:
            return 0
        raise


def _passed(beside: int, file: int, start: int, size: int) -> int:
    try:
        return os.sendfile(beside, file, start, size)
    except OSError as error:
        if error.errno not in _CANNOT:
            raise
    # A file system from which the kernel does not send by itself.
    data = os.pread(file, min(size, COPIED_BYTES), start)
    return os.write(beside, data) if data else 0


async def _until_taken(held: Held, reply: Taker, beside: int) -> None:
    loop = asyncio.get_running_loop()
    held.pause_writing()
    loop.add_writer(beside, held.resume_writing)
    try:
        await reply.drain()
    finally:
        loop.remove_writer(beside)
