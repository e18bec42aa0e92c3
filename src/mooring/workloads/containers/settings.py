"""A specification as the engines want it: the same profile as mounts, rights and limits of a container."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from mooring.workloads.containers.engines import EngineName
from mooring.workloads.egress.proxy import PORT
from mooring.workloads.runtime import MountPoint, WorkloadSpec
from mooring.workloads.sandbox.environment import port_variables, proxy_variables
from mooring.workloads.sandbox.plan import checked

TEMPORARY_BYTES: Final = 1024**3
_PERIOD: Final = 1_000_000_000


def container_settings(
    spec: WorkloadSpec,
    mounts: tuple[MountPoint, ...],
    hidden: tuple[tuple[Path, Path], ...],
    *,
    image: str,
    engine: EngineName,
    network: str,
    labels: dict[str, str],
    secrets: dict[str, str],
) -> dict[str, Any]:
    """What is sent to the engine. `hidden` are pairs of an empty file or folder and where it lies over."""
    environment = {**proxy_variables(f"127.0.0.1:{PORT}"), **port_variables(spec), **spec.env, **secrets}
    return {
        "Image": image,
        "Env": [f"{name}={value}" for name, value in environment.items()],
        "Labels": {**spec.labels, **labels},
        "OpenStdin": spec.transport == "stdio",
        "StdinOnce": spec.transport == "stdio",
        "AttachStdin": spec.transport == "stdio",
        "AttachStdout": True,
        "AttachStderr": True,
        "Tty": False,
        **({"Cmd": list(spec.arguments)} if spec.arguments else {}),
        "HostConfig": {
            "NetworkMode": network,
            "Mounts": [_mount(checked(mount, mounts)) for mount in _by_depth(mounts)]
            + [_mount(MountPoint(empty, inside)) for empty, inside in hidden],
            "Tmpfs": {"/tmp": f"rw,mode=1777,size={TEMPORARY_BYTES}"},  # noqa: S108
            "Privileged": spec.profile.privileged,
            **({} if spec.profile.privileged else _without_rights()),
            **_limits(spec, engine),
        },
    }


def _without_rights() -> dict[str, Any]:
    return {
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges"],
        "ReadonlyRootfs": True,
        "Init": True,  # else a server that is process 1 does not hear SIGTERM
    }


def _limits(spec: WorkloadSpec, engine: EngineName) -> dict[str, Any]:
    limits = spec.limits
    found: dict[str, Any] = {}
    if limits.memory_bytes is not None:
        found |= {"Memory": limits.memory_bytes, "MemorySwap": limits.memory_bytes}
    if limits.processes is not None:
        found["PidsLimit"] = limits.processes
    if limits.cpus is not None:
        found["NanoCpus"] = int(limits.cpus * _PERIOD)
    # Given one limit, Podman forgets those it is configured with and raises them, which not every root may.
    if limits.open_files is not None and engine == "docker":
        found["Ulimits"] = [{"Name": "nofile", "Soft": limits.open_files, "Hard": limits.open_files}]
    return found


def _mount(mount: MountPoint) -> dict[str, Any]:
    return {
        "Type": "bind",
        "Source": str(mount.host),
        "Target": str(mount.inside),
        "ReadOnly": not mount.writable,
    }


def _by_depth(mounts: tuple[MountPoint, ...]) -> list[MountPoint]:
    return sorted(mounts, key=lambda mount: len(mount.inside.parts))
