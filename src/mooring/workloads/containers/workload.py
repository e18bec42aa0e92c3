"""A started workload of the container runtime."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from mooring.errors import UpstreamUnavailable
from mooring.transports.dialing import Dialer, HttpDialer
from mooring.transports.dialing import Transport as DialTransport
from mooring.transports.http_client import ClientPool, Origin
from mooring.transports.wire import Wire, WireEvents
from mooring.workloads.containers.attached_wire import AttachedWire
from mooring.workloads.containers.container import Container
from mooring.workloads.egress.gate import Gate
from mooring.workloads.egress.policy import EgressPolicy
from mooring.workloads.egress.proxy import EgressProxy
from mooring.workloads.runtime import CannotRun, Ended, OnEvent, Refused, Usage, WorkloadSpec
from mooring.workloads.sandbox.environment import port_of

READY_SECONDS: Final = 60.0
READY_POLL_SECONDS: Final = 0.1

NewContainer = Callable[[EgressProxy], Awaitable[Container]]


class ContainerWorkload:
    """One container per dial for stdio, one for all for HTTP."""

    dialer: Dialer
    transports: tuple[DialTransport, ...] = (DialTransport.STDIO,)

    def __init__(self, spec: WorkloadSpec, new_container: NewContainer, on_event: OnEvent) -> None:
        self._spec = spec
        self._new_container = new_container
        self._gate = Gate(EgressPolicy.of(spec.profile.network.outbound), on_event)
        self._proxy = EgressProxy(self._gate)
        self._containers: set[Container] = set()
        self._main: Container | None = None
        self._stopped: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()
        self.dialer = self

    async def dial(self, transport: DialTransport, events: WireEvents) -> Wire:
        """Start a container for one connection over stdio."""
        assert transport is DialTransport.STDIO
        if self._stopped.done():
            raise UpstreamUnavailable(f"`{self._spec.name}` was stopped")
        try:
            container = await self._new_container(self._proxy)
        except CannotRun as error:
            raise UpstreamUnavailable(str(error)) from error
        self._containers.add(container)
        return AttachedWire(events, self._spec.name, self._spec.max_message_bytes, container)

    async def close(self) -> None:
        """Containers belong to their wires, and to the workload."""

    async def start_http(self) -> None:
        container = await self._new_container(self._proxy)
        self._containers.add(container)
        self._main = container
        self._draining = asyncio.get_running_loop().create_task(_drain(container))
        try:
            await self._listens(container)
        except BaseException:
            await self.stop()
            raise
        network, port = container.network, port_of(self._spec)
        assert network is not None
        origin = Origin("http", "127.0.0.1", port, open_socket=lambda: network.connect(port))
        kind = DialTransport.SSE if self._spec.transport == "sse" else DialTransport.STREAMABLE_HTTP
        self.dialer = HttpDialer(
            f"http://127.0.0.1:{port}{self._spec.path}",
            ClientPool(origin),
            {},
            transports=(kind,),
            max_message_bytes=self._spec.max_message_bytes,
        )

    async def _listens(self, container: Container) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + READY_SECONDS
        ended = asyncio.ensure_future(container.wait())
        try:
            while loop.time() < deadline:
                with suppress(OSError, TimeoutError):
                    assert container.network is not None
                    (await container.network.connect(port_of(self._spec))).close()
                    return
                await asyncio.wait([ended], timeout=READY_POLL_SECONDS)
                if ended.done():
                    raise CannotRun(f"`{self._spec.name}` {ended.result().reason} before it listened")
        finally:
            ended.cancel()
        raise CannotRun(f"`{self._spec.name}` does not listen on port {port_of(self._spec)}")

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(sorted(container.pid for container in self._containers if container.pid))

    @property
    def refusals(self) -> tuple[Refused, ...]:
        return tuple(self._gate.refusals)

    async def usage(self) -> Usage:
        parts = await asyncio.gather(*(container.usage() for container in self._containers))
        return Usage(
            sum(part.memory_bytes for part in parts),
            sum(part.cpu_seconds for part in parts),
            sum(part.processes for part in parts),
        )

    async def wait(self) -> Ended:
        if self._main is None:
            return await asyncio.shield(self._stopped)
        ended = await self._main.wait()
        return self._stopped.result() if self._stopped.done() else ended

    async def stop(self) -> None:
        if not self._stopped.done():
            self._stopped.set_result(Ended(self._main.pid if self._main else 0, 0, "was stopped"))
        await asyncio.gather(*(container.end() for container in self._containers))
        if self._main is not None:
            await self._draining
            await self.dialer.close()
        await self._proxy.close()

    async def kill(self) -> None:
        await self.stop()


async def _drain(container: Container) -> None:
    """What a server that speaks HTTP prints is its log."""
    with suppress(Exception):
        while (message := await container.stream.read_out()) is not None:
            container.said(message.data)
