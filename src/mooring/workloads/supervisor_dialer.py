"""How the gateway reaches a workload that may be stopped, asleep or on its way up."""

from __future__ import annotations

from typing import Protocol

from mooring.errors import UpstreamUnavailable
from mooring.transports.dialing import Dialer, Folders, Transport
from mooring.transports.wire import Wire, WireEvents
from mooring.workloads.runconfig import RunConfig
from mooring.workloads.runtime import CannotRun


class Gate(Protocol):
    """What stands before a workload."""

    async def admit(self) -> Dialer:
        """What to dial, once it runs; UpstreamUnavailable, with the next step, if it is not going to."""
        ...


class WorkloadDialer:
    """Dials whatever process runs now. The gateway keeps one of these through every restart."""

    def __init__(self, transports: tuple[Transport, ...], gate: Gate) -> None:
        self.transports = transports
        self.personal = False
        """Its server answers only whoever proves to be somebody: callers never share a session with it."""
        self._gate = gate

    async def dial(
        self, transport: Transport, events: WireEvents, folders: Folders = (), caller: object = None
    ) -> Wire:
        dialer = await self._gate.admit()
        try:
            return await dialer.dial(transport, events, folders, caller)
        except CannotRun as error:
            raise UpstreamUnavailable(str(error)) from error

    async def close(self) -> None:
        """What is dialled belongs to the supervisor."""


def transports_of(config: RunConfig) -> tuple[Transport, ...]:
    """What the server may speak, most likely first; known before it runs."""
    transport = config.fields.transport
    if transport == "sse":
        return (Transport.SSE,)
    if config.is_remote:
        # As the specification has it: what was meant to be Streamable HTTP may be an older server.
        return (Transport.STREAMABLE_HTTP, Transport.SSE)
    return (Transport.STREAMABLE_HTTP,) if transport == "streamable-http" else (Transport.STDIO,)
