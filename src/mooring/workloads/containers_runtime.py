"""The container runtime: images under Docker or Podman through their API socket."""

# aiodocker leaves its keyword arguments untyped.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import msgspec

from mooring.transports.dialing import Folders
from mooring.workloads.containers.connection import NAME, OWNER, Connection, connect
from mooring.workloads.containers.container import Container
from mooring.workloads.containers.engines import EngineName, UsedEngines, current_engines
from mooring.workloads.containers.images import digest_of, find_or_pull
from mooring.workloads.containers.package_images import PackageImages
from mooring.workloads.containers.settings import container_settings
from mooring.workloads.containers.workload import ContainerWorkload
from mooring.workloads.egress.proxy import EgressProxy
from mooring.workloads.ignore import hidden_below
from mooring.workloads.profile_reading import mounts_of
from mooring.workloads.runtime import (
    CannotRun,
    CommandSource,
    ImageSource,
    Leftover,
    MountPoint,
    OnEvent,
    OnProgress,
    PackageKind,
    PackageSource,
    Resolved,
    ResourceLimits,
    RunningWorkload,
    WorkloadSpec,
    mounts_for,
)
from mooring.workloads.sandbox.bubblewrap import Files
from mooring.workloads.sandbox.plan import places_of
from mooring.workloads.sources.runners import package_of

_INSTALL: Final = (
    "start one (`systemctl start docker`, `systemctl --user start podman.socket`), or name its socket in "
    "MOORING_DOCKER_SOCKET or MOORING_PODMAN_SOCKET. Images need one; packages (`npx://`, `uvx://`) and "
    "commands (after `--`) do not"
)
_NO_LIMITS: Final = (
    "keeps no limits of memory and processes here: a rootless engine needs control groups of version 2"
)


