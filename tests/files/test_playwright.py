"""`@playwright/mcp` from npm with the distribution's Chromium: its uploads and screenshots."""

from __future__ import annotations

import base64
import shutil
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import anyio
import mcp
import pytest
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client
from tests.files.conftest import form, http_request, serving
from tests.support.gateway import Gateway, running_process_on_port
from tests.support.waiting import eventually

MODULES = Path(__file__).parents[2] / "node_modules"
NODE = MODULES / "node/bin/node"
PROGRAM = MODULES / "@playwright/mcp/cli.js"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PAGE = b"""<!doctype html><title>Form</title><h1>Choose</h1><input type=file aria-label=Pick
 onchange="this.files[0].text().then(text => document.title = this.files[0].name + ': ' + text)">"""
FILE_TOOLS: list[dict[str, Any]] = [
    {"type": "upload_consumer", "tools": ["browser_file_upload"], "file_path_argument": "paths"},
    {
        "type": "artifact_producer",
        "tools": ["browser_take_screenshot"],
        "output_path_argument": "filename",
        "output_locator": {"mode": "embedded"},
    },
]
SECONDS = 90

pytestmark = pytest.mark.skipif(
    not PROGRAM.exists() or CHROMIUM is None,
    reason="`@playwright/mcp` or Chromium is missing: run `npm ci` and scripts/setup_browser.py",
)


@pytest.fixture(scope="module")
def website() -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(PAGE)))
            self.end_headers()
            self.wfile.write(PAGE)

        def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
            """Nobody reads it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()
    thread.join(5)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("playwright")
    node = str(NODE) if NODE.exists() else shutil.which("node") or "node"
    flags = ["--headless", "--no-sandbox", "--isolated", "--allow-unrestricted-file-access"]
    flags += ["--host=127.0.0.1", "--allowed-hosts=*"]
    # It is told its port as a flag; `sh` puts the variable there.
    command = ["sh", "-c", 'exec "$@" --port "$PORT"', "sh", node, str(PROGRAM), *flags]
    command += ["--executable-path", str(CHROMIUM), "--output-dir", str(folder / "own")]
    with running_process_on_port(command) as port:
        server = {
            "id": "browser",
            "upstream": {"url": f"http://127.0.0.1:{port}/mcp"},
            "timeouts": {"call_seconds": SECONDS},
            "adapters": FILE_TOOLS,
        }
        with serving(folder, server) as found:
            yield found


@pytest.fixture(scope="module")
def sandboxed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Gateway, dict[str, str]]]:
    """The same program in a sandbox, where it sees itself and the files of its session; and a key to it."""
    if shutil.which("bwrap") is None:
        pytest.skip("bubblewrap is missing: run `apt-get install bubblewrap`")
    node = str(NODE) if NODE.exists() else shutil.which("node") or "node"
    flags = ["--headless", "--no-sandbox", "--isolated", "--allow-unrestricted-file-access"]
    run = [node, str(PROGRAM), *flags, "--executable-path", str(CHROMIUM), "--output-dir", "/tmp/own"]
    # What the distribution's start script of Chromium reads.
    needed = [name for name in ("/etc/chromium.d", "/etc/chromium") if Path(name).exists()]
    workload = {"run": run, "permission_profile": {"read": needed}, "cwd": str(PROGRAM.parent)}
    server = {
        "id": "browser",
        "workload": workload,
        "timeouts": {"call_seconds": SECONDS, "connect_seconds": SECONDS},
        "adapters": FILE_TOOLS,
    }
    # Only who is known has the same browser in every call of 2026-07-28.
    with serving(tmp_path_factory.mktemp("sandboxed"), server, auth={"mode": "api_key"}) as found:
        key = {"Authorization": f"Bearer {found.command('key', 'create', 'me').stdout.strip()}"}
        eventually(
            lambda: http_request("POST", found.url("browser"), b"{}", key).status != 401,
            "the key to be known",
        )
        yield found, key


def texts(result: Any) -> str:
    return "\n".join(block.text for block in result.content if block.type == "text")


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_browser_gets_a_file_and_hands_over_a_picture(
    gateway: Gateway, website: str, mode: str
) -> None:
    with anyio.fail_after(SECONDS):
        async with mcp.Client(gateway.url("browser"), mode=mode) as client:
            await _use_files(client, website)


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_a_sandboxed_browser_sees_its_files_and_nothing_else(
    sandboxed: tuple[Gateway, dict[str, str]], mode: str
) -> None:
    gateway, key = sandboxed
    page = f"data:text/html;base64,{base64.b64encode(PAGE).decode()}"
    with anyio.fail_after(SECONDS):
        async with (
            create_mcp_http_client(key) as http,
            mcp.Client(streamable_http_client(gateway.url("browser"), http_client=http), mode=mode) as client,
        ):
            await _use_files(client, page)
            roots = _roots()
            assert roots
            for root in roots:
                assert sorted(entry.name for entry in (root / "files").iterdir()) == ["in", "out"]
                assert not Path(f"{root}{gateway.folder}").exists()
                assert not Path(f"{root}{Path(__file__).parent}").exists()


def _roots() -> list[Path]:
    """The file system as each sandboxed process of the program sees it."""
    found: list[Path] = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            is_boxed = (folder / "ns/mnt").readlink() != Path("/proc/self/ns/mnt").readlink()
        except OSError:
            continue
        if words[1:2] == [str(PROGRAM).encode()] and is_boxed:
            found.append(folder / "root")
    return found


async def _use_files(client: mcp.Client, page: str) -> None:
    """Choose a file on a page, and take a picture of it."""
    opened = await client.call_tool("browser_navigate", {"url": page})
    assert not opened.is_error, texts(opened)
    about = (await client.call_tool("browser_get_upload_url", {})).structured_content
    assert about is not None
    body, kind = form(("hello.txt", b"across the boundary"))
    headers = {**about["headers"], "Content-Type": kind}
    handle = http_request("POST", about["upload_url"], body, headers).json["upload_handle"]
    target = _reference(texts(await client.call_tool("browser_snapshot", {})))
    clicked = await client.call_tool("browser_click", {"element": "Pick", "target": target, "ref": target})
    assert not clicked.is_error, texts(clicked)
    sent = await client.call_tool("browser_file_upload", {"paths": [handle]})
    assert not sent.is_error, texts(sent)
    seen = texts(await client.call_tool("browser_snapshot", {}))
    assert "hello.txt: across the boundary" in seen, seen
    shot = await client.call_tool("browser_take_screenshot", {"filename": "page.png"})
    assert not shot.is_error, texts(shot)
    assert shot.meta is not None, texts(shot)
    made = shot.meta["artifact"]
    assert made["mime_type"] == "image/png"
    assert made["artifact_uri"] in [block.uri for block in shot.content if block.type == "resource_link"]
    read = await client.read_resource(made["artifact_uri"])
    assert read.contents[0].mime_type == "image/png"
    assert http_request("GET", made["download_url"]).body.startswith(b"\x89PNG")


def _reference(snapshot: str) -> str:
    """What the file button is called in a snapshot."""
    line = next(line for line in snapshot.splitlines() if "Pick" in line)
    return line.partition("[ref=")[2].partition("]")[0]
