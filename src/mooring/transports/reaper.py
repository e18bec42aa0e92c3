"""Kills the process groups of our children when we are gone, however we went.

A process that is killed with -9 cannot clean up after itself, so a second one watches it. It holds the read
end of a pipe whose only write end is ours: the kernel closes that when we die, and at the end of the pipe
the watcher kills every group that was added and not removed. This file is both halves: imported, it is our
side; run as a program (with the standard library alone), it is the watcher.
"""

import os
import signal
import sys
import time
from collections.abc import Iterable
from pathlib import Path

REAP_SECONDS = 1.0
"""How long the watcher may take to end once its pipe is closed; it has nothing to wait for."""

_ADD, _REMOVE = b"+", b"-"


class Reaper:
    """Our side: one watcher per process, started with the first group and again should it have died."""

    def __init__(self) -> None:
        self._groups: set[int] = set()
        self._pipe: int | None = None
        self._pid: int | None = None

    def add(self, group: int) -> None:
        """From now on `group` is killed when this process ends."""
        self._groups.add(group)
        if self._pipe is None or not self._told(_ADD, [group]):
            self._start()

    def remove(self, group: int) -> None:
        """The group has ended; its number may be given to somebody else from now on."""
        self._groups.discard(group)
        if self._pipe is not None:
            self._told(_REMOVE, [group])

    def close(self) -> None:
        """Let the watcher go; it kills what was not removed first."""
        self._drop()
        self._groups.clear()

    def start(self) -> None:
        """Have the watcher running before the first child is, so that adding it is one small write."""
        if self._pipe is None:
            self._start()

    def _start(self) -> None:
        self._drop()
        read_end, write_end = os.pipe()
        try:
            self._pid = _spawn_watcher(read_end)
        except BaseException:
            os.close(write_end)
            raise
        finally:
            os.close(read_end)
        self._pipe = write_end
        self._told(_ADD, sorted(self._groups))

    def _told(self, verb: bytes, groups: Iterable[int]) -> bool:
        assert self._pipe is not None
        lines = b"".join(b"%b%d\n" % (verb, group) for group in groups)
        try:
            os.write(self._pipe, lines)
        except BrokenPipeError:
            return False
        return True

    def _drop(self) -> None:
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None
        if self._pid is not None:
            _reap(self._pid)
            self._pid = None


def signal_group(group: int, number: int) -> bool:
    """Send a signal to a process group; tell whether there was anybody to receive it."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        # Some member may not be signalled by us (it changed its user); the others were.
        return True
    return True


def _reap(pid: int) -> None:
    deadline = time.monotonic() + REAP_SECONDS
    while os.waitpid(pid, os.WNOHANG) == (0, 0) and time.monotonic() < deadline:
        time.sleep(0.002)


def _spawn_watcher(read_end: int) -> int:
    program = [sys.executable, "-I", "-S", str(Path(__file__).resolve())]
    return os.posix_spawn(
        sys.executable,
        program,
        os.environ,
        file_actions=[
            (os.POSIX_SPAWN_DUP2, read_end, 0),
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
        ],
        # Its own group, and nothing it could be asked to stop by: Ctrl-C in our terminal is not for it.
        setpgroup=0,
        setsigmask=[signal.SIGINT, signal.SIGTERM, signal.SIGHUP],
    )


def _watch() -> None:
    os.chdir("/")
    groups: set[int] = set()
    for line in sys.stdin.buffer:
        group = int(line[1:])
        if line[:1] == _ADD:
            groups.add(group)
        else:
            groups.discard(group)
    for group in groups:
        signal_group(group, signal.SIGKILL)


if __name__ == "__main__":
    _watch()
