"""A started workload of the process runtime: its sandboxes, its egress proxy, its published ports."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from mooring.transports.child import CannotStart, Child
from mooring.transports.dialing import Dialer, HttpDialer
from mooring.transports.dialing import Transport as DialTransport
from mooring.transports.http_client import ClientPool, Origin
from mooring.workloads.egress.gate import Gate
from mooring.workloads.egress.policy import EgressPolicy
from mooring.workloads.egress.proxy import EgressProxy
from mooring.workloads.runtime import CannotRun, Ended, OnEvent, Refused, Said, Usage, WorkloadSpec
from mooring.workloads.sandbox.dialing import StdioDialer
from mooring.workloads.sandbox.environment import port_of
from mooring.workloads.sandbox.launch import Launch
from mooring.workloads.sandbox.publishing import Published
from mooring.workloads.sandbox.tree import ProcessTree, TreeEvents

READY_SECONDS: Final = 60.0
"""How long an HTTP server may take until it accepts connections; a first start may compile or index."""
READY_POLL_SECONDS: Final = 0.05
_STOPPED: Final = "was stopped"

NewLaunch = Callable[[], Awaitable[Launch]]


class SandboxedWorkload:
    """What `ProcessRuntime.start` returns."""

    dialer: Dialer

    def __init__(self, spec: WorkloadSpec, new_launch: NewLaunch, on_event: OnEvent) -> None:
        self._spec = spec
        self._new_launch = new_launch
        self._on_event = on_event
        self._gate = Gate(EgressPolicy.of(spec.profile.network.outbound), on_event)
        self._proxy = EgressProxy(self._gate)
        self._trees: set[ProcessTree] = set()
        self._main: ProcessTree | None = None
        self._published: list[Published] = []
        self._stopped: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()
        self.dialer = StdioDialer(self._new_tree, spec.name, spec.max_message_bytes)

    # Starting

    async def start_http(self, *, on_host: bool) -> None:
        """Start the one process tree of a server that speaks HTTP, and wait until it listens."""
        tree = await self._new_tree()
        self._main = tree
        child = await tree.spawn(
            lambda command: Child.spawn(
                command,
                on_stdout=lambda data: self._on_event(Said(data)),
                on_stderr=lambda data: self._on_event(Said(data)),
                on_exit=tree.ended,
            )
        )
        try:
            await tree.attach(child.pid, child.close)
            await self._listens(tree, on_host=on_host)
            self.dialer = self._http_dialer(tree, on_host=on_host)
            for port in self._spec.publish:
                self._published.append(await Published.open(port, self._spec.profile.network.inbound, tree))
        except CannotStart as error:
            await self._give_up(tree)
            raise CannotRun(str(error)) from error
        except BaseException:
            await self._give_up(tree)
            raise

    async def _give_up(self, tree: ProcessTree) -> None:
        await tree.close()
        await self._proxy.close()

    async def _listens(self, tree: ProcessTree, *, on_host: bool) -> None:
        port = port_of(self._spec)
        loop = asyncio.get_running_loop()
        deadline = loop.time() + READY_SECONDS
        waiting = asyncio.ensure_future(tree.wait())
        try:
            while loop.time() < deadline:
                with suppress(OSError, TimeoutError):
                    if on_host or tree.network is None:
                        (await asyncio.open_connection("127.0.0.1", port))[1].close()
                    else:
                        (await tree.network.connect(port)).close()
                    return
                await asyncio.wait([waiting], timeout=READY_POLL_SECONDS)
                if waiting.done():
                    raise CannotRun(f"`{self._spec.name}` {waiting.result().reason} before it listened")
        finally:
            waiting.cancel()
        raise CannotRun(
            f"`{self._spec.name}` does not listen on port {port}: it finds the port in `MCP_PORT`, or name "
            "the one it uses as target port"
        )

    def _http_dialer(self, tree: ProcessTree, *, on_host: bool) -> HttpDialer:
        port, network = port_of(self._spec), tree.network
        opens = (lambda: network.connect(port)) if network is not None and not on_host else None
        origin = Origin("http", "127.0.0.1", port, open_socket=opens)
        transport = DialTransport.SSE if self._spec.transport == "sse" else DialTransport.STREAMABLE_HTTP
        return HttpDialer(
            f"http://127.0.0.1:{port}{self._spec.path}",
            ClientPool(origin),
            {},
            transports=(transport,),
            max_message_bytes=self._spec.max_message_bytes,
        )

    async def _new_tree(self) -> ProcessTree:
        if self._stopped.done():
            raise CannotRun(f"`{self._spec.name}` {_STOPPED}")
        tree = ProcessTree(
            await self._new_launch(), self._proxy, TreeEvents(self._on_event, self._trees.discard)
        )
        self._trees.add(tree)
        return tree

    # Looking

    @property
    def pids(self) -> tuple[int, ...]:
        return tuple(sorted(tree.pid for tree in self._trees if tree.pid))

    @property
    def refusals(self) -> tuple[Refused, ...]:
        return tuple(self._gate.refusals)

    async def usage(self) -> Usage:
        parts = [tree.usage() for tree in self._trees if tree.pid]
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
        await asyncio.gather(*(tree.close() for tree in tuple(self._trees)))
        await self.dialer.close()
        await self._proxy.close()

    async def kill(self) -> None:
        for tree in tuple(self._trees):
            tree.kill()
        await self.stop()
