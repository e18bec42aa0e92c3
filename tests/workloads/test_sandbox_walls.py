"""What a workload cannot do, tried from inside by a server that wants to."""

from __future__ import annotations

import asyncio
import hashlib
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.workloads.sandbox_tools import HOSTILE, Running, hostile, running

from mooring.transports import child as child_module
from mooring.transports import watcher
from mooring.transports.reaper import Reaper
from mooring.workloads import cgroups
from mooring.workloads.profile import PermissionProfile
from mooring.workloads.runtime import CannotRun, CommandSource, MountPoint, ResourceLimits, WorkloadSpec
from mooring.workloads.sandbox import bubblewrap
from mooring.workloads.sandbox_runtime import ProcessRuntime

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(bubblewrap.program() is None, reason="bubblewrap is not installed"),
]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder with a secret in it."""
    folder = tmp_path / "home"
    (folder / ".ssh").mkdir(parents=True)
    (folder / ".ssh/id_ed25519").write_text("PRIVATE KEY")
    monkeypatch.setenv("HOME", str(folder))
    return folder


@pytest.fixture
async def attacker(tmp_path: Path, home: Path) -> AsyncIterator[Running]:
    async with hostile(tmp_path / "data") as attacker:
        yield attacker


@pytest.mark.anyio
async def test_a_private_key_cannot_be_read(attacker: Running) -> None:
    assert "No such file" in await attacker.refused("read_file", path="~/.ssh/id_ed25519")
    assert "No such file" in await attacker.refused("read_file", path="/etc/shadow")


@pytest.mark.anyio
async def test_the_home_folder_is_private_and_empty(attacker: Running, home: Path) -> None:
    assert await attacker.allowed("list_folder", path="~") == ""
    await attacker.allowed("write_file", path="~/left-behind")
    await attacker.allowed("write_file", path="/tmp/left-behind")
    assert [entry.name for entry in home.iterdir()] == [".ssh"]
    assert not Path("/tmp/left-behind").exists()


@pytest.mark.anyio
async def test_the_system_cannot_be_written(attacker: Running) -> None:
    for path in ("/usr/bin/hostile", "/etc/hostile", "/hostile", "/proc/sys/kernel/core_pattern"):
        await attacker.refused("write_file", path=path)


@pytest.mark.anyio
async def test_a_folder_named_for_reading_can_be_read_and_not_written(tmp_path: Path, home: Path) -> None:
    folder = tmp_path / "shown"
    folder.mkdir()
    (folder / "a.txt").write_text("hello")
    async with hostile(tmp_path / "data", PermissionProfile(read=(str(folder),))) as attacker:
        assert await attacker.allowed("read_file", path=f"{folder}/a.txt") == "hello"
        await attacker.refused("write_file", path=f"{folder}/a.txt")
        await attacker.refused("write_file", path=f"{folder}/b.txt")
    assert (folder / "a.txt").read_text() == "hello"


@pytest.mark.anyio
async def test_a_folder_named_for_writing_can_be_written_where_it_is_mounted(
    tmp_path: Path, home: Path
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    async with hostile(tmp_path / "data", PermissionProfile(write=(f"{folder}:/projects/it",))) as attacker:
        await attacker.allowed("write_file", path="/projects/it/a.txt")
        await attacker.refused("write_file", path=f"{folder}/b.txt")
    assert (folder / "a.txt").read_text() == "hostile"


@pytest.mark.anyio
async def test_a_volume_outlives_its_workload(tmp_path: Path, home: Path) -> None:
    profile = PermissionProfile(write=("volume://notes:/notes",))
    async with hostile(tmp_path / "data", profile) as attacker:
        await attacker.allowed("write_file", path="/notes/a.txt")
    async with hostile(tmp_path / "data", profile) as attacker:
        assert await attacker.allowed("read_file", path="/notes/a.txt") == "hostile"


@pytest.mark.anyio
async def test_a_link_leads_nowhere_outside_the_sandbox(tmp_path: Path, home: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    (tmp_path / "secret").write_text("secret")
    async with hostile(tmp_path / "data", PermissionProfile(write=(str(folder),))) as attacker:
        for target in (f"{home}/.ssh/id_ed25519", "../secret", "/etc/shadow", "/proc/1/root/etc/shadow"):
            await attacker.refused("follow_link", folder=str(folder), target=target)


@pytest.mark.anyio
async def test_a_link_planted_for_the_next_start_is_not_mounted(tmp_path: Path, home: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "sub").symlink_to(home / ".ssh")
    profile = PermissionProfile(write=(str(folder), f"{folder}/sub:/sub"))
    with pytest.raises(CannotRun, match="link that leads out"):
        async with hostile(tmp_path / "data", profile):
            pass


@pytest.mark.anyio
async def test_our_own_data_stays_hidden_in_a_folder_that_holds_it(tmp_path: Path, home: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data/seal.key").write_text("seal")
    async with hostile(tmp_path / "data", PermissionProfile(write=(str(tmp_path),))) as attacker:
        await attacker.refused("read_file", path=f"{tmp_path}/data/seal.key")
        await attacker.refused("write_file", path=f"{tmp_path}/data/mine")


@pytest.mark.anyio
async def test_what_is_hidden_is_hidden_wherever_its_folder_is_seen(tmp_path: Path, home: Path) -> None:
    folder, linked = tmp_path / "project", tmp_path / "linked"
    folder.mkdir()
    linked.symlink_to(tmp_path)
    (folder / ".mooringignore").write_text(".env\n")
    (tmp_path / "data").mkdir()
    for file in (folder / ".env", tmp_path / "data/seal.key"):
        file.write_text("secret")
    mounts = (f"{folder}:/a", f"{folder}:/b/deep", f"{tmp_path}:/all", f"{linked}:/linked")
    # Our own data is named by a way that leads through a link, too.
    async with hostile(linked / "data", PermissionProfile(read=mounts)) as attacker:
        for place in ("/a", "/b/deep", "/all/project", "/linked/project"):
            assert await attacker.allowed("read_file", path=f"{place}/.env") == ""
        for place in ("/all", "/linked"):
            await attacker.refused("read_file", path=f"{place}/data/seal.key")


@pytest.mark.anyio
async def test_a_folder_over_a_hidden_file_is_left_as_it_is(tmp_path: Path, home: Path) -> None:
    for name, text in (("project/sub/.env", "secret"), ("project/.mooringignore", ".env"), ("over/a", "x")):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    profile = PermissionProfile(read=(f"{tmp_path}/project:/p",), write=(f"{tmp_path}/over:/p/sub",))
    async with hostile(tmp_path / "data", profile) as attacker:
        assert await attacker.allowed("list_folder", path="/p/sub") == "a"
    assert [file.name for file in (tmp_path / "over").iterdir()] == ["a"]


@pytest.mark.anyio
async def test_ignored_files_beside_the_script_are_hidden_as_well(tmp_path: Path, home: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    shutil.copy(HOSTILE, folder / "server.py")
    (folder / ".env").write_text("TOKEN=secret")
    (folder / ".thvignore").write_text(".env\n")
    command = CommandSource(("/usr/bin/python3", str(folder / "server.py")))
    spec = WorkloadSpec("beside", command, profile=PermissionProfile())
    async with running(ProcessRuntime(tmp_path / "data"), spec) as attacker:
        assert await attacker.allowed("read_file", path=f"{folder}/.env") == ""
        assert await attacker.allowed("read_file", path=f"{folder}/server.py")


@pytest.mark.anyio
async def test_ignored_files_are_hidden_in_a_mounted_folder(tmp_path: Path, home: Path) -> None:
    folder = tmp_path / "project"
    (folder / "private").mkdir(parents=True)
    (folder / "private/key").write_text("secret")
    (folder / ".env").write_text("TOKEN=secret")
    (folder / "a.txt").write_text("hello")
    (folder / ".mooringignore").write_text(".env\nprivate/\n")
    async with hostile(tmp_path / "data", PermissionProfile(write=(str(folder),))) as attacker:
        assert await attacker.allowed("read_file", path=f"{folder}/a.txt") == "hello"
        assert await attacker.allowed("read_file", path=f"{folder}/.env") == ""
        assert await attacker.allowed("list_folder", path=f"{folder}/private") == ""
        await attacker.refused("write_file", path=f"{folder}/.env")
        await attacker.refused("write_file", path=f"{folder}/.mooringignore")


@pytest.mark.anyio
async def test_only_a_few_variables_and_its_own_reach_it(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "ours")
    async with hostile(tmp_path / "data", env={"GREETING": "hi"}, secrets={"TOKEN": "t0k3n"}) as attacker:
        assert await attacker.allowed("environment", name="GREETING") == "hi"
        assert await attacker.allowed("environment", name="TOKEN") == "t0k3n"
        await attacker.refused("environment", name="AWS_SECRET_ACCESS_KEY")


@pytest.mark.anyio
async def test_a_secret_is_in_no_command_line(tmp_path: Path, home: Path) -> None:
    async with hostile(tmp_path / "data", secrets={"TOKEN": "t0k3n-of-test"}) as attacker:
        await attacker.wire()
        shown = subprocess.run(["ps", "axww"], capture_output=True, text=True, check=True).stdout
        assert "t0k3n-of-test" not in shown
        outer = Path(f"/proc/{attacker.workload.pids[0]}/environ").read_text()
        assert "t0k3n-of-test" not in outer


@pytest.mark.anyio
@pytest.mark.skipif(platform.machine() != "x86_64", reason="the example knows the numbers of x86-64 only")
@pytest.mark.parametrize("name", ["mount", "ptrace", "unshare", "bpf", "keyctl", "io_uring_setup"])
async def test_system_calls_that_open_doors_are_refused(attacker: Running, name: str) -> None:
    assert "PermissionError" in await attacker.refused("system_call", name=name)


@pytest.mark.anyio
async def test_no_program_gives_it_more_rights(attacker: Running) -> None:
    await attacker.refused("raise_privileges")
    status = await attacker.allowed("read_file", path="/proc/self/status")
    assert "Name:" in status


@pytest.mark.anyio
async def test_a_fork_bomb_stops_at_its_limit(tmp_path: Path, home: Path) -> None:
    async with hostile(tmp_path / "data", limits=ResourceLimits(processes=40)) as attacker:
        answer = await attacker.allowed("fork_bomb")
        assert "EAGAIN" in answer
        assert int(answer.split()[2]) < 40
        assert await attacker.allowed("environment", name="HOME"), "it should go on to answer"


@pytest.mark.anyio
async def test_open_files_and_processor_time_stop_at_their_limits(tmp_path: Path, home: Path) -> None:
    limits = ResourceLimits(open_files=50, cpus=0.25)
    async with hostile(tmp_path / "data", limits=limits) as attacker:
        answer = await attacker.allowed("open_files")
        assert "EMFILE" in answer
        assert int(answer.split()[2]) < 50
        if cgroups.detect() is not None:  # nothing else limits the time of all processes together
            assert int(await attacker.allowed("hog_processor", seconds="2")) < 40


@pytest.mark.anyio
async def test_a_memory_bomb_ends_the_workload_and_nobody_else(tmp_path: Path, home: Path) -> None:
    async with hostile(tmp_path / "data", limits=ResourceLimits(memory_bytes=64 * 1024**2)) as attacker:
        try:
            await attacker.refused("memory_bomb", mebibytes="512")
        except Exception:
            assert attacker.heard.lost, "either it is told that there is no memory, or it ends"
            assert (await attacker.ended()).code != 0


@pytest.mark.anyio
async def test_it_can_kill_nobody_but_itself(tmp_path: Path, home: Path) -> None:
    bystander = subprocess.Popen(["sleep", "60"])
    try:
        async with hostile(tmp_path / "data") as attacker:
            text = await attacker.allowed("kill_parent")
            assert str(os.getpid()) not in text.split()
            assert bystander.poll() is None
            assert await attacker.allowed("environment", name="HOME"), "its own init must survive too"
    finally:
        bystander.kill()
        bystander.wait(5)


@pytest.mark.anyio
async def test_stopping_a_workload_leaves_nothing(tmp_path: Path, home: Path) -> None:
    async with hostile(tmp_path / "data") as attacker:
        await attacker.wire()
        (pid,) = attacker.workload.pids
        usage = await attacker.workload.usage()
        assert usage.memory_bytes > 0
        assert usage.processes >= 1
    assert not Path(f"/proc/{pid}").exists()
    hierarchy = cgroups.detect()
    if hierarchy is not None:
        assert not [
            group for group in cgroups.leftover_groups(hierarchy, "mooring-") if _ours(group, tmp_path)
        ]


def _ours(group: cgroups.Group, data: Path) -> bool:

    prefix = hashlib.sha256(str(data / "data").encode()).hexdigest()[:10]
    return any(prefix in folder.name for _, folder in group.folders)


@pytest.mark.anyio
async def test_privileged_is_refused(tmp_path: Path, home: Path) -> None:
    with pytest.raises(CannotRun, match="privileged"):
        async with hostile(tmp_path / "data", PermissionProfile(privileged=True)):
            pass


@pytest.mark.anyio
async def test_without_bubblewrap_nothing_runs(
    tmp_path: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CannotRun, match="apt-get install bubblewrap"):
        async with hostile(tmp_path / "data"):
            pass


@pytest.mark.anyio
async def test_sandbox_off_runs_with_the_rights_of_the_user(tmp_path: Path, home: Path) -> None:
    async with hostile(tmp_path / "data", sandbox="off") as attacker:
        assert await attacker.allowed("read_file", path="~/.ssh/id_ed25519") == "PRIVATE KEY"


@pytest.mark.anyio
async def test_a_missing_folder_is_named(tmp_path: Path, home: Path) -> None:
    with pytest.raises(CannotRun, match="does not exist"):
        async with hostile(tmp_path / "data", PermissionProfile(read=(f"{tmp_path}/nowhere",))):
            pass


@pytest.mark.anyio
async def test_a_mount_cannot_take_the_place_of_the_system(tmp_path: Path, home: Path) -> None:
    mount = MountPoint(tmp_path, Path("/proc"), writable=True)
    with pytest.raises(CannotRun, match="nothing can be mounted"):
        async with hostile(tmp_path / "data", mounts=(mount,)):
            pass


@pytest.mark.skipif(os.getuid() != 0, reason="only root can run something as another user")
def test_the_walls_stand_for_an_ordinary_user_too() -> None:
    """Everything from the supervisor on without rights: forked, because our Python may be root's own."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    (folder / "home/.ssh").mkdir(parents=True)
    (folder / "home/.ssh/id").write_text("PRIVATE KEY")
    (folder / "shown").mkdir()
    (folder / "shown").chmod(0o777)  # also for root, who has no special rights in there
    (folder / "program").mkdir()
    shutil.copy(HOSTILE, folder / "program/server.py")
    shutil.copy(watcher.__file__, folder / "watcher.py")
    for path in (folder, *folder.rglob("*")):
        os.chown(path, 65534, 65534)
    asyncio.run(_attack(folder, "root"))  # first as root: afterwards nothing is left to import
    for entry in (folder / "shown").iterdir():
        entry.unlink()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.setgroups([])
            os.setgid(65534)
            os.setuid(65534)
            os.environ["HOME"] = str(folder / "home")
            for place in ("XDG_CONFIG_HOME", "XDG_DATA_HOME"):  # of the tests, which are root's
                os.environ.pop(place, None)
            sys.executable = "/usr/bin/python3"
            watcher.__file__ = str(folder / "watcher.py")
            child_module.reaper = Reaper()
            asyncio.run(_attack(folder, "nobody"))
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    try:
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, "see what the child printed"
        assert (folder / "shown/a.txt").stat().st_uid == 65534
    finally:
        shutil.rmtree(folder)


