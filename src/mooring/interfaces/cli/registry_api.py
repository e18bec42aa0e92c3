"""The user's registries: as their gateway knows them, or from the same files where it does not run."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlencode

import msgspec

from mooring.ecosystem.registry.entry import Entry, NoSuchEntry
from mooring.ecosystem.registry.sources import Registries, Source
from mooring.interfaces.cli.own_gateway import own_gateway
from mooring.interfaces.cli.run_api import Refused, ask, path_of
from mooring.interfaces.cli.user_places import data_directory, secret_places
from mooring.workloads.secrets.store import open_store


def registries() -> Registries | GatewayRegistries:
    """The user's registries."""
    socket = own_gateway()
    if socket is None:
        return Registries(data_directory(), lambda name: open_store(secret_places()).get(name))
    return GatewayRegistries(socket)


class GatewayRegistries:
    """Registries as the gateway knows them."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    def sources(self) -> list[Source]:
        return msgspec.convert(ask(self._socket, "GET", path_of("registries"))["registries"], list[Source])

    def search(
        self, text: str, limit: int, registry: str | None = None
    ) -> tuple[list[Entry], list[str], bool]:
        query = _query(search=text, limit=str(limit), registry=registry)
        found = ask(self._socket, "GET", path_of("registry", "servers") + query)
        return msgspec.convert(found["servers"], list[Entry]), found["problems"], found["more"]

    def entry(self, name: str, version: str | None = None, registry: str | None = None) -> Entry:
        target = path_of("registry", "servers", name) + _query(version=version, registry=registry)
        try:
            return msgspec.convert(ask(self._socket, "GET", target), Entry)
        except Refused as refused:
            if refused.code == NoSuchEntry.api_code:
                raise NoSuchEntry(str(refused)) from refused
            raise

    def versions(self, entry: Entry) -> list[str]:
        target = path_of("registry", "servers", entry.name, "versions") + _query(registry=entry.registry)
        return list(ask(self._socket, "GET", target)["versions"])

    def add(self, source: Source) -> int:
        return int(ask(self._socket, "POST", path_of("registries"), msgspec.to_builtins(source))["servers"])

    def remove(self, name: str) -> None:
        ask(self._socket, "DELETE", path_of("registries", name))

    def refresh(self, name: str | None) -> dict[str, int]:
        target = path_of("registries", "refresh") + _query(registry=name)
        return dict(ask(self._socket, "POST", target)["servers"])


def _query(**given: str | None) -> str:
    found = {name: value for name, value in given.items() if value is not None}
    return f"?{urlencode(found)}" if found else ""
