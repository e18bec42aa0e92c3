"""Each part of the guard, made from its section. A part that is off is not even imported."""
# ruff: noqa: PLC0415 - libraries for policies, tokens and Redis take longer to load than a gateway to start

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from mooring.config import guard_definitions, guard_outside, guard_records, guard_rules
from mooring.config.guard_part import Hooks, InForce, Part
from mooring.config.schema import Config
from mooring.policy.authentication.proof import Authenticator

Parts = dict[str, tuple[object, Part]]
"""Parts by their names, each with that of the configuration which it was made from."""
Wish = tuple[str, object, Callable[[], Part]]
"""A part that is to be: its name, what it depends on, and how it is made."""


def parts_of(config: Config, hooks: Hooks, in_force: InForce, earlier: Parts) -> Parts:
    """What every server may have by itself, and the parts that are on."""
    return _made([*_always(config, hooks), *_wanted(config, hooks, in_force)], earlier)


def configured(config: Config, hooks: Hooks, in_force: InForce, earlier: Parts) -> Parts:
    """The parts that are on."""
    return _made(_wanted(config, hooks, in_force), earlier)


def _made(wanted: Iterable[Wish], earlier: Parts) -> Parts:
    """One whose configuration did not change goes on as it is."""
    made: Parts = {}
    try:
        for name, given, make in wanted:
            known = earlier.get(name)
            made[name] = known if known is not None and known[0] == given else (given, make())
    except BaseException:
        for name, (given, part) in made.items():
            if earlier.get(name) != (given, part) and part.close is not None:
                part.close()
        raise
    return made


def _always(config: Config, hooks: Hooks) -> Iterator[Wish]:
    core = config.core
    yield "tools", (config.uploads, config.results), lambda: guard_rules.tools_part(config)
    yield "savings", (), lambda: Part(guard_rules.saving_steps)
    yield "sanitizing", core.sanitize, lambda: guard_definitions.sanitizing_part(config)
    given = core.tool_definition_pinning
    yield "pinning", given, lambda: guard_definitions.pinning_part(config, hooks)


def _wanted(config: Config, hooks: Hooks, in_force: InForce) -> Iterator[Wish]:
    core, limits = config.core, config.limits
    if config.authorization.type != "none":
        yield "authorization", config.authorization, lambda: guard_rules.authorization_part(config)
    if any(entry.approvals.tools for entry in config.servers):
        yield "approvals", (), lambda: guard_rules.approvals_part(config)
    if core.tool_definition_lock.mode != "off":
        yield "lock", core.tool_definition_lock, lambda: guard_definitions.lock_part(config, hooks)
    if limits.rate or limits.concurrency:
        counted = (limits.rate, limits.concurrency, limits.rate_store)
        yield "limits", counted, lambda: guard_rules.limits_part(config)
    if config.audit.enabled:
        collector = config.telemetry if config.audit.output == "otlp" else None
        yield "audit", (config.audit, collector), lambda: guard_records.audit_part(config, hooks, in_force)
    if config.webhooks.mutating or config.webhooks.validating:
        yield "webhooks", config.webhooks, lambda: guard_outside.webhooks_part(config)
    if config.plugins:
        yield "plugins", config.plugins, lambda: guard_outside.plugins_part(config)
    telemetry, endpoint = config.telemetry, config.telemetry.otlp_endpoint
    signals = telemetry.otlp_signals if endpoint is not None else []
    if telemetry.prometheus or "metrics" in signals:
        yield "metrics", telemetry, lambda: guard_records.metrics_part(telemetry, hooks)
    if endpoint is not None and "traces" in signals:
        yield "tracing", telemetry, lambda: guard_records.tracing_part(telemetry, endpoint)


# Who calls


def api_keys(file: Path) -> Authenticator:
    from mooring.policy.authentication.api_keys import ApiKeys, KeyStore

    return ApiKeys(KeyStore(file))


def shared_token(config: Config) -> Authenticator:
    from mooring.policy.authentication.shared_token import SharedToken

    assert config.auth.shared_token is not None, "checked with the configuration"
    return SharedToken(config.auth.shared_token)


def tokens(config: Config) -> Authenticator:
    from mooring.policy.authentication.keyset import Asking
    from mooring.policy.authentication.tokens import ProviderSettings, Tokens
    from mooring.transports.http_client import trusting

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
            asking=Asking(
                auth.insecure_allow_http,
                trusting(auth.ca_bundle) if auth.ca_bundle else None,
                auth.jwks_token_file,
            ),
        )
    )
