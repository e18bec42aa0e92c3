"""The official clients as peers: Python in every mode, TypeScript over each transport; a published server."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import anyio
import mcp
import pytest
from mcp.client.sse import sse_client
from tests.e2e.conftest import SERVERS, Harbour
from tests.support.gateway import (
    SUPPORT,
    Gateway,
    program,
    running_gateway,
    running_process_on_port,
)
from tests.support.official import MODES, connected

ROOT = Path(__file__).parents[2]
MODULES = ROOT / "node_modules"
NODE = MODULES / "node/bin/node"
EVERYTHING = MODULES / "@modelcontextprotocol/server-everything/dist/index.js"

needs_node = pytest.mark.skipif(
    not (NODE.exists() and EVERYTHING.exists()), reason="npm packages are missing: run `npm ci`"
)


async def talk(client: mcp.Client) -> None:
    """What the scripted server has to offer, as the official client sees it."""
    seen: list[float] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append(progress)

    assert "echo" in [tool.name for tool in (await client.list_tools()).tools]
    echoed = await client.call_tool("echo", {"text": "hello"})
    assert echoed.content[0].text == "hello"  # pyright: ignore[reportAttributeAccessIssue]
    await client.call_tool("count", {"steps": 3}, progress_callback=on_progress)
    assert seen == [1, 2, 3]
    for kind in ("elicitation", "sampling", "roots"):
        answer = await client.call_tool("ask", {"kind": kind})
        assert not answer.is_error
    read = await client.read_resource("item://1")
    assert read.contents[0].text == "content of item://1"  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(mcp.MCPError, match="no such item"):
        await client.read_resource("item://99")


@pytest.mark.anyio
@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("mode", MODES)
async def test_the_python_client_over_streamable_http(harbour: Harbour, server: str, mode: str) -> None:
    async with connected(harbour.gateway.url(server), mode) as client:
        await talk(client)


@pytest.mark.anyio
@pytest.mark.parametrize("server", SERVERS)
async def test_the_python_client_over_http_sse(harbour: Harbour, server: str) -> None:
    async with connected(sse_client(harbour.gateway.url(server) + "/sse"), "legacy") as client:
        await talk(client)


@pytest.mark.anyio
@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("mode", MODES[:2])
async def test_the_python_client_over_the_stdio_bridge(harbour: Harbour, server: str, mode: str) -> None:
    environment = {"MOORING_SOCKET": str(harbour.gateway.socket)}
    bridge = mcp.StdioServerParameters(command=program(), args=["proxy", "stdio", server], env=environment)
    async with connected(bridge, mode) as client:
        await talk(client)


@needs_node
@pytest.mark.parametrize(
    ("kind", "server"),
    [("http", server) for server in SERVERS]
    + [(kind, server) for kind in ("sse", "stdio") for server in ("stdio-legacy", "http-modern")],
)
def test_the_typescript_client(harbour: Harbour, server: str, kind: str) -> None:
    gateway = harbour.gateway
    target = [program(), "proxy", "stdio", server] if kind == "stdio" else [gateway.url(server)]
    done = subprocess.run(
        [str(NODE), str(SUPPORT / "typescript_client.mjs"), kind, *target],
        env={**os.environ, "MOORING_SOCKET": str(gateway.socket)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    outcome = json.loads(done.stdout)
    assert outcome["server"] == "scripted"
    assert len(outcome["tools"]) == 14
    assert outcome["echo"] == "hello"
    assert outcome["progress"] == [1, 2, 3]
    assert outcome["elicitation"]["content"] == {"colour": "blue"}
    assert outcome["sampling"]["model"] == "m"
    assert outcome["roots"]["roots"][0]["uri"] == "file:///here"
    assert outcome["cancelled"] is True
    assert outcome["updated"] == "item://1"


# A published server


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    command = [str(NODE), str(EVERYTHING)]
    with ExitStack() as stack:
        sse = stack.enter_context(running_process_on_port([*command, "sse"]))
        http = stack.enter_context(running_process_on_port([*command, "streamableHttp"]))
        servers = [
            {"id": "stdio", "workload": {"run": [*command, "stdio"]}, "share": "global"},
            {"id": "sse", "upstream": {"url": f"http://127.0.0.1:{sse}/sse"}},
            {"id": "http", "upstream": {"url": f"http://127.0.0.1:{http}/mcp"}},
        ]
        yield stack.enter_context(running_gateway(tmp_path_factory.mktemp("everything"), servers))


@needs_node
@pytest.mark.anyio
@pytest.mark.parametrize("transport", ["stdio", "sse", "http"])
@pytest.mark.parametrize("mode", MODES)
async def test_the_published_server_in_every_mode(everything: Gateway, transport: str, mode: str) -> None:
    seen: list[float] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        seen.append(progress)

    async with connected(everything.url(transport), mode) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        assert "echo" in names
        echoed = await client.call_tool("echo", {"message": "ahoy"})
        assert "ahoy" in echoed.content[0].text  # pyright: ignore[reportAttributeAccessIssue]
        slow = {"duration": 1, "steps": 2}
        await client.call_tool("trigger-long-running-operation", slow, progress_callback=on_progress)
        assert seen[-1] == 2
        assert (await client.list_resources()).resources
        assert (await client.list_prompts()).prompts


@needs_node
def test_a_desktop_style_file_is_served_as_it_is(tmp_path: Path) -> None:
    config = {"mcpServers": {"everything": {"command": str(NODE), "args": [str(EVERYTHING), "stdio"]}}}
    file = tmp_path / "desktop.json"
    file.write_text(json.dumps(config))
    environment = {**os.environ, "XDG_DATA_HOME": str(tmp_path)}
    command = [program(), "serve", "--config", str(file), "--listen", "127.0.0.1:0", "--print-snippet"]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            lines = [process.stdout.readline()]
            while lines[-1].rstrip() != "}":
                lines.append(process.stdout.readline())
            url = json.loads("".join(lines))["mcpServers"]["everything"]["url"]

            async def use() -> None:
                async with connected(url, "auto") as client:
                    assert (await client.list_tools()).tools

            anyio.run(use)
        finally:
            process.terminate()
            process.communicate(timeout=15)
