"""A server made of functions, over every transport."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Final, TypeVar, Unpack, overload

from mooring.authoring import decorators, stdio
from mooring.authoring.audience import Audience
from mooring.authoring.catalog import Catalog, Item
from mooring.authoring.decorators import CommonSettings, ResourceSettings, ToolSettings, items_of
from mooring.authoring.engine import Engine
from mooring.authoring.http_app import HttpApp
from mooring.authoring.http_settings import HttpSettings
from mooring.authoring.identity import Cache, Identity
from mooring.authoring.items import BadDefinition
from mooring.transports.http_listener import Listener

F = TypeVar("F", bound=Callable[..., Any])
Json = dict[str, Any]
MAX_MESSAGE_BYTES: Final = 8 * 1024 * 1024
CLOSE_SECONDS: Final = 2.0
Lifespan = Callable[["Server"], AbstractAsyncContextManager[Any]]


class Server:
    """Offers functions as tools, resources and prompts to clients of every revision.

    `run()` serves standard input and output, `run_http()` Streamable HTTP and HTTP+SSE. A server runs once
    at a time; `serve_stdio()` and `serving_http()` are the same for those who have a loop already.
    """

    def __init__(
        self,
        name: str,
        *,
        version: str = "0",
        title: str | None = None,
        description: str | None = None,
        instructions: str | None = None,
        website_url: str | None = None,
        icons: Sequence[Json] = (),
        page_size: int | None = None,
        cache: Cache | None = None,
        state_key: bytes | None = None,
        lifespan: Lifespan | None = None,
        extensions: Json | None = None,
        experimental: Json | None = None,
    ) -> None:
        """`state_key` lets replicas go on with each other's interactions; `lifespan` wraps the whole run, and
        what it yields is every context's `state`."""
        identity = Identity(
            name,
            version,
            title,
            instructions,
            website_url,
            description,
            tuple(icons),
            extensions or {},
            experimental or {},
        )
        self._audience = Audience()
        self._catalog = Catalog(self._audience, page_size)
        self._engine = Engine(identity, self._catalog, self._audience, cache or Cache(), state_key)
        self._lifespan = lifespan
        self.name = name

    # What is offered

    def add(self, *things: Any) -> None:
        """Offer marked functions, or all marked functions and methods of objects and modules."""
        for thing in things:
            items = list(items_of(thing))
            if not items:
                raise BadDefinition(f"nothing in `{thing!r}` is marked with `@tool` or the like")
            for item in items:
                self._catalog.add(item)

    def remove_tool(self, name: str) -> None:
        self._catalog.remove(self._catalog.tools[name])

    def remove_prompt(self, name: str) -> None:
        self._catalog.remove(self._catalog.prompts[name])

    def remove_resource(self, uri: str) -> None:
        """By URI, or by template."""
        found: Item = self._catalog.resources.get(uri) or self._catalog.templates[uri]
        self._catalog.remove(found)

    @overload
    def tool(self, function: F, /) -> F: ...
    @overload
    def tool(self, /, **settings: Unpack[ToolSettings]) -> Callable[[F], F]: ...
    def tool(self, function: Any = None, /, **settings: Any) -> Any:
        """Offer a function as a tool: `@server.tool`, or `@server.tool(read_only=True)`."""
        return self._offered(decorators.tool(**settings), function)

    @overload
    def prompt(self, function: F, /) -> F: ...
    @overload
    def prompt(self, /, **settings: Unpack[CommonSettings]) -> Callable[[F], F]: ...
    def prompt(self, function: Any = None, /, **settings: Any) -> Any:
        """Offer a function that returns messages as a prompt."""
        return self._offered(decorators.prompt(**settings), function)

    def resource(self, uri: str, /, **settings: Unpack[ResourceSettings]) -> Callable[[F], F]:
        """Offer what a function returns as the contents of a resource."""
        return self._offered(decorators.resource(uri, **settings), None)

    def resource_template(
        self, uri_template: str, /, **settings: Unpack[ResourceSettings]
    ) -> Callable[[F], F]:
        """Offer a function as the contents of every resource whose URI fits the template."""
        return self._offered(decorators.resource_template(uri_template, **settings), None)

    def completion(self, target: str | Callable[..., Any], argument: str) -> Callable[[F], F]:
        """Suggest values for an argument of a prompt, or of a resource template.

        The function gets what was typed so far and, if it takes a second parameter, the other arguments.
        """

        def offer(function: F) -> F:
            for key in self._keys(target):
                self._catalog.completers[key, argument] = function
            return function

        return offer

    def _keys(self, target: str | Callable[..., Any]) -> list[str]:
        known = {**self._catalog.prompts, **self._catalog.templates}
        keys = [key for key, item in known.items() if target in (key, item.function)]
        if not keys:
            raise BadDefinition(f"`{target}` is neither a prompt nor a resource template of this server")
        return keys

    def _offered(self, mark: Callable[[Any], Any], function: Any) -> Any:
        def offer(function: Any) -> Any:
            # Not on the function itself: another server may offer it with other settings.
            def stand_in() -> None: ...

            mark(stand_in)
            (make,) = vars(stand_in)[decorators.MARK]
            self._catalog.add(make(function))
            return function

        return offer if function is None else offer(function)

    def resource_updated(self, uri: str) -> None:
        """Tell everybody who subscribed to this resource that it has changed; from any thread."""
        self._audience.resource_updated(uri)

    def is_watched(self, uri: str) -> bool:
        """Whether anybody has subscribed to this resource: if not, there is no need to watch it."""
        return self._audience.is_watched(uri)

    # What is offered, as clients see it

    def definitions(self, method: str = "tools/list", version: str = "2026-07-28") -> Json:
        """A list as a client of this revision gets it."""
        return self._catalog.page(method, None, version)

    # Running

    def run(self) -> None:
        """Serve standard input and output until the client leaves."""
        _run(self.serve_stdio())

    def run_http(self, settings: HttpSettings | None = None, **changes: Any) -> None:
        """Serve Streamable HTTP at `/mcp` and HTTP+SSE at `/sse` until told to stop."""
        _run(self._serve_http(settings or HttpSettings(**changes)))

    async def serve_stdio(self, *, max_message_bytes: int = MAX_MESSAGE_BYTES) -> None:
        async with self._alive():
            await stdio.serve(self._engine, max_message_bytes=max_message_bytes)

    async def _serve_http(self, settings: HttpSettings) -> None:
        async with self.serving_http(settings) as url:
            print(f"{self.name} is at {url}", file=sys.stderr)
            await asyncio.get_running_loop().create_future()

    @contextlib.asynccontextmanager
    async def serving_http(self, settings: HttpSettings | None = None, **changes: Any) -> AsyncGenerator[str]:
        """Serve HTTP while this lasts; the value is the address of the Streamable HTTP endpoint."""
        chosen = settings or HttpSettings(**changes)
        app = HttpApp(self._engine, chosen)
        async with self._alive(), Listener(app) as listener:
            port = await listener.listen_tcp(chosen.host, chosen.port, chosen.tls)
            app.open(port)
            try:
                yield app.url
            finally:
                await self._engine.close()
                app.close()
                await listener.close(CLOSE_SECONDS)

    @contextlib.asynccontextmanager
    async def _alive(self) -> AsyncGenerator[None]:
        self._audience.open()
        try:
            if self._lifespan is None:
                yield
            else:
                async with self._lifespan(self) as state:
                    self._engine.methods.state = state
                    yield
        finally:
            self._audience.close()


def _run(work: Coroutine[Any, Any, None]) -> None:
    """Run to the end, or until a signal; a second one is not needed to get out."""
    with contextlib.suppress(KeyboardInterrupt, asyncio.CancelledError):
        if sys.platform == "win32":
            asyncio.run(work)
        else:
            import uvloop  # noqa: PLC0415 - not there on Windows

            uvloop.run(_until_terminated(work))


async def _until_terminated(work: Coroutine[Any, Any, None]) -> None:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    await work
