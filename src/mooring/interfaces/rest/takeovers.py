"""Operations on clients' own servers: taking them over, and giving them back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct, field

from mooring.ecosystem.clients.registration import Plan
from mooring.ecosystem.clients.table import ClientKind
from mooring.ecosystem.clients.takeover import Surroundings, ids_in, write_servers
from mooring.ecosystem.importers.planning import (
    ImportPlan,
    as_run_config,
    plan_import,
    problems_of_run_config,
)
from mooring.interfaces.rest.clients import Addresses, Changed, changed, client_of
from mooring.interfaces.rest.operations import ApiError, Call, Operation
from mooring.workloads.secrets.errors import NotSetUp
from mooring.workloads.secrets.store import SecretStore

Handler = Callable[[Call], Awaitable[object]]


class TakeOverWish(Struct, frozen=True, forbid_unknown_fields=True):
    """Which servers, and where they are to go."""

    only: Annotated[list[str], Meta(description="Names there; empty: all.")] = field(
        default_factory=list[str]
    )
    into: Annotated[
        str | None, Meta(description="A mooring.yaml to write them into. Not given: run them here.")
    ] = None
    base_url: Annotated[
        str | None, Meta(description="With `into`: where the gateway of that file is reached.")
    ] = None
    dry_run: Annotated[bool, Meta(description="Only say what would happen.")] = False


class TakenServer(Struct, frozen=True):
    """One server that was the client's own."""

    id: str
    name: Annotated[str, Meta(description="What the client calls it.")]
    remote: bool
    summary: str
    secrets: Annotated[int, Meta(description="How many of its values go into the secret store.")]


class MovedSecret(Struct, frozen=True):
    name: str
    place: Annotated[str, Meta(description="Where it stood.")]


class TakenOver(Struct, frozen=True):
    """What was taken over; never a secret's value."""

    kind: str
    servers: list[TakenServer]
    secrets: list[MovedSecret]
    wanted_secrets: Annotated[dict[str, str], Meta(description="Secrets still to be stored, and for what.")]
    notes: list[str]
    client: Changed


class GivenBack(Struct, frozen=True):
    """What was given back."""

    file: str
    servers: Annotated[list[str], Meta(description="Servers that had been taken over.")]
    target: Annotated[str, Meta(description="The file they were taken out of; empty: they still run.")] = ""


class TakeOverOperations:
    """What the API does with servers that clients have of their own."""

    def __init__(
        self,
        surroundings: Surroundings,
        addresses: Addresses,
        url: Callable[[], str],
        secrets: Callable[[], SecretStore],
        workloads: list[Operation],
        lock: asyncio.Lock,
    ) -> None:
        """`workloads` are the operations on workloads; `lock` guards the clients' files."""
        self._around = surroundings
        self._addresses = addresses
        self._url = url
        self._secrets = secrets
        handlers = {(each.method, each.path): each.handler for each in workloads}
        self._run: Handler = handlers["POST", "/workloads"]
        self._remove: Handler = handlers["DELETE", "/workloads/{name}"]
        self._lock = lock

    def table(self) -> list[Operation]:
        return [
            Operation(
                "POST", "/clients/{id}/take-over", "Make a client's own servers ours, and lead it to us.",
                self.take_over, TakenOver, TakeOverWish, errors=(404, 409, 422), has_progress=True,
                local=True,
            ),
            Operation(
                "POST", "/clients/{id}/give-back", "Undo a take-over.", self.give_back, GivenBack,
                errors=(404, 422), local=True,
            ),
        ]  # fmt: skip

    async def take_over(self, call: Call) -> TakenOver:
        client, wish = client_of(call), call.body
        assert isinstance(wish, TakeOverWish)
        target = None if wish.into is None else Path(wish.into)
        if target is not None and not target.is_absolute():
            raise ApiError(422, "client_file_unusable", "`into` must be an absolute path")
        plan = await asyncio.to_thread(self._plan, client, wish, target)
        base = self._url() if target is None or wish.base_url is None else wish.base_url.rstrip("/")
        pointing = await asyncio.to_thread(self._around.pointing, client, plan, base)
        if not wish.dry_run:
            await self._carry_out(call, plan, pointing, target)
        return _taken(plan, pointing)

    def _plan(self, client: ClientKind, wish: TakeOverWish, target: Path | None) -> ImportPlan:
        found = self._around.found(client)
        taken = ids_in(target) if target else [server.id for server in self._addresses()]
        try:
            secrets = self._secrets().names()
        except NotSetUp:
            secrets = []
        plan = plan_import(found, taken, secrets, wish.only, whole_headers=target is None)
        problems = (
            [] if target else [text for server in plan.servers for text in problems_of_run_config(server)]
        )
        if problems or not plan.servers:
            said = "; ".join(problems or plan.notes) or "there is nothing to take over"
            raise ApiError(422, "cannot_take_over", said, "mend it in the client's file, or leave it out")
        return plan

    async def _carry_out(self, call: Call, plan: ImportPlan, pointing: Plan, target: Path | None) -> None:
        """Secrets first: a server without its secret would fail, a secret without its server hurts nobody."""
        for moved in plan.secrets:
            await asyncio.to_thread(self._secrets().set, moved.name, moved.value)
        if target is not None:
            await asyncio.to_thread(write_servers, target, plan)
        else:
            await self._run_all(call, plan)
        async with self._lock:
            await asyncio.to_thread(self._around.point, pointing, plan, target)

    async def _run_all(self, call: Call, plan: ImportPlan) -> None:
        """All or none: the client keeps its own unless every one of them runs here."""
        started: list[str] = []
        try:
            for server in plan.servers:
                await self._run(replace(call, body=as_run_config(server)))
                started.append(server.id)
        except BaseException:
            for name in started:
                await self._remove(replace(call, path={"name": name}, body=None))
            raise

    async def give_back(self, call: Call) -> GivenBack:
        async with self._lock:
            record = await asyncio.to_thread(self._around.give_back, client_of(call))
        return GivenBack(record.path, list(record.taken.values()), record.target)


def _taken(plan: ImportPlan, pointing: Plan) -> TakenOver:
    return TakenOver(
        plan.kind,
        [
            TakenServer(
                each.id, each.server.name, each.server.url is not None, each.summary, len(each.secrets)
            )
            for each in plan.servers
        ],
        [MovedSecret(moved.name, moved.place) for moved in plan.secrets],
        plan.wanted_secrets,
        list(plan.notes),
        changed(pointing),
    )
