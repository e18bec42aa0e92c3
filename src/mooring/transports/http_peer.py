"""What the operating system knows about the other end of a server-side socket."""

from __future__ import annotations

import array
import asyncio
import contextlib
import select
import socket
import struct
import sys

from mooring.transports.http_request import Client

if sys.platform == "linux":
    import fcntl
    import termios

# A peer that lost its power is noticed after about two minutes instead of the kernel's two hours.
_KEEP_ALIVE = (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4))


def identify(transport: asyncio.Transport) -> Client:
    """Who is there; also asks the kernel to look now and then whether they still are."""
    sock: socket.socket = transport.get_extra_info("socket")
    secure = transport.get_extra_info("sslcontext") is not None
    if sock.family == getattr(socket, "AF_UNIX", None):
        return Client("unix", _user_of(sock), secure)
    with contextlib.suppress(OSError):  # the peer has gone already
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _KEEP_ALIVE:
            if hasattr(socket, option):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
    name = transport.get_extra_info("peername")
    return Client(str(name[0]) if name else "unknown", None, secure)


def _user_of(sock: socket.socket) -> int | None:
    option = getattr(socket, "SO_PEERCRED", None)
    if option is None:
        return None
    layout = struct.Struct("3i")  # process, user, group
    return layout.unpack(sock.getsockopt(socket.SOL_SOCKET, option, layout.size))[1]


def has_hung_up(transport: asyncio.Transport) -> bool:
    """Whether the peer has closed its side, asked without reading what it sent before.

    The kernel knows unless the peer sent more than the socket's buffers hold: then the end is behind that.
    """
    flags = getattr(select, "POLLRDHUP", 0)
    if not flags:
        return False
    poll = select.poll()
    poll.register(transport.get_extra_info("socket").fileno(), flags)
    return bool(poll.poll(0))


def bytes_on_the_way(transport: asyncio.Transport) -> int:
    """What the peer has not taken yet: our buffer, and the kernel's where it tells.

    Ours alone would not do: the kernel asks for more only once a third of its own, often megabytes, is free,
    so a slow reader would look like one that has stopped.
    """
    waiting = transport.get_write_buffer_size()
    if sys.platform == "linux":
        unsent = array.array("i", [0])
        with contextlib.suppress(OSError):  # the socket is closed
            fcntl.ioctl(transport.get_extra_info("socket").fileno(), termios.TIOCOUTQ, unsent)
        waiting += unsent[0]
    return waiting


def reset(transport: asyncio.Transport) -> None:
    """Close so that the peer sees a reset, not an end."""
    sock: socket.socket = transport.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    transport.abort()