class ContainerRuntime:
    """Runs images with the first engine that answers, or the one of this name."""

    def __init__(
        self,
        data: Path,
        wanted: EngineName | None = None,
        bases: Mapping[PackageKind, str] = MappingProxyType({}),
    ) -> None:
        self.name = wanted or "container"
        self._data = data.absolute()
        self._wanted = wanted
        self._connection: Connection | None = None
        self._numbers = itertools.count(1)
        self._owner = hashlib.sha256(str(self._data).encode()).hexdigest()[:16]
        self._files = Files(self._data / "sandbox")
        self._used = UsedEngines(self._data)
        self._bases = bases
        self._packages: PackageImages | None = None

    async def problem(self) -> str | None:
        if self._connection is not None:
            return None
        known = (*current_engines(), *self._used.all())
        found = [engine for engine in dict.fromkeys(known) if self._wanted in (None, engine.name)]
        for engine in found:
            if (connection := await connect(engine)) is not None:
                self._connection = connection
                return None
        what = self._wanted or "container engine"
        where = f" (asked at {', '.join(str(engine.socket) for engine in found)})" if found else ""
        return f"no {what} answers{where}: {_INSTALL}"

    async def close(self) -> None:
        """Let go of the engine's socket."""
        if self._connection is not None:
            if not await self.leftovers():
                self._used.forget(self._connection.engine)
            await self._connection.close()
            self._connection = self._packages = None

    async def prepare(self, spec: WorkloadSpec, progress: OnProgress) -> Resolved:
        connection = await self._connected()
        tool = (connection.engine.name, connection.version)
        if not connection.keeps_limits:
            progress(f"{connection.engine.name} {_NO_LIMITS}")
        if connection.engine.name == "podman" and spec.limits.open_files != ResourceLimits().open_files:
            progress("podman keeps its own limit of open files, whatever `--open-files` says")
        match spec.source:
            case ImageSource(reference=reference):
                found = await find_or_pull(connection.docker, reference, progress)
                return Resolved(
                    image=str(found["Id"]),
                    version=reference,
                    integrity=digest_of(found, reference),
                    tools=(tool,),
                )
            case PackageSource() as source:
                resolved = await self._package(source, spec, progress)
            case CommandSource(argv=argv):
                package = package_of(argv)
                if package is None:
                    raise CannotRun(
                        f"`{argv[0]}` is a program of this machine, which a container does not have: give an "
                        "image or a package, or leave out `--runtime`"
                    )
                resolved = await self._package(package[0], spec, progress)
                resolved = msgspec.structs.replace(resolved, argv=(*resolved.argv, *package[1]))
            case _:
                raise CannotRun("a remote server needs no runtime: leave out `--runtime`")
        return msgspec.structs.replace(resolved, tools=(*resolved.tools, tool))

    async def _package(self, source: PackageSource, spec: WorkloadSpec, progress: OnProgress) -> Resolved:
        connection = await self._connected()
        if self._packages is None:
            self._packages = PackageImages(connection, partial(self._builder, connection))
        base = spec.base_image or self._bases.get(source.scheme)
        return await self._packages.image(source, base, spec.system_packages, progress)

    async def _builder(
        self, connection: Connection, proxy: EgressProxy, settings: dict[str, Any], files: bytes
    ) -> Container:
        """A container in which an image is made."""
        labels = {OWNER: self._owner, NAME: "build"}
        settings["Labels"] = labels
        return await self._started(Container(connection, proxy, lambda _: None), labels, settings, files)

    async def start(
        self, spec: WorkloadSpec, resolved: Resolved, secrets: Mapping[str, str], on_event: OnEvent
    ) -> RunningWorkload:
        await self._connected()
        new_container = partial(self._container, spec, resolved, dict(secrets), on_event)
        workload = ContainerWorkload(spec, new_container, on_event)
        if spec.transport != "stdio":
            await workload.start_http()
        return workload

    async def _container(
        self,
        spec: WorkloadSpec,
        resolved: Resolved,
        secrets: dict[str, str],
        on_event: OnEvent,
        proxy: EgressProxy,
        folders: Folders,
    ) -> Container:
        connection = await self._connected()
        mounts = (*mounts_of(spec.profile, self._data / "volumes"), *spec.mounts)
        all_mounts = (*mounts, *mounts_for(folders))
        labels = {OWNER: self._owner, NAME: spec.name}
        settings = container_settings(
            spec,
            all_mounts,
            self._hidden(mounts, globally=spec.ignore_globally),
            image=resolved.image or "",
            command=resolved.argv,
            engine=connection.engine.name,
            user=_user(connection) if all_mounts else None,
            labels=labels,
            secrets=secrets,
        )
        return await self._started(Container(connection, proxy, on_event), labels, settings)

    async def _started(
        self, container: Container, labels: dict[str, str], settings: dict[str, Any], files: bytes = b""
    ) -> Container:
        connection = await self._connected()
        self._used.note(connection.engine)
        name = f"mooring-{self._owner[:8]}-{labels[NAME]}-{os.getpid()}-{next(self._numbers)}"
        await container.start(name, settings, labels, files)
        return container

    def _hidden(self, mounts: tuple[MountPoint, ...], *, globally: bool) -> tuple[tuple[Path, Path], ...]:
        """What ignore files and our own data folder hide: an empty thing for each, and where it lies over."""
        self._files.write("mooring", os.getuid(), os.getgid(), Path("/home/mooring"))
        hidden = (self._data, *hidden_below(mounts, globally=globally))
        return tuple(
            (self._files.empty_folder if path.is_dir() else self._files.empty_file, place)
            for path in hidden
            for place in places_of(path, mounts)
        )

    async def leftovers(self) -> tuple[Leftover, ...]:
        if await self.problem() is not None:
            return ()
        docker = (await self._connected()).docker
        found = await docker.containers.list(all=True, filters=f'{{"label":["{OWNER}={self._owner}"]}}')
        return tuple(
            Leftover(
                self.name,
                str(entry["Labels"].get(NAME, "")),
                entry.id,
                running=str(entry["State"]).lower() == "running",
            )
            for entry in found
        )

    async def remove(self, leftover: Leftover) -> None:
        await (await self._connected()).remove(leftover.reference)

    async def _connected(self) -> Connection:
        if problem := await self.problem():
            raise CannotRun(problem)
        assert self._connection is not None
        return self._connection


def _user(connection: Connection) -> str:
    """Whoever runs the gateway, as the container calls them: so files are theirs, and readable as to them."""
    return "0:0" if connection.maps_users else f"{os.getuid()}:{os.getgid()}"
