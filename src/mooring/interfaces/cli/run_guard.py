"""The flags of `mooring run` about who may call a server, what is allowed, and what is written down."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, cast

from mooring.interfaces.cli import words
from mooring.interfaces.cli.failure import Failed, Misused
from mooring.interfaces.cli.run_document import read_document

Json = dict[str, Any]


def add_flags(run: argparse.ArgumentParser) -> None:
    """They are named as ToolHive names them."""
    own = run.add_argument_group("an address of its own, besides the one at the gateway")
    own.add_argument("--proxy-port", metavar="PORT", type=int, help="serve it at `http://HOST:PORT/mcp` too")
    own.add_argument("--host", metavar="HOST", help="where that port is (default: 127.0.0.1)")
    words.add_repeated(
        own, "--allowed-origins", "ORIGIN", "let web pages from there call it; may be repeated"
    )
    own.add_argument(
        "--trust-proxy-headers", action="store_true", help="believe `X-Forwarded-For` about its callers"
    )
    guard = run.add_argument_group("its guard, on top of the gateway's")
    guard.add_argument("--oidc-issuer", metavar="URL", help="callers need a token of this provider")
    guard.add_argument("--oidc-audience", metavar="TEXT", help="tokens must be for this (default: its URL)")
    guard.add_argument(
        "--oidc-jwks-url", metavar="URL", help="where the keys are (default: the provider says)"
    )
    guard.add_argument("--oidc-introspection-url", metavar="URL", help="where to ask about opaque tokens")
    guard.add_argument("--oidc-client-id", metavar="ID", help="our name at the provider")
    guard.add_argument("--oidc-client-secret", metavar="NAME", help="the stored secret that goes with it")
    words.add_repeated(guard, "--oidc-scopes", "SCOPE", "name this scope to clients; may be repeated")
    guard.add_argument(
        "--oidc-insecure-allow-http", action="store_true", help="allow `http://` for the provider"
    )
    guard.add_argument("--resource-url", metavar="URL", help="what tokens call this server")
    guard.add_argument("--authz-config", metavar="FILE", help="Cedar policies: what callers may do")
    guard.add_argument("--enable-audit", action="store_true", help="write an audit log of its own")
    guard.add_argument("--audit-config", metavar="FILE", help="what to write there, and where")
    words.add_repeated(
        guard, "--webhook-config", "FILE", "programs to ask about every request; may be repeated"
    )
    guard.add_argument("--tools-override", metavar="FILE", help="other names and descriptions of its tools")
    guard.add_argument("--otel-endpoint", metavar="URL", help="send traces to this OTLP collector")
    guard.add_argument("--otel-service-name", metavar="NAME", help="its name there (default: its name)")
    words.add_repeated(guard, "--otel-headers", "NAME=VALUE", "send this header there; may be repeated")
    guard.add_argument("--otel-sampling-rate", metavar="RATE", type=float, help="how many are traced (0.1)")
    guard.add_argument(
        "--otel-enable-prometheus-metrics-path", action="store_true", help="count its calls for `/metrics`"
    )


def fields(arguments: argparse.Namespace) -> Json:
    """The fields of a RunConfig that these flags amount to."""
    found: Json = {
        "port": arguments.proxy_port,
        "host": arguments.host,
        "allowed_origins": arguments.allowed_origins,
        "trust_proxy_headers": arguments.trust_proxy_headers or None,
        "oidc_config": _oidc(arguments),
        "authz_config_path": _path("--authz-config", arguments.authz_config),
        "audit_config": {"enabled": True} if arguments.enable_audit else None,
        "audit_config_path": _path("--audit-config", arguments.audit_config),
        "telemetry_config": _telemetry(arguments),
        **_webhooks(arguments.webhook_config),
    }
    if arguments.tools_override:
        overrides = _document("--tools-override", arguments.tools_override)
        found["tools_override"] = (
            overrides.get("toolsOverride") or overrides.get("tools_override") or overrides
        )
    if found["audit_config_path"]:
        found["audit_config"] = None
    return {name: value for name, value in found.items() if value not in (None, [], {}, "")}


def _oidc(arguments: argparse.Namespace) -> Json | None:
    secret = arguments.oidc_client_secret
    found = {
        "Issuer": arguments.oidc_issuer,
        "Audience": arguments.oidc_audience,
        "JWKSURL": arguments.oidc_jwks_url,
        "IntrospectionURL": arguments.oidc_introspection_url,
        "ClientID": arguments.oidc_client_id,
        "ClientSecret": f"{secret},target=client_secret" if secret else None,
        "Scopes": arguments.oidc_scopes,
        "ResourceURL": arguments.resource_url,
        "InsecureAllowHTTP": arguments.oidc_insecure_allow_http or None,
    }
    given = {name: value for name, value in found.items() if value}
    if given and not {"Issuer", "IntrospectionURL"} & given.keys():
        raise Misused("tokens of which provider? give --oidc-issuer (or --oidc-introspection-url) too")
    return given


def _telemetry(arguments: argparse.Namespace) -> Json | None:
    headers = dict(entry.partition("=")[::2] for entry in arguments.otel_headers)
    found = {
        "endpoint": arguments.otel_endpoint,
        "serviceName": arguments.otel_service_name,
        "headers": headers,
        "samplingRate": arguments.otel_sampling_rate,
        "enablePrometheusMetricsPath": arguments.otel_enable_prometheus_metrics_path or None,
    }
    return {name: value for name, value in found.items() if value not in (None, {}, "")}


def _webhooks(files: list[str]) -> Json:
    """All files together; of two with one name the later counts."""
    found: dict[str, dict[str, Any]] = {"validating": {}, "mutating": {}}
    for file in files:
        document = _document("--webhook-config", file)
        for kind, hooks in found.items():
            for hook in cast("list[Json]", document.get(kind) or []):
                hooks[str(hook.get("name"))] = hook
    return {f"{kind}_webhooks": list(hooks.values()) for kind, hooks in found.items()}


def _path(flag: str, given: str | None) -> str | None:
    """The daemon has another folder than the person."""
    if given is None:
        return None
    path = Path(given).expanduser().absolute()
    if not path.is_file():
        raise Failed(f"{flag} `{given}`: there is no such file")
    return str(path)


def _document(flag: str, given: str) -> Json:
    path = _path(flag, given)
    assert path is not None
    return read_document(Path(path))
