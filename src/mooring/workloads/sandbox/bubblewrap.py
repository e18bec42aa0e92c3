"""The command line of bubblewrap, and whether bubblewrap works on this machine."""

from __future__ import annotations

import asyncio
import base64
import os
import platform
import re
import shutil
import sys
import zlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

from mooring import durable
from mooring.workloads.sandbox import launcher
from mooring.workloads.sandbox.launcher_program import PROGRAMS
from mooring.workloads.sandbox.plan import View, system_arguments

INSIDE: Final = "/run/mooring"
TEMPORARY_BYTES: Final = 1024**3
"""How much the private /tmp and home may hold, each; it is memory, and counts as the workload's."""
PROBE_SECONDS: Final = 20.0
_OLDEST_PYTHON: Final = 9
_PROCESSORS: Final = {"x86_64": "amd64", "aarch64": "arm64"}

_INSTALL: Final = (
    "install it (`apt-get install bubblewrap`, `dnf install bubblewrap`), or say `--sandbox off` to run "
    "without a sandbox"
)


@dataclass(frozen=True, slots=True)
class Files:
    """What the sandbox needs on disk: written once, mounted read-only into every workload."""

    folder: Path

    @property
    def empty_file(self) -> Path:
        return self.folder / "empty"

    @property
    def empty_folder(self) -> Path:
        return self.folder / "nothing"

    def write(self, user: str, uid: int, gid: int, home: Path) -> None:
        """Make the folder and its contents, also over what is there."""
        self.empty_folder.mkdir(parents=True, exist_ok=True)
        contents = {
            "empty": "",
            "passwd": f"{user}:x:{uid}:{gid}::{home}:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n",
            "group": f"{user}:x:{gid}:\nnogroup:x:65534:\n",
            "hosts": "127.0.0.1 localhost mooring\n",
            "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
            "resolv.conf": "",
            "launcher.py": Path(launcher.__file__).read_text(),
        }
        for name, text in contents.items():
            path = self.folder / name
            if not path.exists() or path.read_text() != text:
                path.write_text(text)
        program = compiled_launcher()
        path = self.folder / "launcher"
        if program is not None and not (path.exists() and path.read_bytes() == program):
            durable.replace_file(path, program, 0o755)

    @property
    def has_program(self) -> bool:
        """Whether the compiled launcher can be run from here."""
        return compiled_launcher() is not None and not os.statvfs(self.folder).f_flag & os.ST_NOEXEC

    def arguments(self) -> list[str]:
        names = ("passwd", "group", "hosts", "nsswitch.conf", "resolv.conf")
        launcher_name = "launcher" if self.has_program else "launcher.py"
        pairs = [(name, f"/etc/{name}") for name in names] + [(launcher_name, f"{INSIDE}/{launcher_name}")]
        return [word for name, inside in pairs for word in ("--ro-bind", str(self.folder / name), inside)]

    def launcher(self) -> tuple[str, ...]:
        """The command of the launcher, inside."""
        if self.has_program:
            return (f"{INSIDE}/launcher",)
        return (interpreter()[0], "-I", "-S", f"{INSIDE}/launcher.py")

    def launcher_outside(self) -> tuple[str, ...]:
        """The command of the launcher, where there is no sandbox."""
        if self.has_program:
            return (str(self.folder / "launcher"),)
        return (sys.executable, "-I", "-S", launcher.__file__)


@lru_cache(maxsize=1)
def compiled_launcher() -> bytes | None:
    """The launcher for this processor, if it was compiled for it."""
    packed = PROGRAMS.get(_PROCESSORS.get(platform.machine(), ""))
    return zlib.decompress(base64.b64decode(packed)) if packed is not None else None


@lru_cache(maxsize=1)
def interpreter() -> tuple[str, list[str]]:
    """A bare Python inside the sandbox for the launcher, and the mounts it needs."""
    # The one behind a virtual environment: that is what the environment only points to.
    executable = Path(getattr(sys, "_base_executable", "") or sys.executable).resolve()
    prefix = Path(sys.base_prefix).resolve()
    if not executable.is_relative_to("/usr"):
        executable = _system_python() or executable
    if executable.is_relative_to("/usr"):
        return str(executable), []
    inside = f"{INSIDE}/python"
    return f"{inside}/{executable.relative_to(prefix)}", ["--ro-bind", str(prefix), inside]


