"""Published servers as images made here, under `none` plus exactly what each needs, through the gateway."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.support.gateway import Gateway, running_gateway
from tests.workloads import published
from tests.workloads.containers.tools import engine_socket

from mooring.workloads.containers_runtime import ContainerRuntime
from mooring.workloads.runtime import CannotRun, CommandSource, PackageSource, WorkloadSpec

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(400)]
BUILD_SECONDS = 300


class Served(NamedTuple):
    """A gateway with all the servers, and what they were given."""

    gateway: Gateway
    place: Path
    page: str
    repository: Path


def entry(engine: str, name: str, image: str, profile: Any = None, **more: Any) -> dict[str, Any]:
    config = {
        "image": image,
        "permission_profile": profile or {},
        "mooring": {"runtime": engine},
        **more,
    }
    return {"id": name, "run_config": config, "timeouts": {"connect_seconds": BUILD_SECONDS}}


@pytest.fixture(scope="module")
def served(
    engine: str, base_images: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Served]:
    place = tmp_path_factory.mktemp(engine)
    folder, _ = published.two_folders(place)
    repository = published.new_repository(place / "repository")
    allowed = {"network": {"outbound": {"allow_host": ["127.0.0.2"]}}}
    everything = "npx://@modelcontextprotocol/server-everything"
    entries = [
        entry(
            *(engine, "files", "npx://@modelcontextprotocol/server-filesystem", {"read": [str(folder)]}),
            cmd_args=[str(folder)],
        ),
        entry(engine, "everything", everything),
        entry(engine, "web", everything, cmd_args=["streamableHttp"], transport="streamable-http"),
        entry(
            *(engine, "memory", "npx://@modelcontextprotocol/server-memory"),
            {"write": ["volume://memory:/memory"]},
            env_vars={"MEMORY_FILE_PATH": "/memory/memory.json"},
        ),
        entry(engine, "time", "uvx://mcp-server-time", cmd_args=["--local-timezone=UTC"]),
        entry(engine, "fetch", "uvx://mcp-server-fetch", allowed, cmd_args=["--allow-private-ips"]),
        entry(
            *(engine, "git", "uvx://mcp-server-git", {"write": [str(repository)]}),
            cmd_args=["--repository", str(repository)],
        ),
    ]
    with (
        published.page_served() as page,
        running_gateway(place, entries, runtimes=base_images) as gateway,
    ):
        yield Served(gateway, place, page, repository)


@pytest.mark.anyio
async def test_the_filesystem_server_serves_its_folder_and_no_other(served: Served) -> None:
    async with published.connected(served.gateway.url("files"), BUILD_SECONDS) as client:
        await published.reads_its_folder_and_no_other(client, served.place / "shown", served.place / "other")


@pytest.mark.anyio
@pytest.mark.parametrize("name", ["everything", "web"])
async def test_the_everything_server_needs_nothing_over_stdio_and_http(served: Served, name: str) -> None:
    async with published.connected(served.gateway.url(name), BUILD_SECONDS) as client:
        await published.echoes(client)


@pytest.mark.anyio
async def test_the_memory_server_needs_one_file_that_stays(served: Served) -> None:
    async with published.connected(served.gateway.url("memory"), BUILD_SECONDS) as client:
        await published.remembers(client)
    assert "afloat" in (served.place / "data/volumes/memory/memory.json").read_text()


@pytest.mark.anyio
async def test_the_time_server_needs_nothing(served: Served) -> None:
    async with published.connected(served.gateway.url("time"), BUILD_SECONDS) as client:
        await published.tells_the_time(client)


@pytest.mark.anyio
async def test_the_fetch_server_needs_its_hosts(served: Served) -> None:
    async with published.connected(served.gateway.url("fetch"), BUILD_SECONDS) as client:
        await published.fetches_what_it_may(client, served.page)


@pytest.mark.anyio
async def test_the_git_server_needs_its_repository(served: Served) -> None:
    async with published.connected(served.gateway.url("git"), BUILD_SECONDS) as client:
        await published.adds_a_file(client, served.repository)


@pytest.mark.anyio
async def test_an_image_is_made_once_and_says_what_is_in_it(
    engine: Any, base_images: dict[str, str], tmp_path: Path
) -> None:
    node, python = base_images["npx_image"], base_images["uvx_image"]
    runtime = ContainerRuntime(tmp_path, engine)
    told: list[str] = []
    try:
        spec = WorkloadSpec("time", PackageSource("uvx", "mcp-server-time"), base_image=python)
        first = await runtime.prepare(spec, told.append)
        told.clear()
        again = await runtime.prepare(spec, told.append)
        assert (first, told) == (again, []), "nothing is pulled or built the second time"
        assert first.version
        assert (first.integrity or "").startswith("sha256:")
        as_command = WorkloadSpec(
            "time", CommandSource(("uvx", "mcp-server-time", "--help")), base_image=python
        )
        assert (await runtime.prepare(as_command, told.append)).argv == (*first.argv, "--help")
        assert told == []
        missing = WorkloadSpec("no", PackageSource("npx", "mooring-has-no-such"), base_image=node)
        with pytest.raises(CannotRun, match="installing npx://mooring-has-no-such failed"):
            await runtime.prepare(missing, told.append)
        assert "downloading" in told
        assert await runtime.leftovers() == ()
    finally:
        await runtime.close()


def test_nothing_of_the_installation_stays_in_the_image(engine: str, served: Served) -> None:
    """Settings may hold tokens: they are in no layer and no variable of the image."""
    images = json.loads(engine_socket(engine, "/images/json"))
    made = [image for image in images if any("mooring-npx" in tag for tag in image["RepoTags"] or [])]
    assert made
    for image in made:
        found = json.loads(engine_socket(engine, f"/images/{image['Id']}/json"))
        names = {variable.partition("=")[0] for variable in found["Config"]["Env"]}
        assert not {name for name in names if name.startswith(("npm_", "UV_", "PIP_", "SSL_"))}
