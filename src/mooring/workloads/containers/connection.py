"""A connection to a container engine that answered, and what was learnt about the engine."""

# aiodocker leaves its answers untyped.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, cast

import aiodocker
import aiohttp
from aiodocker.exceptions import DockerError

from mooring.workloads.containers.engines import Engine

log = logging.getLogger(__name__)

OWNER: Final = "mooring.owner"
NAME: Final = "mooring.name"
"""Labels by which our containers are found again."""
ASK_SECONDS: Final = 20.0
REMOVE_TRIES: Final = 50
REMOVE_PAUSE_SECONDS: Final = 0.2
_UNIFIED: Final = Path("/sys/fs/cgroup/cgroup.controllers")
_ARCHITECTURES: Final = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(slots=True)
class Connection:
    """One engine."""

    engine: Engine
    docker: aiodocker.Docker
    connector: aiohttp.BaseConnector
    architecture: str
    version: str
    maps_users: bool
    """Rootless, or with users of its own: root in a container is somebody else outside."""
    keeps_limits: bool = True
    """Whether the engine can hold a container to its memory and its number of processes."""
    may_enter: bool = True
    """Until it turns out that we cannot open sockets in its networks."""
    importing: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def remove(self, container: str) -> None:
        """Take a container away, whatever it is doing."""
        for _ in range(REMOVE_TRIES):
            try:
                await self.docker.containers.container(container).delete(force=True, v=True)
            except DockerError as error:
                if error.status == HTTPStatus.NOT_FOUND:
                    return
                # It is just ending by itself, and the engine busy with that.
                await asyncio.sleep(REMOVE_PAUSE_SECONDS)
            except aiohttp.ClientError:
                return  # no engine, no container
            else:
                return
        log.warning("container %s could not be removed: the next start tries again", container[:12])

    async def close(self) -> None:
        await self.docker.close()
        await self.connector.close()


async def connect(engine: Engine) -> Connection | None:
    """The engine, if it answers."""
    # Every container takes connections for as long as it runs: there is no sensible limit to them.
    connector = aiohttp.UnixConnector(str(engine.socket), limit=0)
    docker = aiodocker.Docker(url="unix://localhost", connector=connector)
    try:
        async with asyncio.timeout(ASK_SECONDS):
            version = await docker.version()
            maps_users, keeps_limits = await _rights(engine, docker)
    except (DockerError, aiohttp.ClientError, OSError, ValueError, TimeoutError):
        await docker.close()
        await connector.close()
        return None
    machine = str(version.get("Arch", ""))
    return Connection(
        engine,
        docker,
        connector,
        _ARCHITECTURES.get(machine, machine),
        str(version.get("Version", "")),
        maps_users,
        keeps_limits,
    )


async def _rights(engine: Engine, docker: aiodocker.Docker) -> tuple[bool, bool]:
    """Whether it maps users, and whether it keeps limits.

    A Docker daemon says so itself. Podman takes a second for its answer, and claims to keep all limits in it;
    its socket tells whose it is, and whoever is not root has no control groups in version 1.
    """
    if engine.name == "podman":
        rootless = engine.socket.stat().st_uid != 0
        return rootless, not rootless or _UNIFIED.exists()
    information = cast("dict[str, Any]", await docker.system.info())
    options = " ".join(information.get("SecurityOptions") or [])
    maps_users = "name=rootless" in options or "name=userns" in options
    return maps_users, bool(information.get("MemoryLimit")) and bool(information.get("PidsLimit"))
