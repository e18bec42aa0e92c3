"""What becomes of each field of a RunConfig that Mooring has no effect of its own for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast


@dataclass(frozen=True, slots=True)
class Refused:
    """Asking for it would promise something that does not happen; the text says what to do instead."""

    why: str


@dataclass(frozen=True, slots=True)
class Kept:
    """Written back as it was; the note tells the person what it means here, if that is not plain."""

    note: str = ""


_KUBERNETES: Final = Refused("it is about Kubernetes; remove it")
_CREDENTIALS: Final = "set `servers[].upstream.auth` to `on_behalf_of` in `mooring.yaml`, and remove it here"
_AUTHORITIES: Final = Refused(
    "add the authority to the system's (`update-ca-certificates`) and remove it here"
)

FIELDS: Final[Mapping[str, Refused | Kept]] = {
    "target_host": Kept("is not used: the gateway finds the server by itself"),
    "container_name": Kept(),
    "base_name": Kept(),
    "registry_api_url": Kept(),
    "registry_url": Kept(),
    "mcpserver_generation": Kept(),
    "rate_limit_namespace": Kept(),
    "middleware_configs": Kept(),
    "env_file_dir": Refused("put the variables into `env_vars`"),
    "debug": Refused("use `mooring trace NAME`, which shows every message"),
    "additional_middleware_configs": Refused("list them in `middleware_configs`"),
    "embedded_auth_server_config": Refused("use a provider of your own, named in `oidc_config`"),
    "session_ttl": Refused("set `sessions.idle_ttl_seconds` in `mooring.yaml` and remove it here"),
    "thv_ca_bundle": _AUTHORITIES,
    "jwks_auth_token_file": Refused("use a provider whose keys are public"),
    "endpoint_prefix": Refused("set `public_url` in `mooring.yaml` and remove it here"),
    "k8s_pod_template_patch": _KUBERNETES,
    "scaling_config": _KUBERNETES,
    "isolate_network": Kept(),
    "allow_docker_gateway": Refused("name the host in `permission_profile.network.outbound.allow_host`"),
    "strict_protocol_validation": Kept(),
    "stateless": Kept(),
}
"""`stateless` is found out, `strict_protocol_validation` always on, and the network always isolated."""


def notes_on(raw: Mapping[str, Any]) -> list[str]:
    """What has its effect, and not quite the one that somebody may expect."""
    notes: list[str] = []
    if raw.get("isolate_network") is False:
        notes.append("`isolate_network` is always on; `permission_profile` says what may be reached")
    telemetry: Any = raw.get("telemetry_config")
    if isinstance(telemetry, dict) and cast("dict[str, Any]", telemetry).get("metricsEnabled"):
        notes.append("`telemetry_config.metricsEnabled`: metrics are read at `/metrics`, not sent anywhere")
    ignoring: Any = raw.get("ignore_config")
    if isinstance(ignoring, dict) and cast("dict[str, Any]", ignoring).get("PrintOverlays"):
        notes.append("`ignore_config.PrintOverlays` has no effect; files are hidden all the same")
    return notes


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
    "obo": _CREDENTIALS,
    "ratelimit": _needed("rate_limit_config", "config", "rate_limit_config"),
    "telemetry": _needed("telemetry_config", "config", "telemetry_config"),
    "authorization": _from_file_or_here("authz_config"),
    "audit": _from_file_or_here("audit_config"),
    "validating-webhook": _needed("validating_webhooks", "webhooks", "configs"),
    "mutating-webhook": _needed("mutating_webhooks", "webhooks", "configs"),
}
"""What each middleware of ToolHive amounts to here: fields, nothing, or a reason to refuse it."""
