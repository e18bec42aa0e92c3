"""The format of the upstream registry: `server.json`, alone, in a list, or in an answer of its API."""

from __future__ import annotations

import re
from typing import Any, cast
from urllib.parse import urlsplit

from mooring.ecosystem.registry.entry import Argument, Entry, Input, Offer, OfferKind, RegistryError
from mooring.ecosystem.registry.legacy_format import provenance_of

_PUBLISHER = "io.modelcontextprotocol.registry/publisher-provided"
_OFFICIAL = "io.modelcontextprotocol.registry/official"
_PUBLISHERS = ("io.github.stacklok", "mooring")
_SCHEMES: dict[str, tuple[OfferKind, str]] = {
    "npm": ("npm", "npx://"),
    "pypi": ("pypi", "uvx://"),
    "oci": ("image", ""),
}


def entry_of(value: Any) -> Entry:
    """One server: `{server: ..., _meta: ...}` or the `server.json` itself. Older spellings are read too."""
    outer = _object(value)
    server = _object(outer.get("server")) or outer
    name = server.get("name")
    if not isinstance(name, str) or not name:
        raise RegistryError("has no name")
    official = _object(_object(outer.get("_meta")).get(_OFFICIAL))
    extra = _publisher(server, outer)
    detail = _object(server.get("version_detail"))
    return Entry(
        name=name,
        title=str(server.get("title") or ""),
        description=str(server.get("description") or ""),
        version=str(server.get("version") or detail.get("version") or ""),
        status=str(official.get("status") or server.get("status") or extra.get("status") or ""),
        tier=str(extra.get("tier") or ""),
        tags=_texts(extra.get("tags")),
        tools=_texts(extra.get("tools")),
        overview=str(extra.get("overview") or ""),
        repository=str(_object(server.get("repository")).get("url") or ""),
        website=str(_either(server, "websiteUrl", "website_url") or ""),
        updated=str(official.get("updatedAt") or official.get("publishedAt") or ""),
        offers=(
            *(_package(_object(each), extra) for each in _list(server.get("packages"))),
            *(_remote(_object(each)) for each in _list(server.get("remotes"))),
        ),
        permissions=_object(extra.get("permissions")) or None,
        oauth=_object(extra.get("oauth_config")) or None,
        provenance=provenance_of(extra.get("provenance")),
    )


def _publisher(server: dict[str, Any], outer: dict[str, Any]) -> dict[str, Any]:
    """What ToolHive's catalogue and ours add, whichever image or URL it is filed under."""
    for holder in (server, outer):
        provided = _object(_object(holder.get("_meta")).get(_PUBLISHER))
        for publisher in _PUBLISHERS:
            for value in _object(provided.get(publisher)).values():
                if isinstance(value, dict):
                    return cast("dict[str, Any]", value)
    return {}


def _package(package: dict[str, Any], extra: dict[str, Any]) -> Offer:
    kind_name = str(_either(package, "registryType", "registry_type") or "")
    kind, scheme = _SCHEMES.get(kind_name, ("other", f"{kind_name}:"))
    identifier, version = str(package.get("identifier") or ""), str(package.get("version") or "")
    transport = _object(package.get("transport"))
    url = str(transport.get("url") or "")
    notes = (
        ["its `runtimeArguments` are not used"]
        if _either(package, "runtimeArguments", "runtime_arguments")
        else []
    )
    arguments = tuple(
        _argument(_object(each)) for each in _list(_either(package, "packageArguments", "package_arguments"))
    )
    arguments += tuple(Argument(Input("", value=each)) for each in _texts(extra.get("args")))
    return Offer(
        kind=kind,
        source=scheme
        + (_image(package, identifier, version) if kind == "image" else _versioned(identifier, version)),
        transport=str(transport.get("type") or "stdio"),
        target_port=_port(url),
        path=(urlsplit(url).path if url else "") or "/mcp",
        arguments=arguments,
        env=_inputs(_either(package, "environmentVariables", "environment_variables")),
        headers=_inputs(transport.get("headers")),
        sha256=str(_either(package, "fileSha256", "file_sha256") or ""),
        notes=tuple(notes),
    )


def _versioned(identifier: str, version: str) -> str:
    return f"{identifier}@{version}" if version and version != "latest" else identifier


def _image(package: dict[str, Any], identifier: str, version: str) -> str:
    base = str(_either(package, "registryBaseUrl", "registry_base_url") or "")
    host = urlsplit(base).netloc
    if host and host != "docker.io" and not identifier.startswith(f"{host}/"):
        identifier = f"{host}/{identifier}"
    has_tag = ":" in identifier.rpartition("/")[2] or "@" in identifier
    return identifier if has_tag or not version else f"{identifier}:{version}"


def _remote(remote: dict[str, Any]) -> Offer:
    url = str(remote.get("url") or "")
    variables = _object(remote.get("variables"))
    return Offer(
        kind="remote" if url.startswith(("https://", "http://")) else "other",
        source=url,
        transport=str(_either(remote, "type", "transport_type") or "streamable-http"),
        headers=_inputs(remote.get("headers")),
        arguments=tuple(Argument(_input(name, _object(each))) for name, each in variables.items()),
    )


def _argument(value: dict[str, Any]) -> Argument:
    flag = str(value.get("name") or "") if value.get("type") == "named" else ""
    name = str(_either(value, "valueHint", "value_hint") or flag.lstrip("-") or "argument")
    return Argument(_input(name, value), flag, bool(_either(value, "isRepeated", "is_repeated")))


def _inputs(value: Any) -> tuple[Input, ...]:
    return tuple(_input(str(_object(each).get("name") or ""), _object(each)) for each in _list(value))


def _input(name: str, value: dict[str, Any]) -> Input:
    default, fixed = value.get("default"), value.get("value")
    variables = _object(value.get("variables"))
    return Input(
        name=name,
        description=str(value.get("description") or ""),
        required=bool(_either(value, "isRequired", "is_required")),
        secret=bool(_either(value, "isSecret", "is_secret")),
        default=None if default is None else str(default),
        choices=_texts(value.get("choices")),
        value=None if fixed is None else str(fixed),
        variables=tuple(_input(key, _object(each)) for key, each in variables.items()),
        path=value.get("format") == "filepath",
    )


def _port(url: str) -> int | None:
    match = re.match(r"https?://[^/:]+:(\d+)", url)
    return int(match.group(1)) if match else None


def _either(value: dict[str, Any], new: str, old: str) -> Any:
    return value.get(new, value.get(old))


def _object(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _list(value: Any) -> list[Any]:
    return cast("list[Any]", value) if isinstance(value, list) else []


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(str(each) for each in _list(value))
