"""Kills what our children leave running: behind them when they end, behind us when we are killed.

A process that is killed with -9 cannot clean up after itself, so a second one watches it (`watcher.py`). It
holds the read end of a pipe whose only write end is ours: the kernel closes that when we die, however we
die, and at the end of the pipe the watcher kills every session that was added and not removed.

A child leads its own session and, in it, its own process group. A grandchild may move to another group (the
shell's job control and `timeout` do that), so on Linux the watcher looks for the whole session. Who starts a
session of his own means to live on as a daemon; that is not undone here.
"""

import os
import signal
import sys
import time

from mooring.transports import watcher

REAP_SECONDS = 1.0
"""How long the watcher may take to end once its pipe is closed; it has nothing to wait for."""

_LINES_AT_ONCE = 256  # fewer bytes than a pipe takes in one piece, so that a child's line is never inside
_SWALLOWED = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]


class Reaper:
    """Our side: one watcher per process, started when it is first needed and again should it have died."""

    def __init__(self) -> None:
        self._sessions: set[int] = set()
        self._pipe: int | None = None
        self._watcher: int | None = None

    def start(self) -> int:
        """Have the watcher running; return where to write to it.

        A child writes its own `introduction` there before it becomes the command: were that left to us, we
        could be killed in between.
        """
        if self._watcher is not None and os.waitpid(self._watcher, os.WNOHANG) != (0, 0):
            self._watcher = None
        if self._pipe is None or self._watcher is None:
            self._restart()
        assert self._pipe is not None
        return self._pipe

    def add(self, session: int) -> None:
        """From now on `session` is killed when this process ends."""
        self._sessions.add(session)
        if self._pipe is None or not self._tell([watcher.ADD % session]):
            self._restart()

    def remove(self, session: int) -> None:
        """The child has ended: the watcher kills what is left of its session, and forgets it."""
        self._sessions.discard(session)
        if self._pipe is not None:
            self._tell([watcher.REMOVE % session])

    def correct(self) -> None:
        """Somebody introduced himself and did not become a child of ours: only those we added count."""
        lines = [watcher.FORGET, *(watcher.ADD % session for session in sorted(self._sessions))]
        if self._pipe is not None and not self._tell(lines):
            self._restart()

    def close(self) -> None:
        """Let the watcher go; it kills what was not removed."""
        self._drop()
        self._sessions.clear()

    def _restart(self) -> None:
        self._drop()
        read_end, write_end = os.pipe()
        try:
            self._watcher = _spawn_watcher(read_end)
        except BaseException:
            os.close(write_end)
            raise
        finally:
            os.close(read_end)
        self._pipe = write_end
        self._tell([watcher.ADD % session for session in sorted(self._sessions)])
        os.set_blocking(write_end, False)

    def _tell(self, lines: list[bytes]) -> bool:
        assert self._pipe is not None
        try:
            for start in range(0, len(lines), _LINES_AT_ONCE):
                os.write(self._pipe, b"".join(lines[start : start + _LINES_AT_ONCE]))
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


def _spawn_watcher(read_end: int) -> int:
    return os.posix_spawn(
        sys.executable,
        [sys.executable, "-I", "-S", watcher.__file__],
        os.environ,
        file_actions=[
            (os.POSIX_SPAWN_DUP2, read_end, 0),
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
        ],
        # Its own group, and deaf: a Ctrl-C or a TERM that is meant for us must not end it before us.
        setpgroup=0,
        setsigmask=_SWALLOWED,
    )


def _reap(watcher_pid: int) -> None:
    deadline = time.monotonic() + REAP_SECONDS
    while os.waitpid(watcher_pid, os.WNOHANG) == (0, 0) and time.monotonic() < deadline:
        time.sleep(0.002)
