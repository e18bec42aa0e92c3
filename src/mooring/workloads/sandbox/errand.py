"""A command that runs in a sandbox to its end: it has the network, and one folder to fill."""

from __future__ import annotations

import asyncio
import ipaddress
import itertools
import os
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from mooring.transports.child import CannotStart, Child
from mooring.workloads.cgroups import Hierarchy
from mooring.workloads.egress.gate import Gate
from mooring.workloads.egress.policy import EgressPolicy
from mooring.workloads.egress.proxy import EgressProxy
from mooring.workloads.environment import base_environment
from mooring.workloads.profile import Outbound
from mooring.workloads.runtime import CannotRun, Event, MountPoint, OnEvent, OnProgress, ResourceLimits, Said
from mooring.workloads.sandbox.bubblewrap import Files
from mooring.workloads.sandbox.launch import Launch, Program
from mooring.workloads.sandbox.plan import view_of
from mooring.workloads.sandbox.program import find_program, readable_for
from mooring.workloads.sandbox.tree import ProcessTree, TreeEvents

ERRAND_SECONDS: Final = 900.0
"""How long one step of an installation may take; a compiler in it needs minutes."""
LIMITS: Final = ResourceLimits(memory_bytes=4 * 1024**3, processes=2048, open_files=65536)
_SHOWN_BYTES: Final = 1500


@dataclass(frozen=True, slots=True)
class Errand:
    """What to run, what it may write, and which hosts it may reach although they are not on the internet."""

    argv: tuple[str, ...]
    folder: Path
    env: Mapping[str, str]
    hosts: tuple[str, ...] = ()
    readable: tuple[Path, ...] = ()


@dataclass(frozen=True, slots=True)
class Errands:
    """Runs errands, in a sandbox or (only when the user said so) without one."""

    files: Files
    hierarchy: Hierarchy | None
    group_name: str
    home: Path
    numbers: itertools.count[int]
    sandboxed: bool = True

    def without_sandbox(self) -> Errands:
        return replace(self, sandboxed=False)

    async def run(self, errand: Errand, progress: OnProgress) -> str:
        """Its output, when it succeeded; `CannotRun` with the end of it when not."""
        output = bytearray()

        def hear(event: Event) -> None:
            if isinstance(event, Said):
                output.extend(event.data)

        refused: list[str] = []
        gate = Gate(await install_policy(errand.hosts), lambda event: refused.append(event.target))
        proxy = EgressProxy(gate)
        try:
            code = await self._run(errand, proxy, hear)
        finally:
            await proxy.close()
        text = output.decode(errors="replace")
        if code:
            end = text.strip()[-_SHOWN_BYTES:]
            blocked = f"; not allowed to reach {', '.join(dict.fromkeys(refused))}" if refused else ""
            raise CannotRun(f"`{' '.join(errand.argv[:3])}` failed{blocked}:\n{end}")
        progress(f"`{' '.join(errand.argv[:2])}` done")
        return text

    async def _run(self, errand: Errand, proxy: EgressProxy, hear: OnEvent) -> int:
        launch = await asyncio.to_thread(self._launch, errand)
        tree = ProcessTree(launch, proxy, TreeEvents(hear, lambda _: None))
        child = await tree.spawn(
            lambda command: Child.spawn(
                command,
                on_stdout=lambda data: hear(Said(data)),
                on_stderr=lambda data: hear(Said(data)),
                on_exit=tree.ended,
            )
        )
        try:
            await tree.attach(child.pid, child.close)
            async with asyncio.timeout(ERRAND_SECONDS):
                return (await tree.wait()).code
        except TimeoutError as error:
            raise CannotRun(f"`{errand.argv[0]}` took longer than {ERRAND_SECONDS:g} seconds") from error
        except CannotStart as error:
            raise CannotRun(str(error)) from error
        finally:
            await tree.close()

    def _launch(self, errand: Errand) -> Launch:
        path = os.environ.get("PATH", os.defpath)
        program = find_program(errand.argv[0], path=path, cwd=errand.folder)
        view = None
        if self.sandboxed:
            needed = readable_for(errand.argv[:1], path=path, cwd=errand.folder, home=self.home)
            mounts = (
                MountPoint(errand.folder, errand.folder, writable=True),
                *(MountPoint(file, file) for file in errand.readable if file.exists()),
            )
            view = view_of(mounts, needed, home=self.home, cwd=errand.folder)
        # Nothing is nearby in there: a registry on this machine is reached through the proxy like any other.
        nothing_nearby = {"NO_PROXY": "", "no_proxy": ""} if self.sandboxed else {}
        environment = base_environment(self.home, proxied=self.sandboxed) | nothing_nearby
        return Launch(
            Program(
                (str(program), *errand.argv[1:]),
                {**environment, **errand.env},
                LIMITS,
                self.files,
                self.hierarchy,
                f"{self.group_name}-errand",
            ),
            view,
            next(self.numbers),
            cwd=errand.folder,
        )


async def install_policy(hosts: Sequence[str]) -> EgressPolicy:
    """The internet, and these hosts wherever they are: a package registry may well be in the house."""
    return EgressPolicy.of(Outbound(insecure_allow_all=True, allow_host=await _named_addresses(hosts)))


async def _named_addresses(hosts: Sequence[str]) -> tuple[str, ...]:
    """The hosts and their addresses."""
    loop = asyncio.get_running_loop()
    found: dict[str, None] = {}
    for host in hosts:
        found[host] = None
        try:
            entries = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        except OSError:
            continue  # the errand will say so, in its own words
        found |= {str(ipaddress.ip_address(str(entry[4][0]).partition("%")[0])): None for entry in entries}
    return tuple(found)
