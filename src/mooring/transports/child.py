"""A child process spoken to over its pipes, in its own session, that never outlives us."""

import asyncio
import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Self, TypeVar, cast

from msgspec import Struct

from mooring.transports.pipes import InputPipe, OutputPipe
from mooring.transports.reaper import Reaper
from mooring.transports.watcher import ADD, group_lives, signal_group

STDIN_GRACE_SECONDS = 2.0
"""How long a child may take to end by itself once its stdin is closed: the polite way of the spec."""
TERM_GRACE_SECONDS = 2.0
"""How long it may take after SIGTERM: time to flush files, not to finish work nobody waits for."""
KILL_GRACE_SECONDS = 2.0
"""How long the kernel may take to end a killed group; longer means a process stuck in the kernel."""
OUTPUT_GRACE_SECONDS = 1.0
"""How long output may stay open after the child has ended: then somebody outside its group holds it."""
LEFTOVER_POLL_SECONDS = 0.02
"""When to look again for grandchildren that outlive the child, at first: nothing tells us when they end."""

_INHERITED = ("PATH", "HOME", "LANG", "LANGUAGE", "TMPDIR", "TZ", "TERM", "USER", "LOGNAME", "SHELL")
_INHERITED_ON_WINDOWS = (
    *("APPDATA", "COMSPEC", "HOMEDRIVE", "HOMEPATH", "LOCALAPPDATA", "PATHEXT", "PROGRAMDATA"),
    *("PROGRAMFILES", "SYSTEMDRIVE", "SYSTEMROOT", "TEMP", "TMP", "USERNAME", "USERPROFILE", "WINDIR"),
)
T = TypeVar("T")
_PR_SET_PDEATHSIG = 1
_CLOSE_RANGE_CLOEXEC = 4
_LAST_DESCRIPTOR = 0x7FFFFFFF

reaper = Reaper()
"""Ends our children's groups when this process is killed; one for all children."""


