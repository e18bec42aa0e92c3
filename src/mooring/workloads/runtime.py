"""The seam behind which every way of running a server lives: sandboxed process, container, remote.

A caller goes `prepare` (download, build, record what was found) → `start` → `RunningWorkload`. What is
started can be *dialled* as often as the server's `share` wants: a stdio workload gets one child per dial,
which ends with its wire; a workload that speaks HTTP is one tree of processes that `wait` waits for.

Events are told as they happen, from the event loop, in order. Secrets are arguments of `start` and are in no
value of this module, so a specification may be stored and shown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from msgspec import Struct, field

from mooring.errors import MooringError
from mooring.transports.dialing import Dialer, Folders
from mooring.workloads.profile import NONE, PermissionProfile

Transport: TypeAlias = Literal["stdio", "sse", "streamable-http"]
Sandbox: TypeAlias = Literal["on", "off"]
PackageKind: TypeAlias = Literal["npx", "uvx", "go"]


class CannotRun(MooringError):
    """This workload cannot be run here as it is; the message says what to install or change."""


class DidNotListen(MooringError):
    """A server that speaks HTTP was started, and nobody answers at its port; the next time somebody may."""


# What to run


class CommandSource(Struct, frozen=True, tag_field="kind", tag="command"):
    """A program of this machine. The first word is looked up on PATH; no shell sees any of them."""

    argv: tuple[str, ...]


class PackageSource(Struct, frozen=True, tag_field="kind", tag="package"):
    """A published package: `npx://name@version`, `uvx://name@version`, `go://path@version`."""

    scheme: PackageKind
    package: str
    version: str | None = None

    def __str__(self) -> str:
        return f"{self.scheme}://{self.package}" + (f"@{self.version}" if self.version else "")


class ImageSource(Struct, frozen=True, tag_field="kind", tag="image"):
    """A container image; its own entry point runs unless the specification has arguments."""

    reference: str


class RemoteSource(Struct, frozen=True, tag_field="kind", tag="remote"):
    """A server somewhere else: nothing runs here."""

    url: str


Source: TypeAlias = CommandSource | PackageSource | ImageSource | RemoteSource


class MountPoint(Struct, frozen=True):
    """A file or folder of this machine inside the workload, besides what the profile names."""

    host: Path
    inside: Path
    writable: bool = False


def mounts_for(folders: Folders) -> tuple[MountPoint, ...]:
    """The folders of whoever a process works for."""
    return tuple(MountPoint(folder.host, folder.inside, folder.writable) for folder in folders)


class ResourceLimits(Struct, frozen=True):
    """What one workload may use. `None`: not limited by us."""

    memory_bytes: int | None = 2 * 1024**3
    processes: int | None = 512
    open_files: int | None = 4096
    cpus: float | None = None


class PublishedPort(Struct, frozen=True):
    """A port of the workload that is reachable at an address of this machine."""

    inside: int
    host: str = "127.0.0.1"
    port: int = 0


class WorkloadSpec(Struct, frozen=True):
    """Everything about a workload that may be stored and shown."""

    name: str
    source: Source
    arguments: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict[str, str])
    profile: PermissionProfile = NONE
    mounts: tuple[MountPoint, ...] = ()
    limits: ResourceLimits = ResourceLimits()
    transport: Transport = "stdio"
    target_port: int | None = None
    """The port an HTTP server listens on inside. `None`: a free one, told in `MCP_PORT` and the like."""
    path: str = "/mcp"
    """The path of an HTTP server's MCP endpoint."""
    publish: tuple[PublishedPort, ...] = ()
    labels: dict[str, str] = field(default_factory=dict[str, str])
    cwd: Path | None = None
    sandbox: Sandbox = "on"
    base_image: str | None = None
    """What the image of a package is made of, under a container engine. `None`: the configured one."""
    system_packages: tuple[str, ...] = ()
    """What is installed into that image besides."""
    max_message_bytes: int = 64 * 1024**2
    ignore_globally: bool = True
    """Whether the user's own ignore file hides files too."""


# What was found


class Resolved(Struct, frozen=True):
    """What a source turned out to be. Two runs of the same thing have equal `identity`."""

    argv: tuple[str, ...] = ()
    """What is started inside, without the specification's arguments. Empty: the image's entry point."""
    readable: tuple[str, ...] = ()
    """The program's own files: interpreter, script folder, package folder."""
    version: str | None = None
    integrity: str | None = None
    """`sha512-...` of a package, `sha256:...` of an image or program."""
    image: str | None = None
    tools: tuple[tuple[str, str], ...] = ()
    """The programs that run it and their versions, such as `("node", "v20.19.2")`."""

    @property
    def identity(self) -> tuple[str | None, str | None]:
        return self.version, self.integrity


# What happens


class Spawned(Struct, frozen=True):
    """A process tree was started."""

    pid: int


class Said(Struct, frozen=True):
    """Bytes on the standard error of a workload (or, speaking HTTP, on its standard output)."""

    data: bytes


class Strayed(Struct, frozen=True):
    """A line on the standard output of a workload where only messages belong."""

    data: bytes


class Refused(Struct, frozen=True):
    """The egress proxy did not let the workload connect."""

    at: float
    """Seconds since the epoch."""
    target: str
    reason: str


class Ended(Struct, frozen=True):
    """A process tree has ended: `code` is negative when a signal ended it."""

    pid: int
    code: int
    reason: str


Event: TypeAlias = Spawned | Said | Strayed | Refused | Ended
OnEvent: TypeAlias = Callable[[Event], None]
OnProgress: TypeAlias = Callable[[str], None]


class Usage(Struct, frozen=True):
    """What a workload uses now, all its processes together."""

    memory_bytes: int
    cpu_seconds: float
    processes: int


class Leftover(Struct, frozen=True):
    """Something of a workload that a daemon before us left behind."""

    runtime: str
    name: str
    reference: str
    running: bool


class RunningWorkload(Protocol):
    """A workload that was started; whoever started it must `stop` or `kill` it."""

    dialer: Dialer
    """What the gateway dials. Closing it does not stop the workload."""

    @property
    def pids(self) -> tuple[int, ...]: ...
    @property
    def refusals(self) -> tuple[Refused, ...]:
        """The newest refused connections, oldest first."""
        ...

    async def usage(self) -> Usage: ...
    async def wait(self) -> Ended:
        """Wait until it ends by itself, or was stopped."""
        ...

    async def stop(self) -> None:
        """End it in bounded steps: input closed, TERM, KILL; nothing of it is left afterwards."""
        ...

    async def kill(self) -> None: ...


class Runtime(Protocol):
    """A way of running workloads."""

    name: str

    async def problem(self) -> str | None:
        """Why it cannot run anything here, with the fix; `None` when it can."""
        ...

    async def prepare(self, spec: WorkloadSpec, progress: OnProgress) -> Resolved:
        """Fetch or build what the specification names, or raise `CannotRun`."""
        ...

    async def start(
        self, spec: WorkloadSpec, resolved: Resolved, secrets: Mapping[str, str], on_event: OnEvent
    ) -> RunningWorkload:
        """Start it, or raise `CannotRun`. Speaking HTTP, it is accepting connections when this returns."""
        ...


class Leaving(Protocol):
    """A runtime of which something may stay behind when its daemon is killed."""

    async def leftovers(self) -> tuple[Leftover, ...]:
        """What earlier daemons of this data directory left behind."""
        ...

    async def remove(self, leftover: Leftover) -> None: ...
