"""What a client sent, taken to the right place: the same for every transport that a client may use."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from time import monotonic
from typing import Any, Final

from msgspec import Raw

from mooring.errors import InvalidParams, InvalidRequest, RpcError, http_status_of
from mooring.gateway import answering
from mooring.gateway.clients import LegacyClient, ModernClient
from mooring.gateway.exchange import Client, Exchange, Sink
from mooring.gateway.principal import NOBODY, Caller
from mooring.gateway.server import Server
from mooring.protocol import jsonrpc, lifecycle, meta
from mooring.protocol.jsonrpc import Envelope, RequestId
from mooring.protocol.lifecycle import Phase
from mooring.protocol.versions import negotiate_legacy

log = logging.getLogger(__name__)
RELAYABLE: Final = True
"""Nobody has to look inside an answer until somebody in the chain says so."""


class Dispatcher:
    """Takes decoded messages of clients to their servers; owns the small tasks that this needs."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=2.0)

    # Legacy

    def legacy_request(
        self,
        server: Server,
        client: LegacyClient,
        envelope: Envelope,
        data: bytes,
        sink: Sink,
    ) -> None:
        """A request in a session; what is illegal in its state is refused and changes nothing."""
        method = envelope.method or ""
        try:
            if client.phase is not Phase.READY or method == "initialize":
                client.phase = lifecycle.on_request(client.phase, method)
                if method == "initialize":
                    self.spawn(self._initialize(server, client, envelope, sink))
                    return
            key = jsonrpc.id_key(envelope.id)
            if key in client.running:
                raise InvalidRequest("`id` is in use by another request that is still running")
            body = jsonrpc.forwardable(data, envelope)
        except RpcError as error:
            sink.answer(jsonrpc.error(envelope.id, error.encode()))
            return
        exchange = Exchange(
            server, client, envelope, method, body, sink, RELAYABLE, None, key, caller=client.caller
        )
        client.running[key] = exchange
        server.start(exchange)

    async def _initialize(self, server: Server, client: LegacyClient, envelope: Envelope, sink: Sink) -> None:
        try:
            members = jsonrpc.members(envelope.params)
            requested = meta.text(members.get("protocolVersion", b""))
            if requested is None:
                raise InvalidParams("`protocolVersion` must be a string")
            capabilities = members.get("capabilities", Raw(b"{}"))
            if bytes(capabilities)[:1] != b"{":
                raise InvalidParams("`capabilities` must be an object")
            client.introduce(
                negotiate_legacy(requested), bytes(capabilities), bytes(members.get("clientInfo", b""))
            )
            exchange = Exchange(server, client, envelope, "initialize", b"", None, caller=client.caller)
            exchange.started = monotonic()
            answer = await server.handle(exchange)
            assert answer is not None
        except RpcError as error:
            client.phase = lifecycle.on_initialize_answered(client.phase, accepted=False)
            sink.answer(jsonrpc.error(envelope.id, error.encode()))
        except Exception as error:  # noqa: BLE001 - the end of the chain: nothing else breaks
            client.phase = lifecycle.on_initialize_answered(client.phase, accepted=False)
            refusal = answering.broken(server.id, "initialize", error)
            sink.answer(jsonrpc.error(envelope.id, refusal.encode()))
        else:
            client.phase = lifecycle.on_initialize_answered(client.phase, accepted=True)
            if client.tracer.active:
                client.tracer.noted("client", client.alias, f"session initialized, revision {client.version}")
            sink.answer(jsonrpc.result(envelope.id, answer.result))

    def legacy_notification(
        self, server: Server, client: LegacyClient, envelope: Envelope, data: bytes
    ) -> None:
        method = envelope.method or ""
        if not lifecycle.may_act_on(client.phase, method):
            return
        watch = server.watch
        if watch is not None and not watch.admits(client, method):
            return
        before = client.phase
        client.phase = lifecycle.on_notification(client.phase, method)
        if method == "notifications/cancelled":
            cancel(client.running, envelope)
        elif method == "notifications/initialized":
            if client.phase is not before and client.channel is not None:
                self.attach(server, client)
        else:
            self.spawn(_quietly(_pass_on(server, client, envelope, jsonrpc.forwardable(data, envelope))))

    def attach(self, server: Server, client: LegacyClient) -> None:
        """This client has a place to hear of changes."""
        if server.watch is not None:
            server.watch.connected(client)
        server.tasks.tell_unheard(client)
        self.spawn(_quietly(server.hearing.attach(client)))

    def legacy_response(self, client: LegacyClient, envelope: Envelope) -> None:
        if not client.answered(envelope) and client.tracer.active:
            client.tracer.noted("client", client.alias, "an answer to a request that nobody made")

    # Modern

    def modern_request(
        self,
        server: Server,
        envelope: Envelope,
        data: bytes,
        sink: Sink,
        running: dict[RequestId, Exchange],
        *,
        params: meta.Params,
        read: meta.Meta,
        version: str,
        headers: bytes | None = None,
        caller: Caller = NOBODY,
    ) -> None:
        """A request that stands alone; its metadata has been checked."""
        try:
            body = jsonrpc.forwardable(data, envelope)
        except RpcError as error:
            sink.answer(jsonrpc.error(envelope.id, error.encode()), http_status_of(error.code))
            return
        client: Client = ModernClient(
            version,
            bytes(read.capabilities),
            bytes(read.client_info),
            bytes(read.log_level),
            server.interactions,
            running,
            caller,
        )
        key = jsonrpc.id_key(envelope.id)
        exchange = Exchange(
            server,
            client,
            envelope,
            envelope.method or "",
            body,
            sink,
            RELAYABLE,
            headers,
            key,
            params,
            read,
            caller=caller,
        )
        running[key] = exchange
        sink.bind(exchange)
        server.start(exchange)


def cancel(running: dict[RequestId, Exchange], envelope: Envelope) -> None:
    """`notifications/cancelled`: unknown and finished requests are nobody's business any more."""
    try:
        raw = bytes(meta.read_params(envelope.params).request_id)
    except RpcError:
        return
    if raw and jsonrpc.is_request_id(raw):
        exchange = running.get(jsonrpc.id_key(raw))
        if exchange is not None:
            exchange.cancel()


async def _pass_on(server: Server, client: LegacyClient, envelope: Envelope, data: bytes) -> None:
    session = await server.upstream.session_for(client)
    await session.notify(client, envelope, data)


async def _quietly(work: Coroutine[Any, Any, None]) -> None:
    """Nobody waits for the outcome; the server's health already shows what went wrong."""
    try:
        await work
    except RpcError as error:
        log.info("%s", error)