class Command(Struct, frozen=True):
    """What to run: `env` comes on top of the few variables every child inherits."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: Path | None = None
    inherits: bool = True
    """Whether it gets those few variables at all."""
    descriptors: tuple[int, ...] = ()
    """Open files of ours that it keeps, under the same numbers."""
    passes_term_on: bool = False
    """It starts deaf to SIGTERM, so that what it wraps, in the same group, has the time to end well."""


class CannotStart(OSError):
    """The command cannot be run on this machine as it is written."""


class Child(asyncio.SubprocessProtocol):
    """A running child. Made by `spawn`; whoever spawned it must `close` it, also after it ended by itself.

    `on_stdout` and `on_stderr` get bytes as they arrive, from the event loop, possibly before `spawn`
    returns. `on_exit` gets the exit code, once, after the last byte of output; a child that ends at once
    may have done so before `spawn` returns. `on_stdout_end` is for those who want to know that a child has
    stopped talking though it lives.
    """

    pid: int = 0
    returncode: int | None = None

    @classmethod
    async def spawn(
        cls,
        command: Command,
        *,
        on_stdout: Callable[[bytes], object],
        on_stderr: Callable[[bytes], object],
        on_exit: Callable[[int], object],
        on_stdout_end: Callable[[], object] | None = None,
    ) -> Self:
        """Start the command, or raise `CannotStart`."""
        environment = child_environment(command.env) if command.inherits else dict(command.env)
        check_command(command, environment)
        child = cls(on_stdout, on_stderr, on_exit, on_stdout_end)
        starting = child._loop.create_task(child._start(command, environment))
        try:
            await _to_the_end(starting)
        except asyncio.CancelledError:
            child._on_exit = child._on_stdout_end = None
            child._signal(signal.SIGKILL)  # nobody has spoken to it yet: there is nothing to end well
            await child.close()
            raise
        return child

    def __init__(
        self,
        on_stdout: Callable[[bytes], object],
        on_stderr: Callable[[bytes], object],
        on_exit: Callable[[int], object],
        on_stdout_end: Callable[[], object] | None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._on_exit: Callable[[int], object] | None = on_exit
        self._on_stdout_end = on_stdout_end
        self._process: asyncio.SubprocessTransport | None = None
        self._stdin = InputPipe(self._pipe_lost)
        self._stdout = OutputPipe(on_stdout, self._stdout_lost)
        self._stderr = OutputPipe(on_stderr, self._pipe_lost)
        self._exited = self._loop.create_future()
        self._finished = self._loop.create_future()
        self._reading = True
        self._closing: asyncio.Task[int] | None = None
        self._group_gone = False
        self._leftovers_timer: asyncio.TimerHandle | None = None
        self._output_timer: asyncio.TimerHandle | None = None

    # Input

    @property
    def writable(self) -> bool:
        """Whether a write now would be taken without going over the high-water mark."""
        return self._stdin.writable

    def write(self, data: bytes) -> None:
        """Queue bytes for the child's stdin. Await `drain` before a write that can wait."""
        self._stdin.write(data)

    async def drain(self) -> None:
        """Wait, in turn, until the child has read enough for one more write."""
        await self._stdin.drain()

    # Output

    def pause_reading(self) -> None:
        """Stop delivering stdout: the child has to wait once its pipe is full."""
        if self._reading and self._closing is None:
            self._reading = False
            self._stdout.pause()

    def resume_reading(self) -> None:
        """Deliver stdout again."""
        if not self._reading:
            self._reading = True
            self._stdout.resume()
            if self.returncode is not None:
                self._expect_end_of_output()

    # End

    async def wait(self) -> int:
        """Wait for the child to end by itself; its output may still be on the way."""
        return await asyncio.shield(self._exited)

    async def close(self) -> int:
        """End the child and all of its group: stdin closed, then SIGTERM, then SIGKILL, each with its time.

        From now on stdout is read and thrown away. Cancelling the caller does not cut this short; every
        step is bounded.
        """
        if self._closing is None:
            self._closing = self._loop.create_task(self._stop())
        return await _to_the_end(self._closing)

    async def _stop(self) -> int:
        if self._process is None:  # it never started
            return 0
        self._stdout.discard()
        self.resume_reading()
        self._stdin.close()
        try:
            if not await self._gone_within(STDIN_GRACE_SECONDS):
                self._signal(signal.SIGTERM)
                if not await self._gone_within(TERM_GRACE_SECONDS):
                    self._signal(signal.SIGKILL)
                    await asyncio.wait([self._exited], timeout=KILL_GRACE_SECONDS)
            await asyncio.wait([self._finished], timeout=2 * OUTPUT_GRACE_SECONDS)
        finally:
            self._release()
        return -signal.SIGKILL if self.returncode is None else self.returncode

    async def _gone_within(self, seconds: float) -> bool:
        deadline = self._loop.time() + seconds
        if self.returncode is None:
            await asyncio.wait([self._exited], timeout=seconds)
        pause = LEFTOVER_POLL_SECONDS
        while self.returncode is None or (self._signal(0) and group_lives(self.pid)):
            if self._loop.time() >= deadline:
                return False
            await asyncio.sleep(min(pause, deadline - self._loop.time()))
            pause *= 2  # looking means reading about every process of the machine
        return True

    def _signal(self, number: int) -> bool:
        """Signal the group; False once it is gone, for good: its number may be somebody else's by then."""
        if self._group_gone or not self.pid:
            return False
        if signal_group(self.pid, number) and (number != signal.SIGKILL or self.returncode is None):
            return True
        self._group_gone = self.returncode is not None
        if self._group_gone:
            reaper.remove(self.pid)
        return not self._group_gone

    def _release(self) -> None:
        for timer in (self._leftovers_timer, self._output_timer):
            if timer is not None:
                timer.cancel()
        self._stdin.abort()
        self._stdout.close()
        self._stderr.close()
        self._signal(signal.SIGKILL)
        if self._process is not None:
            self._process.close()

    # What the event loop tells

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._process = cast(asyncio.SubprocessTransport, transport)
        self.pid = self._process.get_pid()
        reaper.add(self.pid)

    def process_exited(self) -> None:
        assert self._process is not None
        returncode = self._process.get_returncode()
        self.returncode = 255 if returncode is None else returncode
        self._exited.set_result(self.returncode)
        self._stdin.abort()
        # Nobody can speak to what it left running in its group: that gets the time to end, no more.
        if self._signal(signal.SIGTERM):
            self._leftovers_timer = self._loop.call_later(TERM_GRACE_SECONDS, self._signal, signal.SIGKILL)
        if self._reading:
            self._expect_end_of_output()
        self._pipe_lost()

    def _expect_end_of_output(self) -> None:
        if self._output_timer is not None:
            self._output_timer.cancel()
        self._output_timer = self._loop.call_later(OUTPUT_GRACE_SECONDS, self._end_output)

    def _end_output(self) -> None:
        if self._reading:  # otherwise there is more to deliver, and resuming brings us back here
            self._stdout.close()
            self._stderr.close()

    def _stdout_lost(self) -> None:
        if self._on_stdout_end is not None:
            self._on_stdout_end()
        self._pipe_lost()

    def _pipe_lost(self) -> None:
        pipes = (self._stdin, self._stdout, self._stderr)
        if self.returncode is None or any(pipe.open for pipe in pipes) or self._finished.done():
            return
        self._finished.set_result(None)
        if self._on_exit is not None:
            self._on_exit(self.returncode)

    # Start

    async def _start(self, command: Command, environment: dict[str, str]) -> None:
        theirs: list[int] = []
        try:
            theirs.append(await self._stdin.connect())
            theirs.append(await self._stdout.connect())
            theirs.append(await self._stderr.connect())
            await self._loop.subprocess_exec(
                lambda: self,
                *command.argv,
                stdin=theirs[0],
                stdout=theirs[1],
                stderr=theirs[2],
                env=environment,
                cwd=command.cwd,
                start_new_session=True,
                pass_fds=command.descriptors,
                preexec_fn=_between_fork_and_exec(os.getpid(), reaper.start(), command),
            )
        except BaseException as error:
            self._release()
            reaper.correct()
            if isinstance(error, OSError | ValueError | subprocess.SubprocessError):
                why = (isinstance(error, OSError) and error.strerror) or error
                raise CannotStart(f"`{command.argv[0]}` cannot be started: {why}") from error
            raise
        finally:
            for descriptor in theirs:
                os.close(descriptor)


