"""Tasks that the gateway keeps itself, for servers that have none or speak another era's kind of them.

The call runs here as any other; only its answer goes into a record instead of back to the client, which
asks for it in the way of its own era: `tasks/get` and `tasks/result` (2025-11-25), or the extension's
`tasks/get` and `tasks/update` (2026-07-28). Records live in memory: a restart of the gateway forgets them,
as it ends their calls.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable
from datetime import UTC, datetime
from time import monotonic
from typing import Any, ClassVar, Final

import msgspec
from msgspec import Raw

from mooring.errors import InvalidParams
from mooring.gateway.clients import LegacyClient
from mooring.gateway.exchange import ANONYMOUS, Client, Exchange, Route, Sink
from mooring.gateway.interactions import Interactions, SuspendedCall
from mooring.protocol import jsonrpc, meta
from mooring.protocol.jsonrpc import EMPTY
from mooring.protocol.versions import Era
from mooring.transports.spool import Kept, spilled
from mooring.transports.wire import Answer, Leg, Relay

PREFIX: Final = "mooring-task-"
EXTENSION: Final = "io.modelcontextprotocol/tasks"
_SPELLED_EXTENSION: Final = EXTENSION.encode()
AFTER_SECONDS: Final = 10.0
"""A call of a client that knows tasks becomes one when it takes longer than this."""
KEPT_SECONDS: Final = 3600.0
"""How long a finished task can be asked for, unless its client wanted less."""
POLL_MILLISECONDS: Final = 1000
MAX_TASKS: Final = 1_000
MAX_TASKS_PER_CLIENT: Final = 100
MAX_TASK_BYTES: Final = 256 * 1024 * 1024
MAX_UNHEARD: Final = 64
"""How many questions of a task wait for its client to listen; more go the way of everything else."""


class TaskRecord:
    """One task and what has become of it."""

    __slots__ = (
        "_answer",
        "_result",
        "created",
        "ended_at",
        "exchange",
        "fetched",
        "finished",
        "id",
        "listeners",
        "status",
        "ttl_ms",
        "unheard",
        "updated",
    )

    def __init__(self, exchange: Exchange, ttl_ms: int) -> None:
        self.id = PREFIX + secrets.token_hex(16)
        self.exchange = exchange
        self.ttl_ms = ttl_ms
        self.status = "working"
        self._answer: Answer | None = None
        self._result: bytes | Kept = b""
        self.finished = asyncio.Event()
        self.fetched = False
        """Its client knows the outcome."""
        self.listeners: list[Sink] = []
        """Those who wait for the result, in the session that the task is of."""
        self.unheard: list[bytes] = []
        self.created = self.updated = _timestamp()
        self.ended_at = 0.0

    def is_of(self, client: Client) -> bool:
        """Whose it is. Anonymous sessions are each somebody else; a modern client proves itself by the id."""
        owner = self.exchange.client
        if owner.principal != client.principal or owner.era is not client.era:
            return False
        return owner is client or client.era is Era.MODERN or client.principal != ANONYMOUS

    def change(self, status: str) -> None:
        if not self.finished.is_set() and status != self.status:
            self.status = status
            self.updated = _timestamp()

    def end(self, status: str, answer: Answer | None) -> None:
        if not self.finished.is_set():
            self.change(status)
            if answer is not None:  # a large one waits on disk to be asked for
                self._result = spilled(bytes(answer.result))
                self._answer = msgspec.structs.replace(answer, result=EMPTY)
            self.unheard.clear()
            self.ended_at = monotonic()
            self.finished.set()

    @property
    def is_owed(self) -> bool:
        """Whether there is an outcome that its client, which is still there, has not come for."""
        client = self.exchange.client
        is_gone = isinstance(client, LegacyClient) and client.closed
        return self._answer is not None and not self.fetched and not is_gone

    @property
    def listener(self) -> Sink | None:
        return self.listeners[-1] if self.listeners else None

    def hold(self, message: bytes) -> bool:
        """Whether this is a question, or takes one back, and waits here until its client listens: it may do
        so by asking for the result (2025-11-25)."""
        client = self.exchange.client
        if not isinstance(client, LegacyClient) or client.is_listening or len(self.unheard) >= MAX_UNHEARD:
            return False
        envelope = jsonrpc.decode(message)
        if not envelope.is_request and envelope.method != "notifications/cancelled":
            return False
        self.unheard.append(message)
        return True

    def tell_unheard(self, tell: Callable[[bytes], None]) -> None:
        unheard, self.unheard = self.unheard, []
        for message in unheard:
            tell(message)

    @property
    def answer(self) -> Answer | None:
        if self._answer is None:
            return None
        result = self._result if isinstance(self._result, bytes) else self._result.load()
        return msgspec.structs.replace(self._answer, result=result)

    @property
    def size(self) -> int:
        """What it costs, in memory or on disk."""
        result = len(self._result) if isinstance(self._result, bytes) else self._result.length
        return result if self._answer is None else result + len(self._answer.error)

    def describe(self, era: Era) -> dict[str, Any]:
        """The task object, with the member names of the era."""
        ttl, poll = ("ttl", "pollInterval") if era is Era.LEGACY else ("ttlMs", "pollIntervalMs")
        return {
            "taskId": self.id,
            "status": self.status,
            "createdAt": self.created,
            "lastUpdatedAt": self.updated,
            ttl: self.ttl_ms,
            poll: POLL_MILLISECONDS,
        }


class TaskSink:
    """Where the answer of a call goes that has become a task."""

    __slots__ = ("_record",)
    flows: ClassVar[bool] = False

    def __init__(self, record: TaskRecord) -> None:
        self._record = record

    def bind(self, exchange: Exchange) -> None:
        """A task lives on when its client goes away; it is cancelled by `tasks/cancel`."""

    def throttle(self, leg: Leg) -> None:
        """A record is never full."""

    def emit(self, message: bytes) -> None:
        """What the server says: to whoever waits for the result, else to the client at large."""
        if self._record.listener is not None:
            self._record.listener.emit(message)
        elif not self._record.hold(message):
            self._record.exchange.client.push(message)

    def answer(self, message: bytes, status: int = 200) -> None:
        del status
        envelope = jsonrpc.decode(message)
        version = self._record.exchange.client.version
        answer = Answer(version=version, result=envelope.result, error=envelope.error)
        self._record.end("failed" if envelope.error else "completed", answer)

    def relay(self, relay: Relay) -> None:
        del relay
        raise AssertionError("a task keeps its answer whole")

    def keep(self, kept: Kept) -> None:
        self.answer(kept.load())

    def drop(self) -> None:
        self._record.end("cancelled", None)

    def stream(self, *, at_once: bool) -> None:
        """There is no response to stream."""

    def polled(self, retry_milliseconds: int | None) -> None:
        """Nor one to poll."""

    def tick(self, age_seconds: float) -> None:
        """Nor one to keep alive."""


class TaskTable:
    """The tasks of one server, and of those which it took the place of."""

    def __init__(self, interactions: Interactions) -> None:
        self._interactions = interactions
        self._records: dict[str, TaskRecord] = {}

    def create(self, exchange: Exchange, ttl_ms: int | None = None) -> TaskRecord:
        """From now on this exchange answers into a record."""
        if not self.has_room:
            raise InvalidParams("too many tasks; wait for some to finish")
        mine = sum(1 for record in self._records.values() if record.exchange.client is exchange.client)
        if mine >= MAX_TASKS_PER_CLIENT:
            raise InvalidParams("too many tasks of this client; wait for some to finish")
        longest = int(KEPT_SECONDS * 1000)
        record = TaskRecord(exchange, longest if ttl_ms is None else max(0, min(ttl_ms, longest)))
        exchange.sink = TaskSink(record)
        exchange.relayable = False
        exchange.on_input = lambda waiting: record.change("input_required" if waiting else "working")
        if isinstance(exchange.parked, SuspendedCall) and exchange.parked.questions:
            record.change("input_required")  # asked just before: the client finds it in the task
        self._records[record.id] = record
        return record

    def find(self, task_id: str | None, client: Client) -> TaskRecord:
        """Somebody else's task does not exist."""
        record = self._records.get(task_id or "")
        if record is None or not record.is_of(client):
            raise InvalidParams("no such task")
        return record

    def knows(self, task_id: str) -> bool:
        return task_id in self._records

    def owes(self, server: Route, since: float) -> bool:
        """Whether a task of this server has ended since then whose client will still come for the outcome."""
        return any(
            record.is_owed and record.ended_at >= since and record.exchange.server is server
            for record in self._records.values()
        )

    @property
    def has_room(self) -> bool:
        if len(self._records) >= MAX_TASKS:
            return False
        return sum(record.size for record in self._records.values()) < MAX_TASK_BYTES

    def sweep(self, now: float) -> None:
        for record in list(self._records.values()):
            if record.finished.is_set() and now - record.ended_at > record.ttl_ms / 1000:
                del self._records[record.id]

    # 2025-11-25

    def tell_unheard(self, client: Client) -> None:
        """This client has just opened a stream for what belongs to no request."""
        for record in self._records.values():
            if record.unheard and record.exchange.client is client:
                record.tell_unheard(client.push)

    async def answer_legacy(self, exchange: Exchange) -> Answer:
        client = exchange.client
        if exchange.method == "tasks/list":
            mine = [record for record in self._records.values() if record.is_of(client)]
            listed = {"tasks": [record.describe(Era.LEGACY) for record in mine]}
            return Answer(version=client.version, result=msgspec.json.encode(listed))
        record = self.find(meta.text(exchange.read_params().task_id), client)
        match exchange.method:
            case "tasks/result":
                return await self._result(record, exchange)
            case "tasks/cancel":
                if record.finished.is_set():
                    raise InvalidParams(f"the task has already ended: {record.status}")
                record.exchange.cancel()
                record.end("cancelled", None)
            case _:
                pass
        return Answer(version=client.version, result=msgspec.json.encode(record.describe(Era.LEGACY)))

    async def _result(self, record: TaskRecord, exchange: Exchange) -> Answer:
        sink = exchange.sink
        if sink is None or exchange.client is not record.exchange.client:
            await record.finished.wait()  # questions are of the session that they are answered in
        else:
            record.listeners.append(sink)
            try:
                record.tell_unheard(sink.emit)
                await record.finished.wait()
            finally:
                record.listeners.remove(sink)
        record.fetched = True
        answer = record.answer
        if answer is None:
            raise InvalidParams("the task was cancelled")
        if answer.error:
            return answer
        related = msgspec.json.encode({"taskId": record.id})
        result = meta.with_meta(answer.result, meta.RELATED_TASK, related)
        return Answer(version=answer.version, result=result)

    # The extension of 2026-07-28

    def answer_modern(self, exchange: Exchange) -> Answer:
        client = exchange.client
        record = self.find(meta.text(exchange.read_params().task_id), client)
        body: dict[str, Any] = {"resultType": "complete"}
        match exchange.method:
            case "tasks/update":
                parked = record.exchange.parked
                if isinstance(parked, SuspendedCall):
                    self._interactions.give_answers(parked, exchange)
            case "tasks/cancel":
                record.exchange.cancel()
                record.end("cancelled", None)
            case _:
                body |= self._detail(record)
        return Answer(version=client.version, result=msgspec.json.encode(body))

    def _detail(self, record: TaskRecord) -> dict[str, Any]:
        detail = record.describe(Era.MODERN)
        parked = record.exchange.parked
        if record.status == "input_required" and isinstance(parked, SuspendedCall):
            detail["inputRequests"] = {
                name: {"method": method, "params": Raw(bytes(params) or b"{}")}
                for name, (method, params, _) in parked.questions.items()
            }
        elif (answer := record.answer) is not None:
            record.fetched = True
            name, value = ("error", answer.error) if answer.error else ("result", answer.result)
            detail[name] = Raw(bytes(value))
        return detail


