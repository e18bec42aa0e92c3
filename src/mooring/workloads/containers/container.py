"""One server container with the holder it joined: created, started, watched, and taken away again."""

# aiodocker leaves its keyword arguments untyped.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from typing import Any, Final

from aiodocker.containers import DockerContainer
from aiodocker.exceptions import DockerError
from aiodocker.stream import Stream
from aiohttp import ClientError

from mooring.workloads.containers.connection import Connection
from mooring.workloads.containers.holder import Holder
from mooring.workloads.egress.proxy import EgressProxy
from mooring.workloads.runtime import CannotRun, Ended, OnEvent, Said, Spawned, Usage

STOP_SECONDS: Final = 5
_OUT_OF_MEMORY: Final = "the kernel ended it: it used more memory than its limit"


class Container:
    """Made by `start`; whoever made it must `close` it."""

    stream: Stream

    def __init__(self, connection: Connection, proxy: EgressProxy, on_event: OnEvent) -> None:
        self._connection = connection
        self._holder = Holder(connection, proxy)
        self._on_event = on_event
        self._server: DockerContainer | None = None
        self._watching: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None
        self._exit: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()
        self._stop_seconds = STOP_SECONDS
        self.gone = asyncio.Event()
        self.pid = 0

    def said(self, data: bytes) -> None:
        self._on_event(Said(data))

    @property
    def server(self) -> DockerContainer:
        assert self._server is not None
        return self._server

    async def start(
        self, name: str, settings: dict[str, Any], labels: dict[str, str], files: bytes = b""
    ) -> None:
        """The network first, the proxy into it, then the server: it never runs without its walls. `files`
        is an archive that is unpacked in it before."""
        try:
            await self._holder.start(f"{name}-holder", labels)
            join = f"container:{self._holder.id}"
            settings["HostConfig"] |= {"NetworkMode": join, "PidMode": join}
            self._server = await self._connection.docker.containers.create(settings, name=name)
            if files:
                await self._server.put_archive("/", files)
            self.stream = self._server.attach(stdin=settings["OpenStdin"], stdout=True, stderr=True)
            await self.stream._init()  # pyright: ignore[reportPrivateUsage]  before the start, or output is lost
            await self._server.start()
            state = (await self._server.show())["State"]
        except (DockerError, ClientError) as error:
            await self.close()
            why = error.message if isinstance(error, DockerError) else str(error)
            raise CannotRun(f"the container could not be started: {why}") from error
        except BaseException:
            await self.close()
            raise
        self.pid = int(state.get("Pid") or 0)
        self._on_event(Spawned(self.pid))
        self._watching = asyncio.get_running_loop().create_task(self._watch(self._server))

    async def _watch(self, server: DockerContainer) -> None:
        code, reason = 255, "is gone"
        with suppress(DockerError, ClientError, OSError):
            code = int((await server.wait())["StatusCode"])
            state = (await server.show())["State"]
            reason = _OUT_OF_MEMORY if state.get("OOMKilled") else f"ended with exit code {code}"
        ended = Ended(self.pid, code, reason)
        self._on_event(ended)
        if not self._exit.done():
            self._exit.set_result(ended)

    async def connect(self, port: int) -> socket.socket:
        return await self._holder.connect(port)

    async def wait(self) -> Ended:
        return await asyncio.shield(self._exit)

    async def usage(self) -> Usage:
        if self._server is None:
            return Usage(0, 0.0, 0)
        try:
            (stats,) = await self._server.stats(stream=False)
        except (DockerError, ClientError, ValueError):
            return Usage(0, 0.0, 0)
        return Usage(
            int(stats.get("memory_stats", {}).get("usage", 0)),
            int(stats.get("cpu_stats", {}).get("cpu_usage", {}).get("total_usage", 0)) / 1e9,
            int(stats.get("pids_stats", {}).get("current", 0)),
        )

    def kill(self) -> None:
        self._stop_seconds = 0

    async def close(self) -> None:
        """Stop and remove both containers; nothing of them is left afterwards."""
        if self._ending is None:
            self._ending = asyncio.get_running_loop().create_task(self._end())
        await asyncio.shield(self._ending)

    async def _end(self) -> None:
        if self._server is not None:
            with suppress(Exception):
                await self.stream.close()  # the end of its input, which is how a stdio server is told
            with suppress(DockerError, ClientError):
                await self._server.stop(t=self._stop_seconds)
            if self._watching is not None:  # it asks how the container ended, so that must still be there
                await asyncio.wait([self._watching], timeout=STOP_SECONDS)
            await self._connection.remove(self._server.id)
        await self._holder.end()
        self.gone.set()
