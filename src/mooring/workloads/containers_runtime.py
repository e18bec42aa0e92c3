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
from typing import Final

from mooring.transports.dialing import Folders
from mooring.workloads.containers.connection import Connection, connect
from mooring.workloads.containers.container import Container
from mooring.workloads.containers.engines import EngineName, UsedEngines, current_engines
from mooring.workloads.containers.images import digest_of, find_or_pull
from mooring.workloads.containers.settings import container_settings
from mooring.workloads.containers.workload import ContainerWorkload
from mooring.workloads.egress.proxy import EgressProxy
from mooring.workloads.ignore import hidden_below
from mooring.workloads.profile_reading import mounts_of
from mooring.workloads.runtime import (
    CannotRun,
    ImageSource,
    Leftover,
    MountPoint,
    OnEvent,
    OnProgress,
    Resolved,
    RunningWorkload,
    WorkloadSpec,
    mounts_for,
)
from mooring.workloads.sandbox.bubblewrap import Files

_OWNER: Final = "mooring.owner"
_NAME: Final = "mooring.name"
_INSTALL: Final = (
    "start one (`systemctl start docker`, `systemctl --user start podman.socket`), or name its socket in "
    "MOORING_DOCKER_SOCKET or MOORING_PODMAN_SOCKET"
)


class ContainerRuntime:
    """Runs images with the first engine that answers, or the one of this name."""

    def __init__(self, data: Path, wanted: EngineName | None = None) -> None:
        self.name = wanted or "container"
        self._data = data.absolute()
        self._wanted = wanted
        self._connection: Connection | None = None
        self._numbers = itertools.count(1)
        self._owner = hashlib.sha256(str(self._data).encode()).hexdigest()[:16]
        self._files = Files(self._data / "sandbox")
        self._used = UsedEngines(self._data)

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
            self._connection = None

    async def prepare(self, spec: WorkloadSpec, progress: OnProgress) -> Resolved:
        connection = await self._connected()
        if not isinstance(spec.source, ImageSource):
            raise CannotRun("containers run images: give one, or use `--runtime process` for a package")
        found = await find_or_pull(connection.docker, spec.source.reference, progress)
        return Resolved(
            image=str(found["Id"]),
            version=spec.source.reference,
            integrity=digest_of(found),
            tools=((connection.engine.name, connection.version),),
        )

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
        labels = {_OWNER: self._owner, _NAME: spec.name}
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
        self._used.note(connection.engine)
        container = Container(connection, proxy, on_event)
        number = next(self._numbers)
        name = f"mooring-{self._owner[:8]}-{spec.name}-{os.getpid()}-{number}"
        await container.start(name, settings, labels)
        return container

    def _hidden(self, mounts: tuple[MountPoint, ...], *, globally: bool) -> tuple[tuple[Path, Path], ...]:
        """What ignore files and our own data folder hide: an empty thing for each, and where it lies over."""
        self._files.write("mooring", os.getuid(), os.getgid(), Path("/home/mooring"))
        hidden = (self._data, *hidden_below(mounts, globally=globally))
        resolved = [(mount.host.resolve(), mount.inside) for mount in mounts]
        return tuple(
            (
                self._files.empty_folder if path.is_dir() else self._files.empty_file,
                inside / path.relative_to(host),
            )
            for path in hidden
            for host, inside in resolved
            if path.is_relative_to(host)
        )

    async def leftovers(self) -> tuple[Leftover, ...]:
        if await self.problem() is not None:
            return ()
        docker = (await self._connected()).docker
        found = await docker.containers.list(all=True, filters=f'{{"label":["{_OWNER}={self._owner}"]}}')
        return tuple(
            Leftover(
                self.name,
                str(entry["Labels"].get(_NAME, "")),
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
