"""Each part of the guard, made from its section. A part that is off is not even imported."""
# ruff: noqa: PLC0415 - libraries for policies, tokens and Redis take longer to load than a gateway to start

from __future__ import annotations

from mooring.config import guard_definitions, guard_outside, guard_records, guard_rules
from mooring.config.guard_part import Hooks, InForce, Part
from mooring.config.schema import Config, Server
from mooring.policy.authentication.proof import Authenticator
from mooring.transports.http_client import ClientPool, Origin
from mooring.transports.http_limits import ClientLimits


def parts_of(config: Config, hooks: Hooks) -> list[Part]:
    """What every server has, and the parts that are on."""
    return [Part(guard_rules.tool_steps), Part(guard_rules.saving_steps), *configured(config, hooks)]


def configured(config: Config, hooks: Hooks) -> list[Part]:
    """The parts that are on."""
    in_force = InForce()
    parts: list[Part] = []
    if config.authorization.type != "none":
        parts.append(guard_rules.authorization_part(config, in_force))
    if any(entry.approvals.tools for entry in config.servers):
        parts.append(guard_rules.approvals_part(config))
    if config.core.sanitize.mode != "off":
        parts.append(guard_definitions.sanitizing_part(config))
    if config.core.tool_definition_pinning.mode != "off":
        parts.append(guard_definitions.pinning_part(config, hooks))
    if config.core.tool_definition_lock.mode != "off":
        parts.append(guard_definitions.lock_part(config, in_force, hooks))
    if config.limits.rate or config.limits.concurrency:
        parts.append(guard_rules.limits_part(config))
    if config.audit.enabled:
        parts.append(guard_records.audit_part(config, in_force))
    if config.webhooks.mutating or config.webhooks.validating:
        parts.append(guard_outside.webhooks_part(config))
    if config.plugins:
        parts.append(guard_outside.plugins_part(config))
    if config.telemetry.prometheus:
        parts.append(guard_records.metrics_part(hooks))
    if config.telemetry.otlp_endpoint is not None:
        parts.append(guard_records.tracing_part(config.telemetry, config.telemetry.otlp_endpoint))
    return parts


# Who calls


def api_keys(config: Config, name: str) -> Authenticator:
    from mooring.policy.authentication.api_keys import ApiKeys, KeyStore

    return ApiKeys(KeyStore(config.auth.keys_file or config.storage.root / name))


def tokens(config: Config) -> Authenticator:
    from mooring.policy.authentication.tokens import ProviderSettings, Tokens

    auth = config.auth
    return Tokens(
        ProviderSettings(
            issuer=auth.issuer,
            jwks_url=auth.jwks_url,
            introspection_url=auth.introspection_url,
            client_id=auth.client_id,
            client_secret=auth.client_secret,
            algorithms=tuple(auth.algorithms),
            clock_skew_seconds=auth.clock_skew_seconds,
            allow_http=auth.insecure_allow_http,
        )
    )


# What we show to servers


def pool_for(entry: Server, limits: ClientLimits) -> ClientPool:
    """The connections to a remote server, with our credential on every request where one is configured."""
    assert entry.upstream is not None
    origin = Origin.of(entry.upstream.url)
    wanted = entry.upstream.auth
    if wanted.type == "none":
        return ClientPool(origin, limits)
    from mooring.policy.credentials.client_credentials import ClientCredentials, ClientSettings
    from mooring.policy.credentials.pool import CredentialPool
    from mooring.policy.credentials.sigv4 import AwsSignature, Keys

    if wanted.type == "client_credentials":
        settings = ClientSettings(
            wanted.token_url or "",
            wanted.client_id or "",
            wanted.client_secret or "",
            tuple(wanted.scopes),
            wanted.audience,
            wanted.resource,
        )
        return CredentialPool(origin, limits, ClientCredentials(settings))
    keys = Keys(wanted.access_key or "", wanted.secret_key or "", wanted.session_token)
    signature = AwsSignature(keys, wanted.region or "", wanted.service, origin.authority)
    return CredentialPool(origin, limits, signature)
