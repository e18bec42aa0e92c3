"""Processes under measurement: started pinned to a CPU, counted with all their children, always stopped."""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

# Read before anything is pinned. With a single CPU target and load share it: only ratios say anything then.
CPUS = sorted(os.sched_getaffinity(0))
TARGET_CPU = CPUS[0]
LOAD_CPU = CPUS[1 % len(CPUS)]
STOP_SECONDS = 3.0
OPEN_FILES = 20_000
_PARENT_DEATH_SIGNAL = 1  # PR_SET_PDEATHSIG
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_libc = ctypes.CDLL(None)


def pin_here(cpu: int) -> None:
    os.sched_setaffinity(0, {cpu})


def allow_open_files(wanted: int = OPEN_FILES) -> int:
    """Raises this process's limit of open files as far as allowed and returns it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    return limit


@dataclass(frozen=True, slots=True)
class Memory:
    resident_kb: int
    peak_kb: int


class Process:
    """One started command and everything it started, as one sum of CPU time and memory."""

    def __init__(self, command: Sequence[str], *, cpu: int, log: Path, environment: dict[str, str]) -> None:
        self.command = list(command)
        self.log = log
        self.started = time.perf_counter()
        with log.open("ab") as sink:
            self._child = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                env=environment,
                start_new_session=True,
                preexec_fn=_prepare(cpu),  # noqa: PLW1509 the benchmark has no threads
            )

    @property
    def pid(self) -> int:
        return self._child.pid

    def alive(self) -> bool:
        return self._child.poll() is None

    def first_line(self, seconds: float = 5.0) -> str:
        """The first line the command printed."""
        wait_until(lambda: "\n" in self.log.read_text(errors="replace") or not self.alive(), seconds)
        return self.log.read_text(errors="replace").partition("\n")[0].strip()

    def cpu_seconds(self) -> float:
        """User and system time of the whole tree, children that ended included.

        Live processes are read from their CPU clock (nanoseconds); what ended is only known in ticks.
        """
        total = 0.0
        for pid in self.tree():
            try:
                total += time.clock_gettime(_cpu_clock(pid)) + _reaped_seconds(pid)
            except OSError:
                continue
        return total

    def memory(self) -> Memory:
        resident = peak = 0
        for pid in self.tree():
            fields = _status(pid)
            resident += fields.get("VmRSS", 0)
            peak += fields.get("VmHWM", 0)
        return Memory(resident, peak)

    def forget_peak(self) -> None:
        """Makes the next `memory().peak_kb` count from now."""
        for pid in self.tree():
            try:
                Path(f"/proc/{pid}/clear_refs").write_text("5")
            except OSError:
                continue

    def tree(self) -> list[int]:
        return list(_descend(self.pid))

    def log_tail(self, lines: int = 12) -> str:
        try:
            return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
        except OSError:
            return ""

    def stop(self) -> None:
        """Asks the command to end, then makes it; what it left behind in groups of its own ends too."""
        born = {pid: _born(pid) for pid in self.tree()}
        for wish in (signal.SIGTERM, signal.SIGKILL):
            _signal_group(self.pid, wish)
            if wait_until(lambda: not self.alive(), STOP_SECONDS):
                break
        _signal_group(self.pid, signal.SIGKILL)
        for pid, birth in born.items():
            if birth and _born(pid) == birth:
                _signal(pid, signal.SIGKILL)


def wait_until(done: Callable[[], bool], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while not done():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)
    return True


def _prepare(cpu: int) -> Callable[[], None]:
    def prepare() -> None:
        # The kernel ends the child when the benchmark dies, even by kill -9.
        _libc.prctl(_PARENT_DEATH_SIGNAL, signal.SIGTERM, 0, 0, 0)
        os.sched_setaffinity(0, {cpu})

    return prepare


def _cpu_clock(pid: int) -> int:
    """The clock id of another process's CPU time (what clock_getcpuclockid(3) computes)."""
    return (~pid << 3) | 2


def _reaped_seconds(pid: int) -> float:
    fields = _stat_fields(pid)
    return (int(fields[13]) + int(fields[14])) / _TICKS_PER_SECOND


def _stat_fields(pid: int) -> list[str]:
    """The fields of /proc/PID/stat after the command's name, which may itself contain anything."""
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def _born(pid: int) -> str:
    """When a process started: tells it from a later one with the same number."""
    try:
        return _stat_fields(pid)[19]
    except OSError:
        return ""


def _status(pid: int) -> dict[str, int]:
    found: dict[str, int] = {}
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            name, _, value = line.partition(":")
            if name in {"VmRSS", "VmHWM"}:
                found[name] = int(value.split()[0])
    except OSError:
        return found
    return found


def _descend(pid: int) -> Iterator[int]:
    yield pid
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return
    for task in tasks:
        try:
            children = (task / "children").read_text().split()
        except OSError:
            continue
        for child in children:
            yield from _descend(int(child))


def _signal_group(pid: int, wish: signal.Signals) -> None:
    try:
        os.killpg(pid, wish)
    except (ProcessLookupError, PermissionError):
        return


def _signal(pid: int, wish: signal.Signals) -> None:
    try:
        os.kill(pid, wish)
    except (ProcessLookupError, PermissionError):
        return