def created_legacy(record: TaskRecord) -> bytes:
    return msgspec.json.encode({"task": record.describe(Era.LEGACY)})


def created_modern(record: TaskRecord) -> bytes:
    return msgspec.json.encode({"resultType": "task", **record.describe(Era.MODERN)})


def may_declare_extension(capabilities: bytes) -> bool:
    """A quick look."""
    return jsonrpc.may_contain(capabilities, _SPELLED_EXTENSION)


def declares_extension(capabilities: bytes) -> bool:
    return may_declare_extension(capabilities) and EXTENSION in jsonrpc.members(
        jsonrpc.members(capabilities).get("extensions", b"")
    )


class _Wish(msgspec.Struct):
    ttl: int | None = None


def wish_of(params: Raw | bytes) -> tuple[bytes, int | None] | None:
    """The params of a call without its `task` member, and the lifetime it asked for; None if it has no
    such member."""
    if not jsonrpc.may_contain(params, b'"task"'):
        return None
    members = jsonrpc.members(params)
    raw = members.pop("task", None)
    if raw is None:
        return None
    try:
        ttl = msgspec.json.decode(raw, type=_Wish).ttl
    except msgspec.DecodeError:
        raise InvalidParams("`task` must be an object with an optional integer `ttl`") from None
    return jsonrpc.assemble(members), ttl


def _timestamp() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
