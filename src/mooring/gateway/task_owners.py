"""Whose tasks a server keeps: it knows only us, so that who started which one is remembered here.

A task of somebody else is one that does not exist. So is, for an authenticated caller, one that nobody is
known to have started: after a restart of the gateway its owners have to start anew. Without authentication
everybody is one principal, and a task that is not known here may well be the server's.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Final

import msgspec
from msgspec import Raw

from mooring.errors import InvalidParams
from mooring.gateway.exchange import ANONYMOUS, Client, Exchange
from mooring.gateway.subscriptions import Filter
from mooring.gateway.tasks import PREFIX
from mooring.protocol import jsonrpc, meta
from mooring.transports.wire import Answer

REMEMBERED: Final = 50_000
Call = Callable[[Exchange], Awaitable[Answer]]


class TaskOwners:
    """The tasks that one server keeps, by the principals who started them."""

    def __init__(self) -> None:
        self._owners: OrderedDict[str, str] = OrderedDict()

    def learn(self, client: Client, answer: Answer) -> None:
        """An answer to a call may be a task that it has become, in the words of either era."""
        task_id = _created(answer) if answer.relay is None and not answer.error else None
        if task_id is not None:
            self._owners.setdefault(task_id, client.principal)  # an id is given once
            if len(self._owners) > REMEMBERED:
                self._owners.popitem(last=False)

    async def start(self, exchange: Exchange, call: Call) -> Answer:
        """A call that may become a task."""
        exchange.relayable = False
        answer = await call(exchange)
        self.learn(exchange.client, answer)
        return answer

    async def ask(self, exchange: Exchange, call: Call) -> Answer:
        """A request about tasks, passed on only about the caller's own."""
        if exchange.method == "tasks/list":
            exchange.relayable = False
            return self._own_part(exchange.client, await call(exchange))
        if not self.is_of(exchange.client, meta.text(exchange.read_params().task_id) or ""):
            raise InvalidParams("no such task")
        return await call(exchange)

    def is_of(self, client: Client, task_id: str) -> bool:
        owner = self._owners.get(task_id)
        return owner == client.principal or (owner is None and client.principal == ANONYMOUS)

    def narrow(self, client: Client, wish: Filter) -> Filter:
        """A stream tells of the own tasks of its listener only; of those that the gateway keeps, never."""
        mine = tuple(task for task in wish.task_ids if task.startswith(PREFIX) or self.is_of(client, task))
        return wish if mine == wish.task_ids else msgspec.structs.replace(wish, task_ids=mine)

    def _own_part(self, client: Client, answer: Answer) -> Answer:
        if answer.error:
            return answer
        members = jsonrpc.members(answer.result)
        listed = msgspec.json.decode(members.get("tasks", b"[]"), type=list[Raw])
        mine = [raw for raw in listed if self.is_of(client, msgspec.json.decode(raw, type=_Named).task_id)]
        if len(mine) == len(listed):
            return answer
        members["tasks"] = Raw(msgspec.json.encode(mine))
        return Answer(version=answer.version, result=jsonrpc.assemble(members))


class _Named(msgspec.Struct):
    task_id: str = msgspec.field(default="", name="taskId")


class _Created(msgspec.Struct):
    """`task.taskId` (2025-11-25), or `taskId` beside `resultType` (2026-07-28)."""

    task: _Named | None = None
    kind: str = msgspec.field(default="", name="resultType")
    task_id: str = msgspec.field(default="", name="taskId")


def _created(answer: Answer) -> str | None:
    if b'"taskId"' not in bytes(answer.result):
        return None
    try:
        found = msgspec.json.decode(answer.result, type=_Created)
    except msgspec.DecodeError:
        return None
    if found.task is not None:
        return found.task.task_id or None
    return found.task_id or None if found.kind == "task" else None
