"""What every started workload is, whichever way its servers run: its units, its egress proxy, its ports.

A unit is one server with everything below it: a tree of sandboxed processes, or a container.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable
from contextlib import suppress
from typing import Final, Generic, Protocol, TypeVar

from mooring.transports.dialing import Dialer, HttpDialer
from mooring.transports.dialing import Transport as DialTransport
from mooring.transports.http_client import ClientPool, Origin
from mooring.workloads.egress.gate import Gate
from mooring.workloads.egress.policy import EgressPolicy
from mooring.workloads.egress.proxy import EgressProxy
from mooring.workloads.environment import port_of
from mooring.workloads.publishing import Published
from mooring.workloads.runtime import CannotRun, DidNotListen, Ended, OnEvent, Refused, Usage, WorkloadSpec

READY_SECONDS: Final = 60.0
"""How long an HTTP server may take until it accepts connections; a first start may compile or index."""
READY_POLL_SECONDS: Final = 0.05
_STOPPED: Final = "was stopped"


class Unit(Protocol):
    """One server that runs."""

    pid: int

    def connect(self, port: int) -> Awaitable[socket.socket]:
        """A connection to what listens on loopback where the server runs."""
        ...

    async def usage(self) -> Usage: ...
    async def wait(self) -> Ended: ...
    async def close(self) -> None:
        """End it and wait until nothing is left."""
        ...

    def kill(self) -> None:
        """End it now; `close` still has to be awaited."""
        ...


U = TypeVar("U", bound=Unit)


class StartedWorkload(Generic[U]):
    """What a runtime's `start` returns; `dialer` is the runtime's own until `serve_http` was called."""

    dialer: Dialer

    def __init__(self, spec: WorkloadSpec, on_event: OnEvent) -> None:
        if spec.publish and spec.transport == "stdio":
            raise CannotRun(f"`{spec.name}` speaks stdio and has no port to publish: take `--publish` away")
        self.spec = spec
        self.on_event = on_event
        self.units: set[U] = set()
        self._gate = Gate(EgressPolicy.of(spec.profile.network.outbound), on_event)
        self.proxy = EgressProxy(self._gate)
        self._main: U | None = None
        self._published: list[Published] = []
        self._stopped: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()

    # Starting

    def check_running(self) -> None:
        """`CannotRun` once it was stopped."""
        if self._stopped.done():
            raise CannotRun(f"`{self.spec.name}` {_STOPPED}")

    async def serve_http(self, unit: U) -> None:
        """Wait until the one unit of a server that speaks HTTP listens; be dialled there from then on."""
        self._main = unit
        await self._listens(unit)
        port = port_of(self.spec)
        origin = Origin("http", "127.0.0.1", port, open_socket=lambda: unit.connect(port))
        kind = DialTransport.SSE if self.spec.transport == "sse" else DialTransport.STREAMABLE_HTTP
        self.dialer = HttpDialer(
            f"http://127.0.0.1:{port}{self.spec.path}",
            ClientPool(origin),
            {},
            transports=(kind,),
            max_message_bytes=self.spec.max_message_bytes,
        )
        for wanted in self.spec.publish:
            inbound = self.spec.profile.network.inbound
            self._published.append(await Published.open(wanted, inbound, unit.connect))

    async def _listens(self, unit: U) -> None:
        port = port_of(self.spec)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + READY_SECONDS
        ending = asyncio.ensure_future(unit.wait())
        try:
            while loop.time() < deadline:
                with suppress(OSError, TimeoutError):
                    (await unit.connect(port)).close()
                    return
                await asyncio.wait([ending], timeout=READY_POLL_SECONDS)
                if ending.done():
                    raise DidNotListen(f"`{self.spec.name}` {ending.result().reason} before it listened")
        finally:
            ending.cancel()
        raise DidNotListen(
            f"`{self.spec.name}` does not listen on port {port}: it finds the port in `MCP_PORT`, or name "
            "the one it uses as target port"
        )

    # Looking

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(sorted(unit.pid for unit in self.units if unit.pid))

    @property
    def refusals(self) -> tuple[Refused, ...]:
        return tuple(self._gate.refusals)

    async def usage(self) -> Usage:
        parts = await asyncio.gather(*(unit.usage() for unit in self.units if unit.pid))
        return Usage(
            sum(part.memory_bytes for part in parts),
            sum(part.cpu_seconds for part in parts),
            sum(part.processes for part in parts),
        )

    # Ending

    async def wait(self) -> Ended:
        if self._main is None:
            return await asyncio.shield(self._stopped)
        ended = await self._main.wait()
        return self._stopped.result() if self._stopped.done() else ended

    async def stop(self) -> None:
        if not self._stopped.done():
            self._stopped.set_result(Ended(self._main.pid if self._main else 0, 0, _STOPPED))
        for published in self._published:
            await published.close()
        await asyncio.gather(*(unit.close() for unit in tuple(self.units)))
        await self.dialer.close()
        await self.proxy.close()

    async def kill(self) -> None:
        for unit in tuple(self.units):
            unit.kill()
        await self.stop()
