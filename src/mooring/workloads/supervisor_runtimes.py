"""Which runtime runs a workload: the one that was asked for, else the first that fits."""

from __future__ import annotations

from pathlib import Path

from mooring.workloads.runtime import CannotRun, ImageSource, RemoteSource, Runtime, WorkloadSpec
from mooring.workloads.sandbox_runtime import ProcessRuntime
from mooring.workloads.supervisor_remote import RemoteRuntime


class Runtimes:
    """The runtimes of one data directory."""

    def __init__(self, data: Path) -> None:
        self.remote = RemoteRuntime()
        self.process = ProcessRuntime(data)

    @property
    def all(self) -> tuple[Runtime, ...]:
        return (self.process, self.remote)

    async def choose(self, spec: WorkloadSpec, wanted: str | None) -> Runtime:
        """The runtime for this, or CannotRun with what to do instead."""
        if isinstance(spec.source, RemoteSource):
            return self.remote
        if wanted in (None, "process") and not isinstance(spec.source, ImageSource):
            return self.process
        if wanted == "remote":
            raise CannotRun(f"`{spec.name}` is no URL: leave out `--runtime remote`")
        raise CannotRun(
            f"`{spec.name}` needs a container engine, which this version cannot use yet: give a package "
            "(`npx://`, `uvx://`) or a command instead"
        )
