"""Runs inside the sandbox, before the server: opens its sockets, limits it, locks it in, becomes it.

`launcher.c` does the same and takes no time to start; this is for processors it was not compiled for, and for
data directories from which nothing can be run. A program of its own, started by path with a bare interpreter,
so it imports next to nothing. It reads its orders from a socket whose number is its only argument and answers
there: sockets first, an error if there is one; silence and the end mean that the server runs.

Orders are lists, each with its length before it: ports to listen on, descriptors of control groups to join,
limits (kind, value in two words), paths for Landlock (level, text), places of the program, its command, its
environment. Numbers are 32-bit words, little-endian; texts end with a zero. The size of all stands first.
"""

import _socket
import ctypes
import os
import resource
import sys
from array import array

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_PATH_BENEATH = 1
_SET_NO_NEW_PRIVILEGES = 38
_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIRECTORY, _TRUNCATE = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 14
LIST, READ, WRITE = 0, 1, 2
"""What may be done below a path: see names, read and run, or everything."""
_READABLE = _EXECUTE | _READ_FILE | _READ_DIRECTORY
_FILE_ONLY = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | 1 << 15
_SCOPED = 1 << 0 | 1 << 1  # abstract Unix sockets and signals of processes outside
_DIRECTORY_TYPE = 0o040000
_SIGPIPE, _SIGTERM = 13, 15


def landlock_version() -> int:
    """Which rules this kernel knows; 0 or less when it knows none."""
    return _syscall(_CREATE_RULESET, None, 0, 1)


def _all_rights(version: int) -> int:
    return (1 << (13 if version < 2 else 14 if version < 3 else 15 if version < 5 else 16)) - 1


def lock_in(rules: list[tuple[str, int]]) -> None:
    """From here on only these paths can be read, or written where they say so: a wall behind the mounts."""
    version = landlock_version()
    if version < 1:
        return
    handled = _all_rights(version)
    attribute = (ctypes.c_uint64 * 3)(handled, 0, _SCOPED if version >= 6 else 0)
    size = 8 if version < 4 else 16 if version < 6 else 24
    ruleset = _checked(_syscall(_CREATE_RULESET, ctypes.byref(attribute), size, 0))
    allowed = (handled & _READ_DIRECTORY, handled & _READABLE, handled)
    for path, level in rules:
        try:
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue  # nothing there: nothing to allow
        rights = allowed[level]
        if os.fstat(descriptor).st_mode & 0o170000 != _DIRECTORY_TYPE:
            rights &= _FILE_ONLY
        rule = rights.to_bytes(8, sys.byteorder) + descriptor.to_bytes(4, sys.byteorder)
        _checked(_syscall(_ADD_RULE, ruleset, _PATH_BENEATH, rule, 0))
        os.close(descriptor)
    _libc.prctl(_SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    _checked(_syscall(_RESTRICT_SELF, ruleset, 0))
    os.close(ruleset)


def _syscall(*arguments: object) -> int:
    return _libc.syscall(*arguments)


def _checked(answer: int) -> int:
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return answer


def open_sockets(ports: list[int]) -> list[_socket.socket]:
    """Listening sockets on loopback (port 0: any), and last an unused one of the same network."""
    sockets: list[_socket.socket] = []
    for port in ports:
        listening = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
        listening.bind(("127.0.0.1", port))
        listening.listen(128)
        sockets.append(listening)
    return [*sockets, _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)]


class _Orders:
    """What is to be done, read from front to back."""

    def __init__(self, control: _socket.socket) -> None:
        size = int.from_bytes(control.recv(4, _socket.MSG_WAITALL), "little")
        self._data = control.recv(size, _socket.MSG_WAITALL)
        self._at = 0

    def number(self) -> int:
        self._at += 4
        return int.from_bytes(self._data[self._at - 4 : self._at], "little")

    def numbers(self) -> list[int]:
        return [self.number() for _ in range(self.number())]

    def text(self) -> bytes:
        begin, self._at = self._at, self._data.index(b"\0", self._at) + 1
        return self._data[begin : self._at - 1]

    def texts(self) -> list[bytes]:
        return [self.text() for _ in range(self.number())]


def _limit(limits: list[tuple[int, int]]) -> None:
    for kind, value in limits:
        hard = resource.getrlimit(kind)[1]
        wanted = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (wanted, wanted))


def main(control: _socket.socket) -> None:
    """Follow the orders; only returns by an exception."""
    orders = _Orders(control)
    if ports := orders.numbers():
        sockets = open_sockets(ports)
        numbers = array("i", [opened.fileno() for opened in sockets])
        control.sendmsg([b"s"], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, numbers)])
        for opened in sockets:
            opened.close()
    for descriptor in orders.numbers():
        os.write(descriptor, b"0")
        os.close(descriptor)
    _limit([(orders.number(), orders.number() | orders.number() << 32) for _ in range(orders.number())])
    if paths := [(orders.number(), orders.text()) for _ in range(orders.number())]:
        lock_in([(os.fsdecode(path), level) for level, path in paths])
    programs, argv, environment = orders.texts(), orders.texts(), orders.texts()
    for number in (_SIGTERM, _SIGPIPE):
        _libc.signal(number, None)  # the default; the module for it takes longer to load than all the rest
    settings = dict(entry.split(b"=", 1) for entry in environment)
    wrong: OSError | None = None
    for place in programs:
        try:
            os.execve(place, argv, settings)  # noqa: S606
        except (FileNotFoundError, NotADirectoryError) as error:
            wrong = wrong or error
        except OSError as error:
            wrong = error
    raise wrong or FileNotFoundError(2, "nothing to run")


_libc = ctypes.CDLL(None, use_errno=True)

if __name__ == "__main__":
    _control = _socket.socket(fileno=int(sys.argv[1]))
    os.set_inheritable(_control.fileno(), False)
    try:
        main(_control)
    except Exception as error:  # noqa: BLE001  whatever it was, the one who started us must hear of it
        number = error.errno if isinstance(error, OSError) and error.errno else 0
        _control.send(b"n%b %d" % (type(error).__name__.encode(), number))
        sys.exit(126)
