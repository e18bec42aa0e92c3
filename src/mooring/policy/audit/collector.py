"""Audit events for an OTLP collector."""

from __future__ import annotations

from collections.abc import Mapping

from mooring.policy.audit.ledger import GENESIS, line_hash
from mooring.policy.telemetry.otlp import EVENTS_SECONDS, Courier, EventLog


class Collector:
    """Events on their way to a collector: they leave a moment later, and wait while it is away."""

    def __init__(self, endpoint: str, headers: Mapping[str, str], service_name: str) -> None:
        self.seq = 0
        self.prev = GENESIS
        self._events = EventLog(service_name)
        self._courier = Courier(f"{endpoint.rstrip('/')}/v1/logs", headers, self._events, EVENTS_SECONDS)

    def append(self, line: bytes) -> None:
        self._events.put(line)
        self.seq += 1
        self.prev = line_hash(line)

    def tidy(self) -> None:
        """There is nothing to seal."""

    def close(self) -> None:
        self._courier.close()
