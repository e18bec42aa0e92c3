"""A port of a workload that is reachable on this machine, for those the profile lets in."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from mooring.workloads.egress.policy import canonical, unwrapped
from mooring.workloads.egress.relay import hang_up, tunnel
from mooring.workloads.profile import Inbound
from mooring.workloads.runtime import CannotRun, PublishedPort


@dataclass(slots=True)
class Published:
    """One published port."""

    inside: int
    callers: Inbound
    connect: Callable[[int], Awaitable[socket.socket]]
    port: int = 0
    _server: asyncio.Server | None = None
    _connections: set[asyncio.Task[None]] = field(default_factory=set[asyncio.Task[None]])

    @classmethod
    async def open(
        cls, wanted: PublishedPort, callers: Inbound, connect: Callable[[int], Awaitable[socket.socket]]
    ) -> Published:
        """Listen on the host; `CannotRun` when the address is taken."""
        published = cls(wanted.inside, callers, connect)
        try:
            server = await asyncio.start_server(published.accept, wanted.host, wanted.port)
        except OSError as error:
            raise CannotRun(
                f"port {wanted.port} of {wanted.host} cannot be published: {error.strerror}"
            ) from error
        published._server = server
        published.port = server.sockets[0].getsockname()[1]
        return published

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._carry(reader, writer))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            caller = writer.get_extra_info("peername")[0]
            if not await may_enter(caller, self.callers):
                return
            inner = await asyncio.open_connection(sock=await self.connect(self.inside))
            try:
                await tunnel((reader, writer), inner)
            finally:
                await hang_up(inner[1])
        except OSError:
            return  # nobody listens inside, or the caller left
        finally:
            await hang_up(writer)

    async def close(self) -> None:
        if self._server is not None:
            self._server.close()
        for connection in tuple(self._connections):
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)


async def may_enter(caller: str, callers: Inbound) -> bool:
    """Whether the profile lets this address in; without a list only this machine."""
    address = unwrapped(ipaddress.ip_address(caller.partition("%")[0]))
    if not callers.allow_host:
        return address.is_loopback
    for host in callers.allow_host:
        if canonical(host) == "localhost":
            if address.is_loopback:
                return True
            continue
        try:
            network = ipaddress.ip_network(host, strict=False)
        except ValueError:
            if str(address) in await _addresses(host):
                return True
        else:
            if network.version == address.version and address in network:
                return True
    return False


async def _addresses(host: str) -> set[str]:
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return set()
    return {str(entry[4][0]) for entry in found}
