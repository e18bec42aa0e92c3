"""What the API shows of workloads and groups."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from time import monotonic
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from mooring.workloads.runtime import Resolved
from mooring.workloads.store import Group
from mooring.workloads.supervisor_dialer import transports_of
from mooring.workloads.supervisor_start import read_resolved
from mooring.workloads.supervisor_workload import Workload

UrlOf = Callable[[str], str]


class WorkloadView(Struct, frozen=True):
    """A workload as lists show it."""

    name: str
    package: Annotated[str, Meta(description="What runs: an image, a package, a command or a URL.")]
    url: Annotated[str, Meta(description="Where clients reach it. It never changes.")]
    own_url: Annotated[str | None, Meta(description="Its address of its own, where it asked for a port.")]
    status: Annotated[
        str,
        Meta(
            description="starting, running, stopping, stopped, removing, error, unhealthy, unauthenticated, "
            "auth_retrying, unknown or policy_stopped."
        ),
    ]
    status_context: Annotated[str, Meta(description="Why, where that is not plain.")]
    group: str
    transport_type: str
    proxy_mode: str
    created_at: str
    started_at: str | None
    labels: dict[str, str]
    tools: Annotated[list[str], Meta(description="The only tools that are shown; empty: all.")]
    remote: bool
    declared: Annotated[bool, Meta(description="It stands in the configuration file.")]
    runtime: str | None
    sandbox: str
    permission_profile: str
    share: str


class WorkloadDetail(WorkloadView, frozen=True):
    """One workload, closely."""

    pids: list[int]
    memory_bytes: int | None
    cpu_seconds: float | None
    processes: int | None
    failures: int
    sessions: int
    in_flight: int
    calls: int
    errors: int
    last_sign_of_life_seconds_ago: float | None
    version: str | None
    integrity: str | None
    refused_connections: int
    notes: list[str]


class WorkloadList(Struct, frozen=True):
    workloads: list[WorkloadView]


class GroupView(Struct, frozen=True):
    """A group and what is in it."""

    name: str
    created_at: str
    workloads: list[str]
    clients: Annotated[list[str], Meta(description="The registered clients that see all of it.")]


class GroupList(Struct, frozen=True):
    groups: list[GroupView]


def view_of(workload: Workload, url_of: UrlOf) -> WorkloadView:
    """The short form."""
    fields = workload.config.fields
    given = fields.permission_profile_name_or_path
    profile = "custom" if fields.permission_profile is not None else given or "none"
    return WorkloadView(
        name=workload.name,
        package=workload.config.package,
        url=workload.config.told(url_of(workload.name)),
        own_url=workload.own_url,
        status=workload.status.phase.value,
        status_context=workload.status.context,
        group=workload.record.group,
        transport_type=fields.transport or transports_of(workload.config)[0].value.replace("_", "-"),
        proxy_mode=fields.proxy_mode or "streamable-http",
        created_at=timestamp(workload.record.created_at),
        started_at=None if workload.started_at is None else timestamp(workload.started_at),
        labels=fields.container_labels,
        tools=fields.tools_filter,
        remote=workload.config.is_remote,
        declared=workload.declared,
        runtime=workload.record.runtime,
        sandbox=fields.mooring.sandbox,
        permission_profile=profile,
        share=fields.mooring.share,
    )


async def detail_of(workload: Workload, url_of: UrlOf) -> WorkloadDetail:
    """The long form."""
    now = monotonic()
    running, upstream = workload.running, workload.server.upstream
    usage = None if running is None else await running.usage()
    known = workload.record.resolved
    resolved = Resolved() if known is None else read_resolved(known)
    alive_at = workload.status.alive_at
    return WorkloadDetail(
        **msgspec.structs.asdict(view_of(workload, url_of)),
        pids=[] if running is None else list(running.pids),
        memory_bytes=None if usage is None else usage.memory_bytes,
        cpu_seconds=None if usage is None else usage.cpu_seconds,
        processes=None if usage is None else usage.processes,
        failures=workload.status.failures,
        sessions=upstream.session_count,
        in_flight=len(workload.server.exchanges),
        calls=upstream.health.calls,
        errors=upstream.health.errors,
        last_sign_of_life_seconds_ago=None if alive_at is None else round(now - alive_at, 1),
        version=resolved.version,
        integrity=resolved.integrity,
        refused_connections=0 if running is None else len(running.refusals),
        notes=list(workload.config.notes),
    )


def group_view(group: Group, members: list[Workload], clients: list[str]) -> GroupView:
    names = sorted(workload.name for workload in members)
    return GroupView(group.name, timestamp(group.created_at), names, clients)


def timestamp(seconds: float) -> str:
    """RFC 3339, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
