"""One server container with the network it joined: created, started, watched, and taken away again."""

# aiodocker leaves its keyword arguments untyped.
# pyright: reportUnknownMemberType=false

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any, Final

import aiodocker
from aiodocker.containers import DockerContainer
from aiodocker.exceptions import DockerError
from aiodocker.stream import Stream

from mooring.workloads.containers.network import ensure_pause_image, holder_settings, open_network
from mooring.workloads.egress.proxy import EgressProxy
from mooring.workloads.runtime import CannotRun, Ended, OnEvent, Said, Spawned, Usage
from mooring.workloads.sandbox.inside import InsideNetwork

STOP_SECONDS: Final = 5
_OUT_OF_MEMORY: Final = "the kernel ended it: it used more memory than its limit"


class Container:
    """Made by `start`; whoever made it must `end` it."""

    stream: Stream

    def __init__(self, docker: aiodocker.Docker, proxy: EgressProxy, on_event: OnEvent) -> None:
        self._docker = docker
        self._proxy = proxy
        self._on_event = on_event
        self._holder: DockerContainer | None = None
        self._server: DockerContainer | None = None
        self._watching: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None
        self._exit: asyncio.Future[Ended] = asyncio.get_running_loop().create_future()
        self.network: InsideNetwork | None = None
        self.pid = 0

    def said(self, data: bytes) -> None:
        self._on_event(Said(data))

    async def start(self, name: str, settings: dict[str, Any], labels: dict[str, str]) -> None:
        """The network first, the proxy into it, then the server: it never runs without its walls."""
        try:
            await ensure_pause_image(self._docker)
            self._holder = await self._docker.containers.create(
                holder_settings({**labels, "mooring.role": "network"}), name=f"{name}-network"
            )
            await self._holder.start()
            self.network = await open_network((await self._holder.show())["State"]["Pid"])
            await self._proxy.listen(self.network.egress)
            settings["HostConfig"]["NetworkMode"] = f"container:{self._holder.id}"
            self._server = await self._docker.containers.create(settings, name=name)
            self.stream = self._server.attach(stdin=settings["OpenStdin"], stdout=True, stderr=True)
            await self.stream._init()  # pyright: ignore[reportPrivateUsage]  before the start, or output is lost
            await self._server.start()
            state = (await self._server.show())["State"]
        except DockerError as error:
            await self.end()
            raise CannotRun(f"the container could not be started: {error.message}") from error
        except BaseException:
            await self.end()
            raise
        self.pid = int(state.get("Pid") or 0)
        self._on_event(Spawned(self.pid))
        self._watching = asyncio.get_running_loop().create_task(self._watch(self._server))

    async def _watch(self, server: DockerContainer) -> None:
        code, reason = 255, "is gone"
        with suppress(DockerError):
            code = int((await server.wait())["StatusCode"])
            state = (await server.show())["State"]
            reason = _OUT_OF_MEMORY if state.get("OOMKilled") else f"ended with exit code {code}"
        ended = Ended(self.pid, code, reason)
        self._on_event(ended)
        if not self._exit.done():
            self._exit.set_result(ended)

    async def wait(self) -> Ended:
        return await asyncio.shield(self._exit)

    async def usage(self) -> Usage:
        if self._server is None:
            return Usage(0, 0.0, 0)
        try:
            (stats,) = await self._server.stats(stream=False)
        except (DockerError, ValueError):
            return Usage(0, 0.0, 0)
        return Usage(
            int(stats.get("memory_stats", {}).get("usage", 0)),
            int(stats.get("cpu_stats", {}).get("cpu_usage", {}).get("total_usage", 0)) / 1e9,
            int(stats.get("pids_stats", {}).get("current", 0)),
        )

    async def end(self) -> None:
        """Stop and remove both containers; nothing of them is left afterwards."""
        if self._ending is None:
            self._ending = asyncio.get_running_loop().create_task(self._end())
        await asyncio.shield(self._ending)

    async def _end(self) -> None:
        if self._server is not None:
            with suppress(Exception):
                await self.stream.close()  # the end of its input, which is how a stdio server is told
            with suppress(DockerError):
                await self._server.stop(t=STOP_SECONDS)
        for container in (self._server, self._holder):
            if container is not None:
                with suppress(DockerError):
                    await container.delete(force=True)
        if self._watching is not None:
            await asyncio.gather(self._watching, return_exceptions=True)
        if self.network is not None:
            await self._proxy.stop_listening(self.network.egress)
            self.network.close()
