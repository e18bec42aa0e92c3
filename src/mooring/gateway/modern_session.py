"""The way to a modern server: no handshake, every request carries all it needs, input is asked for in
rounds."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import Any, Final, cast

import msgspec
from msgspec import Raw

from mooring.errors import HEADER_MISMATCH, MissingCapability, RpcError, UpstreamFailed
from mooring.gateway.exchange import Client, Exchange
from mooring.gateway.kept_answers import KEEPABLE
from mooring.gateway.profile import TASKS_EXTENSION, Profile
from mooring.gateway.questions import (
    InputRequired,
    Question,
    declined,
    error_result,
    input_required,
    link,
    with_elicitation_id,
)
from mooring.gateway.server_listening import Listening
from mooring.gateway.server_tasks import Task, read_task, wants_tasks, with_tasks_declared
from mooring.gateway.tracing import Tracer
from mooring.gateway.upstream_session import UpstreamSession, error_code
from mooring.protocol import jsonrpc, meta, routing_headers, subscriptions
from mooring.protocol.jsonrpc import Envelope
from mooring.protocol.subscriptions import Filter
from mooring.protocol.versions import Era
from mooring.transports.streamable_wire import StreamableWire
from mooring.transports.wire import Answer, Leg, Wire

ROUNDS: Final = 16
"""How often a server may ask a legacy client for more before we call it a loop."""
OWN_CAPABILITIES: Final = b"{}"
OWN_INFO: Final = b'{"name":"mooring","version":"0.1.0"}'
POLL_MILLISECONDS: Final = 1000
OWN_REQUEST_SECONDS: Final = 10.0
_TASKS_DECLARED: Final = jsonrpc.assemble({"extensions": jsonrpc.assemble({TASKS_EXTENSION: b"{}"})})
HEADS_KEPT: Final = 256
"""How many beginnings of requests are remembered: for each tool, the same one every time."""
INPUT_METHODS: Final = frozenset({"tools/call", "prompts/get", "resources/read"})


class ModernSession(UpstreamSession):
    """A stateless server. Over HTTP this is only a way to it; over stdio it is one child."""

    era = Era.MODERN

    def __init__(self, key: str, owner: Client | None, tracer: Tracer) -> None:
        super().__init__(key, owner, tracer)
        self._annotations: dict[str, dict[routing_headers.Path, str]] | None = None
        self._listening: Listening | None = None
        self._adjusting = asyncio.Lock()
        self._heads: dict[tuple[str, bytes, bytes], bytes] = {}

    def open(self, wire: Wire, profile: Profile) -> None:
        self.wire = wire
        self.profile = profile
        wire.version = profile.version
        if isinstance(wire, StreamableWire):
            self.take_idle = wire.take_idle

    async def call(self, exchange: Exchange) -> Answer:
        self.calls[exchange] = None
        try:
            if exchange.client.era is Era.MODERN:
                return await self._call_as_is(exchange)
            return await self._call_in_rounds(exchange)
        finally:
            self.done_with(exchange)

    def lane_for(self, exchange: Exchange) -> bytes | None:
        if exchange.headers is None or not isinstance(self.wire, StreamableWire):
            return None
        read = exchange.read_params()
        if self.version != exchange.client.version or (
            exchange.method in INPUT_METHODS and read.request_state
        ):
            return None
        key = (exchange.method, bytes(read.name or read.uri or read.task_id), exchange.headers)
        head = self._heads.get(key)
        if head is None:
            if len(self._heads) >= HEADS_KEPT:
                self._heads.clear()
            head = self.wire.post_head + self._known_headers(exchange.method, read, exchange.headers)
            self._heads[key] = head
        return head

    async def _call_as_is(self, exchange: Exchange) -> Answer:
        """Modern client, modern server: the message goes on as it came (less what the chain changed)."""
        leg = Leg(exchange.method, exchange.envelope.params, partial(self._on_call_message, exchange))
        leg.posted, exchange.posted = exchange.posted, None
        leg.keepable = exchange.relayable and exchange.method in KEEPABLE
        if self.personal:
            leg.caller = exchange.caller
        if self.wire.correlates:
            leg.id = bytes(exchange.envelope.id)
            leg.body = exchange.body
            leg.relayable = exchange.flows
            leg.only_complete = exchange.method in INPUT_METHODS
            leg.headers = await self._headers(exchange.method, exchange.envelope.params, exchange.headers)
            if exchange.sink is not None:
                exchange.sink.throttle(leg)
        elif jsonrpc.may_contain(exchange.envelope.params, b"progressToken"):
            leg.token = bytes(exchange.read_meta().progress_token)
        return await self.wire.request(leg)

    # Legacy client

    async def _call_in_rounds(self, exchange: Exchange) -> Answer:
        """A server that needs input says so and is asked again; the client is asked in the ordinary way."""
        client = exchange.client
        if exchange.sink is not None:
            exchange.sink.stream(at_once=False)
        params = meta.with_request_metadata(
            exchange.envelope.params,
            version=self.version,
            capabilities=client.capabilities,
            client_info=client.info,
            log_level=client.log_level,
        )
        answer = await self._round(exchange, params)
        if answer.error and wants_tasks(answer):
            params = with_tasks_declared(params)
            created = await self.start_task(self._round(exchange, params), self._cancel_created)
            answer = await self._result_of_task(exchange, created)
        if exchange.method == "tools/list" and self.wire.correlates and not answer.error:
            return self._without_invalid_tools(answer)
        for _ in range(ROUNDS):
            wanted = input_required(answer.result) if exchange.method in INPUT_METHODS else None
            if wanted is None:
                return answer
            try:
                following = await self._gather(exchange, params, wanted)
            except MissingCapability as error:
                if exchange.method != "tools/call":
                    raise
                return Answer(version=self.version, result=error_result(str(error)))
            answer = await self._round(exchange, following)
        raise RpcError(f"the server asked for input more than {ROUNDS} times")

    async def _result_of_task(self, exchange: Exchange, created: Answer) -> Answer:
        """For a client that knows no tasks: ask until the task has ended, and pass on its questions."""
        task = read_task(created)
        if task is None:
            return created
        try:
            while task.status in ("working", "input_required"):
                if task.status == "input_required":
                    await self._update_task(exchange, task)
                await asyncio.sleep((task.poll_interval_ms or POLL_MILLISECONDS) / 1000)
                exchange.progressed(monotonic())
                found = read_task(await self._about_task("tasks/get", {"taskId": task.task_id}))
                if found is None:
                    raise UpstreamFailed("the server has forgotten the task that it started")
                task = found
        except asyncio.CancelledError:
            self.spawn(self._cancel_task(task.task_id))
            raise
        if task.status == "completed":
            return Answer(version=self.version, result=task.result)
        if task.status == "failed":
            return Answer(version=self.version, error=task.error)
        raise UpstreamFailed(f"the server ended the task as `{task.status}`")

    async def _update_task(self, exchange: Exchange, task: Task) -> None:
        responses: dict[str, Raw] = {}
        for name, question in task.input_requests.items():
            answer = await self._put(exchange, question)
            responses[name] = Raw(answer.result if not answer.error else declined(question.method, answer))
        await self._about_task("tasks/update", {"taskId": task.task_id, "inputResponses": responses})

    async def _about_task(self, method: str, params: dict[str, Any]) -> Answer:
        full = meta.with_request_metadata(
            msgspec.json.encode(params),
            version=self.version,
            capabilities=_TASKS_DECLARED,
            client_info=OWN_INFO,
            log_level=b"",
        )
        leg = Leg(method, full, self.on_unsolicited)
        if self.wire.correlates:
            leg.headers = routing_headers.write(self.version, method, params["taskId"])
        return await self.wire.request(leg)

    async def _cancel_created(self, created: Answer) -> None:
        task = read_task(created)
        if task is not None:
            await self._cancel_task(task.task_id)

    async def _cancel_task(self, task_id: str) -> None:
        with suppress(UpstreamFailed):  # nobody waits for it any more
            await self._about_task("tasks/cancel", {"taskId": task_id})

    async def _round(self, exchange: Exchange, params: bytes) -> Answer:
        answer = await self._send_round(exchange, params)
        if answer.error and exchange.method == "tools/call" and error_code(answer) == HEADER_MISMATCH:
            # The tool's definition changed under us: read it again and repeat; the server ran nothing.
            self._annotations = None
            answer = await self._send_round(exchange, params)
        return answer

    async def _send_round(self, exchange: Exchange, params: bytes) -> Answer:
        leg = Leg(exchange.method, params, partial(self._on_call_message, exchange))
        leg.keepable = exchange.relayable and exchange.method in KEEPABLE
        if self.personal:
            leg.caller = exchange.caller
        if self.wire.correlates:
            leg.headers = await self._headers(exchange.method, params, None)
            if exchange.sink is not None:
                exchange.sink.throttle(leg)
        elif jsonrpc.may_contain(params, b"progressToken"):
            leg.token = bytes(exchange.read_meta().progress_token)
        return await self.wire.request(leg)

    async def _gather(self, exchange: Exchange, params: bytes, wanted: InputRequired) -> bytes:
        """Put the server's questions to the client, and its answers into the next round."""
        responses: dict[str, Raw | bytes] = {}
        for name, question in wanted.input_requests.items():
            answer = await self._put(exchange, question)
            responses[name] = answer.result if not answer.error else declined(question.method, answer)
        members: dict[str, Raw | bytes] = dict(jsonrpc.members(params))
        if responses:
            members["inputResponses"] = jsonrpc.assemble(responses)
        if wanted.request_state is not None:
            members["requestState"] = msgspec.json.encode(wanted.request_state)
        return jsonrpc.assemble(members)

    async def _put(self, exchange: Exchange, question: Question) -> Answer:
        params = question.params
        if question.method == "elicitation/create" and jsonrpc.may_contain(params, b'"url"'):
            params = with_elicitation_id(params)
        if not exchange.client.can(question.method, params):
            raise MissingCapability(
                f"the server needs `{question.method}`, which this client cannot do{link(params)}"
            )
        return await exchange.client.ask(exchange, question.method, params)

    def _without_invalid_tools(self, answer: Answer) -> Answer:
        """A tool whose `x-mcp-header` breaks a rule must not be used, so whoever stands in for a client
        hides it."""
        if not jsonrpc.may_contain(answer.result, b'"x-mcp-header"'):
            return answer
        members = jsonrpc.members(answer.result)
        kept: list[Raw] = []
        for tool in msgspec.json.decode(members.get("tools", b"[]"), type=list[Raw]):
            try:
                routing_headers.annotated(msgspec.json.decode(tool, type=_ListedTool).input_schema)
            except (routing_headers.InvalidHeaderAnnotation, msgspec.DecodeError) as error:
                self.on_noise(bytes(tool), f"a tool was left out: {error}")
                continue
            kept.append(tool)
        members["tools"] = Raw(msgspec.json.encode(kept))
        return Answer(version=answer.version, result=jsonrpc.assemble(members))

    # Headers

    async def _headers(self, method: str, params: bytes | Raw, given: bytes | None) -> bytes:
        """What a 2026-07-28 request says in its headers, computed from what its body says."""
        read = meta.read_params(params)
        block = self._known_headers(method, read, given or b"")
        if method != "tools/call" or given is not None:
            return block
        return block + await self._param_headers(meta.text(read.name) or "", params)

    def _known_headers(self, method: str, read: meta.Params, given: bytes) -> bytes:
        member = routing_headers.NAMED_BY.get(method)
        name = None
        if member is not None:
            name = meta.text({"name": read.name, "uri": read.uri, "taskId": read.task_id}[member])
        block = routing_headers.write(self.version, method, name)
        return block + given if method == "tools/call" else block

    async def _param_headers(self, tool: str, params: bytes | Raw) -> bytes:
        if self._annotations is None:
            self._annotations = await self._read_annotations()
        annotations = self._annotations.get(tool)
        if not annotations:
            return b""
        arguments = jsonrpc.members(params).get("arguments", b"{}")
        return routing_headers.param_headers(annotations, msgspec.json.decode(arguments))

    async def _read_annotations(self) -> dict[str, dict[routing_headers.Path, str]]:
        found: dict[str, dict[routing_headers.Path, str]] = {}
        cursor: str | None = None
        for _ in range(100):
            params: dict[str, Any] = {"cursor": cursor} if cursor is not None else {}
            answer = await self.request("tools/list", msgspec.json.encode(params))
            if answer.error:
                break
            page = cast("dict[str, Any]", msgspec.json.decode(answer.result))
            for tool in page.get("tools", []):
                try:
                    found[tool["name"]] = routing_headers.annotated(tool.get("inputSchema"))
                except (routing_headers.InvalidHeaderAnnotation, KeyError, TypeError):
                    continue
            cursor = page.get("nextCursor")
            if cursor is None:
                break
        return found

    async def request(self, method: str, params: bytes | Raw = b"") -> Answer:
        """A request of our own."""
        full = meta.with_request_metadata(
            params, version=self.version, capabilities=OWN_CAPABILITIES, client_info=OWN_INFO, log_level=b""
        )
        leg = Leg(method, full, self.on_unsolicited)
        if self.wire.correlates:
            leg.headers = routing_headers.write(self.version, method, None)
        try:
            async with asyncio.timeout(OWN_REQUEST_SECONDS):
                return await self.wire.request(leg)
        except TimeoutError:
            raise UpstreamFailed(f"the server did not answer `{method}`") from None

    async def notify(self, client: Client, envelope: Envelope, data: bytes) -> None:
        """Modern servers take no notifications from a client but cancellations, which the wire sends
        itself."""

    # What the server says

    def _on_call_message(self, exchange: Exchange, envelope: Envelope, data: bytes) -> None:
        if envelope.id:
            self.on_noise(data, "a request from a server of an era in which servers make none")
        elif envelope.method == "notifications/message" and not exchange.client.wants_log(
            _level_of(envelope)
        ):
            return
        else:
            if envelope.method == "notifications/progress":
                exchange.progressed(monotonic())
            exchange.emit(data)

    def on_unsolicited(self, envelope: Envelope, data: bytes) -> None:
        """On stdio everything arrives here: changes by their subscription, the rest by the only call in
        flight."""
        method = envelope.method or ""
        if self._listening is not None and self._listening.take(envelope):
            return
        if envelope.id:
            self.on_noise(data, "a request from a server of an era in which servers make none")
        elif method in subscriptions.CHANGES:
            self._changed(method, envelope.params)
        elif len(self.calls) == 1:
            self._on_call_message(next(iter(self.calls)), envelope, data)

    def _changed(self, method: str, params: Raw | bytes) -> None:
        if method == subscriptions.TOOLS_CHANGED:
            self._annotations = None
        self.deliver_change(method, meta.without_meta(params, meta.SUBSCRIPTION_ID))

    async def adjust(self, wish: Filter) -> Filter:
        """There is no way to amend a listen stream: open the new one, then let go of the old one."""
        async with self._adjusting:
            old = self._listening
            if old is not None and old.wish == wish and not old.task.done():
                return old.granted
            if wish == subscriptions.NOTHING:
                self._listening = None
                granted = wish
            else:
                new = Listening(self, wish)
                self._listening = new
                granted = await new.acknowledged()
            if old is not None:
                old.task.cancel()
            return granted

    async def listen(self, wish: Filter, listening: Listening) -> None:
        """One listen request, until the server ends it."""
        params = meta.with_request_metadata(
            jsonrpc.assemble({"notifications": msgspec.json.encode(wish)}),
            version=self.version,
            capabilities=OWN_CAPABILITIES,
            client_info=OWN_INFO,
            log_level=b"",
        )
        leg = Leg("subscriptions/listen", params, lambda envelope, _: listening.heard(envelope))
        if self.wire.correlates:
            leg.headers = routing_headers.write(self.version, "subscriptions/listen", None)
        answer = await self.wire.request(leg)
        if answer.error:
            listening.refused()

    def heard_change(self, envelope: Envelope) -> None:
        self._changed(envelope.method or "", envelope.params)


class _ListedTool(msgspec.Struct):
    input_schema: Any = msgspec.field(default=None, name="inputSchema")


def _level_of(envelope: Envelope) -> str:
    return meta.text(meta.read_params(envelope.params).level) or "info"
