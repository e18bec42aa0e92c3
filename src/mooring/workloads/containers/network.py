"""A container's network before the container: held by a waiting one, with the egress proxy already in it."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from typing import Any, Final

import aiodocker
from aiodocker.exceptions import DockerError

from mooring.workloads.containers.pause import IMAGE, image_archive
from mooring.workloads.egress.proxy import PORT
from mooring.workloads.runtime import CannotRun
from mooring.workloads.sandbox.inside import InsideNetwork, receive

ENTER_SECONDS: Final = 30.0


async def ensure_pause_image(docker: aiodocker.Docker) -> None:
    """Import the waiting image unless the engine has it."""
    try:
        await docker.images.inspect(IMAGE)
    except DockerError:
        parameters = {"fromSrc": "-", "repo": IMAGE.rpartition(":")[0]}
        headers = {"Content-Type": "application/x-tar"}
        async with docker._query(  # pyright: ignore[reportPrivateUsage]  there is no public way to import
            "images/create", "POST", params=parameters, data=image_archive(), headers=headers
        ) as response:
            await response.read()


def holder_settings(labels: dict[str, str]) -> dict[str, Any]:
    """The container that holds the network: it can do nothing, and does nothing."""
    return {
        "Image": IMAGE,
        "Entrypoint": ["/pause"],
        "Cmd": [],
        "Labels": labels,
        "HostConfig": {
            "NetworkMode": "none",
            "CapDrop": ["ALL"],
            "ReadonlyRootfs": True,
            "SecurityOpt": ["no-new-privileges"],
            "Memory": 16 * 1024**2,
            "PidsLimit": 8,
        },
    }


async def open_network(pid: int) -> InsideNetwork:
    """Sockets of the network of a process; `CannotRun` when we may not enter it."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        os.set_inheritable(theirs.fileno(), True)
        helper = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "mooring.workloads.containers.enter"),
            *(str(theirs.fileno()), str(pid), str(PORT), "0"),
            pass_fds=(theirs.fileno(),),
            stdin=asyncio.subprocess.DEVNULL,
        )
        theirs.close()
        try:
            async with asyncio.timeout(ENTER_SECONDS):
                data, descriptors = await receive(ours)
                await helper.wait()
        except TimeoutError as error:
            helper.kill()
            await helper.wait()
            raise CannotRun("the container's network could not be entered in time") from error
    if len(descriptors) != 3:
        why = data[1:].decode(errors="replace") or "no answer"
        raise CannotRun(
            f"the container's network cannot be entered ({why}): "
            "run Mooring as root or with rootless Podman, or use `--runtime process`"
        )
    egress, meeting, seed = (socket.socket(fileno=descriptor) for descriptor in descriptors)
    return InsideNetwork(egress, meeting, seed)
