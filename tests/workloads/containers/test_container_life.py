"""How containers end: with their gateway, however that ends, and with nothing left over."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from pathlib import Path

import aiodocker
import pytest
from tests.support.waiting import alive, eventually
from tests.workloads.containers.setup import IMAGE, PYTHON
from tests.workloads.containers.tools import contained, web_spec
from tests.workloads.daemon import somebody

from mooring.workloads.containers.engines import current_engines
from mooring.workloads.profile import Inbound, Network, PermissionProfile
from mooring.workloads.runtime import DidNotListen, ImageSource, PublishedPort, WorkloadSpec

pytestmark = pytest.mark.e2e


async def containers_of(engine: str) -> list[str]:
    place = next(found.socket for found in current_engines() if found.name == engine)
    async with aiodocker.Docker(url=f"unix://{place}") as docker:
        found = await docker.containers.list(all=True)
    return [name for entry in found for name in entry["Names"]]


def processes_with(word: str) -> list[int]:
    """Processes of this machine that have this word in their command line, also those in containers."""
    found: list[int] = []
    for entry in Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0") if entry.name.isdigit() else []
        except OSError:
            continue
        if words and word.encode() in words and PYTHON.encode() == words[0]:
            found.append(int(entry.name))
    return found


@pytest.mark.anyio
async def test_after_a_kill_nothing_runs_and_a_new_start_leaves_nothing_over(
    engine: str, tmp_path: Path
) -> None:
    program = f"/program-{tmp_path.name}/web.py"
    web_spec(tmp_path / "program")
    with somebody(tmp_path / "home") as person:
        (place,) = (found.socket for found in current_engines() if found.name == engine)
        person.environment[f"MOORING_{engine.upper()}_SOCKET"] = str(place)
        volume = f"{tmp_path / 'program'}:{Path(program).parent}:ro"
        flags = ("--runtime", engine, "--name", "web", "--transport", "streamable-http", "--volume", volume)
        person("run", *flags, IMAGE, "--", PYTHON, program)
        before = set(await containers_of(engine))
        assert len(before) == 2, "the server and its holder"
        (pid,) = processes_with(program)
        person.kill()
        eventually(lambda: not alive(pid), "the server to end with its gateway")
        person("start", "web")  # whatever needs the gateway starts it
        eventually(lambda: person.status("web") == "running", "the server to run again", limit=60)
        after = set(await containers_of(engine))
        assert len(after) == 2
        assert not after & before
        person("rm", "web")
        assert await containers_of(engine) == []
        assert processes_with(program) == []


@pytest.mark.anyio
async def test_a_server_that_ends_by_itself_says_how(engine: str, tmp_path: Path) -> None:
    spec = web_spec(tmp_path / "program", env={"MCP_PORT": "none"})
    with pytest.raises(DidNotListen, match="ended with exit code 1 before it listened"):
        async with contained(engine, tmp_path / "data", spec):
            pass
    assert await containers_of(engine) == []


@pytest.mark.anyio
async def test_only_the_gateway_reaches_a_server_unless_it_is_published(engine: str, tmp_path: Path) -> None:
    async with contained(engine, tmp_path / "data", web_spec(tmp_path / "program", target_port=38472)) as web:
        await web.wire()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", 38472), timeout=2)


@pytest.mark.anyio
async def test_a_published_port_is_for_those_it_names(engine: str, tmp_path: Path) -> None:
    ports = [free_port(), free_port()]
    for port, allowed in zip(ports, ((), ("10.0.0.1",)), strict=True):
        profile = PermissionProfile(network=Network(inbound=Inbound(allow_host=allowed)))
        published = (PublishedPort(8080, "127.0.0.1", port),)
        spec = web_spec(tmp_path / f"program-{port}", publish=published, profile=profile)
        async with contained(engine, tmp_path / "data", spec):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            with suppress(ConnectionResetError):
                answer = await asyncio.wait_for(reader.read(), 10)
                assert answer.startswith(b"HTTP/1.1 405") is not bool(allowed), answer
            writer.close()


@pytest.mark.anyio
async def test_a_server_that_speaks_sse_finds_its_port_in_its_arguments(engine: str, tmp_path: Path) -> None:
    folder = tmp_path / "program"
    folder.mkdir()
    (folder / "sse.py").write_text(SSE_SERVER)
    spec = WorkloadSpec(
        "sse",
        ImageSource(IMAGE),
        arguments=(PYTHON, "/program/sse.py", "--port={port}"),
        transport="sse",
        path="/sse",
        profile=PermissionProfile(read=(f"{folder}:/program",)),
    )
    async with contained(engine, tmp_path / "data", spec) as server:
        await server.wire()
        assert (await server.request("ping", {})) == {}


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


SSE_SERVER = """
import json, queue, sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

told = queue.Queue()
INFO = {"name": "x", "version": "1"}

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        self.wfile.write(b"event: endpoint\\ndata: /messages\\n\\n")
        while True:
            self.wfile.write(b"event: message\\ndata: " + json.dumps(told.get()).encode() + b"\\n\\n")
    def do_POST(self):
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        result = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": INFO}
        if "id" in message:
            result = result if message["method"] == "initialize" else {}
            told.put({"jsonrpc": "2.0", "id": message["id"], "result": result})
        self.send_response(202)
        self.send_header("Content-Length", "0")
        self.end_headers()
    def log_message(self, *_): pass

ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1].partition("=")[2])), Handler).serve_forever()
"""