async def _attack(folder: Path, data: str) -> None:
    profile = PermissionProfile(write=(f"{folder}/shown",))
    spec = WorkloadSpec(
        "hostile",
        CommandSource(("/usr/bin/python3", str(folder / "program/server.py"))),
        profile=profile,
        limits=ResourceLimits(processes=40),
    )
    async with asyncio.timeout(60), running(ProcessRuntime(folder / data), spec) as attacker:
        await attacker.refused("read_file", path="~/.ssh/id")
        await attacker.refused("follow_link", folder=f"{folder}/shown", target=f"{folder}/home/.ssh/id")
        await attacker.allowed("write_file", path=f"{folder}/shown/a.txt")
        assert "403" in await attacker.allowed("tunnel", target="127.0.0.1:22")
        assert "EAGAIN" in await attacker.allowed("fork_bomb")
        await attacker.refused("system_call", name="unshare")


@pytest.mark.anyio
async def test_term_reaches_the_server_inside(tmp_path: Path, home: Path) -> None:
    """A server that does not end with its input gets the time to end well."""
    async with hostile(tmp_path / "data") as attacker:
        await attacker.wire()
        (pid,) = attacker.workload.pids
        os.killpg(pid, signal.SIGTERM)
        ended = await attacker.ended()
        assert "signal 15" in ended.reason
