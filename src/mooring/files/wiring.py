"""Which of the configured tools a server really has. One that is not wired is refused, never passed raw."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final

import msgspec
from msgspec import Raw

from mooring.errors import RpcError
from mooring.gateway.exchange import Client, Exchange, Route
from mooring.protocol import jsonrpc, meta
from mooring.protocol.versions import Era
from mooring.transports.wire import Answer

log = logging.getLogger(__name__)

MAX_PAGES: Final = 200
INCOMPLETE: Final = "adapter_wiring_incomplete"
_numbers = itertools.count(1)


class Listed(msgspec.Struct):
    """One page of `tools/list`."""

    tools: list[dict[str, Any]] = msgspec.field(default_factory=list[dict[str, Any]])
    cursor: str | None = msgspec.field(default=None, name="nextCursor")


class Wiring:
    """What the last complete listing of a server's tools showed."""

    def __init__(self, configured: Iterable[str], server_id: str) -> None:
        self._configured = frozenset(configured)
        self._server = server_id
        self._found: frozenset[str] | None = None
        self._failure: str | None = None
        self._stale = True
        self._lock = asyncio.Lock()
        self._generation = 0

    def changed(self) -> None:
        """The server says that its tools are others now."""
        self._stale = True
        self._generation += 1

    def is_wired(self, tool: str) -> bool:
        return not self._stale and self._found is not None and tool in self._found

    @property
    def missing(self) -> list[str]:
        return [] if self._found is None else sorted(self._configured - self._found)

    def reasons(self) -> list[str]:
        """For the health report."""
        if self._found is None:
            return [] if self._failure is None else [f"{INCOMPLETE}: {self._failure}"]
        return [
            f"{INCOMPLETE}: `{self._server}` has no tool `{tool}`, which its adapters name"
            for tool in self.missing
        ]

    async def ensure(self, call: Callable[[Exchange], Awaitable[Answer | None]], like: Exchange) -> None:
        """List the server's tools unless we know them, in the session of a call that needs to know."""
        if not self._stale:
            return
        async with self._lock:
            if self._stale:
                await self._look(call, like)

    async def _look(self, call: Callable[[Exchange], Awaitable[Answer | None]], like: Exchange) -> None:
        generation = self._generation
        names: set[str] = set()
        cursor: str | None = None
        for _ in range(MAX_PAGES):
            answer = await call(_listing(like, cursor))
            if answer is None or answer.error:
                raise RpcError("the server does not list its tools")
            try:
                page = msgspec.json.decode(answer.result, type=Listed)
            except msgspec.DecodeError as error:
                raise RpcError(f"the server's list of tools cannot be read: {error}") from None
            names.update(str(tool.get("name")) for tool in page.tools)
            cursor = page.cursor
            if cursor is None:
                break
        self.learned(names, generation)

    def learned(self, names: set[str], generation: int | None = None) -> None:
        """A complete listing; it counts unless the tools changed while it was made."""
        self._found = frozenset(names & self._configured)
        self._failure = None
        self._stale = generation is not None and generation != self._generation
        for tool in self.missing:
            log.warning("%s: %s: there is no tool `%s`", self._server, INCOMPLETE, tool)

    async def try_now(self, call: Callable[[Exchange], Awaitable[Answer | None]], like: Exchange) -> None:
        """At start-up: a server that cannot be reached yet is wired when somebody first needs it."""
        try:
            await self.ensure(call, like)
        except RpcError as error:
            self._failure = f"its tools are not known yet ({error})"
            log.warning("%s: %s: %s", self._server, INCOMPLETE, error)


def _listing(like: Exchange, cursor: str | None) -> Exchange:
    """`tools/list` in the name of whoever made the other request."""
    params: dict[str, Raw | bytes] = {}
    if cursor is not None:
        params["cursor"] = msgspec.json.encode(cursor)
    if like.client.era is Era.MODERN:
        stamp = meta.entries(jsonrpc.members(like.envelope.params))
        stamp.pop(meta.PROGRESS_TOKEN, None)
        params["_meta"] = jsonrpc.assemble(stamp)
    raw = jsonrpc.assemble(params) if params else b""
    return own_exchange(like.server, like.client, "tools/list", raw, like)


def own_exchange(
    server: Route, client: Client, method: str, params: bytes, like: Exchange | None = None
) -> Exchange:
    """A request of our own that goes through a client's session."""
    request_id = Raw(b'"mooring-files-%d"' % next(_numbers))
    envelope = jsonrpc.Envelope("2.0", request_id, method, Raw(params))
    exchange = Exchange(
        server, client, envelope, method, jsonrpc.request(request_id, method, params), None, headers=b""
    )
    exchange.guarded = exchange.begun = True
    if like is not None:
        exchange.headers = None if like.headers is None else b""
        exchange.caller = like.caller
        exchange.started, exchange.patience = like.started, like.patience
        exchange.deadline, exchange.final_deadline = like.deadline, like.final_deadline
    return exchange
