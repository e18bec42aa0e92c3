"""The egress proxy of one workload: accepts on sockets handed to it, and dials from the host."""

from __future__ import annotations

import asyncio
import logging
import socket
from contextlib import suppress
from typing import Final

from mooring.workloads.egress.gate import Gate, Streams
from mooring.workloads.egress.http_messages import BadMessage
from mooring.workloads.egress.http_proxy import serve_http
from mooring.workloads.egress.relay import hang_up
from mooring.workloads.egress.socks import VERSION, serve_socks

log = logging.getLogger(__name__)

PORT: Final = 3128
"""Where the proxy listens inside a workload."""
MAX_CONNECTIONS: Final = 256
"""Of one workload at a time; the next ones wait in the kernel's queue."""
FIRST_BYTE_SECONDS: Final = 60.0


class EgressProxy:
    """Serves HTTP and SOCKS5 on every socket it is given, all through one gate."""

    def __init__(self, gate: Gate) -> None:
        self.gate = gate
        self._servers: dict[socket.socket, asyncio.Server] = {}
        self._connections: set[asyncio.Task[None]] = set()
        self._room = asyncio.Semaphore(MAX_CONNECTIONS)

    async def listen(self, listening: socket.socket) -> None:
        """Accept on this socket from now on; it is ours to close."""
        self._servers[listening] = await asyncio.start_server(self._accept, sock=listening)

    async def stop_listening(self, listening: socket.socket) -> None:
        """The workload behind this socket has ended. What it had open ends with it."""
        if server := self._servers.pop(listening, None):
            server.close()

    def take(self, client: Streams) -> None:
        """Serve a connection that was accepted elsewhere."""
        self._accept(*client)

    async def close(self) -> None:
        for listening in tuple(self._servers):
            await self.stop_listening(listening)
        for connection in self._connections:
            connection.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve((reader, writer)))
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)

    async def _serve(self, client: Streams) -> None:
        try:
            async with self._room:
                await self._converse(client)
        except (OSError, asyncio.IncompleteReadError, TimeoutError, BadMessage):
            pass  # the workload's own connection, which it will miss itself
        except Exception:
            log.exception("a connection through the egress proxy failed; it was closed")
        finally:
            with suppress(asyncio.CancelledError):
                await hang_up(client[1])

    async def _converse(self, client: Streams) -> None:
        async with asyncio.timeout(FIRST_BYTE_SECONDS):
            first = await client[0].read(1)
        if not first:
            return
        if first[0] == VERSION:
            await serve_socks(self.gate, client)
        else:
            await serve_http(self.gate, client, first)
        await client[1].drain()
