"""From what people and ToolHive write to a checked `PermissionProfile`, and from that to mounts."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Any, cast

import msgspec

from mooring.workloads.profile import BUILT_IN, Inbound, InvalidProfile, Network, Outbound, PermissionProfile
from mooring.workloads.runtime import MountPoint

_VOLUME = "volume://"
_SCHEME = re.compile(r"^([a-z][a-z0-9+.-]*)://", re.IGNORECASE)
_VOLUME_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")
_SHELL_CHARACTERS = re.compile(r"[$&;|`\0\n]")
_HOST = re.compile(
    r"^\.?([A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?)(\.[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?)*\.?$"
)
_ADDRESS = re.compile(r"^[0-9A-Fa-f:.]+(/[0-9]{1,3})?$")
_MEANINGLESS = {"allow_transport"}
"""Written by early versions of ToolHive and never of any effect there either."""


def read_profile(value: object, base: Path) -> PermissionProfile:
    """A built-in's name, the path of a JSON file, or the profile itself; relative paths start at `base`."""
    if isinstance(value, str):
        if value in BUILT_IN:
            return BUILT_IN[value]
        return _from_file(base, value)
    if not isinstance(value, dict):
        raise InvalidProfile("must be `none`, `network`, the name of a file, or a section with `read`, ...")
    return _from_keys(cast("dict[str, Any]", value), base)


def _from_file(base: Path, name: str) -> PermissionProfile:
    path = (base / Path(name).expanduser()).resolve()
    if not path.is_file():
        raise InvalidProfile(f"`{name}` is neither `none`, nor `network`, nor a file that exists")
    try:
        value = msgspec.json.decode(path.read_bytes())
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidProfile(f"`{name}` is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise InvalidProfile(f"`{name}` must hold an object with `read`, `write` or `network`")
    profile = _from_keys(cast("dict[str, Any]", value), path.parent)
    return profile if profile.name else msgspec.structs.replace(profile, name=path.stem)


def _from_keys(value: dict[str, Any], base: Path) -> PermissionProfile:
    known = PermissionProfile.__struct_fields__
    _refuse_unknown(value, known, "")
    network: Any = value.get("network")
    if isinstance(network, dict):
        section = cast("dict[str, Any]", network)
        _refuse_unknown(section, Network.__struct_fields__, "network.")
        for name, kind in (("outbound", Outbound), ("inbound", Inbound)):
            inner: Any = section.get(name)
            if isinstance(inner, dict):
                _refuse_unknown(cast("dict[str, Any]", inner), kind.__struct_fields__, f"network.{name}.")
    try:
        profile = msgspec.convert(_without_nulls(value), PermissionProfile)
    except msgspec.ValidationError as error:
        raise InvalidProfile(f"cannot be read: {error}") from error
    profile = msgspec.structs.replace(
        profile,
        read=tuple(_anchored(entry, base) for entry in profile.read),
        write=tuple(_anchored(entry, base) for entry in profile.write),
    )
    check_profile(profile)
    return profile


def _refuse_unknown(value: dict[str, Any], known: tuple[str, ...], prefix: str) -> None:
    for key in value:
        if key not in known and key not in _MEANINGLESS:
            names = ", ".join(f"`{prefix}{name}`" for name in known)
            raise InvalidProfile(f"`{prefix}{key}` is not a known key; known here: {names}")


def _without_nulls(value: Any) -> Any:
    """Go writes an empty list as `null`."""
    if not isinstance(value, dict):
        return value
    items = cast("dict[str, Any]", value)
    return {key: _without_nulls(item) for key, item in items.items() if item is not None}


def check_profile(profile: PermissionProfile) -> None:
    """Raise `InvalidProfile` for what no runtime could enforce."""
    for entry in (*profile.read, *profile.write):
        split_declaration(entry)
    if profile.network.mode not in ("", "bridge", "none"):
        raise InvalidProfile(
            f"`network.mode: {profile.network.mode}` would go round the egress proxy: "
            "name hosts in `network.outbound.allow_host` instead"
        )
    outbound = profile.network.outbound
    for host in (*outbound.allow_host, *profile.network.inbound.allow_host):
        if not (_HOST.match(host) or _ADDRESS.match(host)) or len(host) > 253:
            raise InvalidProfile(
                f"`{host}` is not a host: write `example.com`, `.example.com` for all below it, or an address"
            )
    for port in outbound.allow_port:
        if not 1 <= port <= 65535:
            raise InvalidProfile(f"`{port}` is not a port: use 1 to 65535")


def split_declaration(entry: str) -> tuple[str, str]:
    """Where a mount comes from (a path or `volume://name`) and where it is seen inside."""
    if _SHELL_CHARACTERS.search(entry):
        raise InvalidProfile(f"the mount `{entry}` has a character no path needs: remove `$ & ; | `` and NUL")
    scheme = _SCHEME.match(entry)
    if scheme and not entry.startswith(_VOLUME):
        raise InvalidProfile(f"`{scheme.group(1)}://` mounts are not known: use a path or `volume://name`")
    rest = entry.removeprefix(_VOLUME)
    source, colon, inside = rest.partition(":")
    if not source or ":" in inside or (colon and not inside):
        raise InvalidProfile(f"the mount `{entry}` is not `path`, `host:inside` or `volume://name:inside`")
    if scheme:
        if not _VOLUME_NAME.match(source):
            raise InvalidProfile(
                f"`{source}` is not the name of a volume: use letters, digits, `.`, `_`, `-`"
            )
        source, inside = _VOLUME + source, inside or f"/volumes/{source}"
    inside = inside or source
    if inside.startswith("~"):
        inside = str(Path(inside).expanduser())
    if not PurePosixPath(inside).is_absolute() or ".." in PurePosixPath(inside).parts:
        raise InvalidProfile(f"the mount `{entry}` needs an absolute path inside, without `..`")
    return source, inside


def _anchored(entry: str, base: Path) -> str:
    """A relative or `~` path as an absolute one, so that the profile means the same wherever it is used."""
    if _SCHEME.match(entry) or entry.startswith("/"):
        return entry
    source, colon, inside = entry.partition(":")
    return str((base / Path(source).expanduser()).absolute()) + colon + inside if source else entry


def mounts_of(profile: PermissionProfile, volumes: Path) -> tuple[MountPoint, ...]:
    """The profile's files and folders. A writable one takes the place of a readable one at the same path."""
    found: dict[str, MountPoint] = {}
    for entries, writable in ((profile.read, False), (profile.write, True)):
        for entry in entries:
            source, inside = split_declaration(entry)
            if source.startswith(_VOLUME):
                host = volumes / source.removeprefix(_VOLUME)
                host.mkdir(mode=0o700, parents=True, exist_ok=True)
            else:
                host = Path(source).expanduser()
            found[inside] = MountPoint(host, Path(inside), writable)
    return tuple(found.values())
