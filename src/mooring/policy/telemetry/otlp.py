"""Numbers and events for an OTLP collector, over HTTP: encoded here, sent from a thread of their own."""

from __future__ import annotations

import http.client
import logging
import threading
import time
import urllib.request
from collections import deque
from collections.abc import Mapping
from typing import Final, Protocol

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import SEVERITY_NUMBER_INFO, LogRecord, ResourceLogs
from opentelemetry.proto.metrics.v1.metrics_pb2 import (
    AGGREGATION_TEMPORALITY_CUMULATIVE,
    HistogramDataPoint,
    Metric,
    NumberDataPoint,
    ResourceMetrics,
)

from mooring.policy.telemetry.metrics import BUCKETS, Labels, Metrics

log = logging.getLogger(__name__)

SEND_SECONDS: Final = 10.0
METRICS_SECONDS: Final = 5.0
EVENTS_SECONDS: Final = 0.5
BATCH: Final = 500
MOST_WAITING: Final = 20_000
"""Events that wait for a collector which is away; older ones are lost then, and it is said."""
CONVENTIONS: Final = {"server": "mooring.server", "method": "mcp.method.name", "tool": "gen_ai.tool.name"}
"""Our labels, in the words of OpenTelemetry's conventions for MCP."""
DURATION: Final = "mcp.server.operation.duration"


class Freight(Protocol):
    """What there is to send."""

    def next(self) -> bytes | None:
        """The same until it was `sent`; None: nothing."""
        ...

    def sent(self) -> None: ...


class Courier:
    """Sends freight every so often; what cannot be sent is tried again, and it is said once."""

    def __init__(self, url: str, headers: Mapping[str, str], freight: Freight, every_seconds: float) -> None:
        self._url = url
        self._headers = {**headers, "content-type": "application/x-protobuf"}
        self._freight = freight
        self._every = every_seconds
        self._away = False
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="otlp", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Send what is left, and end."""
        self._stopped.set()
        self._thread.join(SEND_SECONDS)

    def _run(self) -> None:
        while not self._stopped.wait(self._every):
            self._deliver()
        self._deliver()

    def _deliver(self) -> None:
        while (body := self._freight.next()) is not None:
            try:
                request = urllib.request.Request(self._url, body, self._headers, method="POST")  # noqa: S310 - as configured
                with urllib.request.urlopen(request, timeout=SEND_SECONDS) as response:  # noqa: S310
                    response.read()
            except (OSError, http.client.HTTPException, ValueError) as error:
                if not self._away:
                    log.error("`%s` cannot be reached: %s; trying again", self._url, error)  # noqa: TRY400
                self._away = True
                return
            if self._away:
                log.info("`%s` can be reached again", self._url)
            self._away = False
            self._freight.sent()


class EventLog:
    """Lines for a collector, each an event of its own."""

    def __init__(self, service_name: str) -> None:
        self._resource = _resource(service_name)
        self._waiting: deque[tuple[int, bytes]] = deque()
        self._batch: list[tuple[int, bytes]] = []
        self._lost = 0

    def put(self, line: bytes) -> None:
        self._waiting.append((time.time_ns(), line))
        if len(self._waiting) > MOST_WAITING:
            self._waiting.popleft()
            self._lost += 1

    def next(self) -> bytes | None:
        if self._lost:
            log.error("%d audit events are lost: the collector was away for too long", self._lost)
            self._lost = 0
        while self._waiting and len(self._batch) < BATCH:
            self._batch.append(self._waiting.popleft())
        if not self._batch:
            return None
        logs = ResourceLogs()
        logs.resource.attributes.append(self._resource)
        scope = logs.scope_logs.add()
        scope.scope.name = "mooring.audit"
        scope.log_records.extend(_event(*entry) for entry in self._batch)
        return ExportLogsServiceRequest(resource_logs=[logs]).SerializeToString()

    def sent(self) -> None:
        self._batch.clear()


def _event(nanoseconds: int, line: bytes) -> LogRecord:
    return LogRecord(
        time_unix_nano=nanoseconds,
        observed_time_unix_nano=nanoseconds,
        severity_number=SEVERITY_NUMBER_INFO,
        severity_text="INFO",
        event_name="mooring.audit",
        body=AnyValue(string_value=line.decode()),
    )


class Figures:
    """All series of a gateway, as they stand."""

    def __init__(self, metrics: Metrics, service_name: str) -> None:
        self._metrics = metrics
        self._resource = _resource(service_name)
        self._began = time.time_ns()
        self._is_due = True

    def next(self) -> bytes | None:
        self._is_due = not self._is_due
        if self._is_due:  # once a round is enough
            return None
        figures = ResourceMetrics()
        figures.resource.attributes.append(self._resource)
        scope = figures.scope_metrics.add()
        scope.scope.name = "mooring"
        now = time.time_ns()
        scope.metrics.extend(self._counters(now))
        scope.metrics.append(self._durations(now))
        active = Metric(name="mooring.active_requests")
        active.gauge.data_points.append(NumberDataPoint(time_unix_nano=now, as_int=self._metrics.active))
        scope.metrics.append(active)
        return ExportMetricsServiceRequest(resource_metrics=[figures]).SerializeToString()

    def sent(self) -> None:
        """They are counted on."""

    def _counters(self, now: int) -> list[Metric]:
        found: list[Metric] = []
        for name, series in self._metrics.counters().items():
            metric = Metric(name=name.removesuffix("_total").replace("mooring_", "mooring.", 1))
            metric.sum.aggregation_temporality = AGGREGATION_TEMPORALITY_CUMULATIVE
            metric.sum.is_monotonic = True
            for labels, value in series.items():
                point = metric.sum.data_points.add(time_unix_nano=now, as_int=value)
                point.start_time_unix_nano = self._began
                point.attributes.extend(_attributes(labels))
            found.append(metric)
        return found

    def _durations(self, now: int) -> Metric:
        metric = Metric(name=DURATION, unit="s")
        metric.histogram.aggregation_temporality = AGGREGATION_TEMPORALITY_CUMULATIVE
        for labels, numbers in self._metrics.histograms().items():
            counts = [int(number) for number in numbers[:-1]]
            point = HistogramDataPoint(
                start_time_unix_nano=self._began,
                time_unix_nano=now,
                count=sum(counts),
                sum=numbers[-1],
                bucket_counts=counts,
                explicit_bounds=BUCKETS,
            )
            point.attributes.extend(_attributes(labels))
            metric.histogram.data_points.append(point)
        return metric


def _attributes(labels: Labels) -> list[KeyValue]:
    return [_pair(CONVENTIONS.get(name, name), value) for name, value in labels]


def _resource(service_name: str) -> KeyValue:
    return _pair("service.name", service_name)


def _pair(name: str, value: str) -> KeyValue:
    return KeyValue(key=name, value=AnyValue(string_value=value))
