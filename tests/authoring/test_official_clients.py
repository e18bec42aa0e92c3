"""Authored servers as the official clients see them: Python in every mode, TypeScript, every transport."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import anyio
import mcp
import pytest
from mcp.client.sse import sse_client
from tests.support.official import MODES, connected

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
NODE = ROOT / "node_modules/node/bin/node"
STDIO = [sys.executable, str(HERE / "scripted_server.py"), "stdio"]

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.anyio,
    # Deprecated is not gone: these features have to work until the last revision that has them.
    pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning"),
]


@pytest.fixture(scope="module")
def base() -> Generator[str]:
    """An authored server on HTTP."""
    command = [sys.executable, str(HERE / "scripted_server.py"), "http"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.terminate()
            process.communicate(timeout=15)


async def talk(client: mcp.Client) -> None:
    seen: list[float] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append(progress)

    assert [tool.name for tool in (await client.list_tools()).tools][:2] == ["echo", "count"]
    echoed = await client.call_tool("echo", {"text": "hello"})
    assert echoed.content[0].text == "hello"  # pyright: ignore[reportAttributeAccessIssue]
    await client.call_tool("count", {"steps": 3}, progress_callback=on_progress)
    assert seen == [1, 2, 3]
    heard = [
        (await client.call_tool("ask", {"kind": kind})).structured_content
        for kind in ("elicitation", "sampling", "roots")
    ]
    assert heard == [
        {"heard": {"action": "accept", "content": {"colour": "blue"}}},
        {"heard": {"model": "m", "text": "hi"}},
        {"heard": {"roots": [{"uri": "file:///here"}]}},
    ]
    with anyio.move_on_after(0.2) as scope:
        await client.call_tool("wait", {})
    assert scope.cancelled_caught
    read = await client.read_resource("item://1")
    assert read.contents[0].text == "content of item 1"  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(mcp.MCPError, match="no such item"):
        await client.read_resource("item://99")


@pytest.mark.parametrize("mode", MODES)
async def test_the_python_client_over_streamable_http(base: str, mode: str) -> None:
    async with connected(f"{base}/mcp", mode) as client:
        await talk(client)


async def test_the_python_client_over_http_sse(base: str) -> None:
    async with connected(sse_client(f"{base}/sse"), "legacy") as client:
        await talk(client)


@pytest.mark.parametrize("mode", MODES)
async def test_the_python_client_over_stdio(mode: str) -> None:
    server = mcp.StdioServerParameters(command=STDIO[0], args=STDIO[1:])
    async with connected(server, mode) as client:
        await talk(client)


@pytest.mark.skipif(not NODE.exists(), reason="npm packages are missing: run `npm ci`")
@pytest.mark.parametrize("kind", ["http", "sse", "stdio"])
def test_the_typescript_client(base: str, kind: str) -> None:
    target = {"http": [f"{base}/mcp"], "sse": [base], "stdio": STDIO}[kind]
    done = subprocess.run(
        [str(NODE), str(ROOT / "tests/support/typescript_client.mjs"), kind, *target],
        env=dict(os.environ),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout)
    assert outcome["server"] == "scripted"
    assert outcome["echo"] == "hello"
    assert outcome["progress"] == [1, 2, 3]
    assert outcome["elicitation"]["content"] == {"colour": "blue"}
    assert outcome["sampling"]["model"] == "m"
    assert outcome["roots"]["roots"][0]["uri"] == "file:///here"
    assert outcome["cancelled"] is True
    assert outcome["updated"] == "item://1"
