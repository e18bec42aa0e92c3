"""An ordinary user whose engine is root's: the same walls, carried by the holder."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from tests.workloads.containers.setup import at_home
from tests.workloads.sandbox_tools import ROOT

from mooring.workloads.containers.engines import current_engines

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else"),
]
NOBODY = 65534
SCRIPT = """
import asyncio, os, sys
from pathlib import Path
from tests.workloads.containers.tools import contained, hostile, web_spec
from mooring.workloads.profile import Network, Outbound, PermissionProfile
from mooring.workloads.runtime import PublishedPort, ResourceLimits

async def warm_up(engine, folder):
    async with hostile(engine, folder / "roots") as attacker:
        await attacker.wire()

async def main(engine, folder):
    profile = PermissionProfile(write=(f"{folder}/work:/work",))
    limits = ResourceLimits(open_files=50)
    async with hostile(engine, folder / "data", profile, limits=limits) as attacker:
        print(await attacker.allowed("open_files"))
        assert "403" in await attacker.allowed("tunnel", target="93.184.215.14:443")
        await attacker.refused("connect", host="93.184.215.14", port="80")
        assert [refusal.target for refusal in attacker.refusals()] == ["93.184.215.14:443"]
        await attacker.allowed("write_file", path="/work/mine")
        await attacker.refused("write_file", path="/mine")
    published = (PublishedPort(8080, "127.0.0.1", 0),)
    async with contained(engine, folder / "data", web_spec(folder / "program", publish=published)) as web:
        await web.wire()
        for _ in range(20):
            await web.request("ping", {})
        (port,) = (port.port for port in web.workload._published)
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\\r\\nHost: x\\r\\nConnection: close\\r\\n\\r\\n")
        assert b"405" in await asyncio.wait_for(reader.readline(), 10)
        writer.close()

engine, folder, user = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
asyncio.run(warm_up(engine, folder))  # then nothing is left to import: Python itself may be root's alone
os.setgroups([])
os.setgid(user)
os.setuid(user)
asyncio.run(main(engine, folder))
"""


def test_an_ordinary_user_has_the_same_walls(engine: str) -> None:
    socket = next(found.socket for found in current_engines() if found.name == engine)
    folder = Path(tempfile.mkdtemp(prefix="mooring-nobody-"))
    (folder / "work").mkdir()
    for path in (folder, folder / "work"):
        os.chown(path, NOBODY, NOBODY)
    os.chown(socket, 0, NOBODY)  # as for members of the group `docker`
    socket.chmod(0o660)
    socket.parent.chmod(0o755)
    try:
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT, engine, str(folder), str(NOBODY)],
            cwd=ROOT,
            env={**os.environ, **at_home(folder)},
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-3000:]
        assert (folder / "work/mine").stat().st_uid == NOBODY
    finally:
        shutil.rmtree(folder, ignore_errors=True)
