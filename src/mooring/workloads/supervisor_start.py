"""From a workload's configuration to something that runs: prepare, compare, start."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TypeAlias

import msgspec
from msgspec import Struct

from mooring.workloads.logs import WorkloadLog
from mooring.workloads.runconfig import RunConfig
from mooring.workloads.runconfig_effect import spec_of
from mooring.workloads.runtime import (
    CannotRun,
    OnEvent,
    Resolved,
    RunningWorkload,
    Runtime,
    WorkloadSpec,
)

Secrets: TypeAlias = Callable[[RunConfig], Awaitable[Mapping[str, str]]]
"""What a workload's secrets are worth, by the environment variables they go to."""
RuntimeFor: TypeAlias = Callable[[WorkloadSpec, str | None], Awaitable[Runtime]]
"""Which runtime runs this, given what the person asked for."""


class Found(Struct, frozen=True):
    """What a source turned out to be, as the books keep it."""

    resolved: bytes
    runtime: str


class Launcher(Struct, frozen=True):
    """What it takes to start any workload."""

    runtime_for: RuntimeFor
    secrets: Secrets
    starts: asyncio.Semaphore
    """How many start at the same time: a machine that starts fifty servers at once does nothing else."""

    async def start(
        self, config: RunConfig, known: bytes | None, log: WorkloadLog, on_event: OnEvent
    ) -> tuple[RunningWorkload, Found]:
        """Start it, or raise `CannotRun`; `known` is what it turned out to be the last time."""
        spec = spec_of(config)
        runtime = await self.runtime_for(spec, config.fields.mooring.runtime)
        resolved = await runtime.prepare(spec, log.happened)
        if known is not None:
            _compare(read_resolved(known), resolved, config, log)
        secrets = await self.secrets(config)
        running = await runtime.start(spec, resolved, secrets, on_event)
        return running, Found(msgspec.json.encode(resolved, enc_hook=str), runtime.name)


def read_resolved(data: bytes) -> Resolved:
    """What the books say a source turned out to be."""
    return msgspec.json.decode(data, type=Resolved, dec_hook=lambda kind, value: kind(value))


def _compare(known: Resolved, resolved: Resolved, config: RunConfig, log: WorkloadLog) -> None:
    """Say, or refuse, that something else runs now than the last time."""
    verify = config.fields.mooring.verify
    if verify == "off" or known.identity == resolved.identity:
        return
    difference = f"it was {_identity(known)} and is now {_identity(resolved)}"
    if verify == "require":
        raise CannotRun(f"{difference}: if that is right, remove the workload and run it again")
    log.happened(f"not what ran the last time: {difference}")


def _identity(resolved: Resolved) -> str:
    return " ".join(part for part in resolved.identity if part) or "unnamed"
