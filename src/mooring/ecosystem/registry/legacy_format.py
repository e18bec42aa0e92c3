"""ToolHive's older format: `{servers: {...}, remote_servers: {...}, groups: [...]}`."""

from __future__ import annotations

from typing import Any, cast

import msgspec

from mooring.ecosystem.registry.entry import (
    Argument,
    Catalogue,
    Entry,
    Input,
    Offer,
    OfferKind,
    Provenance,
    ServerGroup,
)


def is_legacy(value: dict[str, Any]) -> bool:
    """Whether these are the contents of such a file."""
    named = (value.get("servers"), value.get("remote_servers"), value.get("remoteServers"))
    return any(isinstance(each, dict) for each in named)


def catalogue_of(value: dict[str, Any]) -> Catalogue:
    """All servers of the file, those of its groups included."""
    entries = list(_entries(value))
    groups: list[ServerGroup] = []
    for each in _list(value.get("groups")):
        group = _object(each)
        members = list(_entries(group))
        known = {entry.name for entry in entries}
        entries += [entry for entry in members if entry.name not in known]
        names = tuple(entry.name for entry in members)
        groups.append(ServerGroup(str(group.get("name")), str(group.get("description") or ""), names))
    return Catalogue(tuple(entries), tuple(groups))


def provenance_of(value: Any) -> Provenance | None:
    """Who built it; keys we do not know are left out."""
    found = _object(value)
    texts = {key: str(each) for key, each in found.items() if isinstance(each, str) and each}
    return msgspec.convert(texts, Provenance) if texts else None


def _entries(value: dict[str, Any]) -> list[Entry]:
    images = _object(value.get("servers"))
    remotes = _object(value.get("remote_servers") or value.get("remoteServers"))
    return [
        *(_entry(name, _object(each), _image(_object(each))) for name, each in images.items()),
        *(_entry(name, _object(each), _remote(_object(each))) for name, each in remotes.items()),
    ]


def _entry(name: str, value: dict[str, Any], offer: Offer) -> Entry:
    return Entry(
        name=name,
        title=str(value.get("title") or ""),
        description=str(value.get("description") or ""),
        status=str(value.get("status") or ""),
        tier=str(value.get("tier") or ""),
        tags=_texts(value.get("tags")),
        tools=_texts(value.get("tools")),
        overview=str(value.get("overview") or ""),
        repository=str(value.get("repository_url") or value.get("repositoryUrl") or ""),
        updated=str(_object(value.get("metadata")).get("last_updated") or ""),
        offers=(offer,),
        permissions=_object(value.get("permissions") or value.get("permissionProfile")) or None,
        oauth=_object(value.get("oauth_config") or value.get("oauthConfig")) or None,
        provenance=provenance_of(value.get("provenance")),
    )


def _image(value: dict[str, Any]) -> Offer:
    source = str(value.get("image") or "")
    kinds: dict[str, OfferKind] = {"npx": "npm", "uvx": "pypi"}
    port = value.get("target_port")
    return Offer(
        kind=kinds.get(source.partition("://")[0], "image"),
        source=source,
        transport=str(value.get("transport") or "stdio"),
        target_port=port if isinstance(port, int) and port else None,
        arguments=tuple(Argument(Input("", value=each)) for each in _texts(value.get("args"))),
        env=_inputs(value.get("env_vars") or value.get("envVars")),
    )


def _remote(value: dict[str, Any]) -> Offer:
    return Offer(
        kind="remote",
        source=str(value.get("url") or ""),
        transport=str(value.get("transport") or "streamable-http"),
        headers=_inputs(value.get("headers")),
        env=_inputs(value.get("env_vars") or value.get("envVars")),
    )


def _inputs(value: Any) -> tuple[Input, ...]:
    made: list[Input] = []
    for each in map(_object, _list(value)):
        default = each.get("default")
        made.append(
            Input(
                str(each.get("name") or ""),
                str(each.get("description") or ""),
                bool(each.get("required")),
                bool(each.get("secret")),
                None if default in (None, "") else str(default),
                _texts(each.get("choices")),
            )
        )
    return tuple(made)


def _object(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(str(each) for each in _list(value))
