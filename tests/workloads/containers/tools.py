"""Workloads in real containers, spoken to directly."""

from __future__ import annotations

import subprocess
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.workloads.containers.setup import IMAGE, PYTHON
from tests.workloads.sandbox_tools import Running, running
from tests.workloads.test_sandbox_http import SERVER

from mooring.workloads.containers.engines import current_engines
from mooring.workloads.containers_runtime import ContainerRuntime
from mooring.workloads.profile import NONE, PermissionProfile
from mooring.workloads.runtime import ImageSource, WorkloadSpec


@asynccontextmanager
async def contained(engine: Any, data: Path, spec: WorkloadSpec) -> AsyncIterator[Running]:
    """A workload in a container, until the block ends; nothing of it is left then."""
    runtime = ContainerRuntime(data, engine)
    try:
        async with running(runtime, spec) as found:
            yield found
        assert await runtime.leftovers() == ()
    finally:
        await runtime.close()


@asynccontextmanager
async def hostile(
    engine: str, data: Path, profile: PermissionProfile = NONE, **more: Any
) -> AsyncIterator[Running]:
    """The hostile example under a profile."""
    spec = WorkloadSpec(
        "hostile", ImageSource(IMAGE), arguments=(PYTHON, "/server.py"), profile=profile, **more
    )
    async with contained(engine, data, spec) as attacker:
        yield attacker


def web_spec(folder: Path, **more: Any) -> WorkloadSpec:
    """A server that speaks Streamable HTTP; its program is in this folder."""
    folder.mkdir()
    (folder / "web.py").write_text(SERVER)
    profile = more.pop("profile", NONE)
    return WorkloadSpec(
        "web",
        ImageSource(IMAGE),
        arguments=(PYTHON, "/program/web.py"),
        transport="streamable-http",
        profile=PermissionProfile(read=(f"{folder}:/program",), network=profile.network),
        **more,
    )


def engine_place(engine: str) -> Path:
    """The socket of an engine."""
    return next(found.socket for found in current_engines() if found.name == engine)


def engine_socket(engine: str, path: str) -> bytes:
    """What the engine itself answers."""
    place = engine_place(engine)
    asked = subprocess.run(
        ["curl", "--silent", "--unix-socket", str(place), f"http://localhost/v1.40{path}"],
        capture_output=True,
        check=True,
        timeout=60,
    )
    return asked.stdout
