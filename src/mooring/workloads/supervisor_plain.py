"""Programs of this machine as they are, without a sandbox: for `--sandbox off`."""

# ruff: noqa: ARG002 - the seam has arguments that not every runtime needs

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping
from pathlib import Path

from mooring.transports.child import Command
from mooring.transports.dialing import Dialer, ProcessDialer
from mooring.workloads.runtime import (
    CannotAdopt,
    CannotRun,
    CommandSource,
    Ended,
    Leftover,
    OnEvent,
    OnProgress,
    Refused,
    Resolved,
    RunningWorkload,
    Said,
    Usage,
    WorkloadSpec,
)


class PlainRuntime:
    """Every dial starts a child with the rights of whoever runs the daemon."""

    name = "process"

    async def problem(self) -> str | None:
        return None

    async def prepare(self, spec: WorkloadSpec, progress: OnProgress) -> Resolved:
        if not isinstance(spec.source, CommandSource) or spec.transport != "stdio":
            raise CannotRun(f"`{spec.name}`: without a sandbox only a command that speaks stdio can be run")
        program = spec.source.argv[0]
        found = shutil.which(program) or str((spec.cwd or Path()) / program)
        progress(f"runs `{found}` without a sandbox")
        return Resolved(argv=spec.source.argv)

    async def start(
        self, spec: WorkloadSpec, resolved: Resolved, secrets: Mapping[str, str], on_event: OnEvent
    ) -> RunningWorkload:
        return _Plain(spec, resolved, secrets, on_event)

    async def leftovers(self) -> tuple[Leftover, ...]:
        return ()

    async def adopt(
        self, leftover: Leftover, spec: WorkloadSpec, resolved: Resolved, on_event: OnEvent
    ) -> RunningWorkload:
        raise CannotAdopt("children end with their daemon")

    async def remove(self, leftover: Leftover) -> None:
        raise CannotAdopt("children end with their daemon")


class _Plain:
    pids: tuple[int, ...] = ()
    refusals: tuple[Refused, ...] = ()

    def __init__(
        self, spec: WorkloadSpec, resolved: Resolved, secrets: Mapping[str, str], on_event: OnEvent
    ) -> None:
        command = Command((*resolved.argv, *spec.arguments), {**spec.env, **secrets}, spec.cwd)
        self.dialer: Dialer = ProcessDialer(
            command,
            server_id=spec.name,
            max_message_bytes=spec.max_message_bytes,
            on_log=lambda data: on_event(Said(data)),
        )
        self._ended: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()

    async def usage(self) -> Usage:
        return Usage(0, 0.0, 0)

    async def wait(self) -> Ended:
        return await asyncio.shield(self._ended)

    async def stop(self) -> None:
        if not self._ended.done():
            self._ended.set_result(Ended(0, 0, "was stopped"))

    async def kill(self) -> None:
        await self.stop()
