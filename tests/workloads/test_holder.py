"""The holder of a container's network, as a process of this machine: what it carries arrives whole."""

from __future__ import annotations

import asyncio
import hashlib
import platform
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from mooring.workloads.containers import holder
from mooring.workloads.containers.carrier import Carrier, Streams
from mooring.workloads.containers.holder import program
from mooring.workloads.containers.holder_program import SOURCE

ARCHITECTURE = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), "")
pytestmark = pytest.mark.skipif(not ARCHITECTURE, reason="there is no holder for this processor")
DATA = bytes(range(256)) * 4000
LIMIT_SECONDS = 30
Held = tuple[Carrier, asyncio.Queue[Streams], asyncio.subprocess.Process]


@asynccontextmanager
async def holding(
    tmp_path: Path,
) -> AsyncIterator[tuple[Carrier, asyncio.Queue[Streams], asyncio.subprocess.Process]]:
    """A running holder, its carrier, and what was accepted."""
    file = tmp_path / "holder"
    file.write_bytes(program(ARCHITECTURE))
    file.chmod(0o755)
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(str(file), stdin=pipe, stdout=pipe)
    assert process.stdin is not None
    assert process.stdout is not None
    into, out = process.stdin, process.stdout
    accepted: asyncio.Queue[Streams] = asyncio.Queue()

    async def send(data: bytes) -> None:
        into.write(data)
        await into.drain()

    carrier = Carrier(send, accepted.put_nowait)

    async def read() -> None:
        while data := await out.read(65536):
            carrier.feed(data)
        carrier.end()

    reading = asyncio.ensure_future(read())
    try:
        async with asyncio.timeout(LIMIT_SECONDS):
            yield carrier, accepted, process
            into.close()
            assert await process.wait() == 0, "it ends with its input"
    finally:
        if process.returncode is None:
            process.kill()
        await reading
        await carrier.close()


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


async def said_back(sock: socket.socket) -> bytes:
    """Everything that comes back when much is sent and the end is announced."""
    reader, writer = await asyncio.open_connection(sock=sock)
    sending = asyncio.ensure_future(_send(writer))
    answer = await reader.read()
    await sending
    writer.close()
    return answer


async def _send(writer: asyncio.StreamWriter) -> None:
    writer.write(DATA)
    await writer.drain()
    writer.write_eof()


def test_it_was_compiled_from_its_source() -> None:
    source = Path(holder.__file__).with_name("holder.c").read_bytes()
    assert hashlib.sha256(source).hexdigest() == SOURCE, "run `python scripts/build_holder.py`"


@pytest.mark.anyio
async def test_connections_into_the_network_carry_all_bytes_both_ways(tmp_path: Path) -> None:
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, holding(tmp_path) as (carrier, _, _):
        sockets = [await carrier.connect(port) for _ in range(10)]
        answers = await asyncio.gather(*(said_back(each) for each in sockets))
        assert all(answer == DATA for answer in answers)
        for _ in range(100):  # more than there are numbers for: each is free again after its connection
            (await carrier.connect(port)).close()


@pytest.mark.anyio
async def test_connections_out_of_the_network_carry_all_bytes_both_ways(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    async with holding(tmp_path) as (carrier, accepted, _):
        await carrier.listen(port)
        for _ in range(70):
            server = asyncio.ensure_future(_echo_next(accepted))
            sock = socket.create_connection(("127.0.0.1", port))
            sock.setblocking(False)
            reader, writer = await asyncio.open_connection(sock=sock)
            writer.write(b"hello")
            writer.write_eof()
            assert await reader.read() == b"hello"
            writer.close()
            await server


async def _echo_next(accepted: asyncio.Queue[Streams]) -> None:
    await echo(*await accepted.get())


@pytest.mark.anyio
async def test_a_port_that_nobody_listens_on_is_refused(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    async with holding(tmp_path) as (carrier, _, _):
        with pytest.raises(ConnectionRefusedError):
            await carrier.connect(port)


@pytest.mark.anyio
async def test_what_waits_for_a_holder_that_ends_is_told(tmp_path: Path) -> None:
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    async with server, holding(tmp_path) as (carrier, _, process):
        sock = await carrier.connect(port)
        reader, writer = await asyncio.open_connection(sock=sock)
        assert process.stdin is not None
        process.stdin.close()
        assert await reader.read() == b""
        writer.close()
