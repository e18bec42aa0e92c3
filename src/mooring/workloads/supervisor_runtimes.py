"""Which runtime runs a workload: the one that was asked for, else the first that fits."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mooring.workloads.containers.engines import EngineName, UsedEngines
from mooring.workloads.runtime import CannotRun, ImageSource, Leaving, RemoteSource, Runtime, WorkloadSpec
from mooring.workloads.sandbox_runtime import ProcessRuntime
from mooring.workloads.supervisor_remote import RemoteRuntime

if TYPE_CHECKING:
    from mooring.workloads.containers_runtime import ContainerRuntime


class Runtimes:
    """The runtimes of one data directory."""

    def __init__(self, data: Path) -> None:
        self.remote = RemoteRuntime()
        self.process = ProcessRuntime(data)
        self._data = data
        self._containers: dict[EngineName | None, ContainerRuntime] = {}

    @property
    def leaving(self) -> tuple[Leaving, ...]:
        """Those of which the last daemon may have left something."""
        return (self.process, *(self.container(engine.name) for engine in UsedEngines(self._data).all()))

    def container(self, engine: EngineName | None = None) -> ContainerRuntime:
        """The runtime for images. Loaded when it is needed: what it is made with takes long to load."""
        from mooring.workloads.containers_runtime import ContainerRuntime  # noqa: PLC0415

        return self._containers.setdefault(engine, ContainerRuntime(self._data, engine))

    async def close(self) -> None:
        """Let go of the engines."""
        for runtime in self._containers.values():
            await runtime.close()

    async def choose(self, spec: WorkloadSpec, wanted: str | None) -> Runtime:
        """The runtime for this, or CannotRun with what to do instead."""
        if isinstance(spec.source, RemoteSource):
            return self.remote
        if wanted in (None, "process") and not isinstance(spec.source, ImageSource):
            return self.process
        if wanted == "remote":
            raise CannotRun(f"`{spec.name}` is no URL: leave out `--runtime remote`")
        return self.container(wanted if wanted in ("docker", "podman") else None)
