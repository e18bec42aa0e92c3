"""Published servers under `none` plus exactly what each needs, used through the gateway."""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anyio
import mcp
import pytest
from tests.support.gateway import Gateway, running_gateway

from mooring.workloads.sandbox import bubblewrap

LIMIT_SECONDS = 100
PACKAGES = Path(__file__).parents[2] / ".cache/published"
"""Kept between runs: what is tested is that they run, not how fast they download."""

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(bubblewrap.program() is None, reason="bubblewrap is not installed"),
    pytest.mark.skipif(shutil.which("npm") is None, reason="npm is not installed"),
]


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class _Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        found = self.path != "/robots.txt"
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<html><body><p>a page of the test</p></body></html>" if found else b"")

    def log_message(self, *_: object) -> None: ...


@pytest.fixture(scope="module")
def page() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.2", 0), _Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.2:{server.server_port}"
    server.shutdown()
    server.server_close()


@contextmanager
def serving(tmp_path: Path, run: list[str], profile: Any) -> Iterator[Gateway]:
    data = tmp_path / "data"
    data.mkdir()
    PACKAGES.mkdir(parents=True, exist_ok=True)
    (data / "packages").symlink_to(PACKAGES)
    entry = {
        "id": "it",
        "workload": {"run": run, "permission_profile": profile},
        "timeouts": {"connect_seconds": LIMIT_SECONDS},
    }
    with running_gateway(tmp_path, [entry]) as gateway:
        yield gateway


@asynccontextmanager
async def connected(gateway: Gateway) -> AsyncIterator[mcp.Client]:
    with anyio.fail_after(LIMIT_SECONDS):
        async with mcp.Client(gateway.url("it")) as client:
            yield client


def text_of(result: Any) -> str:
    return "".join(block.text for block in result.content if block.type == "text")


@pytest.mark.anyio
async def test_the_filesystem_server_serves_its_folder_and_no_other(tmp_path: Path) -> None:
    folder, other = tmp_path / "shown", tmp_path / "other"
    for each in (folder, other):
        each.mkdir()
        (each / "a.txt").write_text(f"in {each.name}")
    run = ["npx", "-y", "@modelcontextprotocol/server-filesystem", str(folder)]
    with serving(tmp_path, run, {"read": [str(folder)]}) as gateway:
        async with connected(gateway) as client:
            read = await client.call_tool("read_text_file", {"path": f"{folder}/a.txt"})
            assert "in shown" in text_of(read)
            assert (await client.call_tool("read_text_file", {"path": f"{other}/a.txt"})).is_error
            written = await client.call_tool("write_file", {"path": f"{folder}/b.txt", "content": "x"})
            assert written.is_error
            assert not (folder / "b.txt").exists()


@pytest.mark.anyio
async def test_the_everything_server_needs_nothing(tmp_path: Path) -> None:
    run = ["npx", "-y", "@modelcontextprotocol/server-everything"]
    with serving(tmp_path, run, "none") as gateway:
        async with connected(gateway) as client:
            assert "hello" in text_of(await client.call_tool("echo", {"message": "hello"}))


@pytest.mark.anyio
async def test_the_memory_server_needs_one_file_that_stays(tmp_path: Path) -> None:
    run = ["npx", "-y", "@modelcontextprotocol/server-memory"]
    entities = [{"name": "ship", "entityType": "thing", "observations": ["afloat"]}]
    profile = {"write": ["volume://memory:/memory"]}
    data = {"MEMORY_FILE_PATH": "/memory/memory.json"}
    entry = {
        "id": "it",
        "workload": {"run": run, "env": data, "permission_profile": profile},
        "timeouts": {"connect_seconds": LIMIT_SECONDS},
    }
    (tmp_path / "data").mkdir()
    (tmp_path / "data/packages").symlink_to(PACKAGES)
    for _ in range(2):
        with running_gateway(tmp_path, [entry]) as gateway:
            async with connected(gateway) as client:
                await client.call_tool("create_entities", {"entities": entities})
                assert "afloat" in text_of(await client.call_tool("read_graph", {}))
    assert "afloat" in (tmp_path / "data/volumes/memory/memory.json").read_text()


@pytest.mark.anyio
async def test_the_time_server_needs_nothing(tmp_path: Path) -> None:
    with serving(tmp_path, ["uvx", "mcp-server-time", "--local-timezone=UTC"], "none") as gateway:
        async with connected(gateway) as client:
            answer = await client.call_tool("get_current_time", {"timezone": "Europe/Berlin"})
            assert "Europe/Berlin" in text_of(answer)


@pytest.mark.anyio
async def test_the_fetch_server_needs_its_hosts(tmp_path: Path, page: str) -> None:
    profile = {"network": {"outbound": {"allow_host": ["127.0.0.2"]}}}
    with serving(tmp_path, ["uvx", "mcp-server-fetch", "--allow-private-ips"], profile) as gateway:
        async with connected(gateway) as client:
            # Raw: to simplify a page it would install npm packages into itself, which it may not here.
            fetched = await client.call_tool("fetch", {"url": page, "raw": True})
            assert "a page of the test" in text_of(fetched)
            elsewhere = page.replace("127.0.0.2", "127.0.0.3")
            refused = await client.call_tool("fetch", {"url": elsewhere, "raw": True})
            assert refused.is_error


@pytest.mark.anyio
async def test_the_git_server_needs_its_repository(tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    subprocess.run(["git", "init", "--quiet", str(repository)], check=True)
    (repository / "a.txt").write_text("hello")
    run = ["uvx", "mcp-server-git", "--repository", str(repository)]
    with serving(tmp_path, run, {"write": [str(repository)]}) as gateway:
        async with connected(gateway) as client:
            arguments = {"repo_path": str(repository)}
            assert "a.txt" in text_of(await client.call_tool("git_status", arguments))
            added = await client.call_tool("git_add", {**arguments, "files": ["a.txt"]})
            assert not added.is_error
    status = subprocess.run(
        ["git", "-C", str(repository), "status", "--short"], capture_output=True, check=True
    )
    assert status.stdout == b"A  a.txt\n"
