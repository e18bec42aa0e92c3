"""A specification as the engines want it: the same profile as mounts, rights and limits of a container."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from mooring.workloads.containers.engines import EngineName
from mooring.workloads.containers.recipes import PLACE
from mooring.workloads.egress.proxy import PORT
from mooring.workloads.environment import arguments_of, port_variables, proxy_variables
from mooring.workloads.runtime import MountPoint, WorkloadSpec
from mooring.workloads.sandbox.errand import LIMITS
from mooring.workloads.sandbox.plan import checked

TEMPORARY: Final = "/tmp"  # noqa: S108  the container's own
TEMPORARY_BYTES: Final = 1024**3
_PERIOD: Final = 1_000_000_000


def container_settings(
    spec: WorkloadSpec,
    mounts: tuple[MountPoint, ...],
    hidden: tuple[tuple[Path, Path], ...],
    *,
    image: str,
    command: tuple[str, ...],
    engine: EngineName,
    user: str | None,
    labels: dict[str, str],
    secrets: dict[str, str],
) -> dict[str, Any]:
    """What is sent to the engine. `hidden` are pairs of an empty file or folder and where it lies over;
    `command` goes before the image's own entry point, `user` before its own user."""
    environment = {
        **proxy_variables(f"127.0.0.1:{PORT}"),
        **port_variables(spec),
        **({"HOME": TEMPORARY} if user else {}),
        **spec.env,
        **secrets,
    }
    arguments = arguments_of(spec)
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
        **({"Entrypoint": list(command)} if command else {}),
        **({"Cmd": list(arguments)} if arguments or command else {}),
        **({"User": user} if user else {}),
        **({"WorkingDir": str(spec.cwd)} if spec.cwd and _is_mounted(spec.cwd, mounts) else {}),
        "HostConfig": {
            "Mounts": [_mount(checked(mount, mounts)) for mount in _by_depth(mounts)]
            + [_mount(MountPoint(empty, inside)) for empty, inside in hidden],
            "Tmpfs": {TEMPORARY: f"rw,mode=1777,size={TEMPORARY_BYTES}"},
            "LogConfig": {"Type": "none"},  # what is said to it and by it is in no log of the engine
            "Privileged": spec.profile.privileged,
            **({} if spec.profile.privileged else _without_rights()),
            **_limits(spec, engine),
        },
    }


def build_settings(image: str, script: str, *, installs: bool) -> dict[str, Any]:
    """A container that changes its own root file system, which then becomes an image."""
    # What a system's package manager needs in order to give files their owners.
    rights = {"CapAdd": ["CHOWN", "DAC_OVERRIDE", "FOWNER", "SETGID", "SETUID"]} if installs else {}
    environment = proxy_variables(f"127.0.0.1:{PORT}")
    return {
        "Image": image,
        "Entrypoint": ["/bin/sh", "-euc", script],
        "Cmd": [],
        "User": "0:0",
        "WorkingDir": PLACE,
        "Env": [f"{name}={value}" for name, value in environment.items()],
        "OpenStdin": False,
        "AttachStdin": False,
        "AttachStdout": True,
        "AttachStderr": True,
        "Tty": False,
        "HostConfig": {
            "CapDrop": ["ALL"],
            **rights,
            "SecurityOpt": ["no-new-privileges"],
            "LogConfig": {"Type": "none"},
            "Memory": LIMITS.memory_bytes,
            "MemorySwap": LIMITS.memory_bytes,
            "PidsLimit": LIMITS.processes,
        },
    }


def _without_rights() -> dict[str, Any]:
    return {
        "CapDrop": ["ALL"],
        "SecurityOpt": ["no-new-privileges"],
        "ReadonlyRootfs": True,
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
    # Given one limit, Podman forgets those it is configured with and raises them, which not every root may;
    # rootless, it does not even keep the one.
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


def _is_mounted(folder: Path, mounts: tuple[MountPoint, ...]) -> bool:
    return any(folder.is_relative_to(mount.inside) for mount in mounts)


def _by_depth(mounts: tuple[MountPoint, ...]) -> list[MountPoint]:
    return sorted(mounts, key=lambda mount: len(mount.inside.parts))
