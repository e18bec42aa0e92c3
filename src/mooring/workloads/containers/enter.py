"""Goes into a container's network, opens sockets there, hands them out, and ends.

A process of its own, because entering a user namespace takes one without threads.
`python -m mooring.workloads.containers.enter CONTROL PID`
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import sys
from array import array
from contextlib import suppress

from mooring.workloads.sandbox.launcher import open_sockets

_NEW_NETWORK, _NEW_USER = 0x40000000, 0x10000000
_GET_OWNER = 0xB701  # NS_GET_USERNS: whoever owns the network, which need not be the process's own
_libc = ctypes.CDLL(None, use_errno=True)


def enter_network(pid: int) -> None:
    """Make this process a member of that one's network."""
    network = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY)
    if os.getuid() != 0:
        with suppress(OSError):  # it is our own already
            _enter(fcntl.ioctl(network, _GET_OWNER), _NEW_USER)
    _enter(network, _NEW_NETWORK)


def _enter(descriptor: int, kind: int) -> None:
    if _libc.setns(descriptor, kind):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def main() -> None:
    control = socket.socket(fileno=int(sys.argv[1]))
    try:
        enter_network(int(sys.argv[2]))
        sockets = open_sockets([int(port) for port in sys.argv[3:]])
    except OSError as error:
        control.send(b"e" + str(error).encode())
        sys.exit(1)
    numbers = array("i", [opened.fileno() for opened in sockets])
    control.sendmsg([b"s"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, numbers)])


if __name__ == "__main__":
    main()
