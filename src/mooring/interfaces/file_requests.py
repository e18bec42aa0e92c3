"""What the addresses for files share: tasks that end, errors people can read, callers who may come in."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from time import monotonic
from typing import Any, Final
from urllib.parse import parse_qs, unquote

import msgspec
from msgspec.structs import replace

from mooring.errors import SessionGone, TooMuch
from mooring.files.faults import FileFault, NotFound, Refused
from mooring.files.links import RESUMABLE
from mooring.files.service import FileService
from mooring.files.upload_tool import tool_name
from mooring.gateway.principal import ANONYMOUS, NOBODY, Caller, Principal
from mooring.gateway.server import Server
from mooring.gateway.sessions import SessionTable
from mooring.interfaces import upload_page
from mooring.interfaces.gateway_app import Rules
from mooring.policy.audit.events import FILE_DOWNLOAD, FILE_UPLOAD
from mooring.policy.watching import Watch
from mooring.transports.http_errors import BodyInterrupted
from mooring.transports.http_reply import Reply
from mooring.transports.http_request import Request

log = logging.getLogger(__name__)
Headers = tuple[tuple[bytes, bytes], ...]
PRIVATE: Final = (
    (b"cache-control", b"no-store"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-content-type-options", b"nosniff"),
)
JSON: Final = ((b"content-type", b"application/json"), *PRIVATE)
TUS_VERSION: Final = b"1.0.0"
STOP_SECONDS: Final = 2.0
METHODS: Final = {FILE_UPLOAD: "files/upload", FILE_DOWNLOAD: "files/download"}
"""Kind of event -> how limits call such a request."""


@dataclass(slots=True)
class Visit:
    """One request about files that came in: by whom, to which scope, and what is written down about it."""

    kind: str
    watch: Watch | None
    caller: Caller
    scope: str = ""
    _told: bool = False

    async def count(self) -> None:
        """It counts against the limits."""
        if self.watch is not None and self.watch.spend is not None:
            await self.watch.spend(self.caller, METHODS[self.kind])

    def done(self, *uris: str) -> None:
        """It succeeded; this is written down before the answer leaves."""
        self._tell(200, {"uris": list(uris)} if uris else {})

    def failed(self, status: int, reason: str) -> None:
        try:
            self._tell(status, {"reason": reason})
        except OSError:  # whoever is refused must still be told so
            log.exception("a refusal could not be written down")

    def _tell(self, status: int, details: dict[str, Any]) -> None:
        if self.watch is not None and not self._told:
            self._told = True
            self.watch.files(self.caller, self.kind, status, details)


GoOn = Callable[[Visit], Coroutine[Any, Any, None]]


class FileRequests:
    """Runs the work of each request in a task of its own; one that fails fails alone."""

    def __init__(
        self,
        service: FileService,
        servers: dict[str, Server],
        sessions: SessionTable,
        rules: Callable[[], Rules],
        watch_for: Callable[[str], Watch | None],
    ) -> None:
        self.service = service
        self.servers = servers
        self._sessions = sessions
        self._rules = rules
        self._watch_for = watch_for
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def rules(self) -> Rules:
        return self._rules()

    def headers_for(self, request: Request) -> Headers:
        return self._rules().guard.headers_for(request)

    def visit(self, server_id: str, kind: str, caller: Caller) -> Visit:
        return Visit(kind, self._watch_for(server_id), caller)

    def run(self, request: Request, reply: Reply, visit: Visit, go_on: GoOn) -> None:
        task = asyncio.get_running_loop().create_task(self._run(request, reply, visit, go_on))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, request: Request, reply: Reply, visit: Visit, go_on: GoOn) -> None:
        try:
            await go_on(visit)
        except FileFault as error:
            visit.failed(error.status, str(error))
            self.refuse(request, reply, error.status, str(error))
        except TooMuch as error:
            visit.failed(429, str(error))
            wait = (b"retry-after", b"%d" % error.retry_seconds)
            self.refuse(request, reply, 429, str(error), wait)
        except BodyInterrupted:
            visit.failed(400, "the body ended too early")
            reply.abort()  # whoever sent it is gone or broken
        except FileNotFoundError:
            log.exception("a file is missing from the storage")
            visit.failed(404, "not found")
            self.refuse(request, reply, 404, "not found")
        except Exception:
            log.exception("%s %s failed", request.method.decode("latin-1"), request.path.decode("latin-1"))
            visit.failed(500, "internal error")
            self.refuse(request, reply, 500, "internal error")

    def refuse(
        self, request: Request, reply: Reply, status: int, message: str, *more: tuple[bytes, bytes]
    ) -> None:
        if reply.closed:
            return
        if reply.started:
            reply.abort()
            return
        if wants_page(request):
            reply.send(status, (*upload_page.HEADERS, *more), upload_page.refusal(message))
            return
        body = msgspec.json.encode({"error": message})
        reply.send(status, (*JSON, *_tus(request, status), *more, *self.headers_for(request)), body)

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=STOP_SECONDS)

    # Who may come in

    def stranger(self, server_id: str, request: Request) -> Caller | None:
        """Whoever comes without a credential; None: there is one, and the door has to look at it."""
        door = self._rules().door_of(server_id)
        return NOBODY if door is None else door.stranger(request)

    def admit(self, server_id: str, request: Request, reply: Reply, enter: Callable[[Caller], None]) -> None:
        """Through the door that calls of tools go through; or 401, 403, 429."""
        rules = self._rules()
        door = rules.door_of(server_id)
        if door is None or rules.place_of is None:
            enter(NOBODY)
            return
        door.admit(rules.place_of(server_id), request, reply, self.headers_for(request), enter)

    def enter(self, server: Server, request: Request, reply: Reply, go_on: GoOn) -> None:
        """Find the scope of a request, by its ticket or by who sends it, and go on in it.

        A ticket was given to somebody who came through the door, and stands for them. Whoever also shows a
        credential must be that one.
        """
        rules = self._rules()
        stranger = self.stranger(server.id, request)
        if "ticket" in query_of(request) and stranger is not None and not rules.links_need_credentials:
            self._entered(server, request, reply, go_on, stranger)
        else:
            self.admit(server.id, request, reply, partial(self._entered, server, request, reply, go_on))

    def _entered(self, server: Server, request: Request, reply: Reply, go_on: GoOn, caller: Caller) -> None:
        visit = self.visit(server.id, FILE_UPLOAD, caller)
        self.run(request, reply, visit, partial(self._find_scope, server, request, go_on))

    async def _find_scope(self, server: Server, request: Request, go_on: GoOn, visit: Visit) -> None:
        text = query_of(request).get("ticket")
        try:
            if text is not None:
                self._take_ticket(server, request, text, visit)
            else:
                visit.scope = await self._own_scope(server, request, visit)
        finally:  # whoever tries tickets out is counted, too
            await visit.count()
        await go_on(visit)

    def _take_ticket(self, server: Server, request: Request, text: str, visit: Visit) -> None:
        *_, folder, last = path_of(request)
        ticket = self.service.links.read_ticket(text, server.id, last if folder == RESUMABLE else None)
        principal = visit.caller.principal
        if principal is not ANONYMOUS and ticket.principal != principal.id:
            raise NotFound("not found: this upload link is for somebody else; ask for one of your own")
        if principal is ANONYMOUS and ticket.principal != ANONYMOUS.id:
            visit.caller = replace(visit.caller, principal=Principal(ticket.principal, ticket.principal))
        scope = visit.scope = ticket.scope
        named = request.header(b"mcp-session-id")
        if named is not None and named.decode("latin-1") != scope and not self._is_of(scope, named, server):
            raise NotFound("`Mcp-Session-Id` is not the one that this upload link is for: leave it out")

    async def _own_scope(self, server: Server, request: Request, visit: Visit) -> str:
        """Without a ticket: the scope of the session that is named, or of the principal."""
        helper = tool_name(server.id)
        may_call = None if visit.watch is None else visit.watch.may_call
        is_hidden = not self.service.adapters[server.id].offers_uploads
        if is_hidden or (may_call is not None and not may_call(visit.caller, helper)):
            raise NotFound("not found: no server of this name takes uploads")
        named = request.header(b"mcp-session-id")
        if named is not None:
            scope = await self._session_scope(server, named, visit.caller)
        elif visit.caller.principal is not ANONYMOUS:
            scope = self.service.scopes.of_principal(visit.caller.principal.id, server.id)
        else:
            scope = None
        if scope is None:
            raise Refused(f"this address needs a ticket: call `{helper}` and use the URL it answers")
        return scope

    def _is_of(self, scope: str, session_id: bytes, server: Server) -> bool:
        alias = self._sessions.alias_of(session_id, server)
        return alias is not None and self.service.scopes.of_session(alias) == scope

    async def _session_scope(self, server: Server, session_id: bytes, caller: Caller) -> str | None:
        """The scope of a session that exists; no header makes one."""
        try:
            found = self._sessions.find(session_id, server, caller, monotonic())
        except SessionGone:
            return None
        await self.service.sessions.keep(found, server.id)
        return self.service.scopes.of_session(found.alias)


def _tus(request: Request, status: int) -> Headers:
    """Clients of the protocol learn from every answer, refusals too, which version was spoken."""
    if request.header(b"tus-resumable") is None and status != HTTPStatus.PRECONDITION_FAILED:
        return ()
    spoken = (b"tus-resumable", TUS_VERSION)
    return (spoken, (b"tus-version", TUS_VERSION)) if status == HTTPStatus.PRECONDITION_FAILED else (spoken,)


def wants_page(request: Request) -> bool:
    """Whether a person looks at the answer."""
    accepted = request.header(b"accept") or b""
    return b"text/html" in accepted and b"application/json" not in accepted


def query_of(request: Request) -> dict[str, str]:
    """What stands behind the question mark; more of it than any link of ours has is nothing."""
    try:
        found = parse_qs(request.query.decode("latin-1"), max_num_fields=20)
    except ValueError:
        return {}
    return {name: values[0] for name, values in found.items()}


def path_of(request: Request) -> list[str]:
    """The components of the path, each decoded on its own: an encoded slash makes no new one."""
    return [unquote(part, errors="replace") for part in request.path.decode("latin-1").split("/")[1:]]