def _system_python() -> Path | None:
    """The distribution's Python, if the launcher can run on it: it is inside anyway, and small."""
    found = Path("/usr/bin/python3").resolve()
    version = re.fullmatch(r"python3\.(\d+)", found.name)
    return found if version and int(version[1]) >= _OLDEST_PYTHON and found.is_file() else None


@lru_cache(maxsize=1)
def _fixed_arguments() -> tuple[str, ...]:
    return (
        *("--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"),
        *("--unshare-cgroup-try", "--die-with-parent", "--cap-drop", "ALL", "--hostname", "mooring"),
        *system_arguments(),
        *("--proc", "/proc", "--dev", "/dev", "--perms", "1777", "--size", str(TEMPORARY_BYTES)),
        *("--tmpfs", "/tmp"),  # noqa: S108
    )


def command_line(view: View, files: Files, *, control: int, seccomp: int | None) -> tuple[str, ...]:
    """bubblewrap, the launcher in it, and nothing of the server: that is told over the control socket."""
    needed = [] if files.has_program else interpreter()[1]
    arguments = ["--perms", "0700", "--size", str(TEMPORARY_BYTES), "--tmpfs", str(view.home)]
    layers = [(mount.inside, mount.host, mount.writable) for mount in view.mounts]
    layers += [(folder, files.empty_folder, False) for folder in view.hidden_folders]
    layers += [(file, files.empty_file, False) for file in view.hidden_files]
    # Parents first; what is hidden lies over the folder it is in, and under what is mounted deeper.
    for inside, host, writable in sorted(layers, key=lambda layer: len(layer[0].parts)):
        arguments += ["--bind" if writable else "--ro-bind", str(host), str(inside)]
    if seccomp is not None:
        arguments += ["--seccomp", str(seccomp)]
    return (
        *(program() or "bwrap", *_fixed_arguments(), *needed, *files.arguments(), *arguments),
        *("--dir", str(view.cwd), "--chdir", str(view.cwd)),
        *("--", *files.launcher(), str(control)),
    )


def program() -> str | None:
    try:
        return _found(os.environ.get("PATH"))
    except FileNotFoundError:
        return None


@lru_cache(maxsize=4)
def _found(path: str | None) -> str:
    """Looked for once; what is missing may be installed while we run."""
    found = shutil.which("bwrap", path=path)
    if found is None:
        raise FileNotFoundError("bwrap")
    return found


async def problem() -> str | None:
    """Why no sandbox can be made here, with the fix; None when one was just made."""
    if sys.platform != "linux":
        return (
            f"there is no process sandbox on {sys.platform}: use `--runtime container`, or say "
            "`--sandbox off` to run without one"
        )
    bwrap = program()
    if bwrap is None:
        return f"the sandbox needs bubblewrap, and `bwrap` is not on PATH: {_INSTALL}"
    arguments = ("--unshare-user", "--unshare-net", "--unshare-pid", "--cap-drop", "ALL", *system_arguments())
    process = await asyncio.create_subprocess_exec(
        *(bwrap, *arguments, "--proc", "/proc", "--", "/usr/bin/env"),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(PROBE_SECONDS):
            _, errors = await process.communicate()
    except TimeoutError:
        process.kill()
        await process.wait()
        return "bubblewrap does not answer: run `bwrap --ro-bind / / true` to see why"
    if process.returncode == 0:
        return None
    return (
        f"bubblewrap cannot make a sandbox here ({errors.decode(errors='replace').strip()}): allow user "
        "namespaces (`sysctl kernel.unprivileged_userns_clone=1`; on Ubuntu also "
        "`kernel.apparmor_restrict_unprivileged_userns=0`), or say `--sandbox off` to run without a sandbox"
    )
