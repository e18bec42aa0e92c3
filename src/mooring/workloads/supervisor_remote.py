"""Remote servers as workloads: nothing runs here, there is only an address to dial."""

# ruff: noqa: ARG002 - the seam has arguments that not every runtime needs

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TypeAlias

from mooring.transports.dialing import Dialer, HttpDialer, Transport
from mooring.transports.http_client import ClientPool, Origin
from mooring.transports.http_limits import ClientLimits
from mooring.workloads.runtime import (
    CannotRun,
    Ended,
    OnEvent,
    OnProgress,
    Refused,
    RemoteSource,
    Resolved,
    RunningWorkload,
    Usage,
    WorkloadSpec,
)

CONNECT_SECONDS = 10.0
PoolFor: TypeAlias = Callable[[str, str, ClientLimits], ClientPool]


class RemoteRuntime:
    """Points at servers that run somewhere else. What it gets as secrets are headers for every request."""

    name = "remote"

    def __init__(self) -> None:
        self.pool_for: PoolFor = lambda _name, url, limits: ClientPool(Origin.of(url), limits)
        """Connections to a server of this name and URL, with whatever it is to be shown."""

    async def problem(self) -> str | None:
        return None

    async def prepare(self, spec: WorkloadSpec, progress: OnProgress) -> Resolved:
        if not isinstance(spec.source, RemoteSource):
            raise CannotRun(f"`{spec.name}` is no URL: leave out `--runtime remote`")
        progress(f"its address is {spec.source.url}")
        return Resolved()

    async def start(
        self, spec: WorkloadSpec, resolved: Resolved, secrets: Mapping[str, str], on_event: OnEvent
    ) -> RunningWorkload:
        assert isinstance(spec.source, RemoteSource)
        limits = ClientLimits(connect_seconds=CONNECT_SECONDS, head_seconds=None)
        return _Remote(spec, spec.source.url, secrets, self.pool_for(spec.name, spec.source.url, limits))


class _Remote:
    """The connections to one remote server."""

    pids: tuple[int, ...] = ()
    refusals: tuple[Refused, ...] = ()

    def __init__(self, spec: WorkloadSpec, url: str, headers: Mapping[str, str], pool: ClientPool) -> None:
        transports = (Transport.STREAMABLE_HTTP, Transport.SSE)
        if spec.transport == "sse":
            transports = (Transport.SSE,)
        self.dialer: Dialer = HttpDialer(
            url, pool, headers, transports=transports, max_message_bytes=spec.max_message_bytes
        )
        self._ended: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()

    async def usage(self) -> Usage:
        return Usage(0, 0.0, 0)

    async def wait(self) -> Ended:
        return await asyncio.shield(self._ended)

    async def stop(self) -> None:
        if not self._ended.done():
            self._ended.set_result(Ended(0, 0, "was let go"))

    async def kill(self) -> None:
        await self.stop()
