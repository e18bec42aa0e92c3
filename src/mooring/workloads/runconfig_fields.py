"""What becomes of each field of a RunConfig that Mooring has no effect of its own for."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias, cast

from msgspec import Struct


class Refused(Struct, frozen=True):
    """Asking for it would promise something that does not happen; the text says what to do instead."""

    why: str


class Kept(Struct, frozen=True):
    """Written back as it was; the note tells the person what it means here, if that is not plain."""

    note: str = ""


_KUBERNETES: Final = Refused("it is about Kubernetes; remove it")

FIELDS: Final[Mapping[str, Refused | Kept]] = {
    "target_host": Kept("is not used: the gateway finds the server by itself"),
    "container_name": Kept(),
    "base_name": Kept(),
    "registry_api_url": Kept(),
    "registry_url": Kept(),
    "mcpserver_generation": Kept(),
    "rate_limit_namespace": Kept(),
    "middleware_configs": Kept(),
    "additional_middleware_configs": Kept(),
    "embedded_auth_server_config": Refused("use a provider of your own, named in `oidc_config`"),
    "k8s_pod_template_patch": _KUBERNETES,
    "scaling_config": _KUBERNETES,
    "isolate_network": Kept(),
    "strict_protocol_validation": Kept(),
    "stateless": Kept(),
}
"""`stateless` is found out, `strict_protocol_validation` always on, and the network always isolated."""


def notes_on(raw: Mapping[str, Any]) -> list[str]:
    """What has its effect, and not quite the one that somebody may expect."""
    notes: list[str] = []
    if raw.get("isolate_network") is False:
        notes.append("`isolate_network` is always on; `permission_profile` says what may be reached")
    named = ("middleware_configs", "additional_middleware_configs")
    if any("usagemetrics" in _kinds(raw.get(name)) for name in named):
        notes.append("the middleware `usagemetrics` does nothing: Mooring sends no usage figures to anybody")
    ignoring: Any = raw.get("ignore_config")
    if isinstance(ignoring, dict) and cast("dict[str, Any]", ignoring).get("PrintOverlays"):
        notes.append("`ignore_config.PrintOverlays` has no effect; files are hidden all the same")
    return notes


def _kinds(middlewares: object) -> list[str]:
    listed = cast("list[Any]", middlewares) if isinstance(middlewares, list) else []
    return [str(cast("dict[str, Any]", entry).get("type")) for entry in listed if isinstance(entry, dict)]


_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)(ns|us|µs|ms|s|m|h)")
_UNITS: Final = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0}


def duration_seconds(value: object) -> float | None:
    """A duration as Go writes it: `1m30s`, or a number of nanoseconds; none is nothing. ValueError if it is
    something else."""
    if value in (None, "", 0):
        return None
    if isinstance(value, int | float):
        return float(value) / 1e9
    parts = _DURATION.findall(str(value))
    if "".join(number + unit for number, unit in parts) != value:
        raise ValueError(f"`{value}` must be a duration such as `30s` or `1m`")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


def is_off(value: object) -> bool:
    """Whether a field asks for nothing."""
    if isinstance(value, dict):
        return all(is_off(item) for item in cast("dict[str, Any]", value).values())
    return value is None or value is False or value in ("", 0, [])


Rule: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]] | str


def _nothing(_: dict[str, Any]) -> dict[str, Any]:
    """It is there anyway, or there is nothing for it to do."""
    return {}


def _field(name: str, *keys: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """The middleware is a field under one of these keys; where it has none of them, it asks for nothing."""

    def rule(parameters: dict[str, Any]) -> dict[str, Any]:
        found = next((parameters[key] for key in keys if not is_off(parameters.get(key))), None)
        return {} if found is None else {name: found}

    return rule


def _from_file_or_here(name: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Given as the section itself, or as the path of its file; guarding with nothing is a mistake."""

    def rule(parameters: dict[str, Any]) -> dict[str, Any]:
        here = _field(name, "config_data", "config")(parameters)
        found = here or _field(f"{name}_path", "config_path")(parameters)
        if not found:
            raise ValueError("it has neither `config_data` nor `config_path`: say what it is to do")
        return found

    return rule


def _needed(name: str, *keys: str) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """As `_field`, for what guards something: where none of the keys is there, it must not be dropped."""

    def rule(parameters: dict[str, Any]) -> dict[str, Any]:
        found = _field(name, *keys)(parameters)
        if not found:
            raise ValueError(f"it has no `{keys[0]}`: say what it is to do")
        return found

    return rule


def _tools(parameters: dict[str, Any]) -> dict[str, Any]:
    found = {
        "tools_filter": parameters.get("filter_tools"),
        "tools_override": parameters.get("tools_override"),
    }
    return {name: value for name, value in found.items() if not is_off(value)}


def _headers(parameters: dict[str, Any]) -> dict[str, Any]:
    headers = parameters.get("add_headers")
    return {} if is_off(headers) else {"header_forward": {"add_plaintext_headers": headers}}


MIDDLEWARES: Final[Mapping[str, Rule]] = {
    "mcp-parser": _nothing,
    "recovery": _nothing,
    "bodylimit": _nothing,
    "origin": _nothing,
    "usagemetrics": _nothing,
    "auth": _field("oidc_config", "oidc_config"),
    "tool-filter": _tools,
    "tool-call-filter": _tools,
    "header-forward": _headers,
    "strip-auth": _nothing,
    "tokenexchange": _needed("token_exchange_config", "token_exchange_config", "config"),
    "upstreamswap": _needed("upstream_swap_config", "config"),
    "awssts": _needed("aws_sts_config", "aws_sts_config", "config"),
    "obo": _needed("obo_config", "obo_config", "config"),
    "ratelimit": _needed("rate_limit_config", "config", "rate_limit_config"),
    "telemetry": _needed("telemetry_config", "config", "telemetry_config"),
    "authorization": _from_file_or_here("authz_config"),
    "audit": _from_file_or_here("audit_config"),
    "validating-webhook": _needed("validating_webhooks", "webhooks", "configs"),
    "mutating-webhook": _needed("mutating_webhooks", "webhooks", "configs"),
}
"""What each middleware of ToolHive amounts to here: fields, nothing, or a reason to refuse it."""
