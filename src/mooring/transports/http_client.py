"""The HTTP client: a pool of kept-alive connections to one origin.

Each server has a pool of its own, with its own limits and its own line. The connections that nobody uses just
now are shared by all pools of an origin: a thousand servers behind one address are not a thousand sockets.
"""

from __future__ import annotations

import asyncio
import os
import socket
import ssl as tls
from collections import deque
from collections.abc import Awaitable, Callable
from functools import lru_cache
from pathlib import Path
from types import TracebackType
from typing import Self, TypeAlias
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary, WeakValueDictionary

from msgspec import Struct

from mooring.transports.http_errors import ConnectFailed, PoolBusy
from mooring.transports.http_limits import ClientLimits
from mooring.transports.http_response import Response
from mooring.transports.http_sweep import NEVER, Sweep, shared_sweep
from mooring.transports.http_upstream import UpstreamConnection

__all__ = ["ClientLimits", "ClientPool", "Origin", "Response", "shared_tls_context"]

_JOIN_BELOW_BYTES = 65_536
_BODILESS = frozenset((b"GET", b"HEAD", b"DELETE", b"OPTIONS"))
_DEFAULT_PORTS = {"http": 80, "https": 443}

# Gets a connection, or None for the right to open one.
Waiter: TypeAlias = asyncio.Future[UpstreamConnection | None]


class Origin(Struct, frozen=True):
    """Where requests go: scheme, host and port, or a Unix socket that speaks for that host."""

    scheme: str
    host: str
    port: int
    unix_path: str | None = None
    open_socket: Callable[[], Awaitable[socket.socket]] | None = None
    """Opens a connected socket where no address of ours leads: into a network namespace."""

    @staticmethod
    def of(url: str) -> Origin:
        """The origin of an http or https URL."""
        parts = urlsplit(url)
        if parts.scheme not in _DEFAULT_PORTS or not parts.hostname:
            raise ValueError(f"`{url}` is not an http or https URL")
        return Origin(parts.scheme, parts.hostname, parts.port or _DEFAULT_PORTS[parts.scheme])

    @property
    def authority(self) -> str:
        """The value of the Host header."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port == _DEFAULT_PORTS[self.scheme] else f"{host}:{self.port}"


@lru_cache(maxsize=1)
def shared_tls_context() -> tls.SSLContext:
    """One per process, at the first https connection: loading the certificates takes about 30 ms and 1 MB."""
    context = tls.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


TlsContext: TypeAlias = Callable[[], tls.SSLContext]


def trusting(authorities: Path) -> tls.SSLContext:
    """As the shared one, for peers whose authority stands in this PEM file beside the system's."""
    context = tls.create_default_context()
    context.load_verify_locations(cafile=authorities)
    context.set_alpn_protocols(["http/1.1"])
    return context


class Spares:
    """The open connections to one origin, and which of them nobody uses."""

    __slots__ = ("__weakref__", "idle", "known", "pools")

    def __init__(self) -> None:
        self.known: set[UpstreamConnection] = set()
        self.idle: dict[UpstreamConnection, None] = {}
        """The last one is the next to be used. No list: thousands of them may end in the same moment."""
        self.pools = 0
        """How many have used one of these and are not closed."""

    def in_use_by(self, pool: ClientPool) -> list[UpstreamConnection]:
        return [each for each in self.known if each.owner is pool and each not in self.idle]

    def leave(self) -> None:
        """One pool was closed; behind the last one nothing stays open."""
        self.pools -= 1
        if not self.pools:
            for connection in tuple(self.idle):
                connection.close()


_Shared: TypeAlias = WeakValueDictionary[tuple[Origin, TlsContext], Spares]
_shared: WeakKeyDictionary[asyncio.AbstractEventLoop, _Shared] = WeakKeyDictionary()


