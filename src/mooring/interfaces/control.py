"""What the command line asks of a running gateway, over its Unix socket: status, traces, and the stdio
bridge."""

from __future__ import annotations

import time
from collections.abc import Callable
from time import monotonic
from typing import Any, Final
from urllib.parse import parse_qs

import msgspec

from mooring.gateway.dispatch import Dispatcher
from mooring.gateway.principal import NOBODY, Caller
from mooring.gateway.server import Server
from mooring.gateway.sessions import SessionTable
from mooring.gateway.tracing import Record, encode_record
from mooring.interfaces.mcp_stdio import StdioConnection
from mooring.transports.dialing import Transport
from mooring.transports.http_reply import Reply
from mooring.transports.http_request import Request

JSON: Final = ((b"content-type", b"application/json"),)
LINES: Final = ((b"content-type", b"application/x-ndjson"), (b"cache-control", b"no-cache"))
BEHIND_BYTES: Final = 1024 * 1024
"""A watcher that falls this far behind misses messages, and is told how many."""


class ControlApi:
    """`/api/v1/...`"""

    def __init__(
        self,
        servers: dict[str, Server],
        sessions: SessionTable,
        dispatcher: Dispatcher,
        *,
        url_of: Callable[[str], str],
        version: str,
        max_message_bytes: int,
        local: Caller = NOBODY,
    ) -> None:
        self._servers = servers
        self._sessions = sessions
        self._dispatcher = dispatcher
        self._url_of = url_of
        self._version = version
        self._max_bytes = max_message_bytes
        self._local = local
        self._started = time.monotonic()

    def handle(self, request: Request, reply: Reply) -> None:
        parts = request.path.decode("latin-1").strip("/").split("/")[2:]
        match parts:
            case ["status"]:
                _send(reply, 200, self.status())
            case ["trace", server_id] if server_id in self._servers:
                self._trace(self._servers[server_id], request, reply)
            case ["stdio", server_id] if server_id in self._servers:
                self._bridge(self._servers[server_id], request, reply)
            case ["trace" | "stdio", server_id]:
                known = ", ".join(sorted(self._servers)) or "none"
                _send(reply, 404, {"error": f"no server `{server_id}`; there are: {known}"})
            case _:
                _send(reply, 404, {"error": "no such operation"})

    def status(self) -> dict[str, Any]:
        now = monotonic()
        return {
            "version": self._version,
            "uptime_seconds": time.monotonic() - self._started,
            "servers": [self._status_of(server, now) for server in self._servers.values()],
        }

    def _status_of(self, server: Server, now: float) -> dict[str, Any]:
        upstream = server.upstream
        verdicts = upstream.verdicts
        transport = next((verdict.transport for verdict in verdicts if verdict.transport is not None), None)
        eras = sorted({verdict.era.value for verdict in verdicts if verdict.era is not None})
        return {
            "id": server.id,
            "url": self._url_of(server.id),
            "kind": "process" if transport is Transport.STDIO else "remote",
            "state": upstream.health.state(now).value,
            "reasons": server.reasons(now),
            "era": "+".join(eras) or None,
            "transport": transport.value if transport is not None else None,
            "revision": upstream.profile.version if upstream.profile is not None else None,
            "sessions": self._sessions.of_server(server),
            "upstream_sessions": upstream.session_count,
            "in_flight": len(server.exchanges),
            "calls": upstream.health.calls,
            "errors": upstream.health.errors,
            "last_success_seconds_ago": upstream.health.since_success(now),
        }

    def _trace(self, server: Server, request: Request, reply: Reply) -> None:
        query = parse_qs(request.query.decode("latin-1"))
        with_bytes = query.get("bytes", ["0"])[0] in ("1", "true")
        history = query.get("history", ["0"])[0]
        reply.start(200, LINES, compress=False)
        watcher = _Watcher(reply, with_bytes=with_bytes)
        count = int(history) if history.isdigit() else 0
        for record in server.tracer.history()[-count:] if count else []:
            watcher(record)
        if query.get("follow", ["1"])[0] in ("0", "false"):
            reply.end()
            return
        server.tracer.watch(watcher)
        reply.on_closed = lambda: server.tracer.unwatch(watcher)

    def _bridge(self, server: Server, request: Request, reply: Reply) -> None:
        if (request.header(b"upgrade") or b"").lower() != b"mcp-stdio":
            _send(reply, 426, {"error": "this address is for `mooring proxy stdio`"})
            return
        channel = reply.upgrade(b"mcp-stdio")
        StdioConnection(channel, server, self._sessions, self._dispatcher, self._max_bytes, self._local)


class _Watcher:
    """One `mooring trace`. It never slows the wire: when it does not keep up, it misses something and is
    told so."""

    def __init__(self, reply: Reply, *, with_bytes: bool) -> None:
        self._reply = reply
        self._with_bytes = with_bytes
        self._missed = 0

    def __call__(self, record: Record) -> None:
        if self._reply.closed:
            return
        if not self._reply.writable:
            self._missed += 1
            return
        if self._missed:
            self._reply.write(
                msgspec.json.encode({**record, "kind": "state", "note": f"{self._missed} missed"}) + b"\n"
            )
            self._missed = 0
        self._reply.write(encode_record(record, with_bytes=self._with_bytes))


def _send(reply: Reply, status: int, body: dict[str, Any]) -> None:
    reply.send(status, JSON, msgspec.json.encode(body))
