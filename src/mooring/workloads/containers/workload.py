"""A started workload of the container runtime: every server in a container of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

from mooring.errors import UpstreamUnavailable
from mooring.transports.dialing import Dialer, Folders
from mooring.transports.dialing import Transport as DialTransport
from mooring.transports.wire import Wire, WireEvents
from mooring.workloads.containers.attached_wire import AttachedWire
from mooring.workloads.containers.container import Container
from mooring.workloads.egress.proxy import EgressProxy
from mooring.workloads.runtime import CannotRun, OnEvent, WorkloadSpec
from mooring.workloads.started import StartedWorkload

NewContainer = Callable[[EgressProxy, Folders], Awaitable[Container]]


class ContainerWorkload(StartedWorkload[Container]):
    """One container per dial for stdio, one for all for HTTP."""

    dialer: Dialer
    transports: tuple[DialTransport, ...] = (DialTransport.STDIO,)
    personal = False

    def __init__(self, spec: WorkloadSpec, new_container: NewContainer, on_event: OnEvent) -> None:
        super().__init__(spec, on_event)
        self._new_container = new_container
        self._watching: set[asyncio.Task[None]] = set()
        self.dialer = self

    async def dial(
        self, transport: DialTransport, events: WireEvents, folders: Folders = (), caller: object = None
    ) -> Wire:
        """Start a container for one connection over stdio."""
        del caller  # a process is shown nothing
        assert transport is DialTransport.STDIO
        try:
            container = await self._start(folders)
        except CannotRun as error:
            raise UpstreamUnavailable(str(error)) from error
        return AttachedWire(events, self.spec.name, self.spec.max_message_bytes, container)

    async def close(self) -> None:
        """Containers belong to their wires, and to the workload."""

    async def start_http(self) -> None:
        """Start the one container of a server that speaks HTTP, and wait until it listens."""
        container = await self._start(())
        self._do(_drain(container))
        try:
            await self.serve_http(container)
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        await super().stop()
        await asyncio.gather(*self._watching, return_exceptions=True)

    async def _start(self, folders: Folders) -> Container:
        self.check_running()
        container = await self._new_container(self.proxy, folders)
        self.units.add(container)
        self._do(self._forget(container))
        return container

    async def _forget(self, container: Container) -> None:
        await container.gone.wait()
        self.units.discard(container)

    def _do(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._watching.add(task)
        task.add_done_callback(self._watching.discard)


async def _drain(container: Container) -> None:
    """What a server that speaks HTTP prints is its log."""
    with suppress(Exception):
        while (message := await container.stream.read_out()) is not None:
            container.said(message.data)
