"""One running sandbox: the process tree in it, its network, its control group, from start to tidying up."""

from __future__ import annotations

import asyncio
import signal
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

from mooring.transports.child import Command
from mooring.transports.watcher import signal_group
from mooring.workloads.egress.proxy import EgressProxy
from mooring.workloads.runtime import Ended, OnEvent, Spawned, Usage
from mooring.workloads.sandbox.inside import InsideNetwork, connected_here
from mooring.workloads.sandbox.launch import Launch
from mooring.workloads.sandbox.usage import usage_of

T = TypeVar("T")
_OUT_OF_MEMORY = "the kernel ended it: it used more memory than its limit"


@dataclass(frozen=True, slots=True)
class TreeEvents:
    """Whom a tree tells: the outside world, and the workload it belongs to."""

    on_event: OnEvent
    on_gone: Callable[[ProcessTree], None]


class ProcessTree:
    """Made before the process; `spawn` and `attach` start it, `ended` is called when it has ended."""

    def __init__(self, launch: Launch, proxy: EgressProxy | None, events: TreeEvents) -> None:
        self.tell = events.on_event
        self._launch = launch
        self._proxy = proxy
        self._events = events
        self._network: InsideNetwork | None = None
        self._close: Callable[[], Awaitable[object]] | None = None
        self._exit: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._tidying: asyncio.Task[None] | None = None
        self.pid = 0

    async def spawn(self, start: Callable[[Command], Awaitable[T]]) -> T:
        """Start the command; what cannot be started leaves nothing behind."""
        try:
            return await start(self._launch.command)
        except BaseException:
            self._launch.abandon()
            self._events.on_gone(self)
            raise

    async def attach(self, pid: int, close: Callable[[], Awaitable[object]]) -> None:
        """Wait until the server runs inside, and give it its way out; `CannotStart` when it does not."""
        self.pid = pid
        self._close = close
        self.tell(Spawned(pid))
        self._network = await self._launch.finish()
        if self._network is not None and self._proxy is not None:
            if self._exit.done():
                self._network.close()
                return
            await self._proxy.listen(self._network.egress)

    async def connect(self, port: int) -> socket.socket:
        """A connection to what listens inside; on the host, where there is no sandbox."""
        if self._network is not None:
            return await self._network.connect(port)
        return await connected_here(port)

    def ended(self, code: int) -> None:
        """The process is gone."""
        if self._exit.done():
            return
        self._exit.set_result(code)
        self.tell(Ended(self.pid, code, self._reason(code)))
        self._tidying = asyncio.get_running_loop().create_task(self._tidy())

    def _reason(self, code: int) -> str:
        if self._launch.group is not None and self._launch.group.ran_out_of_memory():
            return _OUT_OF_MEMORY
        # bubblewrap passes a signal on as the shell does.
        number = -code if code < 0 else code - 128 if 128 < code < 160 else 0
        return f"ended by signal {number}" if number else f"ended with exit code {code}"

    async def wait(self) -> Ended:
        code = await asyncio.shield(self._exit)
        return Ended(self.pid, code, self._reason(code))

    async def close(self) -> None:
        """End it and wait until nothing is left."""
        if self._close is not None:
            await self._close()
        if self._tidying is not None:
            await asyncio.shield(self._tidying)

    def kill(self) -> None:
        """End it now; `close` still has to be awaited."""
        if self.pid and not self._exit.done():
            signal_group(self.pid, signal.SIGKILL)

    async def usage(self) -> Usage:
        found = self._launch.group.usage() if self._launch.group is not None else None
        return found or usage_of(self.pid)

    async def _tidy(self) -> None:
        if self._network is not None:
            if self._proxy is not None:
                await self._proxy.stop_listening(self._network.egress)
            self._network.close()
        await self._launch.tidy()
        self._events.on_gone(self)
