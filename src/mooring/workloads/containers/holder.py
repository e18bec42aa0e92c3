"""The container that a server's container joins: it holds the network and is the first process.

It ends with the gateway, and the server with it. The egress proxy is in its network before the server is.
"""

# aiodocker leaves its keyword arguments untyped.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import asyncio
import base64
import io
import secrets
import socket
import tarfile
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from aiodocker.containers import DockerContainer
from aiodocker.exceptions import DockerError
from aiodocker.stream import Stream
from aiohttp import ClientError

from mooring.workloads.containers.carrier import Carrier
from mooring.workloads.containers.connection import Connection
from mooring.workloads.containers.holder_program import PROGRAMS, SOURCE
from mooring.workloads.containers.network import open_network
from mooring.workloads.egress.proxy import PORT, EgressProxy
from mooring.workloads.runtime import CannotRun
from mooring.workloads.sandbox.inside import InsideNetwork

IMAGE: Final = f"localhost/mooring-holder-{SOURCE[:12]}:latest"  # Podman 4 imports under no other tag


class Holder:
    """Made by `start`; whoever made it must `end` it."""

    def __init__(self, connection: Connection, proxy: EgressProxy) -> None:
        self._connection = connection
        self._proxy = proxy
        self._container: DockerContainer | None = None
        self._stream: Stream | None = None
        self._network: InsideNetwork | None = None
        self._carrier = Carrier(self._write, proxy.take)
        self._reading: asyncio.Task[None] | None = None

    @property
    def id(self) -> str:
        assert self._container is not None
        return self._container.id

    async def start(self, name: str, labels: dict[str, str]) -> None:
        """Start it, and put the egress proxy into its network."""
        await _ensure_image(self._connection)
        mark = secrets.token_hex(16)
        docker = self._connection.docker
        self._container = await docker.containers.create(
            _settings({**labels, "mooring.role": "holder"}, mark), name=name
        )
        self._stream = self._container.attach(stdin=True, stdout=True)
        await self._stream._init()  # pyright: ignore[reportPrivateUsage]  before the start, or output is lost
        await self._container.start()
        self._reading = asyncio.get_running_loop().create_task(self._read(self._stream))
        pid = int((await self._container.show())["State"].get("Pid") or 0)
        self._network = await self._enter(pid, mark)
        if self._network is not None:
            await self._proxy.listen(self._network.egress)
        else:
            await self._carrier.listen(PORT)

    async def _enter(self, pid: int, mark: str) -> InsideNetwork | None:
        """Sockets of its network, if it is on this machine and we may; remembered if not."""
        if self._connection.may_enter:
            with suppress(CannotRun, OSError):
                # Seen from a virtual machine the number would be that of some other process of ours.
                if mark in await asyncio.to_thread(_command_line, pid):
                    return await open_network(pid)
        self._connection.may_enter = False
        return None

    async def connect(self, port: int) -> socket.socket:
        """A connection to what listens on loopback in its network."""
        if self._network is not None:
            return await self._network.connect(port)
        return await self._carrier.connect(port)

    async def _write(self, data: bytes) -> None:
        assert self._stream is not None
        await self._stream.write_in(data)

    async def _read(self, stream: Stream) -> None:
        with suppress(OSError, ClientError, RuntimeError):
            while (message := await stream.read_out()) is not None:
                self._carrier.feed(message.data)
        self._carrier.end()

    async def end(self) -> None:
        """Nothing of it is left afterwards."""
        if self._stream is not None:
            with suppress(Exception):
                await self._stream.close()
        if self._container is not None:
            await self._connection.remove(self._container.id)
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        await self._carrier.close()
        if self._network is not None:
            await self._proxy.stop_listening(self._network.egress)
            self._network.close()


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except (OSError, UnicodeDecodeError):
        return ""


def _settings(labels: dict[str, str], mark: str) -> dict[str, Any]:
    return {
        "Image": IMAGE,
        "Entrypoint": ["/holder", mark],
        "Cmd": [],
        "Labels": labels,
        "OpenStdin": True,
        "StdinOnce": True,  # its input ends with us, and it with its input
        "AttachStdin": True,
        "AttachStdout": True,
        "AttachStderr": False,
        "Tty": False,
        "HostConfig": {
            "NetworkMode": "none",
            "CapDrop": ["ALL"],
            "ReadonlyRootfs": True,
            "SecurityOpt": ["no-new-privileges"],
            "Memory": 16 * 1024**2,
            "PidsLimit": 8,
            "LogConfig": {"Type": "none"},
        },
    }


async def _ensure_image(connection: Connection) -> None:
    """Import the image unless the engine has it."""
    docker = connection.docker
    async with connection.importing:
        try:
            await docker.images.inspect(IMAGE)
        except DockerError:
            parameters = {"fromSrc": "-", "repo": IMAGE.rpartition(":")[0]}
            headers = {"Content-Type": "application/x-tar"}
            data = image_archive(connection.architecture)
            async with docker._query(  # pyright: ignore[reportPrivateUsage]  there is no public way to import
                "images/create", "POST", params=parameters, data=data, headers=headers
            ) as response:
                await response.read()


def program(architecture: str) -> bytes:
    """The executable; `CannotRun` for a processor there is none for."""
    packed = PROGRAMS.get(architecture)
    if packed is None:
        raise CannotRun(f"containers are not supported on `{architecture}`: use `--runtime process`")
    return zlib.decompress(base64.b64decode(packed))


def image_archive(architecture: str) -> bytes:
    """The root file system of the image, as an engine imports it."""
    data = program(architecture)
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        entry = tarfile.TarInfo("holder")
        entry.mode, entry.size = 0o755, len(data)
        archive.addfile(entry, io.BytesIO(data))
    return buffer.getvalue()
