"""Real engines for the container tests, and an image made of this machine's Python.

`python -m tests.workloads.containers.setup` installs what is missing, where it may.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from socket import create_server

from tests.support.waiting import eventually

PACKAGES = (
    *("podman", "runc", "netavark", "aardvark-dns", "conmon", "catatonit"),
    *("docker.io", "containerd", "iptables", "docker-registry", "curl"),
    *("uidmap", "rootlesskit"),
)
START_SECONDS = 60.0
IMAGE = "localhost/mooring-test-python:latest"
NODE_IMAGE = "localhost/mooring-test-node:latest"
UV_IMAGE = "localhost/mooring-test-uv:latest"
PYTHON = f"/usr/bin/{Path('/usr/bin/python3').resolve().name}"
# Limits below what any machine allows: raising them takes a right that root does not have everywhere.
CONTAINERS_CONF = """\
[containers]
default_ulimits = ["nofile=4096:4096", "nproc=4096:4096"]
log_driver = "k8s-file"
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
"""


# What is on this machine speaks plain HTTP. Docker knows that by itself.
REGISTRIES_CONF = """\
[[registry]]
location = "127.0.0.1"
insecure = true
"""


def missing() -> list[str]:
    """The programs that are not there."""
    return [
        name
        for name in ("podman", "dockerd", "runc", "docker-registry", "curl", "newuidmap", "rootlesskit")
        if shutil.which(name) is None
    ]


def install() -> None:
    """Install the engines with apt, as root."""
    if missing():
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for command in (["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", *PACKAGES]):
            subprocess.run(["apt-get", *command], check=True, env=environment, timeout=600)


@contextmanager
def podman(folder: Path) -> Iterator[Path]:
    """Podman's Docker API on a socket of its own."""
    (folder / "containers.conf").write_text(CONTAINERS_CONF)
    (folder / "registries.conf").write_text(REGISTRIES_CONF)
    socket = folder / "podman.sock"
    command = [
        *("podman", "--root", str(folder / "root"), "--runroot", str(folder / "run")),
        *("system", "service", "--time=0", f"unix://{socket}"),
    ]
    settings = {
        "CONTAINERS_CONF": str(folder / "containers.conf"),
        "CONTAINERS_REGISTRIES_CONF": str(folder / "registries.conf"),
    }
    with running(command, socket, folder, settings):
        yield socket


@contextmanager
def docker(folder: Path) -> Iterator[Path]:
    """A dockerd of its own."""
    socket = folder / "docker.sock"
    command = [
        *("dockerd", "--data-root", str(folder / "data"), "--exec-root", str(folder / "exec")),
        *("--pidfile", str(folder / "pid"), "-H", f"unix://{socket}"),
        *("--exec-opt", "native.cgroupdriver=cgroupfs", "--bridge", "none", "--iptables=false"),
    ]
    with running(command, socket, folder, {}):
        yield socket


@contextmanager
def registry(folder: Path) -> Iterator[str]:
    """A registry of images of its own; its address."""
    with create_server(("127.0.0.1", 0)) as free:
        address = f"127.0.0.1:{free.getsockname()[1]}"
    settings = {
        "version": "0.1",
        "storage": {"filesystem": {"rootdirectory": str(folder / "images")}, "delete": {"enabled": True}},
        "http": {"addr": address, "secret": "of a test"},
    }
    (folder / "registry.yml").write_text(json.dumps(settings))
    with (folder / "registry.log").open("wb") as log:
        command = ["docker-registry", "serve", str(folder / "registry.yml")]
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
    try:

        def answers() -> bool:
            assert process.poll() is None, (folder / "registry.log").read_text()[-2000:]
            return bool(ask(f"http://{address}/v2/"))

        eventually(answers, "the registry to answer", limit=START_SECONDS)
        yield address
    finally:
        process.terminate()
        process.wait(10)


def ask(url: str, *more: str) -> str:
    """The answer to a request, headers first; empty when there is none."""
    done = subprocess.run(
        ["curl", "--silent", "--include", *more, url],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    return done.stdout


def at_home(folder: Path) -> dict[str, str]:
    """What tells a program that it is at home there, also one that may not look into root's folders."""
    places = {"XDG_CONFIG_HOME": folder / ".config", "XDG_DATA_HOME": folder / ".local/share"}
    return {"HOME": str(folder)} | {name: str(place) for name, place in places.items()}


@contextmanager
def running(command: list[str], socket: Path, folder: Path, extra: dict[str, str]) -> Iterator[None]:
    with (folder / "engine.log").open("wb") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, env={**os.environ, **extra}, cwd=folder, start_new_session=True
        )
    try:

        def ready() -> bool:
            assert process.poll() is None, (folder / "engine.log").read_text()[-2000:]
            return socket.is_socket()

        eventually(ready, f"{command[0]} to listen", limit=START_SECONDS)
        yield
    finally:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(5)
        _unmount_below(folder)


