"""Parts of the guard that write down: metrics, traces and the audit."""
# ruff: noqa: PLC0415 - libraries for policies, tokens and Redis take longer to load than a gateway to start

from __future__ import annotations

from functools import partial

from mooring.config.guard_part import Hooks, InForce, Part
from mooring.config.schema import Config, Server
from mooring.policy import settings
from mooring.policy.catalogue import Catalogue
from mooring.policy.chain import Step
from mooring.policy.watching import Watch

AUDIT_FILE = "audit.log"
AUDIT_KEY = "audit.key"


def metrics_part(wanted: settings.Telemetry, hooks: Hooks) -> Part:
    from mooring.policy.telemetry.metrics import Metrics, ServerMetrics

    metrics = hooks.numbers = hooks.numbers or Metrics()
    page = metrics.text if wanted.prometheus else None

    def steps(entry: Server, catalogue: Catalogue, watch: Watch) -> list[Step]:
        del catalogue
        observer = ServerMetrics(metrics, entry.id)
        watch.metrics = observer
        return [Step("telemetry", observer=observer)]

    if wanted.otlp_endpoint is None or "metrics" not in wanted.otlp_signals:
        return Part(steps, page=page)
    from mooring.policy.telemetry.otlp import METRICS_SECONDS, Courier, Figures

    url = f"{wanted.otlp_endpoint.rstrip('/')}/v1/metrics"
    figures = Figures(metrics, wanted.service_name)
    courier = Courier(url, wanted.otlp_headers, figures, METRICS_SECONDS)
    return Part(steps, page=page, close=courier.close)


def tracing_part(wanted: settings.Telemetry, endpoint: str) -> Part:
    from mooring.policy.telemetry.tracing import ServerTracing, Tracing

    tracing = Tracing(endpoint, wanted.otlp_headers, wanted.service_name, wanted.sampling_rate)

    def steps(entry: Server, catalogue: Catalogue, watch: Watch) -> list[Step]:
        del catalogue, watch
        return [Step("telemetry", observer=ServerTracing(tracing, entry.id))]

    return Part(steps, close=tracing.close)


def audit_part(config: Config, hooks: Hooks, in_force: InForce) -> Part:
    from mooring.policy.audit.ledger import Sink, StandardOutput
    from mooring.policy.audit.ledgers import Ledgers
    from mooring.policy.audit.observing import Audit, AuditPolicy, ServerAudit

    wanted = config.audit
    root = config.storage.root
    ledgers: Ledgers = hooks.kept.setdefault("audit", Ledgers())
    sink: Sink = StandardOutput()
    close = sink.close
    telemetry = config.telemetry
    if wanted.output == "otlp":
        from mooring.policy.audit.collector import Collector

        assert telemetry.otlp_endpoint is not None
        sink = Collector(telemetry.otlp_endpoint, telemetry.otlp_headers, telemetry.service_name)
        close = sink.close
    elif wanted.output == "file":
        sink = ledger = ledgers.open(
            wanted.file or root / AUDIT_FILE,
            root / AUDIT_KEY,
            rotate_bytes=wanted.rotate_bytes,
            keep_files=wanted.keep_files,
            sync=wanted.sync,
        )
        close = partial(ledgers.close, ledger)
    policy = AuditPolicy(
        component=wanted.component,
        types=frozenset(wanted.event_types),
        excluded=frozenset(wanted.exclude_event_types),
        request_data=wanted.include_request_data,
        response_data=wanted.include_response_data,
        application_errors=wanted.detect_application_errors,
        max_data_bytes=wanted.max_data_bytes,
        claims=wanted.include_claims,
        max_delegation_depth=wanted.max_delegation_depth,
    )
    audit = Audit(sink, policy, in_force.versions)
    observers: list[ServerAudit] = []

    def steps(entry: Server, catalogue: Catalogue, watch: Watch) -> list[Step]:
        observer = ServerAudit(audit, entry.id, catalogue, entry.group or "")
        watch.audit = observer
        watch.troubles.append(audit.trouble)
        old = [each for each in observers if each.is_busy or each.server_id != entry.id]
        observers[:] = [*old, observer]
        return [Step("audit", observer=observer, check=observer.check)]

    return Part(steps, audit.tidy, is_busy=lambda: any(each.is_busy for each in observers), close=close)
