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
_GUARD: Final = Refused("set it in `mooring.yaml`, for every server of the gateway, and remove it here")
_SECRET: Final = Refused(
    "a token must not lie in a plain file: store it with `mooring secret set NAME` and name it in "
    "`header_forward.add_headers_from_secret`"
)

FIELDS: Final[Mapping[str, Refused | Kept]] = {
    "host": Kept("is not used: all servers share the gateway's address"),
    "port": Kept("is not used: all servers share the gateway's port, so the URL never changes"),
    "target_host": Kept("is not used: the gateway finds the server by itself"),
    "allowed_origins": Refused("set `cors.allowed_origins` in `mooring.yaml` and remove it here"),
    "container_name": Kept(),
    "base_name": Kept(),
    "registry_api_url": Kept(),
    "registry_url": Kept(),
    "mcpserver_generation": Kept(),
    "rate_limit_namespace": Kept(),
    "middleware_configs": Kept(),
    "remote_auth_config": _SECRET,
    "env_file_dir": Refused("put the variables into `env_vars`"),
    "debug": Refused("use `mooring trace NAME`, which shows every message"),
    "oidc_config": _GUARD,
    "token_exchange_config": _GUARD,
    "upstream_swap_config": _GUARD,
    "aws_sts_config": _GUARD,
    "authz_config": _GUARD,
    "authz_config_path": _GUARD,
    "audit_config": _GUARD,
    "audit_config_path": _GUARD,
    "telemetry_config": _GUARD,
    "rate_limit_config": _GUARD,
    "validating_webhooks": _GUARD,
    "mutating_webhooks": _GUARD,
    "additional_middleware_configs": _GUARD,
    "embedded_auth_server_config": _GUARD,
    "trust_proxy_headers": _GUARD,
    "session_ttl": Refused("set `sessions.idle_ttl_seconds` in `mooring.yaml` and remove it here"),
    "thv_ca_bundle": _GUARD,
    "jwks_auth_token_file": _GUARD,
    "endpoint_prefix": Refused("set `public_url` in `mooring.yaml` and remove it here"),
    "k8s_pod_template_patch": _KUBERNETES,
    "scaling_config": _KUBERNETES,
    "isolate_network": Kept(),
    "allow_docker_gateway": Refused("name the host in `permission_profile.network.outbound.allow_host`"),
    "strict_protocol_validation": Kept(),
    "stateless": Kept(),
    "ignore_config": Kept(),
    "runtime_config": Refused("build the image yourself and name it in `image`"),
}
"""`stateless` is found out, `strict_protocol_validation` always on, and the network always isolated."""


def is_off(value: object) -> bool:
    """Whether a field asks for nothing."""
    if isinstance(value, dict):
        return all(is_off(item) for item in cast("dict[str, Any]", value).values())
    return value is None or value is False or value in ("", 0, [])


Rule: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]] | str


def _nothing(_: dict[str, Any]) -> dict[str, Any]:
    """It is there anyway, or there is nothing for it to do."""
    return {}


def _local_user_only(parameters: dict[str, Any]) -> dict[str, Any]:
    """Without OIDC, `auth` only names the user of this machine; with it, somebody relies on being guarded."""
    return {} if is_off(parameters.get("oidc_config")) else {"oidc_config": parameters["oidc_config"]}


def _tools(parameters: dict[str, Any]) -> dict[str, Any]:
    found = {
        "tools_filter": parameters.get("filter_tools"),
        "tools_override": parameters.get("tools_override"),
    }
    return {name: value for name, value in found.items() if not is_off(value)}


def _headers(parameters: dict[str, Any]) -> dict[str, Any]:
    headers = parameters.get("add_headers")
    return {} if is_off(headers) else {"header_forward": {"add_plaintext_headers": headers}}


_ELSEWHERE: Final = "set it in `mooring.yaml`, for every server of the gateway, and remove it here"

MIDDLEWARES: Final[Mapping[str, Rule]] = {
    "mcp-parser": _nothing,
    "recovery": _nothing,
    "bodylimit": _nothing,
    "origin": _nothing,
    "usagemetrics": _nothing,
    "auth": _local_user_only,
    "tool-filter": _tools,
    "tool-call-filter": _tools,
    "header-forward": _headers,
    "strip-auth": _nothing,
    "tokenexchange": _ELSEWHERE,
    "upstreamswap": _ELSEWHERE,
    "awssts": _ELSEWHERE,
    "obo": _ELSEWHERE,
    "ratelimit": _ELSEWHERE,
    "telemetry": _ELSEWHERE,
    "authorization": _ELSEWHERE,
    "audit": _ELSEWHERE,
    "validating-webhook": _ELSEWHERE,
    "mutating-webhook": _ELSEWHERE,
}
"""What each middleware of ToolHive amounts to here: fields, nothing, or a reason to refuse it."""
