"""The HTTP listener: accepts connections on TCP, TLS and Unix sockets and keeps count of them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import ssl as tls
import stat
from pathlib import Path
from types import TracebackType
from typing import Self

from mooring.transports.http_connection import ServerConnection
from mooring.transports.http_endpoint import App, Buffered, Endpoint, Streaming
from mooring.transports.http_forwarded import parse_forwarded
from mooring.transports.http_limits import ListenerLimits
from mooring.transports.http_reply import Reply, ReplyHeads
from mooring.transports.http_request import BodyStream, Client, Request
from mooring.transports.http_rules import Refusal
from mooring.transports.http_sweep import NEVER, Sweep
from mooring.transports.http_upgrade import Upgraded
from mooring.transports.unix_names import short_name

__all__ = [
    "App",
    "BodyStream",
    "Buffered",
    "Endpoint",
    "Listener",
    "ListenerLimits",
    "Reply",
    "Request",
    "Streaming",
    "Upgraded",
    "parse_forwarded",
]

_BACKLOG = 1_024
_ABORT_SECONDS = (
    1.0  # an aborted transport reports its loss at the next turn of the loop; this is for broken ones
)


class Listener:
    """Serves an application; `async with Listener(app, limits) as listener: await listener.listen_tcp(...)`.

    All connections of a listener, whatever socket they came from, share its limits and its timer.
    """

    def __init__(self, app: App, limits: ListenerLimits | None = None) -> None:
        self.app = app
        self.limits = limits or ListenerLimits()
        self.sweep = Sweep()
        self.heads = ReplyHeads()
        self.closing = False
        self._clock = _Clock(self)
        self._connections: set[ServerConnection] = set()
        self._addresses: dict[str, int] = {}
        self._servers: list[asyncio.Server] = []
        self._paths: list[tuple[Path, int]] = []
        self._empty: asyncio.Event | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close(0)

    @property
    def connection_count(self) -> int:
        return len(self._connections)

    async def listen_tcp(
        self, host: str, port: int, ssl: tls.SSLContext | None = None, *, reuse_port: bool = False
    ) -> int:
        """Serve on every address of `host`; port 0 takes a free one. Returns the port."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, address in dict.fromkeys((entry[0], entry[4]) for entry in found):
            sock = _bind(family, (address[0], port, *address[2:]), reuse_port=reuse_port)
            port = sock.getsockname()[1]  # further addresses of the same host get the same free port
            await self._serve(sock, ssl)
        return port

    async def listen_unix(self, path: str | Path) -> None:
        """Serve on a socket file that only its owner can open; a stale file of a dead process is replaced."""
        path = Path(path)
        _remove_stale(path)
        sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # On Linux the mode of the unbound socket becomes that of the file: it is never open to others.
            os.fchmod(sock.fileno(), 0o600)
            with short_name(path) as name:
                sock.bind(name)
            path.chmod(0o600)
        except OSError:
            sock.close()
            raise
        self._paths.append((path, path.stat().st_ino))
        await self._serve(sock, None)

    async def _serve(self, sock: socket.socket, ssl: tls.SSLContext | None) -> None:
        sock.setblocking(False)
        loop = asyncio.get_running_loop()
        timeout = self.limits.header_seconds if ssl is not None else None
        if sock.family == getattr(socket, "AF_UNIX", None):
            server = await loop.create_unix_server(self._connection, sock=sock, backlog=_BACKLOG)
        else:
            server = await loop.create_server(
                self._connection, sock=sock, ssl=ssl, backlog=_BACKLOG, ssl_handshake_timeout=timeout
            )
        self._servers.append(server)

    def _connection(self) -> ServerConnection:
        return ServerConnection(self)

    async def close(self, grace_seconds: float = 0) -> None:
        """Stop accepting; idle connections close now, busy ones when answered or when the grace is over."""
        self.closing = True
        for server in self._servers:
            server.close()
        self._servers.clear()
        for path, inode in self._paths:
            with contextlib.suppress(FileNotFoundError):
                if path.stat().st_ino == inode:
                    path.unlink()
        self._paths.clear()
        for connection in tuple(self._connections):
            connection.close_when_idle()
        if grace_seconds > 0:
            await self._wait_until_empty(grace_seconds)
        for connection in tuple(self._connections):
            connection.abort()
        await self._wait_until_empty(_ABORT_SECONDS)

    async def _wait_until_empty(self, seconds: float) -> None:
        if self._connections:
            self._empty = asyncio.Event()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._empty.wait()

    # The connections' side.

    def opened(self, connection: ServerConnection, client: Client) -> Refusal | None:
        self._connections.add(connection)
        if len(self._connections) == 1:
            self.heads.refresh()
            self.sweep.add(self._clock)
        self.sweep.add(connection)
        if client.address != "unix":
            count = self._addresses[client.address] = self._addresses.get(client.address, 0) + 1
            if count > self.limits.max_connections_per_address:
                return Refusal(429, "too many connections from this address; close some and try again")
        if len(self._connections) > self.limits.max_connections or self.closing:
            return Refusal(503, "the server has no free connections; try again later")
        return None

    def lost(self, connection: ServerConnection, client: Client) -> None:
        self._connections.discard(connection)
        self.sweep.discard(connection)
        if client.address != "unix":
            count = self._addresses[client.address] - 1
            if count:
                self._addresses[client.address] = count
            else:
                del self._addresses[client.address]
        if not self._connections:
            self.sweep.discard(self._clock)
            if self._empty is not None:
                self._empty.set()


class _Clock:
    """Renews the date of the replies at every sweep."""

    def __init__(self, listener: Listener) -> None:
        self.deadline = -NEVER
        self._heads = listener.heads

    def deadline_passed(self) -> None:
        self._heads.refresh()


def _bind(family: int, address: tuple[str | int, ...], *, reuse_port: bool) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        if os.name == "posix":  # elsewhere the option means "take the port away from its owner"
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if reuse_port:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        sock.bind(address)
    except OSError as error:
        sock.close()
        raise OSError(
            error.errno,
            f"cannot listen on `{address[0]}:{address[1]}`: {error.strerror}; choose another port",
        ) from error
    return sock


def _remove_stale(path: Path) -> None:
    try:
        mode = path.lstat().st_mode
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(mode):
        raise FileExistsError(f"`{path}` exists and is not a socket; remove it or choose another path")
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            with short_name(path) as name:
                probe.connect(name)
        except ConnectionRefusedError:
            path.unlink()
            return
    raise FileExistsError(f"another process is listening on `{path}`; stop it or choose another path")
