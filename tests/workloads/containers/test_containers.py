"""The same attacks against the same profile, under a real Podman and a real dockerd."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from tests.workloads.containers.setup import IMAGE
from tests.workloads.containers.tools import hostile
from tests.workloads.test_egress_inside import site

from mooring.transports.dialing import SharedFolder
from mooring.workloads.containers_runtime import ContainerRuntime
from mooring.workloads.profile import NETWORK, Network, Outbound, PermissionProfile
from mooring.workloads.runtime import CannotRun, ImageSource, ResourceLimits, WorkloadSpec

pytestmark = pytest.mark.e2e


@pytest.mark.anyio
async def test_the_host_is_out_of_sight(engine: str, tmp_path: Path) -> None:
    async with hostile(engine, tmp_path / "data") as attacker:
        await attacker.refused("read_file", path="/etc/shadow")
        await attacker.refused("read_file", path="/root/.ssh/id_ed25519")
        await attacker.refused("write_file", path="/usr/bin/hostile")
        await attacker.allowed("write_file", path="/tmp/own")
        status = await attacker.allowed("read_file", path="/proc/self/status")
        assert "Name:" in status


@pytest.mark.anyio
async def test_named_folders_are_as_readable_and_writable_as_named(engine: str, tmp_path: Path) -> None:
    shown, work = tmp_path / "shown", tmp_path / "work"
    for folder in (shown, work):
        folder.mkdir()
        (folder / "a.txt").write_text("hello")
    (work / ".mooringignore").write_text("secret.txt\n")
    (work / "secret.txt").write_text("secret")
    profile = PermissionProfile(read=(f"{shown}:/shown",), write=(f"{work}:/folder", "volume://kept:/kept"))
    async with hostile(engine, tmp_path / "data", profile) as attacker:
        assert await attacker.allowed("read_file", path="/shown/a.txt") == "hello"
        await attacker.refused("write_file", path="/shown/b.txt")
        await attacker.allowed("write_file", path="/folder/b.txt")
        assert await attacker.allowed("read_file", path="/folder/secret.txt") == ""
        await attacker.refused("follow_link", folder="/folder", target=f"{shown}/a.txt")
        await attacker.allowed("write_file", path="/kept/a.txt")
    assert (work / "b.txt").read_text() == "hostile"
    assert (tmp_path / "data/volumes/kept/a.txt").read_text() == "hostile"


@pytest.mark.anyio
async def test_a_session_sees_its_own_files(engine: str, tmp_path: Path) -> None:
    for name in ("in", "out"):
        (tmp_path / name).mkdir()
    (tmp_path / "in/a.txt").write_text("sent")
    folders = (
        SharedFolder(tmp_path / "in", Path("/files/in"), writable=False),
        SharedFolder(tmp_path / "out", Path("/files/out"), writable=True),
    )
    async with hostile(engine, tmp_path / "data") as attacker:
        attacker.folders = folders
        assert await attacker.allowed("read_file", path="/files/in/a.txt") == "sent"
        await attacker.refused("write_file", path="/files/in/a.txt")
        await attacker.allowed("write_file", path="/files/out/made.txt")
        assert await attacker.allowed("list_folder", path="/files") == "in out"
    made = tmp_path / "out/made.txt"
    assert (made.read_text(), made.stat().st_uid) == ("hostile", os.getuid())


@pytest.mark.anyio
async def test_the_proxy_is_the_only_way_out(engine: str, tmp_path: Path) -> None:
    with site() as port:
        profile = PermissionProfile(
            network=Network(outbound=Outbound(allow_host=("localhost",), allow_port=(port,)))
        )
        async with hostile(engine, tmp_path / "data", profile) as attacker:
            here = f"http://localhost:{port}"
            answer = await attacker.allowed("second_request", first=here, second=f"http://127.0.0.1:{port}/")
            assert "200 OK" in answer.split(" | ")[0]
            assert "403" in answer.split(" | ")[1]
            assert "403" in await attacker.allowed("tunnel", target="93.184.215.14:443")
            await attacker.refused("connect", host="127.0.0.1", port=str(port))
            await attacker.refused("connect", host="93.184.215.14", port="80")
            await attacker.refused("send_datagram", host="93.184.215.14", port="53")
            assert [refusal.target for refusal in attacker.refusals()] == [
                f"127.0.0.1:{port}",
                "93.184.215.14:443",
            ]


@pytest.mark.anyio
async def test_what_is_refused_is_refused_by_name_address_redirect_and_loopback(
    engine: str, tmp_path: Path
) -> None:
    unproxied = {"no_proxy": "", "NO_PROXY": ""}
    with site() as port, site() as other:
        profile = PermissionProfile(
            network=Network(outbound=Outbound(allow_host=("127.0.0.1",), allow_port=(port,)))
        )
        async with hostile(engine, tmp_path / "data", profile, env=unproxied) as attacker:
            here = f"http://127.0.0.1:{port}"
            assert "hello" in await attacker.allowed("fetch", url=f"{here}/?to={here}/end")
            answer = await attacker.refused("fetch", url=f"{here}/?to=http://127.0.0.1:{other}/")
            assert "HTTP 403" in answer
            assert "HTTP 403" in await attacker.refused("fetch", url="http://refused.example/")
            assert "HTTP 403" in await attacker.refused("fetch", url=f"http://93.184.215.14:{port}/")
            assert "403" in await attacker.allowed("tunnel", target="127.0.0.1:3128")
            await attacker.refused("socks", host="refused.example", port=str(port))
            assert {refusal.target for refusal in attacker.refusals()} == {
                f"127.0.0.1:{other}", "refused.example:80", f"93.184.215.14:{port}", "127.0.0.1:3128",
                f"refused.example:{port}",
            }  # fmt: skip


@pytest.mark.anyio
async def test_it_can_kill_nobody_but_itself(engine: str, tmp_path: Path) -> None:
    async with hostile(engine, tmp_path / "data") as attacker:
        text = await attacker.allowed("kill_parent")
        assert str(os.getpid()) not in text.split()
        assert await attacker.allowed("environment", name="HTTP_PROXY"), "its init survives"


@pytest.mark.anyio
async def test_the_whole_internet_does_not_include_this_machine(engine: str, tmp_path: Path) -> None:
    with site() as port:
        async with hostile(engine, tmp_path / "data", NETWORK) as attacker:
            assert "403" in await attacker.allowed("tunnel", target=f"127.0.0.1:{port}")


@pytest.mark.anyio
async def test_bombs_stop_at_their_limits(
    engine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    limits = ResourceLimits(processes=40, memory_bytes=96 * 1024**2, open_files=50, cpus=0.25)
    async with hostile(engine, tmp_path / "data", limits=limits) as attacker:
        answer = await attacker.allowed("open_files")
        assert "EMFILE" in answer
        # Podman keeps its own limit, and says so.
        assert int(answer.split()[2]) < 50 or "podman keeps its own limit" in capsys.readouterr().out
        assert int(await attacker.allowed("hog_processor", seconds="2")) < 40
        assert "EAGAIN" in await attacker.allowed("fork_bomb")
        assert (await attacker.workload.usage()).processes >= 1
        try:
            await attacker.refused("memory_bomb", mebibytes="512")
        except Exception:
            assert (await attacker.ended()).code != 0


@pytest.mark.anyio
async def test_it_has_no_rights_and_gets_none(engine: str, tmp_path: Path) -> None:
    async with hostile(engine, tmp_path / "data") as attacker:
        for name in ("mount", "bpf"):
            await attacker.refused("system_call", name=name)


@pytest.mark.anyio
async def test_what_ran_is_recorded_and_a_missing_image_is_an_error(engine: Any, tmp_path: Path) -> None:
    runtime = ContainerRuntime(tmp_path / "data", engine)
    try:
        resolved = await runtime.prepare(WorkloadSpec("x", ImageSource(IMAGE)), lambda _: None)
        assert resolved.integrity
        assert resolved.image
        with pytest.raises(CannotRun, match="cannot be pulled"):
            await runtime.prepare(
                WorkloadSpec("x", ImageSource("localhost/nobody/nothing:9")), lambda _: None
            )
    finally:
        await runtime.close()


@pytest.mark.anyio
async def test_without_an_engine_the_error_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr("mooring.workloads.containers_runtime.current_engines", lambda: ())
    assert "start one" in (await ContainerRuntime(tmp_path).problem() or "")
