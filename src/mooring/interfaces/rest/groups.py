"""Operations on groups."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated

from msgspec import Meta, Struct

from mooring.interfaces.rest.operations import Call, Operation
from mooring.interfaces.rest.views import GroupList, GroupView, group_view
from mooring.workloads.groups import NAME, Groups
from mooring.workloads.store import Group
from mooring.workloads.supervisor import Supervisor


class NewGroup(Struct, frozen=True, forbid_unknown_fields=True):
    name: Annotated[
        str,
        # Not `pattern`: what a wrong name is told is said where groups are made.
        Meta(
            description="1 to 64 of `a-z`, `0-9`, `.`, `_`, `-`.",
            extra_json_schema={"pattern": NAME.pattern},
        ),
    ]


class RemoveQuery(Struct, frozen=True, forbid_unknown_fields=True):
    with_workloads: Annotated[
        bool, Meta(description="Remove its workloads too; otherwise they move to the default group.")
    ] = False


class GroupOperations:
    """What the API does with groups."""

    def __init__(
        self, groups: Groups, supervisor: Supervisor, clients_of: Callable[[str], list[str]]
    ) -> None:
        """`clients_of` says which clients see a group; it reads a file."""
        self._groups = groups
        self._supervisor = supervisor
        self._clients_of = clients_of

    def table(self) -> list[Operation]:
        return [
            Operation("GET", "/groups", "List groups.", self.list, GroupList),
            Operation(
                "POST", "/groups", "Make a group.", self.create, GroupView, NewGroup, status=201,
                errors=(409, 422),
            ),
            Operation("GET", "/groups/{name}", "Show one group.", self.show, GroupView, errors=(404,)),
            Operation(
                "DELETE", "/groups/{name}", "Remove a group.", self.remove, None, query=RemoveQuery,
                errors=(404, 422),
            ),
        ]  # fmt: skip

    async def list(self, _call: Call) -> GroupList:
        return GroupList([await self._view(group) for group in await self._groups.all()])

    async def create(self, call: Call) -> GroupView:
        body: NewGroup = call.body
        return await self._view(await self._groups.create(body.name))

    async def show(self, call: Call) -> GroupView:
        return await self._view(await self._groups.get(call.path["name"]))

    async def remove(self, call: Call) -> None:
        query: RemoveQuery = call.query
        await self._groups.remove(call.path["name"], with_workloads=query.with_workloads)

    async def _view(self, group: Group) -> GroupView:
        clients = await asyncio.to_thread(self._clients_of, group.name)
        return group_view(group, self._supervisor.in_group(group.name), clients)