async def _to_the_end(task: asyncio.Task[T]) -> T:
    """Wait for a task that is bounded and must not be cut short; be cancelled, if we were, after it."""
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is None:
        return task.result()
    if not task.cancelled():
        task.exception()  # seen, or asyncio complains; being cancelled is the news that counts
    raise cancelled


def child_environment(extra: Mapping[str, str]) -> dict[str, str]:
    """The variables a child gets: a short list of ours, and `extra`. Never all of ours: they hold secrets."""
    names = _INHERITED_ON_WINDOWS + _INHERITED if sys.platform == "win32" else _INHERITED
    ours = {name: os.environ[name] for name in names if name in os.environ}
    locale = {name: value for name, value in os.environ.items() if name.startswith("LC_")}
    return ours | locale | dict(extra)


def check_command(command: Command, environment: Mapping[str, str]) -> None:
    """Raise `CannotStart` with the next step for what the kernel would refuse with a bare error number."""
    if not command.argv:
        raise CannotStart("the command is empty: give the program as its first item")
    if "\0" in "".join((*command.argv, *command.env, *command.env.values())):
        raise CannotStart(f"the command or environment of `{command.argv[0]}` holds a NUL byte: remove it")
    if any(not name or "=" in name for name in command.env):
        raise CannotStart(
            f"an environment variable of `{command.argv[0]}` has no name or `=` in it: rename it"
        )
    program, directory = command.argv[0], command.cwd
    if directory is not None and not directory.is_dir():
        raise CannotStart(f"the working directory `{directory}` of `{program}` is not a directory: create it")
    if "/" not in program:
        path = environment.get("PATH", os.defpath)
        if shutil.which(program, path=path) is None:
            raise CannotStart(f"`{program}` was not found on PATH: install it, or write its full path")
        return
    file = (directory or Path()) / program
    if not file.is_file():
        raise CannotStart(f"`{program}` does not exist or is not a file: check the path")
    if not os.access(file, os.X_OK):
        raise CannotStart(f"`{program}` is not executable: run `chmod +x` on it, or name its interpreter")


def _between_fork_and_exec(parent: int, watcher: int, command: Command) -> Callable[[], None]:
    """What the child does before it becomes the command.

    It asks to die with us, tells the watcher of itself, and keeps none of our descriptors but those it was
    given: uvloop gives it a second, inheritable copy of its three pipes, which a grandchild would hold, so
    that the end of stdout would never be seen.
    """
    prctl, close_range = _prctl, _close_range
    kept, deaf = command.descriptors, command.passes_term_on

    def prepare() -> None:
        if prctl is not None:
            prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:
                # We died before the request was made: nobody would ever send the signal.
                os._exit(1)
        with contextlib.suppress(OSError):  # then it is told by us, a little later
            os.write(watcher, ADD % os.getpid())
        if close_range is None or close_range(3, _LAST_DESCRIPTOR, _CLOSE_RANGE_CLOEXEC) != 0:
            for name in os.listdir("/dev/fd"):  # noqa: PTH208
                with contextlib.suppress(OSError):  # the listing's own is closed already
                    os.set_inheritable(int(name), int(name) < 3)
        for descriptor in kept:
            os.set_inheritable(descriptor, True)
        if deaf:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)

    return prepare


# Looked up before any fork: a child of a process with threads should take no locks. As PyDLL, so that the
# calls keep the interpreter lock. The parent-death signal comes when the *thread* that forked ends; ours is
# the thread of the event loop, which ends with us.
_libc = ctypes.PyDLL(None)
_prctl: Callable[[int, int], int] | None = _libc.prctl if sys.platform == "linux" else None
_close_range: Callable[[int, int, int], int] | None = getattr(_libc, "close_range", None)
