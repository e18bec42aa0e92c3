"""Engines that an ordinary user starts for themselves, without changing anything on this machine."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.workloads.containers import setup

NOBODY = 65534
# Which numbers a user may give away is said in two files: ours are laid over them, for the engine alone.
AS_USER = """\
touch /etc/subuid /etc/subgid
mount --bind subuid /etc/subuid
mount --bind subgid /etc/subgid
exec setpriv --reuid {user} --regid {user} --clear-groups "$@"
"""


@contextmanager
def engine(name: str, folder: Path) -> Iterator[Path]:
    """`podman` or `docker`, with all that it keeps in this folder; its socket."""
    for place in ("home", "run", "work"):
        (folder / place).mkdir()
    for file in ("subuid", "subgid"):
        (folder / file).write_text("nobody:200000:65536\n")
    (folder / "containers.conf").write_text(setup.CONTAINERS_CONF)
    for path in (folder, *folder.iterdir()):
        os.chown(path, NOBODY, NOBODY)
    socket = folder / "run" / f"{name}.sock"
    command = {"podman": _podman, "docker": _docker}[name](folder, socket)
    settings = {
        **setup.at_home(folder / "home"),
        "XDG_RUNTIME_DIR": str(folder / "run"),
        "CONTAINERS_CONF": str(folder / "containers.conf"),
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
    }
    script = AS_USER.format(user=NOBODY)
    wrapped = ["unshare", "--mount", "--propagation", "private", "sh", "-euc", script, "sh", *command]
    try:
        with setup.running(wrapped, socket, folder, settings):
            yield socket
    finally:
        _end_all_of(folder)


def _podman(folder: Path, socket: Path) -> list[str]:
    del folder
    return ["podman", "system", "service", "--time=0", f"unix://{socket}"]


def _docker(folder: Path, socket: Path) -> list[str]:
    # What root's own Docker left there is shown inside by links, and closed to anybody else.
    without_roots = ("sh", "-c", 'rm -f /run/docker /run/containerd /run/xtables.lock; exec "$@"', "sh")
    return [
        *("rootlesskit", "--net=host", "--copy-up=/etc", "--copy-up=/run", "--propagation=rslave"),
        *without_roots,
        *("dockerd", "--rootless", "--data-root", f"{folder}/home/data", "--exec-root", f"{folder}/run/exec"),
        *("--pidfile", f"{folder}/run/pid", "-H", f"unix://{socket}", "--storage-driver", "vfs"),
        *("--bridge", "none", "--iptables=false", "--ip-forward=false"),
    ]


def _end_all_of(folder: Path) -> None:
    """Podman leaves a process behind that keeps its namespaces open."""
    mark = f"XDG_RUNTIME_DIR={folder}/run".encode()
    for entry in Path("/proc").iterdir():
        with suppress(OSError):
            if entry.name.isdigit() and mark in (entry / "environ").read_bytes().split(b"\0"):
                os.kill(int(entry.name), signal.SIGKILL)
