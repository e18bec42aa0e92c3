"""Which runtime runs a workload: the one that was asked for, else the first that works and fits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, TypeAlias

from mooring.workloads.containers.engines import EngineName, UsedEngines
from mooring.workloads.runtime import (
    CannotRun,
    ImageSource,
    Leaving,
    PackageKind,
    PackageSource,
    RemoteSource,
    Runtime,
    WorkloadSpec,
)
from mooring.workloads.supervisor_remote import RemoteRuntime

if TYPE_CHECKING:
    from mooring.workloads.containers_runtime import ContainerRuntime
    from mooring.workloads.sandbox_runtime import ProcessRuntime


RuntimeName: TypeAlias = Literal["process", "podman", "docker"]


class Runtimes:
    """The runtimes of one data directory; `bases` are the images that images of packages are made of."""

    def __init__(
        self,
        data: Path,
        order: Sequence[RuntimeName] = ("process", "podman", "docker"),
        bases: Mapping[PackageKind, str] = MappingProxyType({}),
    ) -> None:
        self.remote = RemoteRuntime()
        self._data = data
        self._order = tuple(order)
        self._bases = bases
        self._containers: dict[EngineName | None, ContainerRuntime] = {}

    @property
    def leaving(self) -> tuple[Leaving, ...]:
        """Those of which the last daemon may have left something."""
        engines = (self.container(engine.name) for engine in UsedEngines(self._data).all())
        # It writes this folder before it starts anything.
        return (self.process, *engines) if (self._data / "sandbox").exists() else tuple(engines)

    @cached_property
    def process(self) -> ProcessRuntime:
        """The runtime for programs of this machine. Loaded when it is needed, as the next."""
        from mooring.workloads.sandbox_runtime import ProcessRuntime  # noqa: PLC0415

        return ProcessRuntime(self._data)

    def container(self, engine: EngineName | None = None) -> ContainerRuntime:
        """The runtime for images. Loaded when it is needed: what it is made with takes long to load."""
        from mooring.workloads.containers_runtime import ContainerRuntime  # noqa: PLC0415

        return self._containers.setdefault(engine, ContainerRuntime(self._data, engine, self._bases))

    async def close(self) -> None:
        """Let go of the engines."""
        for runtime in self._containers.values():
            await runtime.close()

    async def choose(self, spec: WorkloadSpec, wanted: str | None) -> Runtime:
        """The runtime for this, or CannotRun with what to do instead."""
        if isinstance(spec.source, RemoteSource):
            return self.remote
        match wanted:
            case None:
                return await self._first_that_works(spec)
            case "process":
                return self.process
            case "docker" | "podman":
                return self.container(wanted)
            case "container":
                engines = [name for name in self._order if name != "process"]
                return await self._working(engines or ["podman", "docker"]) or self.container()
            case _:
                raise CannotRun(f"`{spec.name}` is no URL: leave out `--runtime {wanted}`")

    async def _first_that_works(self, spec: WorkloadSpec) -> Runtime:
        match spec.source:
            case ImageSource():
                fitting = [name for name in self._order if name != "process"]
            case PackageSource() if spec.sandbox == "on":
                fitting = list(self._order)
            case _:
                fitting = ["process"]
        if fitting == ["process"]:
            return self.process  # which says itself what it lacks
        # Where nothing works, what is wrong with the first is what to mend.
        return await self._working(fitting) or self._named(next(iter(fitting), "container"))

    async def _working(self, names: Sequence[str]) -> Runtime | None:
        for name in names:
            runtime = self._named(name)
            if await runtime.problem() is None:
                return runtime
        return None

    def _named(self, name: str) -> Runtime:
        if name == "process":
            return self.process
        return self.container(name if name in ("docker", "podman") else None)
