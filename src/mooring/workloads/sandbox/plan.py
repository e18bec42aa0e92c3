"""What a sandboxed process sees, from profile and program: for bubblewrap and for Landlock alike.

Pure but for looking at the file system: nothing is created or started.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mooring.workloads.runtime import CannotRun, MountPoint
from mooring.workloads.sandbox.launcher import LIST, READ, WRITE

_SYSTEM_LINKS: Final = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_SYSTEM_FILES: Final = (
    "/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/pki/tls/certs", "/etc/pki/tls/openssl.cnf",
    "/etc/pki/ca-trust", "/etc/crypto-policies", "/etc/alternatives", "/etc/ld.so.cache", "/etc/localtime",
    "/etc/timezone", "/etc/mime.types", "/etc/fonts", "/etc/protocols", "/etc/services", "/etc/os-release",
    "/etc/lsb-release", "/etc/debian_version",
)  # fmt: skip
"""Every mount takes its time at every start, so nothing stands here that only installers read; and where
private keys lie beside public ones, only the public ones."""
_RESERVED: Final = ("/", "/proc", "/dev", "/sys", "/run/mooring", "/usr", "/etc", "/bin", "/lib", "/sbin")
"""Where nothing may be mounted: the sandbox itself stands there."""


@dataclass(frozen=True, slots=True)
class View:
    """The file system as one workload sees it, parents before what lies in them."""

    mounts: tuple[MountPoint, ...]
    hidden_files: tuple[Path, ...]
    hidden_folders: tuple[Path, ...]
    home: Path
    cwd: Path

    def landlock_rules(self) -> list[tuple[str, int]]:
        """The same as paths and what may be done below them, for the second wall."""
        rules = [("/", LIST), *((name, READ) for name in ("/usr", "/etc", "/run/mooring", "/proc"))]
        rules += [(f"/{name}", READ) for name in _SYSTEM_LINKS]
        rules += [(name, WRITE) for name in ("/dev", "/tmp", str(self.home))]  # noqa: S108
        return rules + [(str(mount.inside), WRITE if mount.writable else READ) for mount in self.mounts]


def view_of(
    mounts: tuple[MountPoint, ...],
    readable: tuple[Path, ...],
    *,
    home: Path,
    cwd: Path,
    hidden: tuple[Path, ...] = (),
) -> View:
    """Put together what the profile names and what the program needs; `CannotRun` for what cannot be."""
    wanted = {path: MountPoint(path, path) for path in readable}
    for mount in mounts:
        wanted[mount.inside] = checked(mount, mounts)
    ordered = tuple(sorted(wanted.values(), key=lambda mount: len(mount.inside.parts)))
    shown = [(path, at) for path in hidden for at in places_of(path, ordered)]
    return View(
        ordered,
        tuple(dict.fromkeys(at for path, at in shown if not path.is_dir())),
        tuple(dict.fromkeys(at for path, at in shown if path.is_dir())),
        home,
        cwd,
    )


def checked(mount: MountPoint, beside: tuple[MountPoint, ...]) -> MountPoint:
    """The mount with its source resolved, if it may be mounted at all."""
    if str(mount.inside) in _RESERVED:
        raise CannotRun(f"nothing can be mounted at `{mount.inside}`: choose a folder of its own")
    if not mount.host.exists():
        raise CannotRun(f"`{mount.host}` does not exist: create it, or take it out of the permission profile")
    real = mount.host.resolve()
    for other in beside:
        # Who may write a folder may put a link in it, and would choose for himself what is mounted next time.
        inside = mount.host.absolute().is_relative_to(other.host.absolute())
        if other.writable and inside and not real.is_relative_to(other.host.resolve()):
            raise CannotRun(
                f"`{mount.host}` is a link that leads out of `{other.host}`, which the workload may write: "
                "name the real path instead"
            )
    return MountPoint(real, mount.inside, mount.writable)


def places_of(path: Path, mounts: tuple[MountPoint, ...]) -> tuple[Path, ...]:
    """Everywhere that a path of the host is seen inside: a folder may be mounted twice."""
    real = path.resolve()
    hosts = [(mount.host.resolve(), mount.inside) for mount in mounts]
    places = [inside / real.relative_to(host) for host, inside in hosts if real.is_relative_to(host)]
    return tuple(place for place in dict.fromkeys(places) if _seen_at(place, hosts) == real)


def _seen_at(place: Path, hosts: list[tuple[Path, Path]]) -> Path | None:
    """What of the host is seen at a place inside: the deepest mount lies over the others."""
    found = [(host, inside) for host, inside in hosts if place.is_relative_to(inside)]
    host, inside = max(found, key=lambda pair: len(pair[1].parts), default=(None, place))
    return None if host is None else host / place.relative_to(inside)


def system_arguments(root: Path = Path("/")) -> list[str]:
    """The read-only system: /usr, what stands beside it, and the few files of /etc that hold no secrets."""
    arguments = ["--ro-bind", "/usr", "/usr"]
    for name in _SYSTEM_LINKS:
        path = root / name
        if path.is_symlink():
            arguments += ["--symlink", str(path.readlink()), f"/{name}"]
        elif path.is_dir():
            arguments += ["--ro-bind", str(path), f"/{name}"]
    for name in _SYSTEM_FILES:
        path = root / name.lstrip("/")
        if path.is_symlink() and path.resolve().is_relative_to(root / "usr"):
            arguments += ["--symlink", str(path.resolve()), name]
        elif path.exists():
            arguments += ["--ro-bind-try", str(path), name]
    return arguments
