"""One start of a sandboxed process: its command, the sockets it hands out, what is tidied after it."""

from __future__ import annotations

import asyncio
import os
import platform
import resource
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from mooring.transports.child import CannotStart, Command
from mooring.workloads import seccomp
from mooring.workloads.cgroups import Group, Hierarchy, announce_move, make_group
from mooring.workloads.egress.proxy import PORT
from mooring.workloads.runtime import CannotRun, ResourceLimits
from mooring.workloads.sandbox.bubblewrap import Files, command_line
from mooring.workloads.sandbox.inside import InsideNetwork, receive
from mooring.workloads.sandbox.orders import Orders, reason
from mooring.workloads.sandbox.plan import View

START_SECONDS: Final = 30.0
"""How long the sandbox may take until the server runs in it; a busy machine needs a second."""
MAX_ORDER_BYTES: Final = 128 * 1024  # what a socket takes without anybody reading yet
GROUP_POLL_SECONDS: Final = 0.05
GROUP_TRIES: Final = 40
_SPARE_ADDRESS_SPACE: Final = 4


@dataclass(frozen=True, slots=True)
class Program:
    """What runs inside, the same for every start of one workload."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    limits: ResourceLimits
    files: Files
    hierarchy: Hierarchy | None
    group_name: str


class Launch:
    """Used once: make it, spawn its `command`, await `finish`, and `tidy` after the process has ended."""

    def __init__(self, program: Program, view: View | None, number: int, *, cwd: Path | None = None) -> None:
        self.group = _group(program, number)
        self._announced = _announce_move(self.group)
        self._open: list[int] = []
        self._ours, theirs = socket.socketpair()
        try:
            self._open.append(theirs.detach())
            joins = self.group.join_descriptors() if self.group else []
            self._open += joins
            filter_file = _filter_file() if view is not None else None
            if filter_file is not None:
                self._open.append(filter_file)
            self._give_orders(program, view, joins)
            self.command = Command(
                self._command_line(program, view, filter_file),
                {},
                Path("/") if view is not None else cwd,  # the sandbox goes to its own folder by itself
                inherits=False,
                descriptors=tuple(self._open),
                passes_term_on=True,
            )
        except BaseException:
            self.abandon()
            raise
        self._sandboxed = view is not None

    def _command_line(self, program: Program, view: View | None, filter_file: int | None) -> tuple[str, ...]:
        if view is not None:
            return command_line(view, program.files, control=self._open[0], seccomp=filter_file)
        return (*program.files.launcher_outside(), str(self._open[0]))

    def _give_orders(self, program: Program, view: View | None, joins: list[int]) -> None:
        orders = Orders(
            program.argv,
            program.env,
            ports=[PORT, 0] if view is not None else [],
            groups=joins,
            limits=process_limits(program.limits, self.group, own_namespace=view is not None),
            paths=view.landlock_rules() if view is not None else [],
        )
        data = orders.encode()
        if len(data) > MAX_ORDER_BYTES:
            raise CannotRun("the command and its environment are too long together: shorten them")
        self._ours.sendall(data)

    async def finish(self) -> InsideNetwork | None:
        """Wait until the server runs; `CannotStart` says why it does not."""
        self._close_theirs()
        try:
            async with asyncio.timeout(START_SECONDS):
                network = await self._receive_network() if self._sandboxed else None
                data, _ = await receive(self._ours)
                if self._announced is not None:
                    await self._announced
        except TimeoutError as error:
            raise CannotStart(f"the sandbox did not start within {START_SECONDS:g} seconds") from error
        finally:
            self._ours.close()
        if data:
            if network is not None:
                network.close()
            raise CannotStart(f"the sandbox could not start the server: {reason(data)}")
        return network

    async def _receive_network(self) -> InsideNetwork:
        data, descriptors = await receive(self._ours)
        if data[:1] == b"n":
            raise CannotStart(f"the sandbox failed: {reason(data)}")
        if len(descriptors) != 3:
            raise CannotStart("bubblewrap could not make the sandbox")
        egress, meeting, seed = (socket.socket(fileno=descriptor) for descriptor in descriptors)
        return InsideNetwork(egress, meeting, seed)

    def abandon(self) -> None:
        """Nothing was started: leave nothing behind."""
        self._close_theirs()
        self._ours.close()
        if self.group is not None:
            self.group.remove()

    async def tidy(self) -> None:
        """Remove the control group once the last process has left it."""
        for _ in range(GROUP_TRIES):
            if self.group is None or self.group.remove():
                return
            await asyncio.sleep(GROUP_POLL_SECONDS)

    def _close_theirs(self) -> None:
        for descriptor in self._open:
            os.close(descriptor)
        self._open.clear()


def _group(program: Program, number: int) -> Group | None:
    if program.hierarchy is None:
        return None
    with suppress(OSError):  # then every process is limited by itself
        return make_group(program.hierarchy, f"{program.group_name}-{number}", program.limits)
    return None


def _announce_move(group: Group | None) -> asyncio.Future[None] | None:
    if group is None or group.version == 1:
        return None
    return asyncio.get_running_loop().run_in_executor(None, announce_move)


def _filter_file() -> int | None:
    machine = platform.machine()
    if not seccomp.supported(machine):
        return None
    descriptor = os.memfd_create("seccomp", os.MFD_CLOEXEC)
    os.write(descriptor, _filter_program(machine))
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor


_filter_program = lru_cache(maxsize=1)(seccomp.filter_program)


def process_limits(
    limits: ResourceLimits, group: Group | None, *, own_namespace: bool
) -> list[tuple[int, int]]:
    """The limits every process has by itself. They are the only ones where there is no control group."""
    found = [(resource.RLIMIT_CORE, 0)]
    grouped = group.controllers if group is not None else frozenset[str]()
    if limits.open_files is not None:
        found.append((resource.RLIMIT_NOFILE, limits.open_files))
    if limits.memory_bytes is not None:
        # Reserved and touched memory are one thing to this limit; behind a group it only stops the absurd.
        spare = _SPARE_ADDRESS_SPACE if "memory" in grouped else 1
        found.append((resource.RLIMIT_DATA, limits.memory_bytes * spare))
    if limits.processes is not None and own_namespace and _counts_per_namespace():
        found.append((resource.RLIMIT_NPROC, limits.processes))
    return found


def _counts_per_namespace() -> bool:
    """Older kernels count all processes of the user here, not those of the sandbox."""
    major, minor = (int(part) for part in platform.release().split(".")[:2])
    return (major, minor) >= (5, 14)
