"""Groups: servers with one purpose, moved, started and stopped together."""

from __future__ import annotations

import re
from typing import Final

from mooring.errors import MooringError
from mooring.workloads.store import DEFAULT_GROUP, Group, Store
from mooring.workloads.supervisor import Supervisor

NAME: Final = re.compile(r"^[a-z0-9][a-z0-9._-]{0,63}$")


class NoSuchGroup(MooringError):
    """Nothing here has this name."""


class GroupExists(MooringError):
    """There is one of this name."""


class InvalidGroup(MooringError):
    """Not a name, or not something that can be done to this group."""


class Groups:
    """The groups in the books."""

    def __init__(self, store: Store, supervisor: Supervisor) -> None:
        self._store = store
        self._supervisor = supervisor

    async def all(self) -> list[Group]:
        return await self._store.groups()

    async def get(self, name: str) -> Group:
        found = await self._store.groups()
        for group in found:
            if group.name == name:
                return group
        known = ", ".join(f"`{group.name}`" for group in found)
        raise NoSuchGroup(
            f"no group is called `{name}`; there are: {known}; make it with `mooring group create`"
        )

    async def create(self, name: str) -> Group:
        if not NAME.match(name):
            raise InvalidGroup(
                f"`{name}` is no name for a group: use 1 to 64 of `a-z`, `0-9`, `.`, `_`, `-`, beginning "
                "with a letter or digit"
            )
        if any(group.name == name for group in await self._store.groups()):
            raise GroupExists(f"the group `{name}` exists already")
        await self._store.add_group(name)
        return await self.get(name)

    async def remove(self, name: str, *, with_workloads: bool) -> None:
        """Its workloads move to the default group, or go with it."""
        await self.get(name)
        if name == DEFAULT_GROUP:
            raise InvalidGroup(f"`{DEFAULT_GROUP}` is where workloads without a group are: it stays")
        for workload in self._supervisor.in_group(name):
            if with_workloads and not workload.declared:
                self._supervisor.remove(workload)
                await self._supervisor.settle(workload)
            else:
                await self._supervisor.move(workload, DEFAULT_GROUP)
        await self._store.delete_group(name)

    async def move(self, workload_name: str, group: str) -> None:
        """One workload into a group that is there."""
        workload = self._supervisor.get(workload_name)
        await self.get(group)
        await self._supervisor.move(workload, group)
