"""Whose tasks a server keeps: it knows only us, so that who started which one is written down here.

A task of somebody else is one that does not exist. So is, for an authenticated caller, one that nobody is
known to have started. Without authentication everybody is one principal, and a task that is not known here
may well be the server's.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Final, Protocol

import msgspec
from msgspec import Raw

from mooring.errors import InvalidParams
from mooring.gateway.exchange import ANONYMOUS, Client, Exchange
from mooring.gateway.tasks import PREFIX
from mooring.gateway.upstream import Upstream
from mooring.protocol import jsonrpc, meta
from mooring.protocol.subscriptions import Filter
from mooring.transports.wire import Answer

MET_KEPT: Final = 1_000
Call = Callable[[Exchange], Awaitable[Answer]]


class OwnerBook(Protocol):
    """Where owners are written down, so that a restart of the gateway does not forget them."""

    async def own_task(self, place: str, task: str, owner: str) -> None:
        """Durable when it returns. An id that is given anew belongs to the one who got it last."""
        ...

    async def task_owners(self, place: str, tasks: Iterable[str]) -> Mapping[str, str]:
        """The owners of those tasks that have one."""
        ...


class TaskOwners:
    """The tasks that one server keeps, by the principals who started them."""

    def __init__(self, upstream: Upstream, book: OwnerBook) -> None:
        self._upstream = upstream
        self._book = book
        self._met: dict[str, None] = {}

    def has_met(self, task_id: str) -> bool:
        """Whether it was one of the last that were started here."""
        return task_id in self._met

    async def learn(self, client: Client, answer: Answer) -> None:
        """An answer to a call may be a task that it has become, in the words of either era."""
        task_id = _created(answer) if answer.relay is None and not answer.error else None
        if task_id is not None:
            self._met[task_id] = None
            if len(self._met) > MET_KEPT:
                del self._met[next(iter(self._met))]
            await self._book.own_task(self._place(client), task_id, client.principal)

    async def start(self, exchange: Exchange, call: Call) -> Answer:
        """A call that may become a task."""
        exchange.relayable = False
        answer = await call(exchange)
        await self.learn(exchange.client, answer)
        return answer

    async def ask(self, exchange: Exchange, call: Call) -> Answer:
        """A request about tasks, passed on only about the caller's own."""
        if exchange.method == "tasks/list":
            exchange.relayable = False
            return await self._own_part(exchange.client, await call(exchange))
        if not await self._own(exchange.client, [meta.text(exchange.read_params().task_id) or ""]):
            raise InvalidParams("no such task")
        return await call(exchange)

    async def narrow(self, client: Client, wish: Filter) -> Filter:
        """A stream tells of the own tasks of its listener only; of those that the gateway keeps, never."""
        if not wish.task_ids:
            return wish
        own = await self._own(client, wish.task_ids)
        mine = tuple(task for task in wish.task_ids if task.startswith(PREFIX) or task in own)
        return wish if mine == wish.task_ids else msgspec.structs.replace(wish, task_ids=mine)

    async def _own(self, client: Client, tasks: Iterable[str]) -> set[str]:
        """Those of them that are there for this client."""
        tasks = list(tasks)
        owners = await self._book.task_owners(self._place(client), tasks)
        unknown = ANONYMOUS if client.principal == ANONYMOUS else None
        return {task for task in tasks if owners.get(task, unknown) == client.principal}

    def _place(self, client: Client) -> str:
        """Processes of different callers count their tasks alike: each caller's are told apart."""
        place = self._upstream.server_id
        return f"{place} {client.principal}" if self._upstream.has_separate_processes else place

    async def _own_part(self, client: Client, answer: Answer) -> Answer:
        if answer.error:
            return answer
        members = jsonrpc.members(answer.result)
        listed = msgspec.json.decode(members.get("tasks", b"[]"), type=list[Raw])
        names = [msgspec.json.decode(raw, type=_Named).task_id for raw in listed]
        own = await self._own(client, names)
        mine = [raw for name, raw in zip(names, listed, strict=True) if name in own]
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
    if not jsonrpc.may_contain(answer.result, b'"taskId"'):
        return None
    try:
        found = msgspec.json.decode(answer.result, type=_Created)
    except msgspec.DecodeError:
        return None
    if found.task is not None:
        return found.task.task_id or None
    return found.task_id or None if found.kind == "task" else None
