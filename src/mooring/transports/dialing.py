"""Opening a wire to a server: start its process, or find its address."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path
from typing import Protocol, TypeAlias
from urllib.parse import urlsplit

from msgspec import Struct

from mooring.transports.child import Command
from mooring.transports.http_client import ClientPool
from mooring.transports.pipe_wire import PipeWire
from mooring.transports.sse_wire import SseWire
from mooring.transports.streamable_wire import StreamableWire
from mooring.transports.wire import Wire, WireEvents


class Transport(Enum):
    """How a server is spoken to."""

    STDIO = "stdio"
    STREAMABLE_HTTP = "streamable_http"
    SSE = "sse"


class SharedFolder(Struct, frozen=True):
    """A folder of ours that a process sees because it works for somebody, besides what it sees anyway."""

    host: Path
    inside: Path
    writable: bool


Folders: TypeAlias = tuple[SharedFolder, ...]


class Dialer(Protocol):
    """Something that can be dialled, by any of the transports it may speak (most likely first).

    What starts a process for every dial shows it the folders; whatever else is dialled sees what it sees.
    """

    transports: tuple[Transport, ...]
    personal: bool
    """Whether what the server is shown depends on who calls; a wire is then one caller's."""

    async def dial(
        self, transport: Transport, events: WireEvents, folders: Folders = (), caller: object = None
    ) -> Wire: ...
    async def close(self) -> None: ...


class ProcessDialer:
    """Every dial starts a new process."""

    transports: tuple[Transport, ...] = (Transport.STDIO,)
    personal = False

    def __init__(
        self, command: Command, *, server_id: str, max_message_bytes: int, on_log: Callable[[bytes], None]
    ) -> None:
        self._command = command
        self._server_id = server_id
        self._max_bytes = max_message_bytes
        self._on_log = on_log

    async def dial(
        self, transport: Transport, events: WireEvents, folders: Folders = (), caller: object = None
    ) -> Wire:
        del folders  # nothing is hidden from it
        del caller  # a process is shown nothing
        assert transport is Transport.STDIO
        return await PipeWire.spawn(
            self._command,
            events,
            label=self._server_id,
            max_message_bytes=self._max_bytes,
            on_log=self._on_log,
        )

    async def close(self) -> None:
        """Processes belong to their wires."""


class HttpDialer:
    """One connection pool for all POSTs to this server, except over HTTP+SSE.

    There a session has a pool of its own: such servers tend to drop the connection on which a message came
    too late for its session, and that connection must not be somebody else's.
    """

    def __init__(
        self,
        url: str,
        pool: ClientPool,
        headers: Mapping[str, str],
        *,
        transports: tuple[Transport, ...],
        max_message_bytes: int,
    ) -> None:
        self.transports = transports
        self.personal = pool.personal
        self._url = url
        self._pool = pool
        self._max_bytes = max_message_bytes
        parts = urlsplit(url)
        self._target = ((parts.path or "/") + (f"?{parts.query}" if parts.query else "")).encode()
        self._label = parts.netloc
        self._headers = b"".join(
            b"%b: %b\r\n" % (name.lower().encode("ascii"), value.encode("latin-1"))
            for name, value in headers.items()
        )

    async def dial(
        self, transport: Transport, events: WireEvents, folders: Folders = (), caller: object = None
    ) -> Wire:
        del folders  # it runs already
        pool = self._pool.bound_to(caller)
        if transport is Transport.STREAMABLE_HTTP:
            return StreamableWire(
                pool,
                self._target,
                self._headers,
                events,
                label=self._label,
                max_message_bytes=self._max_bytes,
            )
        own_pool = pool.another()
        wire = SseWire(
            own_pool, self._url, self._headers, events, label=self._label, max_message_bytes=self._max_bytes
        )
        try:
            await wire.open()
        except BaseException:
            await wire.close()
            raise
        return wire

    async def close(self) -> None:
        self._pool.close()
