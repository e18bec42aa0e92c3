"""What the addresses for files have in common: tasks that end, errors as JSON, callers who may come in."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from time import monotonic
from typing import Any, Final
from urllib.parse import parse_qs, unquote

import msgspec

from mooring.errors import SessionGone
from mooring.files.faults import FileFault, NotFound, Refused
from mooring.files.service import FileService
from mooring.gateway.principal import NOBODY, Caller
from mooring.gateway.server import Server
from mooring.gateway.sessions import SessionTable
from mooring.interfaces.gateway_app import Rules
from mooring.transports.http_errors import BodyInterrupted
from mooring.transports.http_reply import Reply
from mooring.transports.http_request import Request

log = logging.getLogger(__name__)
Headers = tuple[tuple[bytes, bytes], ...]
GoOn = Callable[[str], Coroutine[Any, Any, None]]
PRIVATE: Final = (
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
)
JSON: Final = ((b"content-type", b"application/json"), *PRIVATE)
STOP_SECONDS: Final = 2.0


class FileRequests:
    """Runs the work of each request in a task of its own; one that fails fails alone."""

    def __init__(
        self,
        service: FileService,
        servers: dict[str, Server],
        sessions: SessionTable,
        rules: Callable[[], Rules],
    ) -> None:
        self.service = service
        self.servers = servers
        self._sessions = sessions
        self._rules = rules
        self._tasks: set[asyncio.Task[None]] = set()

    def headers_for(self, request: Request) -> Headers:
        return self._rules().guard.headers_for(request)

    def run(self, request: Request, reply: Reply, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(self._run(request, reply, work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, request: Request, reply: Reply, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except FileFault as error:
            self.refuse(request, reply, error.status, str(error))
        except BodyInterrupted:
            reply.abort()  # whoever sent it is gone or broken
        except FileNotFoundError:
            log.exception("a file is missing from the storage")
            self.refuse(request, reply, 404, "not found")
        except Exception:
            log.exception("%s %s failed", request.method.decode("latin-1"), request.path.decode("latin-1"))
            self.refuse(request, reply, 500, "internal error")

    def refuse(self, request: Request, reply: Reply, status: int, message: str) -> None:
        if reply.closed:
            return
        if reply.started:
            reply.abort()
            return
        body = msgspec.json.encode({"error": message})
        reply.send(status, (*JSON, *self.headers_for(request)), body)

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=STOP_SECONDS)

    # Who may come in

    def enter(
        self,
        server: Server,
        request: Request,
        reply: Reply,
        go_on: GoOn,
    ) -> None:
        """Find the scope of a request, by its ticket or by its session, and go on in it."""
        ticket = query_of(request).get("ticket")
        rules = self._rules()
        if ticket is not None:
            self.run(request, reply, self._with_ticket(server, request, ticket, go_on))
        elif rules.door is None or rules.place_of is None:
            self.run(request, reply, self._with_session(server, request, go_on, NOBODY))
        else:
            rules.door.admit(
                rules.place_of(server.id),
                request,
                reply,
                self.headers_for(request),
                partial(self._admitted, server, request, reply, go_on),
            )

    def _admitted(
        self,
        server: Server,
        request: Request,
        reply: Reply,
        go_on: GoOn,
        caller: Caller,
    ) -> None:
        self.run(request, reply, self._with_session(server, request, go_on, caller))

    async def _with_ticket(
        self,
        server: Server,
        request: Request,
        ticket: str,
        go_on: GoOn,
    ) -> None:
        scope = self.service.links.read_ticket(ticket, server.id).scope
        named = request.header(b"mcp-session-id")
        if named is not None and named.decode("latin-1") != scope and not self._is_of(scope, named, server):
            raise NotFound("`Mcp-Session-Id` is not the one that this upload link is for: leave it out")
        await go_on(scope)

    async def _with_session(
        self,
        server: Server,
        request: Request,
        go_on: GoOn,
        caller: Caller,
    ) -> None:
        named = request.header(b"mcp-session-id")
        scope = None if named is None else self._session_scope(server, named, caller)
        if scope is None:
            raise Refused(
                f"this address needs a ticket: call `{server.id}_get_upload_url` and use the URL it answers"
            )
        await go_on(scope)

    def _is_of(self, scope: str, session_id: bytes, server: Server) -> bool:
        alias = self._sessions.alias_of(session_id, server)
        return alias is not None and self.service.scopes.of_session(alias) == scope

    def _session_scope(self, server: Server, session_id: bytes, caller: Caller) -> str | None:
        """The scope of a session that exists; no header makes one."""
        try:
            found = self._sessions.find(session_id, server, caller, monotonic())
        except SessionGone:
            return None
        return self.service.scopes.of_session(found.alias)


def query_of(request: Request) -> dict[str, str]:
    found = parse_qs(request.query.decode("latin-1"), max_num_fields=20)
    return {name: values[0] for name, values in found.items()}


def path_of(request: Request) -> list[str]:
    """The components of the path, each decoded on its own: an encoded slash makes no new one."""
    return [unquote(part, errors="replace") for part in request.path.decode("latin-1").split("/")[1:]]
