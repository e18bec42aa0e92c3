"""One leg of the conversation with a server: what a request takes out, what comes back for it, what can go
wrong.

A *wire* carries messages to one server in one session (a child's pipes, an event stream, a series of
POSTs). It knows ids and framing. What the messages mean, and whom they concern, is the business of the
session above it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

import msgspec
from msgspec import Raw

from mooring.errors import UpstreamUnavailable
from mooring.protocol.jsonrpc import EMPTY, Envelope
from mooring.transports.http_response import Response
from mooring.transports.http_upstream import UpstreamConnection
from mooring.transports.large_messages import KeptResult


class SessionLost(UpstreamUnavailable):
    """The server no longer knows the session of this wire (HTTP 404): the request provably never started."""

    def __init__(self, wire: Wire) -> None:
        super().__init__("the server has forgotten the session")
        self.wire = wire


class Relay(Protocol):
    """A complete JSON-RPC response that is still arriving; its id is already the client's own."""

    length: int | None

    def attach(
        self, on_data: Callable[[bytes], None], on_end: Callable[[Exception | None], None], /
    ) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def abort(self) -> None: ...


class Flow(Protocol):
    """Something that can be told to stop reading for a while."""

    def pause(self) -> None: ...
    def resume(self) -> None: ...


class Answer(msgspec.Struct, eq=False, kw_only=True):
    """What a server answered: a result, an error, or a response that flows through while it arrives.

    `whole` holds the complete response as it came when its id is the client's own, so that it can go on
    untouched.
    """

    version: str
    result: Raw | bytes = EMPTY
    error: Raw | bytes = EMPTY
    whole: bytes = b""
    relay: Relay | None = None
    kept: KeptResult | None = None
    """The result, if it is too large to be held and nobody has to look inside."""
    status: int = 200


class Posted(Protocol):
    """A request that was sent before anybody came to wait for its answer."""

    @property
    def connection(self) -> UpstreamConnection: ...
    @property
    def response(self) -> asyncio.Future[Response]: ...


class Leg(msgspec.Struct, eq=False):
    """One request on its way to a server.

    `id` is the client's id where the wire may keep it (a POST of its own, in a session nobody else uses),
    else empty: the wire then gives it one. `body` is the whole message in the first case, and the parts of it
    otherwise. `on_message` gets what the server sends on behalf of this request before it answers.
    `on_polled` is
    told when the server closed its stream on purpose and wants to be polled (2025-11-25), with its wish in
    milliseconds; `on_streaming` when it answers with an event stream at all.
    """

    method: str
    params: Raw | bytes
    on_message: Callable[[Envelope, bytes], None]
    id: bytes = b""
    body: bytes = b""
    headers: bytes = b""
    assigned: bool = False
    """The id is the wire's own, not the client's."""
    relayable: bool = False
    only_complete: bool = False
    """Relayable only if it visibly is a final result, and not questions that must be looked at first."""
    keepable: bool = False
    """A large result may wait on disk: nobody has to look inside."""
    token: bytes = b""
    on_polled: Callable[[int | None], None] | None = None
    on_streaming: Callable[[], None] | None = None
    flow: Flow | None = None
    posted: Posted | None = None
    """It is already on its way."""
    caller: object = None
    """On whose behalf, where what the server is shown depends on that."""


class Wire(Protocol):
    """What a session needs of its wire."""

    correlates: bool
    """Whether a message from the server arrives tied to the request it belongs to."""
    label: str
    version: str

    async def request(self, leg: Leg) -> Answer: ...
    async def send(self, message: bytes) -> None: ...
    async def close(self) -> None: ...


class WireEvents(Protocol):
    """What a wire tells the session above it."""

    @property
    def tracing(self) -> bool: ...
    def on_traffic(self, direction: str, data: bytes) -> None: ...
    def on_unsolicited(self, envelope: Envelope, data: bytes) -> None: ...
    def on_noise(self, data: bytes, why: str) -> None: ...
    def on_lost(self, reason: str) -> None: ...
