"""A session with a legacy server: handshake, calls, and the requests that such a server makes of its
client."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Final

import msgspec
from msgspec import Raw

from mooring.errors import (
    METHOD_NOT_FOUND,
    MethodNotFound,
    RpcError,
    UpstreamFailed,
)
from mooring.gateway import interactions
from mooring.gateway import profile as profiles
from mooring.gateway.exchange import Client, Exchange
from mooring.gateway.kept_answers import KEEPABLE
from mooring.gateway.legacy_refusals import (
    HandshakeRefused,
    OtherEra,
    answer_for_nobody,
    missing_capability,
)
from mooring.gateway.tracing import Tracer
from mooring.gateway.upstream_session import UpstreamSession, error_code
from mooring.protocol import jsonrpc, meta, subscriptions, translate
from mooring.protocol.jsonrpc import Envelope, RequestId
from mooring.protocol.subscriptions import Filter
from mooring.protocol.versions import LATEST_LEGACY, LEGACY_VERSIONS, Era
from mooring.transports.duplex import DuplexWire
from mooring.transports.streamable_wire import StreamableWire
from mooring.transports.wire import Answer, Leg, Wire

SHARED_CAPABILITIES: Final = (
    b'{"roots":{"listChanged":true},"sampling":{},"elicitation":{"form":{},"url":{}}}'
)
"""What we declare where one session serves many clients; a request that its caller cannot take is refused
then."""
TASK_STATUS: Final = "notifications/tasks/status"
OWN_INFO: Final = b'{"name":"mooring","version":"0.1.0"}'
CANCEL_SECONDS: Final = 2.0
OWN_REQUEST_SECONDS: Final = 10.0
HEAR_SECONDS: Final = 2.0
"""How long a call waits for the standalone stream; a server that has none says so at once."""
POOLED: Final = "modern:"
"""How the key of a session begins that serves any modern client that can be asked the same things."""
MOST_ASKED: Final = 10_000
"""How many requests of one server may wait for our answers; more than it can write in one piece."""
INTERACTIVE: Final = ("elicitation", "sampling", "roots")


class LegacySession(UpstreamSession):
    """One initialized session with a server that speaks 2024-11-05 to 2025-11-25."""

    era = Era.LEGACY

    def __init__(self, key: str, owner: Client | None, tracer: Tracer) -> None:
        super().__init__(key, owner, tracer)
        self._subscribed: frozenset[str] = frozenset()
        self._serving: dict[RequestId, asyncio.Task[None]] = {}
        self._asking: dict[Exchange, list[asyncio.Task[None]]] = {}
        self._next_token = 1
        self._adjusting = asyncio.Lock()
        self._turn: asyncio.Lock | None = None
        self._asks = False
        self._deaf = False
        self._lane: bytes | None = None

    async def open(
        self, wire: Wire, version: str, capabilities: bytes, info: bytes, *, stamped: bool = False
    ) -> None:
        """The handshake, in the name of the client that this session is for.

        Stamped, it also says in the way of 2026-07-28 who speaks which revision: a modern server can then
        answer that it does not speak this one, instead of guessing what it was sent.
        """
        self.wire = wire
        self._asks = any(name in jsonrpc.members(capabilities) for name in INTERACTIVE)
        params = jsonrpc.assemble(
            {
                "protocolVersion": msgspec.json.encode(version),
                "capabilities": capabilities or b"{}",
                "clientInfo": info or OWN_INFO,
            }
        )
        leg = Leg("initialize", params, self.on_unsolicited)
        if stamped:
            leg.params = meta.with_request_metadata(
                params,
                version=version,
                capabilities=capabilities,
                client_info=info or OWN_INFO,
                log_level=b"",
            )
            leg.headers = b"mcp-protocol-version: %b\r\n" % version.encode()
        answer = await wire.request(leg)
        if answer.error:
            raise HandshakeRefused(answer)
        found = profiles.from_initialize(answer.result)
        if found.version not in LEGACY_VERSIONS:
            raise OtherEra(f"the server wants to speak revision {found.version!r}, which has no handshake")
        self.profile = found
        if isinstance(wire, StreamableWire):
            wire.settle(found.version, wire.offered_session)
            if self.owner is not None and self.owner.version == found.version:
                self._lane = wire.post_head + wire.legacy_headers
                self.take_idle = wire.take_idle
        wire.version = found.version  # type: ignore[attr-defined]
        await self.wire.send(jsonrpc.notification("notifications/initialized"))

    async def call(self, exchange: Exchange) -> Answer:
        if self._turn is None:
            answer = await self._call(exchange)
        else:  # it asks in ways that only turns keep apart
            async with self._turn:
                answer = await self._call(exchange)
        if answer.error and exchange.method == "tools/call" and self._wants_task(exchange, answer):
            return await self._call_as_task(exchange)
        return answer

    def lane_for(self, exchange: Exchange) -> bytes | None:
        return self._lane if exchange.client is self.owner else None

    async def _call(self, exchange: Exchange) -> Answer:
        client = exchange.client
        envelope = exchange.envelope
        leg = Leg(exchange.method, envelope.params, partial(self._on_call_message, exchange))
        leg.posted, exchange.posted = exchange.posted, None
        leg.keepable = exchange.relayable and exchange.method in KEEPABLE
        if self.personal:
            leg.caller = exchange.caller
        if exchange.client.era is Era.LEGACY and exchange.sink is not None:
            if self.wire.correlates:
                leg.on_polled = exchange.sink.polled
                leg.on_streaming = partial(exchange.sink.stream, at_once=True)
            else:
                exchange.sink.stream(at_once=False)
        if self.wire.correlates and client is self.owner and client.era is Era.LEGACY:
            # A POST of its own in a session of its own: the message goes on as it came.
            leg.id = bytes(envelope.id)
            leg.body = exchange.body
            leg.relayable = exchange.flows and not translate.needed(self.version, client.version)
        else:
            self._prepare(leg, exchange)
        if self.wire.correlates and exchange.sink is not None:
            exchange.sink.throttle(leg)
        if self._asks and client.era is Era.MODERN and isinstance(self.wire, StreamableWire):
            # Many servers ask on the standalone stream, whatever the call: it must be open before they do.
            await self.wire.hear(HEAR_SECONDS)
        self.calls[exchange] = None
        try:
            return await self.wire.request(leg)
        except asyncio.CancelledError:
            if self.wire.correlates and leg.id:
                self.spawn_farewell(self._tell_cancelled(leg.id))
            if self._asks and self.owner is None:
                self._gave_up()
            raise
        finally:
            self.done_with(exchange)
            for task in self._asking.pop(exchange, ()):
                task.cancel()

    def _gave_up(self) -> None:
        """The server may still ask something on behalf of a call that is over; nobody else may hear it."""
        if self.key.startswith(POOLED):
            self.tainted = True  # there will be another one for the next call
        elif self.wire.correlates:
            self._deaf = True  # a session that must live on has to do without such questions

    def _prepare(self, leg: Leg, exchange: Exchange) -> None:
        """A leg that others may share: ids and progress tokens are ours, the metadata of another era stays
        behind."""
        if exchange.client.era is Era.MODERN:
            leg.params = meta.without_request_metadata(exchange.envelope.params)
        if jsonrpc.may_contain(exchange.envelope.params, b"progressToken"):
            leg.token = bytes(exchange.read_meta().progress_token)
        if leg.token and self.wire.correlates:
            token = b'"mooring-%d"' % self._next_token
            self._next_token += 1
            leg.params = meta.with_meta(leg.params, meta.PROGRESS_TOKEN, token)
            leg.on_message = partial(self._on_shared_message, exchange, leg.token)

    def _wants_task(self, exchange: Exchange, answer: Answer) -> bool:
        """A tool that runs only as a task (2025-11-25) refuses a plain call with -32601, and has then not
        run."""
        assert self.profile is not None
        if self.profile.capability("tasks") is None or "task" in jsonrpc.members(exchange.envelope.params):
            return False
        return error_code(answer) == METHOD_NOT_FOUND

    async def _call_as_task(self, exchange: Exchange) -> Answer:
        """For a client that knows no tasks: start one in its name, and wait for its result."""
        params = meta.with_member(meta.without_request_metadata(exchange.envelope.params), "task", b"{}")
        created = await self.start_task(self.request("tools/call", params), self._cancel_created)
        wanted = _named_task(created)
        if wanted is None:
            return created
        self.calls[exchange] = None
        try:
            return await self.wire.request(
                Leg("tasks/result", wanted, partial(self._on_call_message, exchange))
            )
        except asyncio.CancelledError:
            self.spawn(self._cancel_task(wanted))
            raise
        finally:
            self.done_with(exchange)

    async def _cancel_created(self, created: Answer) -> None:
        wanted = _named_task(created)
        if wanted is not None:
            await self._cancel_task(wanted)

    async def _cancel_task(self, wanted: bytes) -> None:
        with suppress(UpstreamFailed, TimeoutError):
            async with asyncio.timeout(CANCEL_SECONDS):
                await self.request("tasks/cancel", wanted)

    async def _tell_cancelled(self, request_id: bytes) -> None:
        notice = jsonrpc.notification("notifications/cancelled", b'{"requestId":%b}' % request_id)
        # It was a courtesy; nobody waits for the answer any more.
        with suppress(UpstreamFailed, TimeoutError):
            async with asyncio.timeout(CANCEL_SECONDS):
                await self.wire.send(notice)

    async def notify(self, client: Client, envelope: Envelope, data: bytes) -> None:
        """A notification of the client; the ones that only its own session may hear stay out of shared
        ones."""
        if self.owner is client or envelope.method == "notifications/roots/list_changed":
            await self.wire.send(data)

    async def request(self, method: str, params: bytes | Raw = b"") -> Answer:
        """A request of our own; a server that does not answer it must not hold up whoever needs it."""
        try:
            leg = Leg(method, params, self.on_unsolicited)
            async with asyncio.timeout(OWN_REQUEST_SECONDS):
                return await self.wire.request(leg)
        except TimeoutError:
            raise UpstreamFailed(f"the server did not answer `{method}`") from None

    # Changes and subscriptions

    async def adjust(self, wish: Filter) -> Filter:
        async with self._adjusting:
            return await self._adjust(wish)

    async def _adjust(self, wish: Filter) -> Filter:
        assert self.profile is not None
        can_subscribe = self.profile.flag("resources", "subscribe")
        wanted = frozenset(wish.resource_subscriptions) if can_subscribe else frozenset[str]()
        for uri in self._subscribed - wanted:
            self._subscribed -= {uri}
            await self.request("resources/unsubscribe", msgspec.json.encode({"uri": uri}))
        for uri in wanted - self._subscribed:
            answer = await self.request("resources/subscribe", msgspec.json.encode({"uri": uri}))
            if not answer.error:
                self._subscribed |= {uri}
        granted = self._subscribed
        if isinstance(self.wire, StreamableWire) and wish != subscriptions.NOTHING:
            self.wire.listen()
        return Filter(
            wish.tools_list_changed and self.profile.flag("tools", "listChanged"),
            wish.prompts_list_changed and self.profile.flag("prompts", "listChanged"),
            wish.resources_list_changed and self.profile.flag("resources", "listChanged"),
            tuple(uri for uri in wish.resource_subscriptions if uri in granted),
            wish.task_ids,
        )

    # What the server says

    def _on_call_message(self, exchange: Exchange, envelope: Envelope, data: bytes) -> None:
        """Something that arrived tied to a call."""
        if envelope.id:
            self._serve(envelope, exchange)
        elif envelope.method in subscriptions.CHANGES:
            self.deliver_change(envelope.method, envelope.params)
        elif envelope.method == "notifications/cancelled":
            self._withdraw(envelope)
        elif envelope.method == "notifications/message":
            if exchange.client.wants_log(_level_of(envelope)):
                exchange.emit(data)
        else:
            if envelope.method == "notifications/progress":
                exchange.progressed(monotonic())
                if exchange.parked is not None:
                    data = interactions.with_current_token(exchange, envelope.params)
            if data:
                exchange.emit(data)

    def _on_shared_message(self, exchange: Exchange, token: bytes, envelope: Envelope, data: bytes) -> None:
        """As above, in a session where the progress token that the server knows is ours."""
        if envelope.method == "notifications/progress":
            params = meta.with_member(envelope.params, meta.PROGRESS_TOKEN, token)
            envelope = Envelope("2.0", method=envelope.method, params=Raw(params))
            data = jsonrpc.notification("notifications/progress", params)
        self._on_call_message(exchange, envelope, data)

    def on_unsolicited(self, envelope: Envelope, data: bytes) -> None:
        """Something that arrived on its own: find whom it concerns, or nobody."""
        exchange = self._sole_call(envelope)
        if exchange is not None:
            self._on_call_message(exchange, envelope, data)
            return
        if envelope.id:
            if len(self.calls) > 1 and self.owner is None and envelope.method != "ping":
                # It asks somebody, and nobody can tell whom. From now on its calls take turns.
                self._turn = self._turn or asyncio.Lock()
            self._serve(envelope, None)
        elif envelope.method in subscriptions.CHANGES:
            self.deliver_change(envelope.method, envelope.params)
        elif envelope.method == "notifications/cancelled":
            self._withdraw(envelope)
        elif self.owner is not None:
            self._tell_owner(self.owner, envelope, data)

    def _tell_owner(self, owner: Client, envelope: Envelope, data: bytes) -> None:
        if envelope.method == "notifications/message" and not owner.wants_log(_level_of(envelope)):
            return
        owner.push(data)

    def _sole_call(self, envelope: Envelope) -> Exchange | None:
        """On a shared channel a message can be tied to a call only if all calls in flight are one
        client's."""
        if not self.calls or (self.owner is None and envelope.method == TASK_STATUS):
            return None  # a shared server's tasks are not those of whoever calls just now
        if self.wire.correlates:
            # Only a request needs somebody to answer it; everything else has a place of its own.
            alone = len(self.calls) == 1 and self.owner is None and bool(envelope.id) and not self._deaf
            return next(iter(self.calls)) if alone else None
        if self.owner is None and isinstance(self.wire, DuplexWire):
            # A question must never reach the wrong client; a log line may, once its call had time to stop.
            in_doubt = self.wire.has_given_up if envelope.id else self.wire.gave_up_lately
            if in_doubt:
                return None  # it may belong to a call whose client has gone
        calls = list(self.calls)
        newest = calls[-1]
        if self.owner is not None or all(call is newest for call in calls):
            return newest
        return None

    # Requests that the server makes

    def _serve(self, envelope: Envelope, exchange: Exchange | None) -> None:
        if len(self._tasks) >= MOST_ASKED:
            self._hang_up("the server asks more than it lets us answer")
            return
        task = asyncio.get_running_loop().create_task(self._answer(envelope, exchange))
        key = jsonrpc.id_key(envelope.id)
        self._serving[key] = task
        if exchange is not None and exchange in self.calls:
            self._asking.setdefault(exchange, []).append(task)
        self._tasks.add(task)
        task.add_done_callback(partial(self._served, key))

    def _hang_up(self, reason: str) -> None:
        if isinstance(self.wire, DuplexWire):
            self.wire.fail(reason)  # for everybody in it: nothing that we say gets through
        else:
            self.on_lost(reason)

    def _served(self, key: RequestId, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if self._serving.get(key) is task:
            del self._serving[key]

    def _withdraw(self, envelope: Envelope) -> None:
        """The server no longer wants the answer to a request of its own."""
        raw = meta.read_params(envelope.params).request_id
        if raw and jsonrpc.is_request_id(bytes(raw)) and (task := self._serving.get(jsonrpc.id_key(raw))):
            task.cancel()

    async def _answer(self, envelope: Envelope, exchange: Exchange | None) -> None:
        method = envelope.method or ""
        try:
            answer = await self._ask(method, envelope.params, exchange)
        except RpcError as error:
            message = jsonrpc.error(envelope.id, error.encode())
        else:
            if answer.error:
                message = jsonrpc.error(envelope.id, answer.error)
            else:
                message = jsonrpc.result(envelope.id, answer.result)
        try:
            await self.wire.send(message)
        except UpstreamFailed as error:
            self.on_noise(message, f"our answer to `{method}` did not reach the server: {error}")

    async def _ask(self, method: str, params: Raw, exchange: Exchange | None) -> Answer:
        if method == "ping":
            return Answer(version=self.version, result=b"{}")
        client = exchange.client if exchange is not None else self.owner
        if client is not None and (exchange is not None or client.era is Era.LEGACY):
            if not client.can(method, params):
                if method == "roots/list" and not self.wire.correlates:
                    # Usually asked right after the handshake: no reason to fail the call that it came across.
                    return answer_for_nobody(method, self.version)
                if exchange is not None and client.era is Era.MODERN:
                    exchange.fail(missing_capability(method))
                raise MethodNotFound(f"the client cannot take `{method}`")
            return await client.ask(exchange, method, params)
        return answer_for_nobody(method, self.version)


def _level_of(envelope: Envelope) -> str:
    return meta.text(meta.read_params(envelope.params).level) or "info"


__all__ = ["LATEST_LEGACY", "SHARED_CAPABILITIES", "HandshakeRefused", "LegacySession"]


def _named_task(created: Answer) -> bytes | None:
    """What names a task in requests about it, if there is one."""
    if created.error:
        return None
    task = jsonrpc.members(jsonrpc.members(created.result).get("task", b"")).get("taskId")
    return None if task is None else jsonrpc.assemble({"taskId": task})
