"""Each part of the guard, made from its section. A part that is off is not even imported."""
# ruff: noqa: PLC0415 - libraries for policies, tokens and Redis take longer to load than a gateway to start

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Final

import msgspec

from mooring import durable
from mooring.config import savings
from mooring.config.schema import Config, Server
from mooring.gateway.exchange import Client
from mooring.policy import settings
from mooring.policy.authentication.proof import Authenticator
from mooring.policy.catalogue import Catalogue
from mooring.policy.chain import Step
from mooring.policy.items import TOOLS
from mooring.policy.limits.rules import Limit
from mooring.policy.settings import ConcurrencyLimit, RateLimit, Tools
from mooring.policy.tools import Override, ToolRules
from mooring.policy.watching import Watch
from mooring.transports.http_client import ClientPool, Origin
from mooring.transports.http_limits import ClientLimits

log = logging.getLogger(__name__)

AUDIT_FILE = "audit.log"
AUDIT_KEY = "audit.key"
OBSERVED = "definitions"
Steps = Callable[[Server, Catalogue, Watch], list[Step]]


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the guard: its steps for a server, and what it has to do from time to time."""

    steps: Steps
    tidy: Callable[[], None] | None = None
    close: Callable[[], None] | None = None


@dataclass(slots=True)
class Hooks:
    """What the guard may ask of the gateway around it."""

    end_session: Callable[[Client], None] | None = None
    metrics: Callable[[], str] | None = None
    """The page for Prometheus, if there is one."""

    def ended(self, client: Client) -> None:
        """A session is to end. The hook may be set after the guard was made."""
        if self.end_session is not None:
            self.end_session(client)


@dataclass(slots=True)
class InForce:
    """The versions of what is in force, for the audit."""

    policy: Callable[[], str] = str
    lock: Callable[[], str] = str

    def versions(self) -> tuple[str, str]:
        return self.policy(), self.lock()


def parts_of(config: Config, hooks: Hooks) -> list[Part]:
    """The parts that are on."""
    in_force = InForce()
    parts = [Part(_tool_steps), Part(_saving_steps)]
    if config.authorization.type != "none":
        parts.append(_authorization(config, in_force))
    if any(entry.approvals.tools for entry in config.servers):
        parts.append(_approvals(config))
    if config.core.sanitize.mode != "off":
        parts.append(_sanitizing(config))
    if config.core.tool_definition_pinning.mode != "off":
        parts.append(_pinning(config, hooks))
    if config.core.tool_definition_lock.mode != "off":
        parts.append(_lock(config, in_force))
    if config.limits.rate or config.limits.concurrency:
        parts.append(_limits(config))
    if config.audit.enabled:
        parts.append(_audit(config, in_force))
    if config.webhooks.mutating or config.webhooks.validating:
        parts.append(_webhooks(config))
    if config.plugins:
        parts.append(_plugins(config))
    if config.telemetry.prometheus:
        parts.append(_metrics(hooks))
    if config.telemetry.otlp_endpoint is not None:
        parts.append(_tracing(config.telemetry, config.telemetry.otlp_endpoint))
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


# What is shown


def _tool_steps(entry: Server, catalogue: Catalogue, watch: Watch) -> list[Step]:
    del catalogue, watch
    if entry.tools == Tools():
        return []
    rules = tool_rules(entry.tools)
    return [
        Step(
            "filter and override",
            check=rules.check,
            present=rules.present,
            needs_catalogue=True,
            methods=frozenset({"tools/list", "tools/call"}),
        )
    ]


def _saving_steps(entry: Server, catalogue: Catalogue, watch: Watch) -> list[Step]:
    del catalogue, watch
    return savings.steps(entry.savings)


def tool_rules(tools: Tools) -> ToolRules:
    overrides = {
        name: Override(
            name=entry.name,
            description=entry.description,
            title=entry.title,
            annotations={
                hint: value
                for hint, value in msgspec.structs.asdict(entry.annotations).items()
                if value is not None
            },
        )
        for name, entry in tools.override.items()
    }
    return ToolRules(tools.allow, tools.deny, overrides)


# What is allowed


def _authorization(config: Config, in_force: InForce) -> Part:
    from mooring.policy.authorization.engine import Engine
    from mooring.policy.authorization.guarding import Authorization

    wanted = config.authorization
    engine = Engine(
        tuple(wanted.policies),
        wanted.entities,
        group_claim=wanted.group_claim,
        role_claim=wanted.role_claim,
    )
    in_force.policy = lambda: engine.version

    def steps(entry: Server, catalogue: Catalogue, watch: Watch) -> list[Step]:
        del watch
        rule = Authorization(engine, catalogue, entry.id, entry.group)
        return [
            Step(
                "authorization",
                check=rule.check,
                present=rule.present,
                settle=rule.settle,
                needs_catalogue=True,
            )
        ]

    return Part(steps, tidy=engine.refresh)


def _approvals(config: Config) -> Part:
    from mooring.policy.approvals import FOLDER, Approvals, Requests

    requests = Requests(config.storage.root / FOLDER)

    def steps(entry: Server, catalogue: Catalogue, watch: Watch) -> list[Step]:
        del watch
        if not entry.approvals.tools:
            return []
        asking = Approvals(
            requests,
            entry.id,
            entry.approvals.tools,
            entry.approvals.ttl_seconds,
            lambda exchange, name: catalogue.view(exchange, TOOLS).digest(name),
        )
        return [Step("approvals", middleware=asking, methods=LISTED_AND_CALLED)]

    return Part(steps)


# What is pinned

LISTED: Final = frozenset({"tools/list"})
LISTED_AND_CALLED: Final = frozenset({"tools/list", "tools/call"})


def _sanitizing(config: Config) -> Part:
    from mooring.policy.pinning.sanitizing import Sanitizer, Sanitizing

    wanted = config.core.sanitize
    assert wanted.mode != "off"
    sanitizer = Sanitizer(
        wanted.mode, wanted.max_title_chars, wanted.max_description_chars, wanted.max_schema_text_chars
    )

    def steps(entry: Server, catalogue: Catalogue, watch: Watch) -> list[Step]:
        del catalogue, watch
        cleaning = Sanitizing(sanitizer, entry.id)
        methods = LISTED_AND_CALLED if wanted.mode == "block" else LISTED
        check = cleaning.check if wanted.mode == "block" else None
        return [
            Step(
                "pinning and lock",
                check=check,
                present=cleaning.present,
                needs_catalogue=wanted.mode == "block",
                methods=methods,
            )
        ]

    return Part(steps)


def _pinning(config: Config, hooks: Hooks) -> Part:
    from mooring.policy.pinning.session import Pinning

    wanted = config.core.tool_definition_pinning
    assert wanted.mode != "off"
    mode = wanted.mode
    ends = mode == "block" and wanted.block_error_session_action == "invalidate"

    def steps(entry: Server, catalogue: Catalogue, watch: Watch) -> list[Step]:
        del entry, catalogue
        pinning = Pinning(
            mode,
            wanted.block_strategy,
            report=watch.drifted,
            end_session=hooks.ended if ends else None,
        )
        if mode == "warn":
            return [Step("pinning and lock", settle=pinning.settle, methods=LISTED)]
        return [
            Step("pinning and lock", check=pinning.check, settle=pinning.settle, methods=LISTED_AND_CALLED)
        ]

    return Part(steps)


def _lock(config: Config, in_force: InForce) -> Part:
    from mooring.policy.pinning.lock import LOCK_PLACE, LockFile, ServerLock

    wanted = config.core.tool_definition_lock
    assert wanted.mode != "off"
    mode = wanted.mode
    lock = LockFile(wanted.file)
    folder = durable.private_folder(config.storage.root / OBSERVED)
    durable.replace_file(folder / LOCK_PLACE, str(wanted.file).encode())
    in_force.lock = lambda: lock.hash

    def steps(entry: Server, catalogue: Catalogue, watch: Watch) -> list[Step]:
        observed = folder / f"{entry.id}.json"
        applied = ServerLock(lock, entry.id, catalogue, observed, mode=mode, report=watch.drifted)
        return [
            Step(
                "pinning and lock",
                check=applied.check,
                present=applied.present,
                needs_catalogue=mode == "block",
                methods=LISTED_AND_CALLED,
            )
        ]

    return Part(steps, tidy=lock.refresh)


# How much


def _limits(config: Config) -> Part:
    from mooring.policy.limits.counting import Concurrency, Rates, ServerConcurrency, ServerRates

    limits = [_rate(number, limit) for number, limit in enumerate(config.limits.rate, 1)]
    store = config.limits.rate_store
    shared = _shared_rates(config, limits) if limits and store.url is not None else None
    rates = Rates(limits) if limits and store.url is None else None
    together = Concurrency([_concurrency(n, limit) for n, limit in enumerate(config.limits.concurrency, 1)])

    def steps(entry: Server, catalogue: Catalogue, watch: Watch) -> list[Step]:
        del catalogue
        found = shared(entry) if shared is not None else []
        if rates is not None:
            counted = ServerRates(rates, entry.id)
            watch.rates = counted
            found.append(Step("rate limits", check=counted.check))
        if config.limits.concurrency:
            running = ServerConcurrency(together, entry.id)
            found.append(Step("rate limits", observer=running, check=running.check))
        return found

    return Part(steps)


def _shared_rates(config: Config, limits: list[Limit]) -> Callable[[Server], list[Step]]:
    from mooring.policy.limits.shared import ServerSharedRates, SharedRates

    store = config.limits.rate_store
    assert store.url is not None
    shared = SharedRates(store.url, limits, fails_open=store.when_unavailable == "open")
    return lambda entry: [Step("rate limits", middleware=ServerSharedRates(shared, entry.id))]


def _rate(number: int, limit: RateLimit) -> Limit:
    return Limit(
        f"rate {number}",
        tuple(limit.per),
        limit.count,
        limit.seconds,
        limit.burst,
        tuple(limit.servers),
        tuple(limit.tools),
        tuple(limit.methods),
    )


def _concurrency(number: int, limit: ConcurrencyLimit) -> Limit:
    return Limit(
        f"concurrency {number}",
        tuple(limit.per),
        limit.count,
        0,
        servers=tuple(limit.servers),
        tools=tuple(limit.tools),
    )


# What others say


def _webhooks(config: Config) -> Part:
    from mooring.policy.webhooks import Mutating, Validating, Webhook

    def made(given: list[settings.Webhook]) -> tuple[Webhook, ...]:
        return tuple(
            Webhook(
                hook.name,
                hook.url,
                hook.timeout_seconds,
                hook.failure_policy,
                hook.hmac_secret,
                hook.ca_bundle,
                hook.client_cert,
                hook.client_key,
            )
            for hook in given
        )

    mutating, validating = made(config.webhooks.mutating), made(config.webhooks.validating)

    def steps(entry: Server, catalogue: Catalogue, watch: Watch) -> list[Step]:
        del catalogue, watch
        found: list[Step] = []
        if mutating:
            found.append(Step("mutating webhooks", middleware=Mutating(mutating, entry.id)))
        if validating:
            found.append(Step("validating webhooks", middleware=Validating(validating, entry.id)))
        return found

    return Part(steps)


def _plugins(config: Config) -> Part:
    from mooring.policy.plugins import NOTHING, factory

    makers = [(plugin, factory(plugin.name)) for plugin in config.plugins if plugin.name not in NOTHING]
    for plugin in config.plugins:
        if plugin.name in NOTHING:
            log.warning(
                "the middleware `%s` is accepted and does nothing: %s", plugin.name, NOTHING[plugin.name]
            )

    def steps(entry: Server, catalogue: Catalogue, watch: Watch) -> list[Step]:
        del catalogue, watch
        return [
            Step("plug-ins", middleware=make(entry.id, plugin.settings))
            for plugin, make in makers
            if not plugin.servers or any(fnmatchcase(entry.id, pattern) for pattern in plugin.servers)
        ]

    return Part(steps)


# What is recorded


def _metrics(hooks: Hooks) -> Part:
    from mooring.policy.telemetry.metrics import Metrics, ServerMetrics

    metrics = Metrics()
    hooks.metrics = metrics.text

    def steps(entry: Server, catalogue: Catalogue, watch: Watch) -> list[Step]:
        del catalogue
        observer = ServerMetrics(metrics, entry.id)
        watch.metrics = observer
        return [Step("telemetry", observer=observer)]

    return Part(steps)


def _tracing(wanted: settings.Telemetry, endpoint: str) -> Part:
    from mooring.policy.telemetry.tracing import ServerTracing, Tracing

    tracing = Tracing(endpoint, wanted.otlp_headers, wanted.service_name, wanted.sampling_rate)

    def steps(entry: Server, catalogue: Catalogue, watch: Watch) -> list[Step]:
        del catalogue, watch
        return [Step("telemetry", observer=ServerTracing(tracing, entry.id))]

    return Part(steps, close=tracing.close)


def _audit(config: Config, in_force: InForce) -> Part:
    from mooring.policy.audit.ledger import Ledger, SigningKey, Sink, StandardOutput
    from mooring.policy.audit.observing import Audit, AuditPolicy, ServerAudit

    wanted = config.audit
    root = config.storage.root
    sink: Sink = StandardOutput()
    if wanted.output == "file":
        sink = Ledger(
            wanted.file or root / AUDIT_FILE,
            SigningKey(root / AUDIT_KEY),
            rotate_bytes=wanted.rotate_bytes,
            keep_files=wanted.keep_files,
            sync=wanted.sync,
        )
    policy = AuditPolicy(
        component=wanted.component,
        types=frozenset(wanted.event_types),
        excluded=frozenset(wanted.exclude_event_types),
        request_data=wanted.include_request_data,
        response_data=wanted.include_response_data,
        application_errors=wanted.detect_application_errors,
        max_data_bytes=wanted.max_data_bytes,
        claims=wanted.include_claims,
    )
    audit = Audit(sink, policy, in_force.versions)

    def steps(entry: Server, catalogue: Catalogue, watch: Watch) -> list[Step]:
        observer = ServerAudit(
            audit, entry.id, lambda exchange, name: catalogue.view(exchange, TOOLS).digest(name)
        )
        watch.audit = observer
        return [Step("audit", observer=observer)]

    return Part(steps, tidy=audit.tidy, close=audit.close)
