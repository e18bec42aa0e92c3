"""Published servers under `none` plus exactly what each needs, used through the gateway."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.support.gateway import Gateway, running_gateway
from tests.workloads import published
from tests.workloads.published import LIMIT_SECONDS, connected

from mooring.workloads.sandbox import bubblewrap

PACKAGES = Path(__file__).parents[2] / ".cache/published"
"""Kept between runs: what is tested is that they run, not how fast they download."""

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(bubblewrap.program() is None, reason="bubblewrap is not installed"),
    pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed"),
]


def _share_packages(data: Path) -> None:
    data.mkdir(exist_ok=True)
    PACKAGES.mkdir(parents=True, exist_ok=True)
    if not (data / "packages").is_symlink():
        (data / "packages").symlink_to(PACKAGES)


@contextmanager
def serving(tmp_path: Path, run: list[str], profile: Any, **more: Any) -> Iterator[Gateway]:
    _share_packages(tmp_path / "data")
    entry = {
        "id": "it",
        "workload": {"run": run, "permission_profile": profile, **more},
        "timeouts": {"connect_seconds": LIMIT_SECONDS},
    }
    with running_gateway(tmp_path, [entry]) as gateway:
        yield gateway


@pytest.mark.anyio
async def test_the_filesystem_server_serves_its_folder_and_no_other(tmp_path: Path) -> None:
    folder, other = published.two_folders(tmp_path)
    run = ["npx", "-y", "@modelcontextprotocol/server-filesystem", str(folder)]
    with serving(tmp_path, run, {"read": [str(folder)]}) as gateway:
        async with connected(gateway.url("it")) as client:
            await published.reads_its_folder_and_no_other(client, folder, other)


@pytest.mark.anyio
async def test_the_everything_server_needs_nothing(tmp_path: Path) -> None:
    run = ["npx", "-y", "@modelcontextprotocol/server-everything"]
    with serving(tmp_path, run, "none") as gateway:
        async with connected(gateway.url("it")) as client:
            await published.echoes(client)


@pytest.mark.anyio
async def test_the_everything_server_needs_nothing_over_http_either(tmp_path: Path) -> None:
    config = {
        "image": "npx://@modelcontextprotocol/server-everything",
        "cmd_args": ["streamableHttp"],
        "transport": "streamable-http",
        "permission_profile": {},
    }
    _share_packages(tmp_path / "data")
    entry = {"id": "it", "run_config": config, "timeouts": {"connect_seconds": LIMIT_SECONDS}}
    with running_gateway(tmp_path, [entry]) as gateway:
        async with connected(gateway.url("it")) as client:
            await published.echoes(client)


@pytest.mark.anyio
async def test_the_memory_server_needs_one_file_that_stays(tmp_path: Path) -> None:
    run = ["npx", "-y", "@modelcontextprotocol/server-memory"]
    profile = {"write": ["volume://memory:/memory"]}
    data = {"MEMORY_FILE_PATH": "/memory/memory.json"}
    for _ in range(2):
        with serving(tmp_path, run, profile, env=data) as gateway:
            async with connected(gateway.url("it")) as client:
                await published.remembers(client)
    assert "afloat" in (tmp_path / "data/volumes/memory/memory.json").read_text()


@pytest.mark.anyio
async def test_the_time_server_needs_nothing(tmp_path: Path) -> None:
    with serving(tmp_path, ["uvx", "mcp-server-time", "--local-timezone=UTC"], "none") as gateway:
        async with connected(gateway.url("it")) as client:
            await published.tells_the_time(client)


@pytest.mark.anyio
async def test_the_fetch_server_needs_its_hosts(tmp_path: Path) -> None:
    profile = {"network": {"outbound": {"allow_host": ["127.0.0.2"]}}}
    run = ["uvx", "mcp-server-fetch", "--allow-private-ips"]
    with published.page_served() as page, serving(tmp_path, run, profile) as gateway:
        async with connected(gateway.url("it")) as client:
            await published.fetches_what_it_may(client, page)


@pytest.mark.anyio
async def test_the_git_server_needs_its_repository(tmp_path: Path) -> None:
    repository = published.new_repository(tmp_path / "repository")
    run = ["uvx", "mcp-server-git", "--repository", str(repository)]
    with serving(tmp_path, run, {"write": [str(repository)]}) as gateway:
        async with connected(gateway.url("it")) as client:
            await published.adds_a_file(client, repository)
