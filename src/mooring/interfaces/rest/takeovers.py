"""Operations on servers of others: importing a file of them, taking over a client's, and giving them back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct, field

from mooring.ecosystem.clients.takeover import Surroundings, ids_in, write_servers
from mooring.ecosystem.documents.editing import DocumentError
from mooring.ecosystem.importers.found import FoundFile
from mooring.ecosystem.importers.planning import (
    ImportPlan,
    as_run_config,
    plan_import,
    problems_of_run_config,
)
from mooring.ecosystem.importers.reading import read_servers
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


class ImportWish(Struct, frozen=True, forbid_unknown_fields=True):
    """A file of another program, and what is to become of the servers in it."""

    document: Annotated[str, Meta(description="The text of the file.")]
    file_name: Annotated[str, Meta(description="What it is called; it may tell the format.")] = ""
    only: Annotated[list[str], Meta(description="Names there; empty: all.")] = field(
        default_factory=list[str]
    )
    into: Annotated[
        str | None, Meta(description="A mooring.yaml to write them into. Not given: run them here.")
    ] = None
    dry_run: Annotated[bool, Meta(description="Only say what would happen.")] = False


class TakenServer(Struct, frozen=True):
    """One server that was somebody else's."""

    id: str
    name: Annotated[str, Meta(description="What it is called there.")]
    remote: bool
    summary: str
    secrets: Annotated[int, Meta(description="How many of its values go into the secret store.")]


class MovedSecret(Struct, frozen=True):
    name: str
    place: Annotated[str, Meta(description="Where it stood.")]


class Imported(Struct, frozen=True):
    """What was imported; never a secret's value."""

    kind: str
    servers: list[TakenServer]
    secrets: list[MovedSecret]
    wanted_secrets: Annotated[dict[str, str], Meta(description="Secrets still to be stored, and for what.")]
    notes: list[str]


class TakenOver(Imported, frozen=True):
    """What was imported, and what the client was told instead."""

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
                "POST", "/import", "Take servers from a file of another program.", self.import_, Imported,
                ImportWish, errors=(409, 422), has_progress=True, local=True,
            ),
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
        target = _target(wish.into)
        found = await asyncio.to_thread(self._around.found, client)
        plan = await asyncio.to_thread(self._plan, found, wish.only, target)
        base = self._url() if target is None or wish.base_url is None else wish.base_url.rstrip("/")
        pointing = await asyncio.to_thread(self._around.pointing, client, plan, base)
        if not wish.dry_run:
            await self._carry_out(call, plan, target)
            async with self._lock:
                await asyncio.to_thread(self._around.point, pointing, plan, target)
        return TakenOver(**msgspec.structs.asdict(_imported(plan)), client=changed(pointing))

    async def import_(self, call: Call) -> Imported:
        wish: ImportWish = call.body
        target = _target(wish.into)
        try:
            found = await asyncio.to_thread(read_servers, wish.document, wish.file_name)
        except DocumentError as error:
            raise ApiError(422, "cannot_import", f"the document {error}", "mend it and try again") from error
        plan = await asyncio.to_thread(self._plan, found, wish.only, target)
        if not wish.dry_run:
            await self._carry_out(call, plan, target)
        return _imported(plan)

    def _plan(self, found: FoundFile, only: list[str], target: Path | None) -> ImportPlan:
        taken = ids_in(target) if target else [server.id for server in self._addresses()]
        try:
            secrets = self._secrets().names()
        except NotSetUp:
            secrets = []
        plan = plan_import(found, taken, secrets, only, whole_headers=target is None)
        problems = (
            [] if target else [text for server in plan.servers for text in problems_of_run_config(server)]
        )
        if problems or not plan.servers:
            said = "; ".join(problems or plan.notes) or "there is nothing to take over"
            raise ApiError(422, "cannot_take_over", said, "mend it in the file, or leave it out")
        return plan

    async def _carry_out(self, call: Call, plan: ImportPlan, target: Path | None) -> None:
        """Secrets first: a server without its secret would fail, a secret without its server hurts nobody."""
        for moved in plan.secrets:
            await asyncio.to_thread(self._secrets().set, moved.name, moved.value)
        if target is not None:
            await asyncio.to_thread(write_servers, target, plan)
        else:
            await self._run_all(call, plan)

    async def _run_all(self, call: Call, plan: ImportPlan) -> None:
        """All or none: whoever has them keeps them unless every one of them runs here."""
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


def _target(into: str | None) -> Path | None:
    if into is None:
        return None
    if not Path(into).is_absolute():
        raise ApiError(422, "client_file_unusable", "`into` must be an absolute path")
    return Path(into)


def _imported(plan: ImportPlan) -> Imported:
    return Imported(
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
    )
