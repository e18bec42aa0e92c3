"""Operations on registries: look for servers, see one, add and remove registries."""

from __future__ import annotations

import asyncio
from typing import Annotated

from msgspec import Meta, Struct

from mooring.ecosystem.registry.entry import Entry
from mooring.ecosystem.registry.preparing import Keep, Prepared, Wish, prepare
from mooring.ecosystem.registry.sources import Registries, Source
from mooring.interfaces.rest.operations import Call, Operation


class SearchQuery(Struct, frozen=True, forbid_unknown_fields=True):
    search: Annotated[str, Meta(description="Words that the name or description shall hold.")] = ""
    registry: Annotated[str | None, Meta(description="Only this registry.")] = None
    limit: Annotated[int, Meta(ge=1, le=10_000, description="How many at most.")] = 50


class EntryQuery(Struct, frozen=True, forbid_unknown_fields=True):
    version: Annotated[str | None, Meta(description="Another one than the latest.")] = None
    registry: Annotated[str | None, Meta(description="The registry to ask.")] = None


class FoundServers(Struct, frozen=True):
    servers: list[Entry]
    more: Annotated[bool, Meta(description="There are more than were asked for.")]
    problems: list[str]


class SourceList(Struct, frozen=True):
    registries: list[Source]


class Versions(Struct, frozen=True):
    versions: Annotated[list[str], Meta(description="Newest first, as far as the registry says.")]


class AddedSource(Struct, frozen=True):
    registry: Source
    servers: Annotated[int, Meta(description="How many servers it has; of one with pages, of the first.")]


class RefreshQuery(Struct, frozen=True, forbid_unknown_fields=True):
    registry: Annotated[str | None, Meta(description="Only this one.")] = None


class Refreshed(Struct, frozen=True):
    servers: Annotated[dict[str, int], Meta(description="Registry -> how many servers it has.")]


class RegistryOperations:
    """What the API does with registries."""

    def __init__(self, registries: Registries, keep: Keep) -> None:
        """`keep` stores a secret."""
        self._registries = registries
        self._keep = keep

    def table(self) -> list[Operation]:
        return [
            Operation(
                "GET", "/registry/servers", "Look for servers.", self.search, FoundServers, query=SearchQuery,
                errors=(422,),
            ),
            Operation(
                "GET", "/registry/servers/{name}", "Everything about one server.", self.show, Entry,
                query=EntryQuery, errors=(404, 422),
            ),
            Operation(
                "GET", "/registry/servers/{name}/versions", "The versions of one server.", self.versions,
                Versions, query=EntryQuery, errors=(404, 422),
            ),
            Operation(
                "POST", "/registry/servers/{name}/run-config", "What to run it with, or what must be said "
                "first; secrets among it are stored.", self.prepare, Prepared, Wish, query=EntryQuery,
                errors=(404, 422), local=True,
            ),
            Operation("GET", "/registries", "List the registries.", self.sources, SourceList, errors=(422,)),
            Operation(
                "POST", "/registries", "Add a registry.", self.add, AddedSource, Source, status=201,
                errors=(422,), local=True,
            ),
            Operation(
                "DELETE", "/registries/{name}", "Forget a registry.", self.remove, None, errors=(422,),
                local=True,
            ),
            Operation(
                "POST", "/registries/refresh", "Read registries anew.", self.refresh, Refreshed,
                query=RefreshQuery, errors=(422,),
            ),
        ]  # fmt: skip

    async def search(self, call: Call) -> FoundServers:
        query: SearchQuery = call.query
        found, problems, more = await asyncio.to_thread(
            self._registries.search, query.search, query.limit, query.registry
        )
        return FoundServers(found, more, problems)

    async def show(self, call: Call) -> Entry:
        query: EntryQuery = call.query
        return await asyncio.to_thread(
            self._registries.entry, call.path["name"], query.version, query.registry
        )

    async def prepare(self, call: Call) -> Prepared:
        query, wish = call.query, call.body
        assert isinstance(query, EntryQuery)
        assert isinstance(wish, Wish)
        entry = await asyncio.to_thread(
            self._registries.entry, call.path["name"], query.version, query.registry
        )
        return await asyncio.to_thread(prepare, entry, wish, self._keep)

    async def sources(self, _call: Call) -> SourceList:
        return SourceList(await asyncio.to_thread(self._registries.sources))

    async def versions(self, call: Call) -> Versions:
        query: EntryQuery = call.query
        name = call.path["name"]
        entry = await asyncio.to_thread(self._registries.entry, name, query.version, query.registry)
        return Versions(await asyncio.to_thread(self._registries.versions, entry))

    async def add(self, call: Call) -> AddedSource:
        source: Source = call.body
        return AddedSource(source, await asyncio.to_thread(self._registries.add, source))

    async def remove(self, call: Call) -> None:
        await asyncio.to_thread(self._registries.remove, call.path["name"])

    async def refresh(self, call: Call) -> Refreshed:
        query: RefreshQuery = call.query
        return Refreshed(await asyncio.to_thread(self._registries.refresh, query.registry))
