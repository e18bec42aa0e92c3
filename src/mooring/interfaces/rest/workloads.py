"""Operations on workloads: run, list, start, stop, restart, remove, logs, export, move."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta, Struct

from mooring.errors import MooringError
from mooring.interfaces.rest.failures import ErrorBody, described, failure_of
from mooring.interfaces.rest.operations import LINES, TAKEN, ApiError, Call, Operation
from mooring.interfaces.rest.views import (
    UrlOf,
    WorkloadDetail,
    WorkloadList,
    WorkloadView,
    detail_of,
    view_of,
)
from mooring.workloads.groups import Groups
from mooring.workloads.logs import Kind, Line
from mooring.workloads.runconfig import Fields, RunConfig
from mooring.workloads.secrets.errors import KeyUnavailable
from mooring.workloads.supervisor import Supervisor
from mooring.workloads.supervisor_workload import Workload

Step = Callable[[Workload], None]
FOLLOW_LINES: Final = 1000


class ListQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which workloads to list."""

    group: Annotated[str | None, Meta(description="Only those of this group.")] = None
    label: Annotated[
        list[str], Meta(description="Only those with this label, `key` or `key=value`; may be repeated.")
    ] = msgspec.field(default_factory=list[str])


class LogsQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which lines to send."""

    lines: Annotated[int, Meta(ge=0, le=100_000, description="How many of the last lines.")] = 100
    kind: Annotated[
        list[Kind], Meta(description="`server`, `events` or `network`; may be repeated; none: the first two.")
    ] = msgspec.field(default_factory=list[Kind])
    follow: Annotated[bool, Meta(description="Keep sending new lines.")] = False


class Selection(Struct, frozen=True, forbid_unknown_fields=True):
    """Several workloads: by name, all of a group, or all."""

    names: list[str] = msgspec.field(default_factory=list[str])
    group: str | None = None
    all: bool = False


class Outcome(Struct, frozen=True):
    """What became of one of several."""

    name: str
    ok: bool
    status: str | None = None
    error: ErrorBody | None = None


class Outcomes(Struct, frozen=True):
    results: list[Outcome]


class Move(Struct, frozen=True, forbid_unknown_fields=True):
    group: Annotated[str, Meta(description="A group that is there.")]


class WorkloadOperations:
    """What the API does with workloads."""

    def __init__(self, supervisor: Supervisor, groups: Groups, url_of: UrlOf) -> None:
        self._supervisor = supervisor
        self._groups = groups
        self._url_of = url_of
        self._steps: dict[str, Step] = {
            "start": supervisor.start,
            "stop": supervisor.stop,
            "restart": supervisor.restart,
            "delete": supervisor.remove,
        }

    def table(self) -> list[Operation]:
        one, errors = "/workloads/{name}", (404,)
        rows = [
            Operation("GET", "/workloads", "List workloads.", self.list, WorkloadList, query=ListQuery),
            Operation(
                "POST", "/workloads", "Run a server: the body is its RunConfig.", self.run, WorkloadDetail,
                dict[str, Any], Fields, status=201, errors=(403, 404, 409, 422), has_progress=True,
            ),
            Operation("GET", one, "Show one workload.", self.show, WorkloadDetail, errors=errors),
            Operation(
                "DELETE", one, "Stop a workload and forget it.", self.remove, None, errors=(404, 409, 422),
                has_progress=True,
            ),
            Operation(
                "GET", f"{one}/logs", "What it said and what became of it.", self.logs, Line, query=LogsQuery,
                errors=errors, lines=True,
            ),
            Operation("GET", f"{one}/export", "Its RunConfig.", self.export, dict[str, Any], errors=errors),
            Operation(
                "POST", f"{one}/move", "Put it into another group.", self.move, WorkloadView, Move,
                errors=(404, 409, 422),
            ),
        ]  # fmt: skip
        rows.extend(
            Operation(
                "POST", f"{one}/{verb}", f"{verb.title()} it.", self._one(verb), WorkloadDetail,
                errors=(403, 404, 422), has_progress=True,
            )
            for verb in ("start", "stop", "restart")
        )  # fmt: skip
        rows.extend(
            Operation(
                "POST", f"/workloads/{verb}", f"{verb.title()} several at once.", self._several(verb),
                Outcomes, Selection, errors=(404, 422), has_progress=True,
            )
            for verb in self._steps
        )  # fmt: skip
        return rows

    # One

    async def list(self, call: Call) -> WorkloadList:
        query: ListQuery = call.query
        if query.group is not None:
            await self._groups.get(query.group)
        found = [
            workload
            for workload in sorted(self._supervisor.workloads.values(), key=lambda found: found.name)
            if query.group in (None, workload.record.group) and _has_labels(workload, query.label)
        ]
        return WorkloadList([view_of(workload, self._url_of) for workload in found])

    async def run(self, call: Call) -> WorkloadDetail:
        config = RunConfig.read(call.body)
        for note in config.notes:
            call.tell(config.name, f"note: {note}")
        workload = await self._told(config.name, call, self._supervisor.run(config))
        return await detail_of(workload, self._url_of)

    async def show(self, call: Call) -> WorkloadDetail:
        return await detail_of(self._supervisor.get(call.path["name"]), self._url_of)

    async def remove(self, call: Call) -> None:
        workload = self._supervisor.get(call.path["name"])
        self._supervisor.remove(workload)
        await self._supervisor.settle(workload)

    async def export(self, call: Call) -> dict[str, Any]:
        return self._supervisor.get(call.path["name"]).config.raw

    async def move(self, call: Call) -> WorkloadView:
        workload = self._supervisor.get(call.path["name"])
        body: Move = call.body
        if workload.declared:
            raise ApiError(
                409,
                "declared_in_file",
                f"`{workload.name}` stands in the configuration file: its group is there",
            )
        await self._groups.move(workload.name, body.group)
        return view_of(workload, self._url_of)

    def _one(self, verb: str) -> Callable[[Call], Coroutine[Any, Any, WorkloadDetail]]:
        async def handler(call: Call) -> WorkloadDetail:
            workload = self._supervisor.get(call.path["name"])
            await self._told(workload.name, call, self._do(verb, workload))
            return await detail_of(workload, self._url_of)

        return handler

    async def _do(self, verb: str, workload: Workload) -> None:
        """Ask for it and wait for it; a start that fails is an error, though it may be tried again."""
        if verb in ("start", "restart"):
            await self._supervisor.check_secrets(workload.config)
        self._steps[verb](workload)
        await self._supervisor.settle(workload)
        status = workload.status
        if verb in ("start", "restart") and status.process is None:
            again = "; it is tried again" if status.retry_at is not None else ""
            raise ApiError(
                422, "did_not_start", f"`{workload.name}` did not start: {status.context}{again}",
                f"see `mooring logs {workload.name}`",
            )  # fmt: skip

    async def _told(self, name: str, call: Call, work: Coroutine[Any, Any, Any]) -> Any:
        """Do something and pass on what the workload's log says about it meanwhile."""

        def pass_on(line: Line) -> None:
            if line.kind == "events":
                call.tell(name, line.text)

        task = asyncio.ensure_future(work)
        await asyncio.sleep(0)  # a new workload is in the books after its first step
        workload = self._supervisor.workloads.get(name)
        for _ in range(100):
            if workload is not None or task.done():
                break
            await asyncio.sleep(0.01)
            workload = self._supervisor.workloads.get(name)
        if workload is not None:
            workload.log.watch(pass_on)
        try:
            return await task
        finally:
            if workload is not None:
                workload.log.unwatch(pass_on)

    # Several

    def _several(self, verb: str) -> Callable[[Call], Coroutine[Any, Any, Outcomes]]:
        async def handler(call: Call) -> Outcomes:
            chosen = await self._chosen(call.body, skip_declared=verb == "delete")
            work = (self._outcome(verb, workload, call) for workload in chosen)
            found = await asyncio.gather(*work, return_exceptions=True)
            results = [each for each in found if isinstance(each, Outcome)]
            for problem in found:
                if isinstance(problem, BaseException):
                    raise problem
            return Outcomes(results)

        return handler

    async def _chosen(self, selection: Selection, *, skip_declared: bool) -> list[Workload]:
        if sum([bool(selection.names), selection.group is not None, selection.all]) != 1:
            raise ApiError(422, "nothing_selected", "give names, or `group`, or `all`")
        if selection.names:
            return [self._supervisor.get(name) for name in dict.fromkeys(selection.names)]
        if selection.group is not None:
            await self._groups.get(selection.group)
            found = self._supervisor.in_group(selection.group)
        else:
            found = list(self._supervisor.workloads.values())
        return [workload for workload in found if not (skip_declared and workload.declared)]

    async def _outcome(self, verb: str, workload: Workload, call: Call) -> Outcome:
        call.tell(workload.name, _PARTICIPLES[verb])
        try:
            await self._told(workload.name, call, self._do(verb, workload))
        except KeyUnavailable:
            raise  # whoever asked can do something about it, and ask again
        except MooringError as error:
            failure = failure_of(error)
            call.tell(workload.name, f"failed: {failure}")
            return Outcome(workload.name, ok=False, error=described(failure).error)
        status = "removed" if verb == "delete" else workload.status.phase.value
        call.tell(workload.name, status)
        return Outcome(workload.name, ok=True, status=status)

    # Logs

    async def logs(self, call: Call) -> object:
        workload = self._supervisor.get(call.path["name"])
        query: LogsQuery = call.query
        kinds = tuple(query.kind) or ("server", "events")
        lines = await asyncio.to_thread(workload.log.tail, kinds, query.lines)
        reply = call.reply
        if reply.closed:
            return TAKEN
        reply.start(200, LINES, compress=False)
        for line in lines:
            reply.write(msgspec.json.encode(line) + b"\n")
            if not reply.writable:
                await reply.drain()
            if reply.closed:
                return TAKEN
        if query.follow:
            await _follow(workload, kinds, call)
        if not reply.closed:
            reply.end()
        return TAKEN