def _spares_for(origin: Origin, tls_context: TlsContext) -> Spares:
    """Those of everybody in this loop who goes to the same place and trusts the same authorities."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:  # made before its loop runs
        return Spares()
    shared = _shared.setdefault(loop, WeakValueDictionary())
    found = shared.get((origin, tls_context))
    if found is None:
        found = shared[origin, tls_context] = Spares()
    return found


class ClientPool:
    """Connections to one origin, each carrying one request at a time.

    A request is never sent twice: whether it may be repeated is for the caller to decide, from the error.
    """

    personal = False
    """Whether what the server is shown depends on who calls."""

    def __init__(
        self,
        origin: Origin,
        limits: ClientLimits | None = None,
        tls_context: TlsContext = shared_tls_context,
    ) -> None:
        self.origin = origin
        self.limits = limits or ClientLimits()
        self.sweep = shared_sweep()
        self._tls_context = tls_context
        self._middle = b" HTTP/1.1\r\nhost: %b\r\n" % origin.authority.encode()
        self._spares = _spares_for(origin, tls_context)
        self._idle = self._spares.idle
        self._in_use = 0  # including those still connecting
        self._has_joined = False
        self._line = _Line(self.sweep, self.limits.wait_seconds)
        self._waiting = self._line.waiting
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def open_count(self) -> int:
        """Connections that we use or open, and those that anybody may use."""
        return self._in_use + len(self._idle)

    @property
    def idle_count(self) -> int:
        """Connections to this origin that anybody may use."""
        return len(self._idle)

    async def request(self, method: bytes, target: bytes, headers: bytes, body: bytes) -> Response:
        """Send a request; returns when the response is complete, or when its head is and the body arrives.

        `headers` is an encoded block of `name: value\\r\\n` lines; host and content-length are added here.
        Neither it nor `target` may hold anything that a stranger chose unchecked.

        Cancelling closes the connection, which is how a stateless server learns that nobody waits any more.
        """
        connection = self._spare() or await self._acquire()
        while connection.dead:  # lost between being handed over and being used
            connection = await self._acquire()
        if body or method not in _BODILESS:
            parts = (method, b" ", target, self._middle, headers, b"content-length: %d\r\n\r\n" % len(body))
            if len(body) < _JOIN_BELOW_BYTES:
                parts += (body,)
                body = b""
        else:
            parts = (method, b" ", target, self._middle, headers, b"\r\n")
            if method == b"HEAD":
                connection.expect_no_body()
        waiter: asyncio.Future[Response] = asyncio.get_running_loop().create_future()
        connection.send(b"".join(parts), body, waiter)
        return await self.response_to(connection, waiter)

    async def request_as(
        self, caller: object, method: bytes, target: bytes, headers: bytes, body: bytes
    ) -> Response:
        """A request on somebody's behalf; here it makes no difference whose."""
        del caller
        return await self.request(method, target, headers, body)

    def bound_to(self, caller: object) -> ClientPool:
        """This pool as one caller uses it."""
        del caller
        return self

    async def response_to(self, connection: UpstreamConnection, waiter: asyncio.Future[Response]) -> Response:
        """The response to a request that was sent; cancelling gives it up."""
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                waiter.result().abort()
            connection.forget(waiter)
            raise

    def head_of_post(self, target: bytes) -> bytes:
        return b"POST %b%b" % (target, self._middle)

    def take_idle(self) -> UpstreamConnection | None:
        """A connection that can be used right now for a request as it is, if there is one."""
        return self._spare()

    def _spare(self) -> UpstreamConnection | None:
        if not self._idle or self._in_use >= self.limits.max_connections or self._closed:
            return None
        connection, _ = self._idle.popitem()
        self._in_use += 1
        if connection.owner is not self:
            self._join()
            connection.change_owner(self)
        return connection

    def another(self) -> ClientPool:
        """A pool of its own to the same place."""
        return ClientPool(self.origin, self.limits, self._tls_context)

    def close(self) -> None:
        """Drop every connection of ours; requests in progress and in line fail."""
        self._closed = True
        while self._waiting:  # first: whoever is in line would open a connection for each that is dropped
            _, waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_exception(ConnectFailed("the connection pool was closed"))
        for connection in self._spares.in_use_by(self):
            connection.close()
        if self._has_joined:
            self._has_joined = False
            self._spares.leave()

    async def _acquire(self) -> UpstreamConnection:
        if self._closed:
            raise ConnectFailed("the connection pool was closed")
        if (spare := self._spare()) is not None:
            return spare
        if self._in_use < self.limits.max_connections:
            self._in_use += 1
            return await self._connect()
        connection = await self._wait_in_line()
        return connection if connection is not None else await self._connect()

    def _join(self) -> None:
        if not self._has_joined:
            self._has_joined = True
            self._spares.pools += 1

    async def _wait_in_line(self) -> UpstreamConnection | None:
        """A free connection, or None for the right to open one in place of one that was lost."""
        if len(self._waiting) >= self.limits.max_waiting:
            raise PoolBusy(f"too many requests are waiting for `{self.origin.authority}`; try again later")
        waiter: Waiter = asyncio.get_running_loop().create_future()
        self._line.join(waiter)
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                given = waiter.result()
                if given is None or not given.dead:  # what was lost meanwhile has been counted as such
                    self._pass_on(given)
            self._line.leave(waiter)
            raise

    def _pass_on(self, connection: UpstreamConnection | None) -> None:
        """Give a connection (or the right to open one) to the next in line, or keep it."""
        waiting = self._waiting
        while waiting:
            _, waiter = waiting.popleft()
            if not waiter.done():
                waiter.set_result(connection)
                return
        self._in_use -= 1
        if connection is not None:
            self._idle[connection] = None

    async def _connect(self) -> UpstreamConnection:
        """Open a connection; the caller has already counted it."""
        loop = asyncio.get_running_loop()
        origin, seconds = self.origin, self.limits.connect_seconds
        try:
            # One timer per connection, not per request.
            async with asyncio.timeout(seconds):
                if origin.unix_path is not None:
                    _, connection = await loop.create_unix_connection(self._connection, origin.unix_path)
                elif origin.open_socket is not None:
                    opened = await origin.open_socket()
                    _, connection = await loop.create_connection(self._connection, sock=opened)
                else:
                    context = self._tls_context() if origin.scheme == "https" else None
                    _, connection = await loop.create_connection(
                        self._connection, origin.host, origin.port, ssl=context
                    )
        except TimeoutError as error:
            self._pass_on(None)
            raise ConnectFailed(
                f"no connection to `{origin.authority}` within {seconds:g} seconds"
            ) from error
        except OSError as error:
            self._pass_on(None)
            raise ConnectFailed(f"cannot connect to `{origin.authority}`: {_reason(error)}") from error
        except BaseException:
            self._pass_on(None)
            raise
        if connection.dead:  # it spoke before it was asked, or had enough of us at once
            self._pass_on(None)
            raise ConnectFailed(f"`{origin.authority}` broke off as soon as it was connected")
        self._spares.known.add(connection)
        if self._closed:
            connection.close()
            raise ConnectFailed("the connection pool was closed")
        self._join()
        return connection

    def _connection(self) -> UpstreamConnection:
        return UpstreamConnection(self)

    # The connections' side.

    def released(self, connection: UpstreamConnection) -> None:
        if self._waiting:
            self._pass_on(connection)
        else:
            self._in_use -= 1
            self._idle[connection] = None

    def lost(self, connection: UpstreamConnection) -> None:
        if connection not in self._spares.known:
            return  # it was lost while connecting, which is counted there
        self._spares.known.discard(connection)
        if connection in self._idle:
            del self._idle[connection]
        else:
            self._pass_on(None)


