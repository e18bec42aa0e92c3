"""An ordinary user whose engine is their own: rootless Podman and rootless Docker have the same walls."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from tests.support.waiting import eventually
from tests.workloads.containers import rootless, setup
from tests.workloads.containers.rootless import NOBODY
from tests.workloads.containers.test_container_users import SCRIPT
from tests.workloads.sandbox_tools import ROOT

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody else"),
]


@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", ["podman", "docker"])
def test_a_rootless_engine_has_the_same_walls(name: str) -> None:
    if gone := setup.missing():
        pytest.skip(f"{', '.join(gone)} must be installed: python -m tests.workloads.containers.setup")
    folder = Path(tempfile.mkdtemp(prefix="mooring-rootless-"))
    try:
        with rootless.engine(name, folder) as socket:
            answering = ["curl", "--silent", "--fail", "--unix-socket", str(socket), "http://localhost/_ping"]
            eventually(
                lambda: subprocess.run(answering, capture_output=True, check=False).returncode == 0,
                f"{name} to answer",
                limit=setup.START_SECONDS,
            )
            setup.import_image(socket, setup.IMAGE, setup.python_image(folder / "python.tar"))
            done = subprocess.run(
                [sys.executable, "-c", SCRIPT, name, str(folder), str(NOBODY)],
                cwd=ROOT,
                env={**os.environ, **setup.at_home(folder), f"MOORING_{name.upper()}_SOCKET": str(socket)},
                capture_output=True,
                text=True,
                timeout=200,
                check=False,
            )
            assert done.returncode == 0, done.stderr[-3000:]
            files = int(done.stdout.split("stopped after ")[1].split()[0])
            assert files < 50 or "podman keeps its own limit" in done.stdout
            assert (folder / "work/mine").stat().st_uid == NOBODY  # and not a number that was given away
            assert f"{name} keeps no limits" in done.stdout or _keeps_limits()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _keeps_limits() -> bool:
    return Path("/sys/fs/cgroup/cgroup.controllers").exists()