_PARTICIPLES: Final = {
    "start": "starting",
    "stop": "stopping",
    "restart": "restarting",
    "delete": "removing",
}


def _has_labels(workload: Workload, wanted: list[str]) -> bool:
    labels = workload.config.fields.container_labels
    for label in wanted:
        key, equals, value = label.partition("=")
        if key not in labels or (equals and labels[key] != value):
            return False
    return True


async def _follow(workload: Workload, kinds: tuple[Kind, ...], call: Call) -> None:
    """New lines until the reader leaves or the workload is gone; a slow reader misses some, and is told."""
    queue: asyncio.Queue[Line] = asyncio.Queue(FOLLOW_LINES)
    missed = 0

    def take(line: Line) -> None:
        nonlocal missed
        if line.kind in kinds:
            try:
                queue.put_nowait(line)
            except asyncio.QueueFull:
                missed += 1

    workload.log.watch(take)
    reply = call.reply
    try:
        while not reply.closed and not workload.is_gone:
            with suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    line = await queue.get()
                if missed:
                    line = Line(line.time, "events", f"({missed} lines were missed)")
                    missed = 0
                if not reply.closed:
                    reply.write(msgspec.json.encode(line) + b"\n")
                    if not reply.writable:
                        await reply.drain()
    finally:
        workload.log.unwatch(take)
