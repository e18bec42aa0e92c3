"""Operations on the gateway itself: status, version, traces, the stdio bridge, the end."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from time import monotonic, time
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct

from mooring.gateway.dispatch import Dispatcher
from mooring.gateway.principal import Caller
from mooring.gateway.server import Server
from mooring.gateway.sessions import SessionTable
from mooring.gateway.tracing import Record, encode_record, redact
from mooring.interfaces.mcp_stdio import StdioConnection
from mooring.interfaces.rest.operations import LINES, TAKEN, ApiError, Call, Operation
from mooring.transports.dialing import Transport
from mooring.transports.http_reply import Reply
from mooring.workloads.availability import is_put_down
from mooring.workloads.supervisor import Supervisor
from mooring.workloads.supervisor_workload import Workload

PROTOCOL: Final = b"mcp-stdio"


class ServerStatus(Struct, frozen=True):
    """A server as its clients' calls showed it."""

    id: str
    url: str
    kind: str
    state: Annotated[str, Meta(description="up, down or idle.")]
    reasons: list[str]
    workload: Annotated[str | None, Meta(description="The status of its workload, if it has one.")]
    era: str | None
    transport: str | None
    revision: str | None
    sessions: int
    upstream_sessions: int
    in_flight: int
    calls: int
    errors: int
    last_success_seconds_ago: float | None


class StatusAnswer(Struct, frozen=True):
    version: str
    uptime_seconds: float
    pid: int
    servers: list[ServerStatus]


class Version(Struct, frozen=True):
    version: str


RECORDER_BYTES: Final = 64 * 1024 * 1024
"""How much of a recording may wait for its reader."""


class TraceQuery(Struct, frozen=True, forbid_unknown_fields=True):
    history: Annotated[int, Meta(ge=0, description="How many recorded messages to begin with.")] = 0
    bytes: Annotated[bool, Meta(description="Send the messages too, secrets redacted.")] = False
    follow: Annotated[bool, Meta(description="Keep sending new ones.")] = True
    whole: Annotated[bool, Meta(description="Messages of any length, for a recording.")] = False


