"""Operations on AI clients, and what keeps their files in step with the servers that come and go."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Annotated, Final

from msgspec import Meta, Struct, field

from mooring.ecosystem.clients.editing import ClientFileError
from mooring.ecosystem.clients.registration import (
    ClientBook,
    Plan,
    Registration,
    conflict_text,
)
from mooring.ecosystem.clients.table import BY_ID, CLIENTS, ClientKind, ClientPlaces, ServerAddress
from mooring.interfaces.rest.operations import ApiError, Call, Operation

log = logging.getLogger(__name__)
Addresses = Callable[[], list[ServerAddress]]
_WATCHED: Final = {
    ("POST", "/workloads"),
    ("POST", "/workloads/delete"),
    ("POST", "/workloads/{name}/move"),
    ("DELETE", "/workloads/{name}"),
    ("DELETE", "/groups/{name}"),
}
"""After these there may be other servers, or other ones in a group."""


class ClientView(Struct, frozen=True):
    id: str
    title: str
    file: str
    installed: bool
    registered: bool
    group: str | None
    servers: Annotated[list[str], Meta(description="Ids of our servers in its file.")]
    note: str = ""
    problem: str = ""


class ClientList(Struct, frozen=True):
    clients: list[ClientView]


class Register(Struct, frozen=True, forbid_unknown_fields=True):
    """What the client is to know."""

    group: Annotated[str | None, Meta(description="Only servers of this group.")] = None
    servers: Annotated[list[str] | None, Meta(description="Only these servers.")] = None
    replace: Annotated[bool, Meta(description="Overwrite entries of the same name.")] = False
    dry_run: Annotated[bool, Meta(description="Only say what would be written.")] = False


class Removal(Struct, frozen=True, forbid_unknown_fields=True):
    dry_run: Annotated[bool, Meta(description="Only say what would be written.")] = False


class Changed(Struct, frozen=True):
    """What was written to the client's file."""

    file: str
    added: list[str] = field(default_factory=list[str])
    removed: list[str] = field(default_factory=list[str])
    migrated: Annotated[list[str], Meta(description="Entries of an older version, brought up to date.")] = (
        field(default_factory=list[str])
    )
    before: Annotated[str, Meta(description="The text of the file before.")] = ""
    after: Annotated[str, Meta(description="Its text afterwards.")] = ""


class ClientOperations:
    """What the API does with clients."""

    def __init__(self, book: ClientBook, places: ClientPlaces, addresses: Addresses) -> None:
        self._book = book
        self._places = places
        self._addresses = addresses
        self.lock = asyncio.Lock()

    def table(self) -> list[Operation]:
        one = "/clients/{id}"
        return [
            Operation("GET", "/clients", "Which clients are here and registered.", self.list, ClientList),
            Operation(
                "POST", f"{one}/register", "Write our servers into its file, now and later.", self.register,
                Changed, Register, errors=(404, 409, 422), local=True,
            ),
            Operation(
                "POST", f"{one}/remove", "Take our servers out of its file.", self.remove, Changed, Removal,
                errors=(404, 422), local=True,
            ),
            Operation(
                "POST", f"{one}/undo", "Take back the last change of its file.", self.undo, Changed,
                errors=(404, 422), local=True,
            ),
        ]  # fmt: skip

    def following(self, operations: list[Operation]) -> list[Operation]:
        """The operations on workloads and groups, each followed by what clients must be told about it."""
        return [
            replace(each, handler=self._followed(each.handler))
            if (each.method, each.path) in _WATCHED
            else each
            for each in operations
        ]

    def seeing(self, group: str) -> list[str]:
        """The registered clients that see all of a group."""
        found = self._book.registrations().items()
        return sorted(client for client, registration in found if registration.sees(group))

    def _followed(self, handler: Callable[[Call], Awaitable[object]]) -> Callable[[Call], Awaitable[object]]:
        async def followed(call: Call) -> object:
            before = self._addresses()
            try:
                return await handler(call)
            finally:
                await self.tell(before)

        return followed

    async def tell(self, before: list[ServerAddress]) -> None:
        """What changed since then; a client whose file cannot be changed must not undo what happened."""
        now, known = self._addresses(), set(before)
        gone = {server.id for server in before} - {server.id for server in now}
        async with self.lock:
            for server in now:
                if server not in known:
                    _warn(await asyncio.to_thread(self._book.server_came, server, BY_ID))
            for name in sorted(gone):
                _warn(await asyncio.to_thread(self._book.server_went, name, BY_ID))
            await asyncio.to_thread(self._book.note_told, now)

    async def catch_up(self) -> None:
        """Tell what changed while no gateway ran."""
        before = await asyncio.to_thread(self._book.told)
        await self.tell(self._addresses() if before is None else before)

    async def list(self, _call: Call) -> ClientList:
        return ClientList(await asyncio.to_thread(lambda: [self._view(client) for client in CLIENTS]))

    async def register(self, call: Call) -> Changed:
        client, body = client_of(call), call.body
        assert isinstance(body, Register)
        wish = Registration(body.group, body.servers)
        async with self.lock:
            plan = await asyncio.to_thread(
                self._book.plan, client, self._addresses(), wish, replacing=body.replace
            )
            if plan.conflicts:
                raise ApiError(409, "name_taken", conflict_text(client, plan.conflicts))
            if not body.dry_run:
                await asyncio.to_thread(self._book.apply, plan, registered=True)
                await asyncio.to_thread(self._book.note_told, self._addresses())
        return changed(plan)

    async def remove(self, call: Call) -> Changed:
        client, body = client_of(call), call.body
        assert isinstance(body, Removal)
        async with self.lock:
            plan = await asyncio.to_thread(self._book.plan, client, [], None)
            if not body.dry_run:
                await asyncio.to_thread(self._book.apply, plan, registered=False)
        return changed(plan)

    async def undo(self, call: Call) -> Changed:
        async with self.lock:
            record = await asyncio.to_thread(self._book.undo, client_of(call))
        return Changed(record.path)

    def _view(self, client: ClientKind) -> ClientView:
        registration = self._book.registrations().get(client.id)
        problem, own = "", dict[str, str]()
        try:
            own = self._book.own_entries(client)
        except ClientFileError as error:
            problem = str(error)
        return ClientView(
            client.id,
            client.title,
            str(client.path(self._places)),
            client.is_installed(self._places),
            registration is not None,
            registration.group if registration else None,
            sorted(own.values()),
            client.note,
            problem,
        )


def client_of(call: Call) -> ClientKind:
    """The client that the path names."""
    name = call.path["id"]
    if name not in BY_ID:
        raise ApiError(
            404, "no_such_client", f"`{name}` is no client we know", "see `mooring client status --all`"
        )
    return BY_ID[name]


def changed(plan: Plan) -> Changed:
    """The change of its file, for people and programs."""
    change = plan.change
    return Changed(
        str(change.path),
        list(plan.edit.puts),
        list(plan.edit.drops),
        list(plan.migrated),
        (change.before or b"").decode("utf-8-sig", "replace"),
        change.after.decode("utf-8-sig", "replace"),
    )


def _warn(problems: dict[str, str]) -> None:
    for client, problem in problems.items():
        log.warning("%s was not told: %s", client, problem)
