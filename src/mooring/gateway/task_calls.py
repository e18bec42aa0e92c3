"""Calls that run as tasks: which of them the server keeps, which we do, and when a long call becomes one."""

from __future__ import annotations

from typing import Protocol

from msgspec import Raw

from mooring.gateway import tasks
from mooring.gateway.exchange import Client, Exchange
from mooring.gateway.task_owners import TaskOwners
from mooring.gateway.tasks import TaskTable
from mooring.gateway.upstream import Upstream
from mooring.protocol import jsonrpc, meta
from mooring.protocol.versions import V2025_11_25, Era
from mooring.transports.wire import Answer


class Home(Protocol):
    """The server whose calls these are."""

    id: str
    upstream: Upstream
    tasks: TaskTable

    def start(self, exchange: Exchange) -> None: ...


class TaskCalls:
    """The part of a server that knows tasks."""

    def __init__(self, home: Home, owners: TaskOwners) -> None:
        self._home = home
        self._owners = owners

    async def call_or_task(self, exchange: Exchange) -> Answer:
        """A 2025-11-25 client may want a task; where the server has none of that kind, we keep it."""
        home = self._home
        wish = tasks.wish_of(exchange.envelope.params)
        if wish is None or exchange.client.version < V2025_11_25 or await self._has_tasks(exchange.client):
            return await self._owners.start(exchange, home.upstream.call)
        params, ttl = wish
        envelope = jsonrpc.Envelope("2.0", exchange.envelope.id, exchange.method, Raw(params))
        body = jsonrpc.request(envelope.id, exchange.method, params)
        inner = Exchange(home, exchange.client, envelope, exchange.method, body, None)
        inner.caller, inner.guarded, inner.asked = exchange.caller, True, exchange.asked_for
        record = home.tasks.create(inner, ttl)
        home.start(inner)
        return Answer(version=exchange.client.version, result=tasks.created_legacy(record))

    async def legacy_task(self, exchange: Exchange) -> Answer:
        if not is_ours(exchange) and await self._has_tasks(exchange.client):
            return await self._owners.ask(exchange, self._home.upstream.call)
        exchange.deadline = exchange.final_deadline
        return await self._home.tasks.answer_legacy(exchange)

    def knows(self, task_id: str | None) -> bool:
        """Whether a task was started here, whoever keeps it."""
        if task_id is None:
            return False
        return self._home.tasks.knows(task_id) or self._owners.has_met(task_id)

    def begins_nothing(self, exchange: Exchange) -> bool:
        """Whether a legacy request about tasks can be answered from what there is."""
        session = self._home.upstream.session_if_open(exchange.client)
        return is_ours(exchange) or (session is not None and session.lost is None)

    async def _has_tasks(self, client: Client) -> bool:
        """Whether the server itself has the tasks of 2025-11-25."""
        found = await self._home.upstream.learn(client)
        return found.era is Era.LEGACY and found.capability("tasks") is not None

    def make_task(self, exchange: Exchange) -> None:
        """A long call of a modern client that knows tasks: let it come back for the answer."""
        sink = exchange.sink
        record = self._home.tasks.create(exchange)
        exchange.deadline = exchange.final_deadline
        if exchange.key is not None:
            exchange.client.running.pop(exchange.key, None)
        if sink is not None:
            sink.answer(jsonrpc.result(exchange.envelope.id, tasks.created_modern(record)))

    def should_be_task(self, exchange: Exchange, now: float) -> bool:
        return (
            now - exchange.started > tasks.AFTER_SECONDS
            and exchange.method == "tools/call"
            and exchange.on_input is None
            and exchange.client.era is Era.MODERN
            and self._home.upstream.speaks_legacy_to(exchange.client)
            and self._home.tasks.has_room
            and tasks.declares_extension(exchange.client.capabilities)
        )


def is_ours(exchange: Exchange) -> bool:
    """Whether a request is about a task that the gateway keeps."""
    task_id = meta.text(exchange.read_params().task_id)
    return task_id is not None and task_id.startswith(tasks.PREFIX)