class SystemOperations:
    """What the API says about the gateway."""

    def __init__(
        self,
        servers: Mapping[str, Server],
        sessions: SessionTable,
        dispatcher: Dispatcher,
        supervisor: Supervisor,
        *,
        url_of: Callable[[str], str],
        version: str,
        pid: int,
        started: float,
        max_message_bytes: int,
        local: Callable[[], Caller],
        stop: Callable[[], None],
    ) -> None:
        self._servers = servers
        self._sessions = sessions
        self._dispatcher = dispatcher
        self._supervisor = supervisor
        self._url_of = url_of
        self._version = version
        self._pid = pid
        self._max_bytes = max_message_bytes
        self._local = local
        self._stop = stop
        self._started = started

    def table(self) -> list[Operation]:
        return [
            Operation("GET", "/version", "Which version answers.", self.version, Version),
            Operation("GET", "/status", "How every server is.", self.status, StatusAnswer),
            Operation("POST", "/shutdown", "Stop the gateway and what it runs.", self.shutdown, local=True),
            Operation(
                "GET", "/trace/{id}", "The conversation of a server, live.", self.trace, dict[str, Any],
                query=TraceQuery, errors=(404,), lines=True,
            ),
            Operation(
                "GET", "/stdio/{id}", "A server over this connection (`Upgrade: mcp-stdio`).", self.stdio,
                dict[str, Any], errors=(404, 426), local=True, status=101,
            ),
        ]  # fmt: skip

    async def version(self, _call: Call) -> Version:
        return Version(self._version)

    async def shutdown(self, _call: Call) -> None:
        self._stop()

    async def status(self, _call: Call) -> StatusAnswer:
        now = monotonic()
        servers = [self._status_of(server, now) for server in list(self._servers.values())]
        return StatusAnswer(self._version, now - self._started, self._pid, servers)

    def _status_of(self, server: Server, now: float) -> ServerStatus:
        upstream = server.upstream
        verdicts = upstream.verdicts
        transport = next((verdict.transport for verdict in verdicts if verdict.transport is not None), None)
        eras = sorted({verdict.era.value for verdict in verdicts if verdict.era is not None})
        workload = self._supervisor.workloads.get(server.id)
        runs_here = workload is not None and not workload.config.is_remote
        return ServerStatus(
            id=server.id,
            url=self._url_of(server.id),
            kind="process" if runs_here or transport is Transport.STDIO else "remote",
            state=upstream.health.state(now).value,
            reasons=_reasons(server, workload, now),
            workload=None if workload is None else workload.status.phase.value,
            era="+".join(eras) or None,
            transport=transport.value if transport is not None else None,
            revision=upstream.profile.version if upstream.profile is not None else None,
            sessions=self._sessions.of_server(server),
            upstream_sessions=upstream.session_count,
            in_flight=len(server.exchanges),
            calls=upstream.health.calls,
            errors=upstream.health.errors,
            last_success_seconds_ago=upstream.health.since_success(now),
        )

    def _server(self, call: Call) -> Server:
        name = call.path["id"]
        if name not in self._servers:
            known = ", ".join(f"`{found}`" for found in sorted(self._servers)) or "none yet"
            message = f"no server is called `{name}`; there are: {known}"
            raise ApiError(404, "no_such_server", message, "see `mooring status`")
        return self._servers[name]

    async def trace(self, call: Call) -> object:
        server, query, reply = self._server(call), call.query, call.reply
        assert isinstance(query, TraceQuery)
        if reply.closed:
            return TAKEN
        reply.start(200, LINES, compress=False)
        watcher = (_Recorder if query.whole else _Watcher)(reply, with_bytes=query.bytes)
        for record in server.tracer.history()[-query.history :] if query.history else []:
            watcher(record)
        if not query.follow:
            reply.end()
            return TAKEN
        if query.whole:
            for peer, method, result in server.introductions():
                shown = redact(result).decode("utf-8", "replace")
                about = {"t": time(), "kind": "introduction", "size": len(result), "peer": peer}
                watcher({**about, "method": method, "bytes": shown})
            server.tracer.record(watcher)
            reply.on_closed = lambda: server.tracer.stop_recording(watcher)
        else:
            server.tracer.watch(watcher)
            reply.on_closed = lambda: server.tracer.unwatch(watcher)
        return TAKEN

    async def stdio(self, call: Call) -> object:
        server = self._server(call)
        if (call.request.header(b"upgrade") or b"").lower() != PROTOCOL:
            raise ApiError(426, "upgrade_required", "this address is for `mooring proxy stdio`")
        if not call.reply.closed:
            channel = call.reply.upgrade(PROTOCOL)
            told = (self._sessions, self._dispatcher, self._max_bytes, self._local())
            StdioConnection(channel, server, *told)
        return TAKEN


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
            note = {**record, "kind": "state", "note": f"{self._missed} missed"}
            self._reply.write(msgspec.json.encode(note) + b"\n")
            self._missed = 0
        self._reply.write(encode_record(record, with_bytes=self._with_bytes))


class _Recorder(_Watcher):
    """One `mooring record`: what cannot be sent at once waits, up to a limit."""

    def __init__(self, reply: Reply, *, with_bytes: bool) -> None:
        super().__init__(reply, with_bytes=with_bytes)
        self._waiting: deque[Record] = deque()
        self._size = 0
        reply.on_writable_changed = self._on_writable

    def __call__(self, record: Record) -> None:
        if self._reply.writable and not self._waiting:
            super().__call__(record)
        elif self._size + record["size"] > RECORDER_BYTES:
            self._missed += 1
        else:
            self._waiting.append(record)
            self._size += record["size"]

    def _on_writable(self, writable: bool) -> None:
        del writable
        while self._waiting and self._reply.writable:
            record = self._waiting.popleft()
            self._size -= record["size"]
            super().__call__(record)


def _reasons(server: Server, workload: Workload | None, now: float) -> list[str]:
    """What is wrong with it; that somebody stopped it is worth saying here, though nothing is wrong."""
    if workload is not None and is_put_down(workload.status):
        return [f"start it with `mooring start {workload.name}`"]
    return server.upstream.health.reasons(now)
