"""A workload in a real sandbox, spoken to directly."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from mooring.protocol.jsonrpc import Envelope
from mooring.transports.dialing import Folders, Transport
from mooring.transports.wire import Leg, Wire
from mooring.workloads.profile import NONE, PermissionProfile
from mooring.workloads.runtime import (
    CommandSource,
    Ended,
    Event,
    Refused,
    RunningWorkload,
    Runtime,
    WorkloadSpec,
)
from mooring.workloads.sandbox_runtime import ProcessRuntime

ROOT = Path(__file__).parents[2]
HOSTILE = ROOT / "examples/hostile/server.py"
LIMIT_SECONDS = 60.0
INITIALIZE = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}


@dataclass
class Heard:
    """What a wire tells."""

    tracing: bool = False
    noise: list[bytes] = field(default_factory=list[bytes])
    lost: list[str] = field(default_factory=list[str])

    def on_traffic(self, direction: str, data: bytes) -> None: ...
    def on_unsolicited(self, envelope: Envelope, data: bytes) -> None: ...
    def on_noise(self, data: bytes, why: str) -> None:
        self.noise.append(data)

    def on_lost(self, reason: str) -> None:
        self.lost.append(reason)


class Running:
    """A started workload and, dialled on demand, one connection to it."""

    def __init__(self, workload: RunningWorkload, events: list[Event], transport: Transport) -> None:
        self.workload = workload
        self.events = events
        self.heard = Heard()
        self.folders: Folders = ()
        """What it sees because of whom it works for; set before it is used."""
        self._transport = transport
        self._wire: Wire | None = None

    async def wire(self) -> Wire:
        if self._wire is None:
            self._wire = await self.workload.dialer.dial(self._transport, self.heard, self.folders)
            await self.request("initialize", INITIALIZE)
            await self._wire.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
        return self._wire

    async def request(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        assert self._wire is not None
        leg = Leg(method, msgspec.Raw(json.dumps(params).encode()), on_message=lambda *_: None)
        async with asyncio.timeout(LIMIT_SECONDS):
            answer = await self._wire.request(leg)
        assert not bytes(answer.error), bytes(answer.error)
        return json.loads(bytes(answer.result) or json.dumps(json.loads(answer.whole)["result"]))

    async def attack(self, tool: str, **arguments: str) -> tuple[bool, str]:
        """Whether an attack of the hostile server succeeded, and what it says."""
        await self.wire()
        result = await self.request("tools/call", {"name": tool, "arguments": arguments})
        return not result["isError"], result["content"][0]["text"]

    async def refused(self, tool: str, **arguments: str) -> str:
        succeeded, text = await self.attack(tool, **arguments)
        assert not succeeded, f"{tool} got through: {text}"
        return text

    async def allowed(self, tool: str, **arguments: str) -> str:
        succeeded, text = await self.attack(tool, **arguments)
        assert succeeded, f"{tool} failed: {text}"
        return text

    def refusals(self) -> list[Refused]:
        return [event for event in self.events if isinstance(event, Refused)]

    async def ended(self) -> Ended:
        """The end of a process, waited for."""
        async with asyncio.timeout(LIMIT_SECONDS):
            while True:
                for event in self.events:
                    if isinstance(event, Ended):
                        return event
                await asyncio.sleep(0.01)

    async def close(self) -> None:
        if self._wire is not None:
            await self._wire.close()
        await self.workload.stop()


@asynccontextmanager
async def running(
    runtime: Runtime, spec: WorkloadSpec, secrets: dict[str, str] | None = None
) -> AsyncIterator[Running]:
    """The workload, until the block ends."""
    events: list[Event] = []
    resolved = await runtime.prepare(spec, print)
    workload = await runtime.start(spec, resolved, secrets or {}, events.append)
    transport = {"stdio": Transport.STDIO, "sse": Transport.SSE}.get(
        spec.transport, Transport.STREAMABLE_HTTP
    )
    running = Running(workload, events, transport)
    try:
        yield running
    finally:
        await running.close()


@asynccontextmanager
async def hostile(
    data: Path, profile: PermissionProfile = NONE, *, secrets: dict[str, str] | None = None, **more: Any
) -> AsyncIterator[Running]:
    """The hostile example under a profile."""
    spec = WorkloadSpec("hostile", CommandSource((sys.executable, str(HOSTILE))), profile=profile, **more)
    async with running(ProcessRuntime(data), spec, secrets) as found:
        yield found