class _Line:
    """The requests that wait for a connection, oldest first; each only for so long."""

    def __init__(self, sweep: Sweep, seconds: float) -> None:
        self.deadline = NEVER
        self.waiting: deque[tuple[float, Waiter]] = deque()
        self._sweep = sweep
        self._seconds = seconds

    def join(self, waiter: Waiter) -> None:
        deadline = self._sweep.clock + self._seconds
        self.waiting.append((deadline, waiter))
        self.deadline = min(self.deadline, deadline)
        self._sweep.add(self)

    def leave(self, waiter: Waiter) -> None:
        for entry in self.waiting:
            if entry[1] is waiter:
                self.waiting.remove(entry)
                return

    def deadline_passed(self) -> None:
        waiting = self.waiting
        while waiting and waiting[0][0] <= self.deadline:
            _, waiter = waiting.popleft()
            if not waiter.done():
                waiter.set_exception(PoolBusy(f"no free connection within {self._seconds:g} seconds"))
        if waiting:
            self.deadline = waiting[0][0]
        else:
            self.deadline = NEVER
            self._sweep.discard(self)


def _reason(error: OSError) -> str:
    """Short and without addresses that a stranger need not know."""
    if isinstance(error, tls.SSLCertVerificationError):
        return f"its certificate is not valid ({error.verify_message})"
    if isinstance(error, tls.SSLError):
        return "the TLS handshake failed"
    if isinstance(error, socket.gaierror):
        return "its name cannot be resolved"
    return os.strerror(error.errno).lower() if error.errno else "connection failed"
