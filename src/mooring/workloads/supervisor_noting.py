"""What a running workload says and does, written where people look for it."""

from __future__ import annotations

import logging
from typing import assert_never

from mooring.gateway.tracing import Tracer
from mooring.workloads.logs import WorkloadLog
from mooring.workloads.runtime import Ended, Event, Refused, Said, Spawned, Strayed

log = logging.getLogger(__name__)


def note(event: Event, name: str, workload_log: WorkloadLog, tracer: Tracer, *, aloud: bool) -> None:
    """Into its own log and its trace; `aloud` into the gateway's log as well."""
    match event:
        case Said(data):
            workload_log.server_said(data)
            text = data.decode("utf-8", "replace")
            if aloud:  # whoever runs the gateway from a file watches its log
                for line in text.splitlines():
                    log.info("%s: %s", name, line)
            if tracer.active:
                tracer.noted("server", "stderr", text.strip()[:2000], data, "noise")
        case Strayed(data):  # the gateway's log and the trace have it already
            workload_log.server_said(b"not a message, on its stdout: " + data.rstrip() + b"\n")
        case Spawned(pid):
            workload_log.happened(f"process {pid} started")
        case Refused():
            workload_log.refused(f"{event.target}: {event.reason}")
        case Ended():
            workload_log.happened(f"process {event.pid} {event.reason}")
        case _:
            assert_never(event)
