"""Servers that speak HTTP inside a sandbox: reached by the gateway, and by nobody else unless published."""

from __future__ import annotations

import asyncio
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.workloads.sandbox_tools import running

from mooring.workloads.profile import Inbound, Network, PermissionProfile
from mooring.workloads.publishing import may_enter
from mooring.workloads.runtime import CommandSource, DidNotListen, PublishedPort, Spawned, WorkloadSpec
from mooring.workloads.sandbox import bubblewrap
from mooring.workloads.sandbox_runtime import ProcessRuntime

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(bubblewrap.program() is None, reason="bubblewrap is not installed"),
]
SERVER = """
import json, os
from http.server import BaseHTTPRequestHandler, HTTPServer

class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        info = {"name": "x", "version": "1"}
        result = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": info}
        body = b"" if "id" not in message else json.dumps(
            {"jsonrpc": "2.0", "id": message["id"], "result": result}).encode()
        self.send_response(200 if body else 202)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def do_GET(self):
        self.send_response(405)
        self.send_header("Content-Length", "0")
        self.end_headers()
    do_DELETE = do_GET
    def log_message(self, *_): pass

HTTPServer(("127.0.0.1", int(os.environ["MCP_PORT"])), Handler).serve_forever()
"""


def spec_of(tmp_path: Path, **more: Any) -> WorkloadSpec:
    script = tmp_path / "program/server.py"
    script.parent.mkdir()
    script.write_text(SERVER)
    command = CommandSource((sys.executable, str(script)))
    return WorkloadSpec("web", command, transport="streamable-http", **more)


@pytest.mark.anyio
async def test_a_server_that_listens_inside_is_reached_and_nothing_listens_outside(tmp_path: Path) -> None:
    async with running(ProcessRuntime(tmp_path / "data"), spec_of(tmp_path, target_port=38471)) as web:
        await web.wire()
        assert len(web.workload.pids) == 1
        assert [type(event) for event in web.events] == [Spawned]
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", 38471), timeout=2)
    assert (await asyncio.wait_for(web.workload.wait(), 5)).reason == "was stopped"


@pytest.mark.anyio
async def test_a_published_port_is_reachable_by_those_it_is_for(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    spec = spec_of(tmp_path, target_port=8080, publish=(PublishedPort(8080, "127.0.0.1", port),))
    async with running(ProcessRuntime(tmp_path / "data"), spec):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert b"405" in await asyncio.wait_for(reader.readline(), 10)
        writer.close()


@pytest.mark.anyio
async def test_a_published_port_is_closed_to_others(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    profile = PermissionProfile(network=Network(inbound=Inbound(allow_host=("10.0.0.1",))))
    published = (PublishedPort(8080, "127.0.0.1", port),)
    spec = spec_of(tmp_path, target_port=8080, publish=published, profile=profile)
    async with running(ProcessRuntime(tmp_path / "data"), spec):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        assert await asyncio.wait_for(reader.read(), 10) == b""
        writer.close()


@pytest.mark.anyio
async def test_who_may_enter_is_said_by_name_address_or_network() -> None:
    assert await may_enter("127.0.0.1", Inbound())
    assert not await may_enter("192.168.0.7", Inbound())
    assert await may_enter("192.168.0.7", Inbound(("192.168.0.0/16",)))
    assert await may_enter("::ffff:192.168.0.7", Inbound(("192.168.0.7",)))
    assert await may_enter("::1", Inbound(("localhost",)))
    assert not await may_enter("10.0.0.1", Inbound(("localhost",)))


@pytest.mark.anyio
async def test_a_server_that_does_not_listen_is_an_error_with_its_end(tmp_path: Path) -> None:
    spec = WorkloadSpec("web", CommandSource(("/usr/bin/false",)), transport="sse")
    with pytest.raises(DidNotListen, match="ended with exit code 1 before it listened"):
        async with running(ProcessRuntime(tmp_path / "data"), spec):
            pass
