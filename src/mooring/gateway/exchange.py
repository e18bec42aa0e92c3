"""One request of a client, with who asks, by when, and the way back; and the seam that everything handles
it through."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, Protocol

import msgspec
from msgspec import Raw

from mooring.errors import RpcError
from mooring.gateway.principal import NOBODY, Caller
from mooring.protocol import jsonrpc, meta
from mooring.protocol.calls import Call, read_call
from mooring.protocol.jsonrpc import Envelope
from mooring.protocol.meta import Meta, Params
from mooring.protocol.versions import Era
from mooring.transports.http_response import Response
from mooring.transports.http_upstream import UpstreamConnection
from mooring.transports.spool import Kept
from mooring.transports.wire import Answer, Leg, Relay

ANONYMOUS = "anonymous"
"""The principal of everybody, until authentication tells people apart."""


class Route(Protocol):
    """What an exchange knows of the server it is for."""

    id: str


class Sink(Protocol):
    """Where the answer to one request goes, and what the server says before it."""

    flows: ClassVar[bool]
    """Whether it can take an answer that is still arriving."""

    def bind(self, exchange: Exchange) -> None: ...
    def throttle(self, leg: Leg) -> None: ...
    def emit(self, message: bytes) -> None: ...
    def answer(self, message: bytes, status: int = 200) -> None: ...
    def relay(self, relay: Relay) -> None: ...
    def keep(self, kept: Kept) -> None: ...
    def drop(self) -> None: ...
    def stream(self, *, at_once: bool) -> None: ...
    def polled(self, retry_milliseconds: int | None) -> None: ...
    def tick(self, age_seconds: float) -> None: ...


class Client(Protocol):
    """Who asks: a legacy session, or the sender of one modern request."""

    era: Era
    version: str
    principal: str
    """The id of `caller.principal`."""
    caller: Caller
    capabilities: bytes
    info: bytes
    log_level: bytes
    key: str
    running: dict[int | str, Exchange]

    def can(self, method: str, params: bytes | Raw) -> bool: ...
    async def ask(self, exchange: Exchange | None, method: str, params: bytes | Raw) -> Answer: ...
    def push(self, message: bytes) -> None: ...
    def wants_log(self, level: str) -> bool: ...


class Watch(Protocol):
    """Told of what is no exchange and so does not pass the chain."""

    def admits(self, client: Client, method: str) -> bool:
        """Whether a notification may go on."""
        ...

    def connected(self, client: Client) -> None:
        """A stream for changes was opened."""
        ...

    def lets_read(self, caller: Caller, uri: str) -> bool:
        """Whether this caller may hear of a resource."""
        ...

    def reasons(self) -> list[str]:
        """What is wrong with the guard itself, for the health report."""
        ...


class Posted(msgspec.Struct, eq=False):
    """A request that is already on its way: in which session, on which connection, and its answer."""

    session: Any
    connection: UpstreamConnection
    response: asyncio.Future[Response]


class Quick(Protocol):
    """A chain that never waits: what it has to do can be done in two steps, before and after the call."""

    after: tuple[Middleware, ...]
    """What follows it and is not about calls; the lists that it may ask for pass them."""

    def enter(self, exchange: Exchange) -> None: ...
    def leave(self, exchange: Exchange, answer: Answer) -> Answer | None: ...
    def fail(self, exchange: Exchange, error: BaseException) -> None: ...
    def __call__(self, exchange: Exchange, handler: Handler) -> Awaitable[Answer | None]: ...


class OnTheShortWay(Protocol):
    """A call without a task, which can be given up all the same."""

    def give_up(self) -> None: ...


class Parked(Protocol):
    """A call that waits for its client to come back with answers (2026-07-28)."""

    def keep(self, message: bytes) -> None: ...


class Given(msgspec.Struct, frozen=True):
    """A tool as its server gave it, where the gateway shows it otherwise."""

    raw: bytes = b""
    """Its definition; empty for a tool of our own."""
    note: str = ""
    """What we added to its description."""


class Exchange(msgspec.Struct, eq=False):
    """One request in flight. Exactly one task runs it; cancelling that task cancels the request.

    A Struct because one is made for every call, and making it is then a matter of C.
    """

    server: Route
    client: Client
    envelope: Envelope
    method: str
    body: bytes
    sink: Sink | None
    relayable: bool = False
    """Nobody on the way has to look inside a large answer."""
    headers: bytes | None = None
    """The `Mcp-Param-*` headers that came with it; None where there are no headers to come with."""
    key: int | str | None = None
    params: Params | None = None
    meta: Meta | None = None
    task: asyncio.Task[None] | None = None
    parked: Parked | None = None
    on_input: Callable[[bool], None] | None = None
    """Told when the call begins and ceases to wait for its client's input."""
    started: float = 0.0
    patience: float = 0.0
    deadline: float = 0.0
    final_deadline: float = 0.0
    questions: int = 0
    """How many questions its client has not answered yet."""
    failure: RpcError | None = None
    begun: bool = False
    withdrawn: bool = False
    direct: OnTheShortWay | None = None
    posted: Posted | None = None
    caller: Caller = NOBODY
    """Who sent this very request: a later one of the same session may come with another credential."""
    heard_of: bool = False
    """Its client has heard something of it already."""
    guarded: bool = False
    """A part of a request that the chain has already let through."""
    guard: Quick | None = None
    """The chain that it has entered without a task, if it has."""
    checked: bool = False
    """That chain has let it through."""
    refusal: Exception | None = None
    """Or this is why it did not."""
    given: dict[str, Given] | None = None
    """In a list of tools: those that the gateway has added or changed."""
    asked: Raw | None = None
    """Its params as they came, if the chain has changed them since."""
    known_as: str | None = None
    """What its client calls the tool that it is about, where the server calls it otherwise."""
    name: str | None = None
    """See `read_name`."""
    name_in: Raw | None = None
    """The params that it was read from: others have another name."""
    call: Call | None = None
    """See `read_call`."""
    subject: tuple[str, str] | None = None
    """Kind and name of the item that these params are about, once somebody has found out."""

    @property
    def flows(self) -> bool:
        """Whether its answer may go on while it arrives."""
        return self.relayable and self.sink is not None and self.sink.flows

    @property
    def asked_for(self) -> Raw:
        """What its client said, whatever the chain made of it."""
        return self.envelope.params if self.asked is None else self.asked

    @property
    def transport(self) -> str:
        """How its client speaks to us, in the words that ToolHive has for it."""
        if self.caller.address == "unix":
            return "stdio"
        is_channel = self.client.era is Era.LEGACY and getattr(self.client, "channel", None) is not None
        return "sse" if is_channel else "streamable-http"

    def set_params(self, params: bytes) -> None:
        """Give it new params, everywhere it has them."""
        self.asked = self.asked_for
        self.envelope.params = Raw(params)
        self.body = jsonrpc.request(self.envelope.id, self.method, params)
        self.params = self.meta = None

    def read_params(self) -> Params:
        """The members of the params that routing looks at, decoded on first use."""
        if self.params is None:
            self.params = meta.read_params(self.envelope.params)
        return self.params

    def read_name(self) -> str | None:
        """The `name` in the params, if it is a string; decoded on first use."""
        params = self.envelope.params
        if params is not self.name_in:
            call = read_call(params)
            self.name = meta.text(self.read_params().name) if call is None else call.name
            self.call = call if jsonrpc.is_compact_request(self.body, self.envelope) else None
            self.name_in, self.subject = params, None
        return self.name

    def read_call(self) -> Call | None:
        """Its params, if all of it can only be read in one way; None: it needs a closer look."""
        if self.envelope.params is not self.name_in:
            self.read_name()
        return self.call

    def read_meta(self) -> Meta:
        if self.meta is None:
            self.meta = meta.read_meta(self.read_params())
        return self.meta

    def emit(self, message: bytes) -> None:
        """Something the server says while it works on this request."""
        self.heard_of = True
        if self.sink is not None:
            self.sink.emit(message)
        elif self.parked is not None:
            self.parked.keep(message)

    def progressed(self, now: float) -> None:
        """Progress means that work is going on: the deadline moves, up to the final one."""
        if not self.questions:
            self.deadline = min(now + self.patience, self.final_deadline)

    def wait_for_client(self) -> None:
        """The server waits for its client, perhaps for a person: that is not the server's time."""
        self.questions += 1
        self.deadline = self.final_deadline

    def client_answered(self, now: float) -> None:
        """One question less; after the last one it is the server's turn again."""
        self.questions -= 1
        self.progressed(now)

    def fail(self, error: RpcError) -> None:
        """Give the request up, and say why."""
        self.failure = error
        self.cancel()

    def cancel(self) -> None:
        if not self.begun:
            self.withdrawn = True  # a task that is cancelled before its first step would not even clean up
        elif self.task is not None:
            self.task.cancel()
        elif self.direct is not None:
            self.direct.give_up()


Handler = Callable[[Exchange], Awaitable[Answer | None]]
"""None: the exchange was handed over to another one, which answers in its place."""
Middleware = Callable[[Exchange, Handler], Awaitable[Answer | None]]


def compose(middlewares: list[Middleware], final: Handler) -> Handler:
    """The chain, made once: each middleware sees the exchange before and the answer after everything below
    it."""
    handler = final
    for middleware in reversed(middlewares):
        handler = _bind(middleware, handler)
    return handler


def _bind(middleware: Middleware, handler: Handler) -> Handler:
    def bound(exchange: Exchange) -> Awaitable[Answer | None]:
        return middleware(exchange, handler)

    return bound
