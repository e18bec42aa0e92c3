"""Which runtime runs a workload where nobody says: the configured order, and only what works here."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.workloads.runtime import CannotRun, CommandSource, ImageSource, PackageSource, WorkloadSpec
from mooring.workloads.sandbox import bubblewrap
from mooring.workloads.supervisor_runtimes import Runtimes

PACKAGE = WorkloadSpec("it", PackageSource("npx", "some-server"))
IMAGE = WorkloadSpec("it", ImageSource("example/server:1"))
COMMAND = WorkloadSpec("it", CommandSource(("true",)))


@pytest.fixture(autouse=True)
def no_engines(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Only what lies below an empty home is found."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr("mooring.workloads.containers_runtime.current_engines", lambda: ())


@pytest.mark.anyio
@pytest.mark.skipif(bubblewrap.program() is None, reason="bubblewrap is not installed")
async def test_an_engine_that_does_not_answer_is_passed_over(tmp_path: Path) -> None:
    runtimes = Runtimes(tmp_path, order=("docker", "podman", "process"))
    assert (await runtimes.choose(PACKAGE, None)).name == "process"


@pytest.mark.anyio
async def test_where_nothing_works_the_first_wish_says_what_to_mend(tmp_path: Path) -> None:
    runtimes = Runtimes(tmp_path, order=("docker", "podman"))
    for spec in (PACKAGE, IMAGE):
        chosen = await runtimes.choose(spec, None)
        assert chosen.name == "docker"
        assert "no docker answers" in (await chosen.problem() or "")


@pytest.mark.anyio
async def test_a_command_of_this_machine_runs_as_a_process_whatever_the_order(tmp_path: Path) -> None:
    runtimes = Runtimes(tmp_path, order=("docker",))
    assert (await runtimes.choose(COMMAND, None)).name == "process"


@pytest.mark.anyio
async def test_what_was_asked_for_goes_before_the_order(tmp_path: Path) -> None:
    runtimes = Runtimes(tmp_path, order=("process",))
    assert (await runtimes.choose(PACKAGE, "podman")).name == "podman"
    assert (await runtimes.choose(PACKAGE, "container")).name == "container"
    with pytest.raises(CannotRun, match="leave out `--runtime remote`"):
        await runtimes.choose(PACKAGE, "remote")
    process = await runtimes.choose(IMAGE, "process")
    with pytest.raises(CannotRun, match="needs a container engine"):
        await process.prepare(IMAGE, lambda _: None)