def _unmount_below(folder: Path) -> None:
    """An engine leaves its storage mounted, which would keep anybody from removing it."""
    places = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for place in sorted((place for place in places if Path(place).is_relative_to(folder)), reverse=True):
        subprocess.run(["umount", "--lazy", place], check=False)


def import_image(socket: Path, name: str, archive: Path) -> None:
    """Make an image of a root file system."""
    url = f"http://localhost/v1.40/images/create?fromSrc=-&repo={name.rpartition(':')[0]}"
    done = subprocess.run(
        [
            *("curl", "--silent", "--fail-with-body", "--unix-socket", str(socket), "-X", "POST"),
            *("-H", "Content-Type: application/x-tar", "-T", str(archive), url),
        ],
        capture_output=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def archive_of(file: Path) -> Path:
    """A root file system with one file in it."""
    archive = file.with_suffix(".tar")
    with tarfile.open(archive, mode="w") as root:
        root.add(file, file.name)
    return archive


def python_image(archive: Path) -> Path:
    """A root file system with the distribution's Python and nothing else."""
    library = Path("/usr/lib") / Path(PYTHON).name
    _write_root(archive, [Path(PYTHON), *(library / "lib-dynload").glob("*.so")], [library])
    return archive


def node_image(archive: Path) -> Path:
    """A root file system with Node and npm of this machine, as a public base image has them."""
    names = ("sh", "node", "npm", *COREUTILS)
    programs = [Path(found) for found in map(shutil.which, names) if found]
    _write_root(archive, programs, [*NODE_TREES, *CERTIFICATES])
    return archive


def uv_image(archive: Path) -> Path:
    """A root file system with Python, uv and git of this machine."""
    library = Path("/usr/lib") / Path(PYTHON).name
    uv = Path(sys.executable).with_name("uv")
    found = [Path(name) for name in map(shutil.which, ("sh", "git", *COREUTILS)) if name]
    programs = [*found, Path(PYTHON), Path("/usr/bin/python3"), uv, *(library / "lib-dynload").glob("*.so")]
    _write_root(archive, programs, [library, *CERTIFICATES], {uv: "/usr/bin/uv"})
    return archive


COREUTILS = ("env", "rm", "mkdir", "cat", "ls", "uname", "dirname", "readlink", "sed")
NODE_TREES = tuple(
    Path(folder)
    for folder in (
        *("/usr/lib/node_modules/npm", "/usr/share/nodejs", "/usr/share/node_modules", "/usr/share/npm"),
        "/usr/lib/x86_64-linux-gnu/nodejs",
    )
)
CERTIFICATES = (Path("/etc/ssl/certs"), Path("/usr/share/ca-certificates"))


def _write_root(
    archive: Path, programs: list[Path], trees: list[Path], places: dict[Path, str] | None = None
) -> None:
    wanted: dict[str, Path] = {}
    for program in programs:
        for file in (program, *_shared_libraries(program)):
            place = (places or {}).get(file, str(file))
            if file.is_symlink() and file.parent == Path("/usr/bin"):
                wanted[place] = file
                place = str(file.resolve())
            wanted[place] = file.resolve()
    with tarfile.open(archive, mode="w") as root:
        # Folders without an entry would be made by the engine, and not every engine lets others into them.
        folders = {parent for place in (*wanted, *trees) for parent in Path(place).parents}
        for folder in sorted(folders):
            if any(folder.is_relative_to(tree) for tree in trees if tree.is_dir()):
                continue
            entry = tarfile.TarInfo(str(folder).lstrip("/") or ".")
            entry.type, entry.mode = tarfile.DIRTYPE, 0o755
            root.addfile(entry)
        for tree in trees:
            if tree.is_dir():
                root.add(tree, str(tree), filter=_wanted)
        for place, file in sorted(wanted.items()):
            if not any(Path(place).is_relative_to(tree) for tree in trees):
                root.add(file, place)
        for name in ("lib", "lib64", "bin"):
            if Path(f"/{name}").is_symlink():
                root.add(f"/{name}", name)
        root.add(HOSTILE, "server.py")


HOSTILE = Path(__file__).parents[3] / "examples/hostile/server.py"


def _wanted(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    unneeded = ("__pycache__", "/test", "/idlelib", "/tkinter", "/dist-packages", "/lib2to3", "config-3")
    return None if any(part in entry.name for part in unneeded) else entry


def _shared_libraries(program: Path) -> set[Path]:
    told = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=False).stdout
    found = {Path(path) for path in re.findall(r"(/\S+) \(0x", told)}
    # Through the links of a merged /usr, so that they are where the links in the image lead.
    return {
        Path("/usr") / path.relative_to("/") if not path.is_relative_to("/usr") else path for path in found
    }


if __name__ == "__main__":
    try:
        install()
    except (OSError, subprocess.SubprocessError) as error:
        sys.exit(f"the container engines could not be installed: {error}")
