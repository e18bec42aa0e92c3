"""What a RunConfig says about its guard, in the words of `mooring.yaml`: for its own server alone.

ToolHive gives every server a proxy with a chain of its own. Here all servers share one gateway, and what a
RunConfig asks for comes on top of what the gateway does anyway: it can make a server stricter, never laxer.
Only `oidc_config` stands in place of the gateway's own `auth`, since a caller shows one credential.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from mooring import durable
from mooring.config.files import Core
from mooring.config.foreign_section import Section, seconds_of, snake
from mooring.config.policy_rules import POLICY_RULES
from mooring.config.problems import key_text
from mooring.config.schema import Config, Limits
from mooring.policy import settings
from mooring.transports.http_client import trusting
from mooring.workloads.runconfig import Fields, InvalidRunConfig, RunConfig, split_secret

Json = dict[str, Any]
Secret = Callable[[str], str]
"""The value of a stored secret."""
FOLDER: Final = "workloads"
_OFF: Final = Core(
    tool_definition_pinning=settings.Pinning(mode="off"),
    tool_definition_lock=settings.DefinitionLock(mode="off"),
    sanitize=settings.Sanitize(mode="off"),
)
_CALLS: Final = ["tools/call"]


def guard_config(config: Config, run: RunConfig, secret: Secret) -> Config | None:
    """What the workload adds to the guard of its server, if anything; `InvalidRunConfig` says why not."""
    fields = run.fields
    made = Config(
        storage=config.storage,
        trust_proxy_headers=fields.trust_proxy_headers or config.trust_proxy_headers,
        core=_OFF,
        auth=_auth(fields, secret),
        authorization=_authorization(fields, config.storage.root / FOLDER / f"{run.name}.authz.json"),
        audit=_audit(fields, config.storage.root / f"audit-{run.name}.log"),
        telemetry=_telemetry(fields, run.name),
        limits=Limits(rate=_rates(fields)),
        webhooks=settings.Webhooks(
            validating=_webhooks("validating_webhooks", fields.validating_webhooks, secret),
            mutating=_webhooks("mutating_webhooks", fields.mutating_webhooks, secret),
        ),
    )
    if made == Config(storage=config.storage, trust_proxy_headers=config.trust_proxy_headers, core=_OFF):
        return None
    if made.audit.enabled and made.audit.file == (config.audit.file or config.storage.root / "audit.log"):
        raise InvalidRunConfig("`audit_config.logFile` is the gateway's own audit log: name another file")
    _check(made)
    return made


def forget(config: Config, name: str) -> None:
    """The workload is gone: what was written down for it goes too. Its audit log stays."""
    (config.storage.root / FOLDER / f"{name}.authz.json").unlink(missing_ok=True)


_SECTIONS: Final = {
    "oidc_config": "auth",
    "authz_config": "authorization",
    "telemetry_config": "telemetry",
    "validating_webhooks": "webhooks",
}


def _check(made: Config) -> None:
    """The rules of the file hold for a RunConfig too."""
    for name, section in _SECTIONS.items():
        value = getattr(made, section)
        for path, message in POLICY_RULES[type(value)](value):
            place = f" (`{key_text(path)}`)" if path else ""
            raise InvalidRunConfig(f"`{name}`{place} {message}")


def _auth(fields: Fields, secret: Secret) -> settings.Auth:
    if fields.oidc_config is None:
        return settings.Auth()
    section = Section("oidc_config", fields.oidc_config)
    section.ignore("allowPrivateIP", "cacheTTL")
    found = settings.Auth(
        mode="oidc",
        issuer=section.text("issuer"),
        audience=section.texts("audience"),
        jwks_url=section.text("jwksURL"),
        introspection_url=section.text("introspectionURL"),
        client_id=section.text("clientID"),
        client_secret=referred("oidc_config.ClientSecret", section.text("clientSecret"), secret),
        jwks_token_file=_pem(fields.jwks_auth_token_file, section, "authTokenFile", "jwks_auth_token_file"),
        ca_bundle=_pem(fields.thv_ca_bundle, section, "caCertPath", "thv_ca_bundle"),
        scopes_supported=section.texts("scopes"),
        insecure_allow_http=section.flag("insecureAllowHTTP"),
    )
    section.take("resourceURL")  # what the server calls itself to its clients: see `resource_url`
    section.close()
    return found if found.issuer or found.introspection_url else settings.Auth()


def authorities_of(run: RunConfig) -> Path | None:
    """The PEM file of further authorities to believe."""
    given = run.fields.thv_ca_bundle
    return _authorities("thv_ca_bundle", given) if given else None


def resource_url(run: RunConfig) -> str | None:
    """The name of the server towards providers of tokens, where it has another than its address."""
    return Section("oidc_config", run.fields.oidc_config or {}).text("resourceURL")


def referred(name: str, given: str | None, secret: Secret) -> str | None:
    """A secret by its reference, as ToolHive writes it; the secret itself must not lie in a plain file."""
    if given is None:
        return None
    if ",target=" not in given:
        raise InvalidRunConfig(
            f"`{name}` holds the secret itself: store it with `mooring secret set NAME` and write "
            "`NAME,target=client_secret` here"
        )
    return secret(split_secret(given)[0])


def _authorization(fields: Fields, place: Path) -> settings.Authorization:
    path = fields.authz_config_path
    if fields.authz_config is None:
        if not path:
            return settings.Authorization()
        _absolute("authz_config_path", path)
        return settings.Authorization(type="cedarv1", policies=[Path(path)])
    kind = fields.authz_config.get("type")
    if kind != "cedarv1":
        raise InvalidRunConfig(f"`authz_config.type` is `{kind}`: only `cedarv1` is known, write it in Cedar")
    durable.private_folder(place.parent)
    durable.replace_file(place, msgspec.json.encode(fields.authz_config))
    return settings.Authorization(type="cedarv1", policies=[place])


def _audit(fields: Fields, place: Path) -> settings.Audit:
    given = fields.audit_config
    if given is None and fields.audit_config_path:
        given = _read("audit_config_path", fields.audit_config_path)
    if given is None or given.get("enabled") is False:
        return settings.Audit()
    section = Section("audit_config", given)
    section.take("enabled")
    depth = section.number("maxDelegationDepth")
    file = section.text("logFile")
    if file:
        _absolute("audit_config.logFile", file)
    found = settings.Audit(
        enabled=True,
        file=Path(file) if file else place,
        component=section.text("component") or "mooring",
        event_types=section.texts("eventTypes"),
        exclude_event_types=section.texts("excludeEventTypes"),
        include_request_data=section.flag("includeRequestData"),
        include_response_data=section.flag("includeResponseData"),
        detect_application_errors=section.flag("detectApplicationErrors", default=True),
        max_data_bytes=int(section.number("maxDataSize") or 1024),
        max_delegation_depth=10 if depth is None else int(depth),
    )
    section.close()
    return found


def _telemetry(fields: Fields, name: str) -> settings.Telemetry:
    if fields.telemetry_config is None:
        return settings.Telemetry()
    section = Section("telemetry_config", fields.telemetry_config)
    section.ignore("serviceVersion", "useLegacyAttributes", "insecure")
    endpoint = section.text("endpoint")
    if endpoint and "://" not in endpoint:
        scheme = "http" if Section("", fields.telemetry_config).flag("insecure") else "https"
        endpoint = f"{scheme}://{endpoint}"
    signals: list[settings.Signal] = ["traces"] if section.flag("tracingEnabled", default=True) else []
    if section.flag("metricsEnabled", default=True):
        signals.append("metrics")
    rate = section.number("samplingRate")
    found = settings.Telemetry(
        prometheus=section.flag("enablePrometheusMetricsPath"),
        otlp_endpoint=endpoint if signals else None,
        otlp_signals=signals,
        otlp_headers=section.pairs("headers"),
        service_name=section.text("serviceName") or name,
        sampling_rate=0.1 if rate is None else float(rate),
    )
    section.close()
    on = found.prometheus or found.otlp_endpoint is not None
    return found if on else settings.Telemetry()


def _rates(fields: Fields) -> list[settings.RateLimit]:
    if fields.rate_limit_config is None:
        return []
    section = Section("rate_limit_config", fields.rate_limit_config)
    limits = _buckets(section, [])
    for index, entry in enumerate(cast("list[Json]", section.take("tools") or [])):
        tool = Section(f"rate_limit_config.tools[{index}]", entry)
        limits += _buckets(tool, [tool.needed("name")])
        tool.close()
    section.close()
    return limits


def _buckets(section: Section, tools: list[str]) -> list[settings.RateLimit]:
    found: list[settings.RateLimit] = []
    for key, per in (("shared", "server"), ("perUser", "principal")):
        given = section.take(key)
        if given is None:
            continue
        bucket = Section(f"{section.name}.{key}", cast("Json", given))
        count = int(bucket.number("maxTokens") or 0)
        seconds = seconds_of(f"{section.name}.{key}.refillPeriod", bucket.take("refillPeriod"))
        if count < 1 or not seconds:
            raise InvalidRunConfig(f"`{section.name}.{key}` needs `maxTokens` and `refillPeriod`")
        bucket.close()
        whose: list[settings.Per] = ["server"] if per == "server" else ["server", "principal"]
        found.append(settings.RateLimit(count, seconds, per=whose, tools=tools, methods=_CALLS))
    return found


def _webhooks(name: str, given: list[Json], secret: Secret) -> list[settings.Webhook]:
    found: list[settings.Webhook] = []
    for index, entry in enumerate(given):
        section = Section(f"{name}[{index}]", entry)
        tls = Section(f"{name}[{index}].tls_config", cast("Json", section.take("tlsConfig") or {}))
        if tls.flag("insecureSkipVerify"):
            raise InvalidRunConfig(
                f"`{tls.name}.insecure_skip_verify` is not supported: name the authority in `ca_bundle_path`"
            )
        signing = section.text("hmacSecretRef")
        policy = section.text("failurePolicy") or "fail"
        if policy not in ("fail", "ignore"):
            raise InvalidRunConfig(f"`{section.name}.failure_policy` must be `fail` or `ignore`")
        wait = seconds_of(f"{section.name}.timeout", section.take("timeout")) or 10.0
        if not 1 <= wait <= 30:
            raise InvalidRunConfig(f"`{section.name}.timeout` must be between 1 and 30 seconds")
        found.append(
            settings.Webhook(
                section.needed("name"),
                section.needed("url"),
                wait,
                policy,
                secret(signing) if signing else None,
                *(_file(tls, key) for key in ("caBundlePath", "clientCertPath", "clientKeyPath")),
            )
        )
        tls.close()
        section.close()
    return found


def _pem(given: str, section: Section, key: str, name: str) -> Path | None:
    """A file that is named in the section, or for everything."""
    own = section.text(key)
    found, named = (own, f"{section.name}.{snake(key)}") if own else (given, name)
    if not found:
        return None
    if key == "caCertPath":
        return _authorities(named, found)
    if not Path(_absolute(named, found)).is_file():
        raise InvalidRunConfig(f"`{named}`: there is no file `{found}`")
    return Path(found)


def _authorities(name: str, path: str) -> Path:
    try:
        trusting(Path(_absolute(name, path)))
    except OSError as error:
        why = "it holds no certificate" if isinstance(error, ssl.SSLError) else error.strerror
        raise InvalidRunConfig(f"`{name}`: `{path}` cannot be used: {why}") from error
    return Path(path)


def _file(section: Section, key: str) -> Path | None:
    given = section.text(key)
    return Path(_absolute(f"{section.name}.{snake(key)}", given)) if given else None


def _absolute(name: str, path: str) -> str:
    if not Path(path).is_absolute():
        raise InvalidRunConfig(f"`{name}`: `{path}` must be an absolute path: the gateway has another folder")
    return path


def _read(name: str, path: str) -> Json:
    try:
        return msgspec.json.decode(Path(_absolute(name, path)).read_bytes(), type=dict[str, Any])
    except (OSError, msgspec.DecodeError) as error:
        raise InvalidRunConfig(f"`{name}`: `{path}` cannot be read: {error}") from error
