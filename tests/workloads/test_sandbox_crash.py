"""What is left of sandboxes when the process that started them is killed: nothing that runs."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.support.waiting import eventually
from tests.workloads.sandbox_tools import ROOT

from mooring.workloads import cgroups
from mooring.workloads.runtime import Leftover
from mooring.workloads.sandbox import bubblewrap
from mooring.workloads.sandbox_runtime import ProcessRuntime

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(bubblewrap.program() is None, reason="bubblewrap is not installed"),
]
SUPERVISOR = """
import asyncio, sys
from pathlib import Path
from tests.workloads.sandbox_tools import hostile

async def main():
    async with hostile(Path(sys.argv[1])) as attacker:
        await attacker.allowed("write_file", path="/tmp/a")
        print(attacker.workload.pids[0], flush=True)
        await asyncio.sleep(60)

asyncio.run(main())
"""


@pytest.mark.anyio
async def test_a_killed_supervisor_leaves_no_process_and_its_groups_are_found(tmp_path: Path) -> None:
    data = tmp_path / "data"
    supervisor = subprocess.Popen(
        [sys.executable, "-c", SUPERVISOR, str(data)], stdout=subprocess.PIPE, cwd=ROOT, text=True
    )
    assert supervisor.stdout is not None
    with supervisor.stdout as output:
        pid = int(output.readline())
    inside = _members(pid)
    assert len(inside) >= 2, "bubblewrap and the server in it"
    supervisor.send_signal(signal.SIGKILL)
    supervisor.wait(10)
    eventually(lambda: not any(_alive(member) for member in inside), "every process of the sandbox to end")
    runtime = ProcessRuntime(data)
    left = await runtime.leftovers()
    if cgroups.detect() is not None:
        assert [(entry.name, entry.running) for entry in left] == [("hostile", False)]
    for entry in left:
        await runtime.remove(entry)
    assert await runtime.leftovers() == ()


@pytest.mark.anyio
async def test_removing_one_leftover_spares_its_neighbours(tmp_path: Path) -> None:
    runtime = ProcessRuntime(tmp_path)
    hierarchy = cgroups.detect()
    if hierarchy is None:
        return
    prefix = f"{runtime._prefix}-it"
    for number in (1, 10):
        for _, folder in hierarchy.folders:
            (folder / f"{prefix}-{number}").mkdir(exist_ok=True)
    await runtime.remove(Leftover("process", "it", f"{prefix}-1", running=False))
    (left,) = await runtime.leftovers()
    assert left.reference == f"{prefix}-10"
    await runtime.remove(left)


def _members(root: int) -> list[int]:
    """A process and everything below it."""
    found = [root]
    for pid in found:
        children = Path(f"/proc/{pid}/task/{pid}/children")
        found += [int(word) for word in children.read_text().split()]
    return found


def _alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat[stat.rindex(")") + 2] not in "ZX"
