"""The file adapters of one server, as a link of the chain: lists get our items, calls get their files."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec

from mooring.errors import InvalidParams
from mooring.files import answers, upload_tool
from mooring.files.calling import FileCalls
from mooring.files.consuming import Resolver
from mooring.files.deliveries import Deliverer
from mooring.files.descriptions import adapted
from mooring.files.faults import FileFault, NotFound
from mooring.files.handles import Kind, new_id
from mooring.files.kept_sessions import KeptSessions
from mooring.files.links import Links
from mooring.files.producing import ArtifactMaker
from mooring.files.records import FileRecord
from mooring.files.resources import CURSOR, OwnResources, appended
from mooring.files.results import ResultKeeper
from mooring.files.scopes import Scopes
from mooring.files.server_files import ServerFiles
from mooring.files.store import FileStore
from mooring.files.tool_list import ToolPage
from mooring.files.upload_tool import UploadRules
from mooring.files.views import Reach, Views
from mooring.files.wiring import Wiring, own_exchange
from mooring.gateway.clients import LegacyClient, ModernClient
from mooring.gateway.exchange import ANONYMOUS, Client, Exchange, Handler
from mooring.gateway.normalizing import normalize
from mooring.gateway.server import Server
from mooring.protocol import jsonrpc, meta, subscriptions
from mooring.protocol.subscriptions import RESOURCES_CHANGED, TOOLS_CHANGED
from mooring.protocol.versions import LATEST_MODERN
from mooring.transports.dialing import Folders
from mooring.transports.wire import Answer

log = logging.getLogger(__name__)
Json = dict[str, Any]
Method = Callable[[Exchange, Handler], Awaitable[Answer | None]]
OWN_INFO: Final = b'{"name":"mooring","version":"0.1.0"}'
NO_HELPER: Final = "uploads are switched off here; `get_upload_url`"


class FileAdapters:
    """The middleware."""

    def __init__(
        self,
        files: ServerFiles,
        store: FileStore,
        views: Views,
        links: Links,
        scopes: Scopes,
        sessions: KeptSessions,
    ) -> None:
        self._files = files
        self._store = store
        self.views = views
        self._links = links
        self._scopes = scopes
        self._sessions = sessions
        self.is_leaving = False
        self._shown = files.shown
        self.wiring = Wiring(files.tools, files.id)
        self._server: Server
        self._consumers = [name for name, tool in files.tools.items() if tool.consumers]
        self._upload_tool = (
            upload_tool.tool_name(files.id) if self._consumers and files.uploads.enabled else None
        )
        self._results = (
            ResultKeeper(store, files.id, files.results, self.shown) if files.results.enabled else None
        )
        kinds: list[Kind] = ["artifact"] if files.artifacts.expose_as_resources and self._captures else []
        if self._results is not None:
            kinds.append("result")
        self._resources = OwnResources(store, files.id, kinds)
        self._has_resources = bool(kinds)
        self._used: set[str] = set()
        self._bound: set[str] = set()
        self._told: set[str] = set()
        deliverer = Deliverer(store, views, links)
        resolver = Resolver(store, deliverer, files.id, lambda: self._helper or NO_HELPER)
        maker = ArtifactMaker(store, views, links, files.id, files.artifacts)
        self._calls = FileCalls(files, store, self.wiring, scopes, views, resolver, maker, sessions)
        self._calls.on_made = self._made
        self._calls.on_view_dropped = self._bound.discard
        self._methods: dict[str, Method] = {"tools/list": self._list_tools, "tools/call": self._call_tool}
        if self._has_resources:
            self._methods |= {
                "resources/list": self._list_resources,
                "resources/templates/list": self._list_templates,
                "resources/read": self._read_resource,
            }

    def attach(self, server: Server) -> None:
        """From now on this server offers what we add to it."""
        self._server = self._calls.server = server
        server.additions = self
        server.upstream.on_change = self.server_changed
        if self._files.reach is Reach.BOUND:
            server.upstream.folders_for = self._folders_for

    async def _folders_for(self, client: Client) -> Folders:
        """What a sandbox sees that is started for this client."""
        view = self._scopes.view_of(client, self._files.id)
        self._bound.add(view)
        return await self.views.folders(view)

    @property
    def uploads(self) -> UploadRules:
        return self._files.uploads

    @property
    def takes_uploads(self) -> bool:
        return self._upload_tool is not None

    @property
    def offers_uploads(self) -> bool:
        """Whether clients are shown how to upload; what is hidden from them is not there by its address."""
        return self._helper is not None

    def shown(self, name: str) -> str | None:
        """What clients call a tool; None: they do not see it."""
        return self._shown(name)

    def show_as(self, shown: Callable[[str], str | None]) -> None:
        """Tools are hidden or renamed in another way from now on."""
        self._shown = shown

    def methods_after(self, others: frozenset[str] | None) -> frozenset[str] | None:
        """The only methods that a chain is about which ends here; None: it is about all."""
        return None if others is None else others | frozenset(self._methods)

    @property
    def _captures(self) -> bool:
        return self._files.artifacts_enabled and any(tool.producers for tool in self._files.tools.values())

    @property
    def capabilities(self) -> dict[str, dict[str, bool]]:
        """What we add to the server's own capabilities."""
        added: dict[str, dict[str, bool]] = {"tools": {}} if self._own_tools() else {}
        if self._has_resources:
            added["resources"] = {"listChanged": True}
        return added

    def __call__(self, exchange: Exchange, handler: Handler) -> Awaitable[Answer | None]:
        method = self._methods.get(exchange.method)
        return handler(exchange) if method is None else method(exchange, handler)

    # Tools

    async def _list_tools(self, exchange: Exchange, handler: Handler) -> Answer | None:
        exchange.relayable = False
        answer = await handler(exchange)
        if answer is None or answer.error or not answer.result:
            return answer
        page = ToolPage(answer)
        if page.is_last and "cursor" not in jsonrpc.members(exchange.envelope.params):
            self.wiring.learned(page.names)
        page.change(self._changed)
        if await self._calls.server_has_tasks(exchange.client):
            page.forbid_tasks(self._files.tools)
        exchange.given = page.given
        return page.with_own(self._own_tools())

    def _own_tools(self) -> list[Json]:
        own: list[Json] = []
        if self._upload_tool is not None:
            shown = map(self.shown, self._consumers)
            own.append(upload_tool.definition(self._files.id, [name for name in shown if name is not None]))
        return own if self._results is None else [*own, *self._results.definitions()]

    def _changed(self, name: str, tool: Callable[[], Json]) -> tuple[Json, str] | None:
        """A tool of the server as clients see it, and what its description says more; None: as it is."""
        files = self._files.tools.get(name)
        may_be_kept = self._results is not None and self._results.rules.concerns(name)
        if files is None and not may_be_kept:
            return None
        changed = tool()
        if may_be_kept:  # a result that may be replaced cannot promise its shape
            changed.pop("outputSchema", None)
        if files is None:
            return changed, ""
        return adapted(changed, files, self._helper, captures=self._files.artifacts_enabled)

    @property
    def _helper(self) -> str | None:
        """What clients call the tool that says where to upload."""
        return None if self._upload_tool is None else self.shown(self._upload_tool)

    def _call_tool(self, exchange: Exchange, handler: Handler) -> Awaitable[Answer | None]:
        normalize(exchange)  # a tool with an adapter must not hide behind the name of another
        name = exchange.read_name() or ""
        results = self._results
        if self._is_own(name) and exchange.read_params().request_state:
            return handler(exchange)  # a call that waits for its approval goes on, or there is none
        if name and name == self._upload_tool:
            return self._answer_upload_url(exchange)
        if results is None:
            return self._calls.call(exchange, handler, name)
        scope = self._scopes.of_client(exchange.client, self._files.id)
        if results.is_own(name):
            return results.answer(name, _arguments(exchange), scope)
        if not results.rules.concerns(name):
            return self._calls.call(exchange, handler, name)
        return self._call_and_shorten(exchange, handler, name, results, scope)

    async def _call_and_shorten(
        self, exchange: Exchange, handler: Handler, name: str, results: ResultKeeper, scope: str | None
    ) -> Answer | None:
        exchange.relayable = False
        answer = await self._calls.call(exchange, handler, name)
        if answer is None or answer.error or not answer.result:
            return answer
        return await self._shortened(exchange, results, name, answer, scope or new_id())

    def _is_own(self, name: str) -> bool:
        return name == self._upload_tool or (self._results is not None and self._results.is_own(name))

    async def _shortened(
        self, exchange: Exchange, results: ResultKeeper, name: str, answer: Answer, scope: str
    ) -> Answer:
        try:
            shown, was_kept = await results.shortened(name, answer, scope)
            if was_kept:
                await self._sessions.keep(exchange.client, self._files.id)
        except FileFault as error:
            log.info("%s: a large result was not kept: %s", self._files.id, error)
            return answer
        if was_kept:
            self._made(scope, exchange.client)
        return shown

    async def _answer_upload_url(self, exchange: Exchange) -> Answer:
        given = _arguments(exchange)
        scope = self._scopes.of_client(exchange.client, self._files.id)
        handle = upload_tool.beside(given)
        if scope is None and handle is not None:
            try:
                scope = (await self._store.find(handle, self._files.id)).scope
            except NotFound as error:
                return answers.own_tool_error(f"`beside`: {error}")
        try:
            await self._sessions.keep(exchange.client, self._files.id)
        except FileFault as error:
            return answers.own_tool_error(str(error))
        principal = exchange.client.principal
        about = upload_tool.answer(self._links, self._files.uploads, self._files.id, scope, principal)
        if scope is not None and isinstance(exchange.client, LegacyClient):
            self._used.add(scope)
        return answers.own_tool_result(about)

    # Resources

    async def _list_resources(self, exchange: Exchange, handler: Handler) -> Answer | None:
        scope = self._scopes.of_client(exchange.client, self._files.id)
        if scope is not None:
            self._told.discard(scope)
        cursor = meta.text(jsonrpc.members(exchange.envelope.params).get("cursor", b""))
        if cursor is not None and cursor.startswith(CURSOR):
            return answers.own(await self._resources.page_at(scope, cursor))
        if (await self._server.upstream.learn(exchange.client)).capability("resources") is None:
            return answers.own(await self._resources.page(scope))
        exchange.relayable = False
        answer = await handler(exchange)
        if answer is None or answer.error or "nextCursor" in jsonrpc.members(answer.result):
            return answer
        return appended(answer, await self._resources.page(scope))

    async def _list_templates(self, exchange: Exchange, handler: Handler) -> Answer | None:
        if (await self._server.upstream.learn(exchange.client)).capability("resources") is None:
            return answers.own({"resourceTemplates": []})
        return await handler(exchange)

    async def _read_resource(self, exchange: Exchange, handler: Handler) -> Answer | None:
        uri = meta.text(exchange.read_params().uri)
        if uri is not None and self._resources.is_ours(uri):
            scope = self._scopes.of_client(exchange.client, self._files.id)
            return await self._resources.read(exchange, scope, uri)
        if (await self._server.upstream.learn(exchange.client)).capability("resources") is None:
            raise answers.resource_not_found(exchange, f"not found: `{uri}`")
        return await handler(exchange)

    # Life

    async def client_gone(self, client: Client) -> None:
        """A session has ended: its files go."""
        if not isinstance(client, LegacyClient):
            return
        scope = self._scopes.of_session(client.alias)
        self._told.discard(scope)
        if self.is_leaving and self._sessions.has(scope):
            await self.views.drop(scope)
        elif self._sessions.has(scope) or scope in self._used or scope in self._store.usage.by_scope:
            self._used.discard(scope)
            self._sessions.forget(scope)
            await self._store.end_scope(scope, "its session ended")
            await self.views.drop(scope)
        elif scope in self._bound:
            await self.views.drop(scope)
        self._bound.discard(scope)

    async def sweep_views(self, older_than: float) -> None:
        """Remove the views that nobody needs any more: left over from before a restart, or of nobody."""
        sessions = self._server.upstream.sessions
        seen = {self.views.view_of(folder) for session in sessions for folder in session.folders}
        self._bound &= seen
        kept = self._store.usage.by_scope
        await self.views.sweep(lambda view: view in kept or view in seen, older_than)

    def forget(self, record: FileRecord) -> None:
        """A file is gone, and with it what the workload had of it."""
        self.views.forget(record)

    async def wire_now(self) -> None:
        """At start-up, before anybody needs it."""
        client = ModernClient(LATEST_MODERN, b"{}", OWN_INFO, b"", self._server.interactions, {})
        params = meta.with_request_metadata(
            b"", version=client.version, capabilities=b"{}", client_info=OWN_INFO, log_level=b""
        )
        like = own_exchange(self._server, client, "tools/list", params)
        await self.wiring.try_now(self._server.upstream.call, like)

    def server_changed(self, method: str) -> None:
        if method == TOOLS_CHANGED:
            self.wiring.changed()

    def reasons(self) -> list[str]:
        return self.wiring.reasons()

    def _made(self, scope: str, client: Client) -> None:
        """There is a new file. Whoever can see it hears of it, but need not hear it twice."""
        if isinstance(client, LegacyClient):  # others have no session that could end
            self._used.add(scope)
        if not self._has_resources:
            return
        if isinstance(client, LegacyClient):
            if scope not in self._told or client.is_listening:
                self._told.add(scope)
                client.deliver(RESOURCES_CHANGED, b"")
            return
        for stream in list(self._server.listeners):
            if client.principal not in (ANONYMOUS, "") and stream.principal == client.principal:
                subscriptions.deliver((stream,), RESOURCES_CHANGED, b"")


def _arguments(exchange: Exchange) -> Json:
    """The arguments of a call to a tool of ours."""
    raw = jsonrpc.members(exchange.envelope.params).get("arguments") or b"{}"
    try:
        return msgspec.json.decode(raw, type=dict[str, Any])
    except msgspec.DecodeError as error:
        raise InvalidParams(f"`arguments` cannot be read: {error}") from None
