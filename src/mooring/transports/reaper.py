"""Kills what our children leave running: behind them when they end, behind us when we are killed.

A process that is killed with -9 cannot clean up after itself, so a second one watches it. It holds the read
end of a pipe whose only write end is ours: the kernel closes that when we die, however we die, and at the
end of the pipe the watcher kills every session that was added and not removed. This file is both halves:
imported, it is our side; run as a program, with the standard library alone, it is the watcher.

A child leads its own session and, in it, its own process group. A grandchild may move to another group (the
shell's job control and `timeout` do that), so on Linux the watcher looks for the whole session. Who starts a
session of his own means to live on as a daemon; that is not undone here.
"""

import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

REAP_SECONDS = 1.0
"""How long the watcher may take to end once its pipe is closed; it has nothing to wait for."""

_ADD, _REMOVE = b"+", b"-"
_DEAD = (b"Z", b"X")
_SWALLOWED = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
_STDIN, _STDOUT, _STDERR = range(3)


class Reaper:
    """Our side: one watcher per process, started when it is first needed and again should it have died."""

    def __init__(self) -> None:
        self._sessions: set[int] = set()
        self._pipe: int | None = None
        self._watcher: int | None = None

    def start(self) -> None:
        """Have the watcher running, so that adding a child is one small write."""
        if self._pipe is None:
            self._restart()

    def add(self, session: int) -> None:
        """From now on `session` is killed when this process ends."""
        self._sessions.add(session)
        if self._pipe is None or not self._tell(_ADD, [session]):
            self._restart()

    def remove(self, session: int) -> None:
        """The child has ended: the watcher kills what is left of its session, and forgets it."""
        self._sessions.discard(session)
        if self._pipe is not None:
            self._tell(_REMOVE, [session])

    def close(self) -> None:
        """Let the watcher go; it kills what was not removed."""
        self._drop()
        self._sessions.clear()

    def _restart(self) -> None:
        self._drop()
        read_end, write_end = os.pipe()
        os.set_blocking(write_end, False)
        try:
            self._watcher = _spawn_watcher(read_end)
        except BaseException:
            os.close(write_end)
            raise
        finally:
            os.close(read_end)
        self._pipe = write_end
        self._tell(_ADD, sorted(self._sessions))

    def _tell(self, verb: bytes, sessions: Iterable[int]) -> bool:
        assert self._pipe is not None
        lines = b"".join(b"%b%d\n" % (verb, session) for session in sessions)
        try:
            os.write(self._pipe, lines)
        except BrokenPipeError:
            return False
        except BlockingIOError:
            # It does not read: somebody has stopped it. Were it to go on later, it would find its pipe
            # closed and kill sessions that are alive.
            if self._watcher is not None:
                os.kill(self._watcher, signal.SIGKILL)
            return False
        return True

    def _drop(self) -> None:
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None
        if self._watcher is not None:
            _reap(self._watcher)
            self._watcher = None


def signal_group(group: int, number: int) -> bool:
    """Send a signal to a process group; tell whether there was anybody to receive it."""
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        return False
    except PermissionError:
        # Nobody in it may be signalled by us any more: they run as another user. They are still there.
        return True
    return True


def group_lives(group: int) -> bool:
    """Whether anybody in the group still runs.

    Dead members count for a signal until their parent asks after them. For orphans that is process 1, which
    in a container may never do it.
    """
    if not signal_group(group, 0):
        return False
    members = [process for process in _processes() if process.group == group]
    return not members or any(process.state not in _DEAD for process in members)


def _spawn_watcher(read_end: int) -> int:
    return os.posix_spawn(
        sys.executable,
        [sys.executable, "-I", "-S", str(Path(__file__).resolve())],
        os.environ,
        file_actions=[
            (os.POSIX_SPAWN_DUP2, read_end, _STDIN),
            (os.POSIX_SPAWN_OPEN, _STDOUT, os.devnull, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_OPEN, _STDERR, os.devnull, os.O_WRONLY, 0),
        ],
        # Its own group, and deaf: a Ctrl-C or a TERM that is meant for us must not end it before us.
        setpgroup=0,
        setsigmask=_SWALLOWED,
    )


def _reap(watcher: int) -> None:
    deadline = time.monotonic() + REAP_SECONDS
    while os.waitpid(watcher, os.WNOHANG) == (0, 0) and time.monotonic() < deadline:
        time.sleep(0.002)


def _watch() -> None:
    """The watcher's life."""
    os.chdir("/")  # hold no directory of somebody's
    sessions: set[int] = set()
    unread = b""
    while data := os.read(_STDIN, 65536):
        *lines, unread = (unread + data).split(b"\n")
        ended: set[int] = set()
        for line in lines:
            joined, left = (sessions, ended) if line[:1] == _ADD else (ended, sessions)
            joined.add(int(line[1:]))
            left.discard(int(line[1:]))
        _kill_sessions(ended)
    _kill_sessions(sessions)


def _kill_sessions(sessions: set[int]) -> None:
    for session in sessions:
        signal_group(session, signal.SIGKILL)
    if not sessions:
        return
    for process in _processes():
        if process.session in sessions:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(process.pid, signal.SIGKILL)


class _Process(NamedTuple):
    pid: int
    state: bytes
    group: int
    session: int


def _processes() -> Iterator[_Process]:
    """What runs on this machine, where the kernel shows it as files; nothing elsewhere."""
    if sys.platform != "linux":
        return
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with contextlib.suppress(OSError):  # it has ended meanwhile
                stat = Path(entry.path, "stat").read_bytes()
                # pid (name) state parent group session ...; the name may hold anything, brackets too.
                state, _, group, session = stat[stat.rindex(b")") + 1 :].split(maxsplit=4)[:4]
                yield _Process(int(entry.name), state, int(group), int(session))


if __name__ == "__main__":
    _watch()
