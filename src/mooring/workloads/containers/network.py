"""Sockets in the network of a container, where we may enter it."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
from typing import Final

from mooring.workloads.egress.proxy import PORT
from mooring.workloads.runtime import CannotRun
from mooring.workloads.sandbox.inside import InsideNetwork, receive

ENTER_SECONDS: Final = 30.0


async def open_network(pid: int) -> InsideNetwork:
    """Sockets of the network of a process; `CannotRun` when we may not enter it."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        os.set_inheritable(theirs.fileno(), True)
        helper = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "mooring.workloads.containers.enter"),
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
        raise CannotRun(f"the container's network cannot be entered: {why}")
    egress, meeting, seed = (socket.socket(fileno=descriptor) for descriptor in descriptors)
    return InsideNetwork(egress, meeting, seed)
