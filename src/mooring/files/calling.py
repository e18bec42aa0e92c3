"""One call of a tool that takes or makes files: handles become files, files become artifacts."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from mooring.errors import InvalidParams, MethodNotFound
from mooring.files import answers
from mooring.files.adapters import Producer, ToolFiles
from mooring.files.consuming import Arguments, Resolver, handles_in, places
from mooring.files.faults import FileFault
from mooring.files.handles import new_id
from mooring.files.kept_sessions import KeptSessions
from mooring.files.producing import ArtifactMaker, Output
from mooring.files.scopes import OF_SCOPE, SHARED_VIEW, Scopes
from mooring.files.server_files import ServerFiles
from mooring.files.store import FileStore
from mooring.files.tool_results import ToolResult
from mooring.files.views import Views
from mooring.files.wiring import Wiring
from mooring.gateway.exchange import Client, Exchange, Handler
from mooring.gateway.server import Server
from mooring.protocol.versions import Era
from mooring.transports.wire import Answer


class FileCalls:
    """The calls of one server's tools."""

    server: Server
    on_made: Callable[[str, Client], None]
    """There is something new in this scope, made by a call of this client."""
    on_view_dropped: Callable[[str], None]

    def __init__(
        self,
        files: ServerFiles,
        store: FileStore,
        wiring: Wiring,
        scopes: Scopes,
        views: Views,
        resolver: Resolver,
        maker: ArtifactMaker,
        sessions: KeptSessions,
    ) -> None:
        self._files = files
        self._store = store
        self._wiring = wiring
        self._scopes = scopes
        self._views = views
        self._resolver = resolver
        self._maker = maker
        self._sessions = sessions

    def call(self, exchange: Exchange, handler: Handler, name: str) -> Awaitable[Answer | None]:
        files = self._files.tools.get(name)
        return handler(exchange) if files is None else self._call(exchange, handler, name, files)

    async def _call(self, exchange: Exchange, handler: Handler, name: str, files: ToolFiles) -> Answer | None:
        arguments = Arguments(exchange)
        if arguments.has_task:
            if await self.server_has_tasks(exchange.client):
                raise MethodNotFound(f"`{name}` handles files and cannot run as a task: call it without one")
            return await handler(exchange)  # the gateway keeps the task; its call comes back here without it
        if not self._wiring.is_wired(name):
            await self._wire(exchange, name)
        exchange.relayable = False
        found = list(places(arguments, files))
        scope, view = self._place_of(exchange, found)
        try:
            used = await self._resolver.resolve(found, scope, view) if found else []
            self._store.hold(used)
            try:
                if files.producers and self._files.artifacts_enabled:
                    return await self._produce(exchange, handler, files.producers, arguments, scope, view)
                if arguments.values:
                    arguments.put_back()
                return await handler(exchange)
            finally:
                self._store.let_go(used)
        except FileFault as error:
            return answers.own_tool_error(str(error))

    async def server_has_tasks(self, client: Client) -> bool:
        found = await self.server.upstream.learn(client)
        return found.era is Era.LEGACY and found.capability("tasks") is not None

    async def _wire(self, exchange: Exchange, name: str) -> None:
        self._wiring.changed()  # it may have come since we looked
        await self._wiring.ensure(self.server.upstream.call, exchange)
        if not self._wiring.is_wired(name):
            raise InvalidParams(f"`{self._files.id}` has no tool `{name}`: list its tools again")

    def _place_of(self, exchange: Exchange, found: list[Any]) -> tuple[str | None, str]:
        """Whose files this call works with, and what its workload sees of them."""
        client = exchange.client
        scope = self._scopes.of_client(client, self._files.id)
        if scope is not None:
            return scope, scope
        scope = next((handle.scope for handle in handles_in(found)), None)
        if not self._files.one_child_per_scope:
            return scope, scope or new_id()
        if scope is None and not self._files.one_child_per_call:
            return None, SHARED_VIEW
        view = scope or new_id()
        client.key = f"{OF_SCOPE}{view}"
        return scope, view

    async def _produce(
        self,
        exchange: Exchange,
        handler: Handler,
        producers: tuple[Producer, ...],
        arguments: Arguments,
        scope: str | None,
        view: str,
    ) -> Answer | None:
        await self._sessions.keep(exchange.client, self._files.id)
        is_own = scope is None and view != SHARED_VIEW
        output = await self._maker.prepare(arguments, producers, view, alone=view != SHARED_VIEW)
        try:
            arguments.put_back()
            answer = await handler(exchange)
            if answer is None or answer.error or not answer.result:
                return answer
            result = ToolResult(answer.result)
            if not result.is_complete:
                return answer
            await self._capture(exchange.client, result, producers, output, scope or new_id())
            return Answer(version=answer.version, result=result.encoded())
        finally:
            if is_own:
                self.on_view_dropped(view)
                await asyncio.shield(self._views.drop(view))
            elif not output.is_tidied:
                await asyncio.shield(self._views.discard(output.folder))

    async def _capture(
        self, client: Client, result: ToolResult, producers: tuple[Producer, ...], output: Output, scope: str
    ) -> None:
        for producer in producers:
            if await self._maker.finish(result, producer, output, scope, client):
                self.on_made(scope, client)
                return
        self._maker.hide_paths(result, output)
