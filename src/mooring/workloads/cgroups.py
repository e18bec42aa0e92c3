"""Limits for a whole tree of processes through control groups: version 2, version 1, or none, as detected.

A group is a folder that whoever may write it has made; the processes join before they become the server, so
that nothing ever runs outside it. What cannot be limited so falls to the limits every process has itself.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mooring.workloads.runtime import ResourceLimits, Usage

PERIOD_MICROSECONDS: Final = 100_000
_ROOT: Final = Path("/sys/fs/cgroup")
_OWN: Final = Path("/proc/self/cgroup")
_CONTROLLERS: Final = ("memory", "pids", "cpu")


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """Where groups can be made: per controller a folder; in version 2 it is the same one for all."""

    version: int
    folders: tuple[tuple[str, Path], ...]


@dataclass(frozen=True, slots=True)
class Group:
    """The group of one process tree."""

    version: int
    folders: tuple[tuple[str, Path], ...]

    @property
    def controllers(self) -> frozenset[str]:
        return frozenset(name for name, _ in self.folders)

    def join_descriptors(self) -> list[int]:
        """Open files; a process of one thread that writes `0` to each of them is in the group."""
        # Moving a process waits for every processor to take notice (10 to 20 ms), moving a thread does not.
        name = "cgroup.procs" if self.version == 2 else "tasks"
        unique = dict.fromkeys(folder for _, folder in self.folders)
        return [os.open(folder / name, os.O_WRONLY | os.O_CLOEXEC) for folder in unique]

    def usage(self) -> Usage | None:
        """What the tree uses now; None when the kernel does not say."""
        folders = dict(self.folders)
        if "memory" not in folders or "pids" not in folders:
            return None
        memory = "memory.current" if self.version == 2 else "memory.usage_in_bytes"
        try:
            return Usage(
                int((folders["memory"] / memory).read_text()),
                self._cpu_seconds(folders),
                int((folders["pids"] / "pids.current").read_text()),
            )
        except (OSError, ValueError):
            return None

    def _cpu_seconds(self, folders: dict[str, Path]) -> float:
        if self.version == 2:
            for line in (folders["memory"] / "cpu.stat").read_text().splitlines():
                if line.startswith("usage_usec "):
                    return int(line.split()[1]) / 1e6
        elif "cpuacct" in folders:
            return int((folders["cpuacct"] / "cpuacct.usage").read_text()) / 1e9
        return 0.0

    def ran_out_of_memory(self) -> bool:
        """Whether the kernel ended a process of the tree for want of memory."""
        folder = dict(self.folders).get("memory")
        if folder is None:
            return False
        name = "memory.events" if self.version == 2 else "memory.oom_control"
        with suppress(OSError, ValueError):
            for line in (folder / name).read_text().splitlines():
                if line.startswith("oom_kill ") and int(line.split()[1]):
                    return True
        return False

    def remove(self) -> bool:
        """Remove the group; False while something still runs in it."""
        removed = True
        for folder in dict.fromkeys(folder for _, folder in self.folders):
            try:
                folder.rmdir()
            except FileNotFoundError:
                continue
            except OSError as error:
                if error.errno != errno.EBUSY:
                    continue
                removed = False
        return removed


def announce_move(root: Path = _ROOT, own: Path = _OWN) -> None:
    """Begin the wait of version 2 for every processor, so that it is over when a process joins a group.

    Any move does; this one is ours to where we are. It lasts as long as the wait.
    """
    with suppress(OSError):  # then the one who joins waits
        (root / _own_path(own, "").lstrip("/") / "cgroup.procs").write_text(str(os.getpid()))


def detect(root: Path = _ROOT, own: Path = _OWN) -> Hierarchy | None:
    """The hierarchy in which we may make groups; None when we may not, or there is none."""
    if (root / "cgroup.controllers").exists():
        return _detect_unified(root, own)
    folders: list[tuple[str, Path]] = []
    for name in (*_CONTROLLERS, "cpuacct"):
        folder = root / name / _own_path(own, name).lstrip("/")
        if (folder / "cgroup.procs").exists() and os.access(folder, os.W_OK):
            folders.append((name, folder))
    return Hierarchy(1, tuple(folders)) if folders else None


def _detect_unified(root: Path, own: Path) -> Hierarchy | None:
    """Version 2: below our own group if it was given to us, or below the root of all."""
    for folder in (root / _own_path(own, "").lstrip("/"), root):
        if not os.access(folder, os.W_OK):
            continue
        with suppress(OSError):
            available = (folder / "cgroup.controllers").read_text().split()
            wanted = [name for name in _CONTROLLERS if name in available]
            # Refused while processes sit in the group itself, unless it is the root: then look further up.
            (folder / "cgroup.subtree_control").write_text(" ".join(f"+{name}" for name in wanted))
            return Hierarchy(2, tuple((name, folder) for name in wanted))
    return None


def _own_path(own: Path, controller: str) -> str:
    with suppress(OSError):
        for line in own.read_text().splitlines():
            _, names, path = line.split(":", 2)
            if controller in names.split(",") if controller else not names:
                return path
    return "/"


def make_group(hierarchy: Hierarchy, name: str, limits: ResourceLimits) -> Group:
    """A group with these limits; OSError when the kernel does not take them."""
    group = Group(hierarchy.version, tuple((kind, folder / name) for kind, folder in hierarchy.folders))
    try:
        for folder in dict.fromkeys(folder for _, folder in group.folders):
            folder.mkdir(exist_ok=True)
        folders = dict(group.folders)
        settings = _unified_settings(limits) if hierarchy.version == 2 else _legacy_settings(limits)
        for controller, file, value, required in settings:
            if controller in folders:
                _set(folders[controller] / file, value, required=required)
    except OSError:
        group.remove()
        raise
    return group


def _set(file: Path, value: str, *, required: bool) -> None:
    try:
        file.write_text(value)
    except OSError:
        if required:
            raise


def _unified_settings(limits: ResourceLimits) -> list[tuple[str, str, str, bool]]:
    settings: list[tuple[str, str, str, bool]] = []
    if limits.memory_bytes is not None:
        settings.append(("memory", "memory.max", str(limits.memory_bytes), True))
        settings.append(("memory", "memory.swap.max", "0", False))  # not there without swap accounting
    if limits.processes is not None:
        settings.append(("pids", "pids.max", str(limits.processes), True))
    if limits.cpus is not None:
        quota = int(limits.cpus * PERIOD_MICROSECONDS)
        settings.append(("cpu", "cpu.max", f"{quota} {PERIOD_MICROSECONDS}", True))
    return settings


def _legacy_settings(limits: ResourceLimits) -> list[tuple[str, str, str, bool]]:
    settings: list[tuple[str, str, str, bool]] = []
    if limits.memory_bytes is not None:
        memory = str(limits.memory_bytes)
        settings.append(("memory", "memory.limit_in_bytes", memory, True))
        settings.append(("memory", "memory.memsw.limit_in_bytes", memory, False))
    if limits.processes is not None:
        settings.append(("pids", "pids.max", str(limits.processes), True))
    if limits.cpus is not None:
        settings.append(("cpu", "cpu.cfs_period_us", str(PERIOD_MICROSECONDS), True))
        settings.append(("cpu", "cpu.cfs_quota_us", str(int(limits.cpus * PERIOD_MICROSECONDS)), True))
    return settings


def leftover_groups(hierarchy: Hierarchy, prefix: str) -> list[Group]:
    """Groups with this prefix that are still there: of a daemon that could not clean up after itself."""
    names = {
        folder.name
        for _, parent in hierarchy.folders
        for folder in parent.glob(f"{prefix}*")
        if folder.is_dir()
    }
    return [
        Group(hierarchy.version, tuple((kind, folder / name) for kind, folder in hierarchy.folders))
        for name in sorted(names)
    ]
