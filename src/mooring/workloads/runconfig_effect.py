"""From a RunConfig to what a runtime is asked to run."""

from __future__ import annotations

from pathlib import Path

import msgspec

from mooring.workloads.env_files import variables_in
from mooring.workloads.profile import NONE, PermissionProfile, reaching_host
from mooring.workloads.profile_reading import read_profile
from mooring.workloads.runconfig import Fields, InvalidRunConfig, RunConfig
from mooring.workloads.runtime import (
    CommandSource,
    ImageSource,
    MountPoint,
    PackageSource,
    PublishedPort,
    RemoteSource,
    ResourceLimits,
    Source,
    WorkloadSpec,
)

_SCHEMES = ("npx", "uvx", "go")
_VOLUME = "volume://"


def spec_of(config: RunConfig, *, max_message_bytes: int = 64 * 1024**2) -> WorkloadSpec:
    """What to run. Paths in the configuration are absolute by now: the daemon has no folder of its own."""
    fields = config.fields
    named, mounts = _volumes(fields.volumes)
    profile = profile_of(fields)
    if named:
        profile = msgspec.structs.replace(profile, write=(*profile.write, *named))
    return WorkloadSpec(
        name=fields.name,
        source=source_of(fields),
        arguments=tuple(fields.cmd_args),
        env={**fields.runtime_config.runtime_env, **variables_in(fields.env_file_dir), **fields.env_vars},
        profile=profile,
        mounts=mounts,
        limits=_limits(fields),
        transport=fields.transport or "stdio",
        target_port=fields.target_port or None,
        path=fields.mooring.path,
        publish=tuple(published_port(entry) for entry in fields.publish),
        labels=dict(fields.container_labels),
        cwd=Path(fields.mooring.cwd) if fields.mooring.cwd else None,
        sandbox=fields.mooring.sandbox,
        base_image=fields.runtime_config.builder_image or None,
        system_packages=tuple(fields.runtime_config.additional_packages),
        max_message_bytes=max_message_bytes,
        ignore_globally=fields.ignore_config.LoadGlobal,
    )


def source_of(fields: Fields) -> Source:
    """Where the server comes from."""
    if fields.remote_url:
        return RemoteSource(fields.remote_url)
    if fields.mooring.command:
        return CommandSource(tuple(fields.mooring.command))
    scheme, separator, rest = fields.image.partition("://")
    if not separator:
        return ImageSource(fields.image)
    if scheme not in _SCHEMES or not rest:
        raise InvalidRunConfig(
            f"`{fields.image}` cannot be run: use `npx://PACKAGE`, `uvx://PACKAGE`, `go://PATH`, an image, "
            "a URL, or a command after `--`"
        )
    package, _, version = rest[1:].rpartition("@") if "@" in rest[1:] else (rest[1:], "", "")
    return PackageSource(scheme, rest[0] + package, version or None)


def profile_of(fields: Fields) -> PermissionProfile:
    """The profile itself goes before the name of one; nobody said: nothing is allowed."""
    given = fields.permission_profile or fields.permission_profile_name_or_path
    profile = read_profile(given, Path("/")) if given else NONE
    return reaching_host(profile) if fields.allow_docker_gateway else profile


def published_port(entry: str) -> PublishedPort:
    """`inside`, `port:inside` or `address:port:inside`"""
    *address, inside = entry.rsplit(":", 2)
    numbers = [*address[-1:], inside]
    if not all(number.isascii() and number.isdigit() and int(number) < 65536 for number in numbers):
        raise InvalidRunConfig(f"`publish`: `{entry}` must be `PORT:INSIDE` or `ADDRESS:PORT:INSIDE`")
    host = address[0] if len(address) == 2 else "127.0.0.1"
    return PublishedPort(int(inside), host.strip("[]"), int(address[-1]) if address else int(inside))


def _volumes(entries: list[str]) -> tuple[tuple[str, ...], tuple[MountPoint, ...]]:
    """Named volumes for the profile, and folders of this machine."""
    named: list[str] = []
    mounts: list[MountPoint] = []
    for entry in entries:
        if entry.startswith(_VOLUME):
            named.append(entry.removesuffix(":rw"))
            continue
        host, _, rest = entry.partition(":")
        inside, _, mode = rest.partition(":")
        if (
            not host.startswith("/")
            or (inside and not inside.startswith("/"))
            or mode not in ("", "ro", "rw")
        ):
            raise InvalidRunConfig(
                f"`volumes`: `{entry}` must be `/HOST/PATH:/INSIDE[:ro]` or `volume://NAME:/INSIDE`"
            )
        mounts.append(MountPoint(Path(host), Path(inside or host), writable=mode != "ro"))
    return tuple(named), tuple(mounts)


def _limits(fields: Fields) -> ResourceLimits:
    wish = fields.mooring.limits
    given = {name: getattr(wish, name) for name in wish.__struct_fields__}
    named = {name: value for name, value in given.items() if value is not msgspec.UNSET}
    return msgspec.structs.replace(ResourceLimits(), **named)
