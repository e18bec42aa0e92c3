"""The network inside a sandbox, reached from outside with sockets that were born there.

A socket belongs for ever to the network it was made in, wherever its descriptor goes. The launcher hands out
three: the one the egress proxy accepts on, and two from which more can be made. Connecting one to the other
inside and dissolving the connection again leaves a fresh socket of that network: no helper process, no
privilege, and nothing listens on the host.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import os
import socket
from dataclasses import dataclass
from typing import Final

_libc = ctypes.CDLL(None, use_errno=True)
_NO_ADDRESS: Final = bytes(16)  # AF_UNSPEC: connecting to it takes a connection apart
CONNECT_SECONDS: Final = 10.0
_MAX_STRANGERS: Final = 512


@dataclass(frozen=True, slots=True)
class InsideNetwork:
    """What we hold of one sandbox's network."""

    egress: socket.socket
    meeting: socket.socket
    seed: socket.socket

    async def connect(self, port: int) -> socket.socket:
        """A connection to a server that listens on loopback inside."""
        return await _connected(self._new_socket(), port)

    def _new_socket(self) -> socket.socket:
        """Never waits: a workload that crowds the meeting point harms only itself."""
        for _ in range(_MAX_STRANGERS):
            if self._meet() is None:
                break
        self.seed.setblocking(False)
        self.seed.connect_ex(self.meeting.getsockname())
        try:
            ours = self.seed.getsockname()
            for _ in range(_MAX_STRANGERS):
                met = self._meet(ours)
                if isinstance(met, socket.socket):
                    _disconnect(met)
                    return met
                if met is None:
                    break
        finally:
            _disconnect(self.seed)
        raise ConnectionRefusedError(errno.ECONNREFUSED, "the workload keeps its network busy")

    def _meet(self, expected: object = None) -> socket.socket | bool | None:
        """Whoever has come: the expected one, False for a stranger who is sent away, None for nobody."""
        self.meeting.setblocking(False)
        try:
            made, peer = self.meeting.accept()
        except OSError:
            return None
        if peer == expected:
            made.setblocking(False)
            return made
        made.close()
        return False

    def close(self) -> None:
        self.meeting.close()
        self.seed.close()
        self.egress.close()


async def connected_here(port: int) -> socket.socket:
    """A connection to a server that listens on loopback of this machine."""
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    made.setblocking(False)
    return await _connected(made, port)


async def _connected(made: socket.socket, port: int) -> socket.socket:
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            await asyncio.get_running_loop().sock_connect(made, ("127.0.0.1", port))
    except BaseException:
        made.close()
        raise
    return made


def _disconnect(connected: socket.socket) -> None:
    if _libc.connect(connected.fileno(), _NO_ADDRESS, len(_NO_ADDRESS)):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


async def receive(control: socket.socket) -> tuple[bytes, list[int]]:
    """The next message of the launcher, with the descriptors in it; empty when it has become the server."""
    loop = asyncio.get_running_loop()
    control.setblocking(False)
    while True:
        try:
            data, descriptors, _, _ = socket.recv_fds(control, 4096, 8)
        except BlockingIOError:
            await _readable(loop, control)
        except ConnectionResetError:
            return b"", []
        except OSError as error:
            if error.errno != errno.EINTR:
                raise
        else:
            return data, descriptors


async def _readable(loop: asyncio.AbstractEventLoop, control: socket.socket) -> None:
    ready = loop.create_future()
    loop.add_reader(control.fileno(), lambda: ready.done() or ready.set_result(None))
    try:
        await ready
    finally:
        loop.remove_reader(control.fileno())
