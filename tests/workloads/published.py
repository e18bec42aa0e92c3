"""What published servers are asked, whatever they run in: each does its work and nothing more."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anyio
import mcp

LIMIT_SECONDS = 100
ENTITIES = [{"name": "ship", "entityType": "thing", "observations": ["afloat"]}]


class _Page(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        found = self.path != "/robots.txt"
        self.send_response(200 if found else 404)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<html><body><p>a page of the test</p></body></html>" if found else b"")

    def log_message(self, *_: object) -> None: ...


@contextmanager
def page_served() -> Iterator[str]:
    """A page at an address that a profile has to name; its URL."""
    server = ThreadingHTTPServer(("127.0.0.2", 0), _Page)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.2:{server.server_port}"
    server.shutdown()
    server.server_close()


@asynccontextmanager
async def connected(url: str, limit: float = LIMIT_SECONDS) -> AsyncIterator[mcp.Client]:
    """The official client."""
    with anyio.fail_after(limit):
        async with mcp.Client(url) as client:
            yield client


def text_of(result: Any) -> str:
    return "".join(block.text for block in result.content if block.type == "text")


def two_folders(place: Path) -> tuple[Path, Path]:
    """One that is shown to a server, and one that is not."""
    for name in ("shown", "other"):
        (place / name).mkdir(parents=True)
        (place / name / "a.txt").write_text(f"in {name}")
    return place / "shown", place / "other"


async def reads_its_folder_and_no_other(client: mcp.Client, folder: Path, other: Path) -> None:
    read = await client.call_tool("read_text_file", {"path": f"{folder}/a.txt"})
    assert "in shown" in text_of(read)
    assert (await client.call_tool("read_text_file", {"path": f"{other}/a.txt"})).is_error
    written = await client.call_tool("write_file", {"path": f"{folder}/b.txt", "content": "x"})
    assert written.is_error
    assert not (folder / "b.txt").exists()


async def echoes(client: mcp.Client) -> None:
    assert "hello" in text_of(await client.call_tool("echo", {"message": "hello"}))


async def remembers(client: mcp.Client) -> None:
    await client.call_tool("create_entities", {"entities": ENTITIES})
    assert "afloat" in text_of(await client.call_tool("read_graph", {}))


async def tells_the_time(client: mcp.Client) -> None:
    answer = await client.call_tool("get_current_time", {"timezone": "Europe/Berlin"})
    assert "Europe/Berlin" in text_of(answer)


async def fetches_what_it_may(client: mcp.Client, page: str) -> None:
    # Raw: to simplify a page it would install npm packages into itself, which it may not here.
    fetched = await client.call_tool("fetch", {"url": page, "raw": True})
    assert "a page of the test" in text_of(fetched)
    elsewhere = page.replace("127.0.0.2", "127.0.0.3")
    refused = await client.call_tool("fetch", {"url": elsewhere, "raw": True})
    assert refused.is_error


def new_repository(place: Path) -> Path:
    subprocess.run(["git", "init", "--quiet", str(place)], check=True)
    (place / "a.txt").write_text("hello")
    return place


async def adds_a_file(client: mcp.Client, repository: Path) -> None:
    arguments = {"repo_path": str(repository)}
    assert "a.txt" in text_of(await client.call_tool("git_status", arguments))
    added = await client.call_tool("git_add", {**arguments, "files": ["a.txt"]})
    assert not added.is_error, text_of(added)
    status = subprocess.run(
        ["git", "-C", str(repository), "status", "--short"], capture_output=True, check=True
    )
    assert status.stdout == b"A  a.txt\n"
