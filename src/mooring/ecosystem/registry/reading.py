"""From the bytes of a registry file to its servers, whichever format it is in."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from mooring.ecosystem.registry.entry import Catalogue, Entry, RegistryError
from mooring.ecosystem.registry.legacy_format import catalogue_of, is_legacy
from mooring.ecosystem.registry.upstream_format import entry_of


def read_catalogue(data: bytes, place: str) -> Catalogue:
    """The servers in a file; `place` names it in errors."""
    try:
        value: Any = msgspec.json.decode(data)
    except msgspec.DecodeError as error:
        raise RegistryError(f"`{place}` is not JSON: {error}") from error
    if isinstance(value, dict):
        found = cast("dict[str, Any]", value)
        inner = found.get("data")
        inner = cast("dict[str, Any]", inner) if isinstance(inner, dict) else found
        if is_legacy(inner):
            return catalogue_of(inner)
        if isinstance(inner.get("servers"), list):
            return upstream_catalogue(inner["servers"])
        if isinstance(found.get("name"), str):
            return upstream_catalogue([found])
    elif isinstance(value, list):
        return upstream_catalogue(value)
    raise RegistryError(
        f"`{place}` is no registry: it needs `servers`, in the upstream format or in ToolHive's older one"
    )


def upstream_catalogue(servers: Any) -> Catalogue:
    """A list of servers in the upstream format; what cannot be understood is left out and said."""
    entries: list[Entry] = []
    problems: list[str] = []
    for number, each in enumerate(cast("list[Any]", servers)):
        try:
            entries.append(entry_of(each))
        except RegistryError as error:
            problems.append(f"entry {number + 1} {error}")
    return Catalogue(tuple(entries), problems=tuple(problems))
