"""Control groups of both versions, on folders that look like the kernel's."""

from __future__ import annotations

import os
from pathlib import Path

from mooring.workloads.cgroups import announce_move, detect, leftover_groups, make_group
from mooring.workloads.runtime import ResourceLimits, Usage

LIMITS = ResourceLimits(memory_bytes=1024**2, processes=7, cpus=0.5)


def test_version_two_limits_the_tree_in_one_folder(tmp_path: Path) -> None:
    own = tmp_path / "self"
    own.write_text("0::/user/daemon\n")
    folder = tmp_path / "root/user/daemon"
    folder.mkdir(parents=True)
    (tmp_path / "root/cgroup.controllers").write_text("cpu memory pids io\n")
    (folder / "cgroup.controllers").write_text("cpu memory pids\n")
    (folder / "cgroup.subtree_control").touch()
    hierarchy = detect(tmp_path / "root", own)
    assert hierarchy is not None
    assert hierarchy.version == 2
    assert (folder / "cgroup.subtree_control").read_text() == "+memory +pids +cpu"
    group = make_group(hierarchy, "it-1", LIMITS)
    made = folder / "it-1"
    assert (made / "memory.max").read_text() == str(1024**2)
    assert (made / "pids.max").read_text() == "7"
    assert (made / "cpu.max").read_text() == "50000 100000"
    told = {"memory.current": "4096", "pids.current": "2", "cpu.stat": "usage_usec 1500000\n"}
    for name, value in told.items():
        (made / name).write_text(value)
    assert group.usage() == Usage(4096, 1.5, 2)
    (made / "memory.events").write_text("oom 1\noom_kill 1\n")
    assert group.ran_out_of_memory()
    (made / "cgroup.procs").touch()
    descriptors = group.join_descriptors()
    assert len(descriptors) == 1
    os.close(descriptors[0])
    assert [found.folders for found in leftover_groups(hierarchy, "it-")] == [group.folders]


def test_version_one_has_a_folder_per_controller(tmp_path: Path) -> None:
    own = tmp_path / "self"
    own.write_text("3:memory:/mine\n2:pids:/\n1:cpu,cpuacct:/\n")
    for name in ("memory/mine", "pids", "cpu", "cpuacct"):
        (tmp_path / "root" / name).mkdir(parents=True)
        (tmp_path / "root" / name / "cgroup.procs").touch()
    hierarchy = detect(tmp_path / "root", own)
    assert hierarchy is not None
    assert hierarchy.version == 1
    group = make_group(hierarchy, "it-1", LIMITS)
    assert (tmp_path / "root/memory/mine/it-1/memory.limit_in_bytes").read_text() == str(1024**2)
    assert (tmp_path / "root/pids/it-1/pids.max").read_text() == "7"
    assert (tmp_path / "root/cpu/it-1/cpu.cfs_quota_us").read_text() == "50000"
    joined = [folder / "tasks" for _, folder in group.folders]  # `cgroup.procs` would cost 10 to 20 ms
    for file in joined:
        file.touch()
    for descriptor in group.join_descriptors():
        os.write(descriptor, b"0")
        os.close(descriptor)
    assert [file.read_text() for file in joined] == ["0"] * 4


def test_the_move_of_version_two_is_announced_where_we_are_ourselves(tmp_path: Path) -> None:
    own = tmp_path / "self"
    own.write_text("0::/user/daemon\n")
    announce_move(tmp_path / "root", own)  # nothing there: nothing happens
    folder = tmp_path / "root/user/daemon"
    folder.mkdir(parents=True)
    announce_move(tmp_path / "root", own)
    assert (folder / "cgroup.procs").read_text() == str(os.getpid())


def test_where_groups_cannot_be_made_there_are_none(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    assert detect(tmp_path / "root", tmp_path / "self") is None
