"""Where the sockets of container engines are looked for."""

from __future__ import annotations

import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from mooring.workloads.containers.engines import Engine, UsedEngines, engines


@pytest.fixture
def home() -> Iterator[Path]:
    """Short, because the path of a socket must be."""
    with tempfile.TemporaryDirectory(prefix="m") as folder:
        yield Path(folder)


@pytest.fixture
def listening(home: Path) -> Iterator[list[socket.socket]]:
    opened: list[socket.socket] = []
    yield opened
    for each in opened:
        each.close()


def socket_at(path: Path, listening: list[socket.socket]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    made = socket.socket(socket.AF_UNIX)
    made.bind(str(path))
    listening.append(made)
    return path


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("podman", "run/podman/podman.sock"),
        ("podman", ".local/share/containers/podman/machine/podman.sock"),
        ("podman", "tmp/podman/podman-machine-default-api.sock"),
        ("docker", "run/docker.sock"),
        ("docker", ".docker/run/docker.sock"),
        ("docker", ".docker/desktop/docker.sock"),
        ("docker", ".rd/docker.sock"),
        ("docker", ".orbstack/run/docker.sock"),
        ("docker", ".colima/default/docker.sock"),
        ("docker", ".colima/work/docker.sock"),
    ],
)
def test_every_usual_place_is_looked_at(
    name: str, place: str, home: Path, listening: list[socket.socket]
) -> None:
    found = socket_at(home / place, listening)
    environment = {"XDG_RUNTIME_DIR": str(home / "run"), "TMPDIR": str(home / "tmp")}
    assert (name, found) in [(engine.name, engine.socket) for engine in engines(environment, home)]


def test_what_the_environment_names_goes_first(home: Path, listening: list[socket.socket]) -> None:
    socket_at(home / ".rd/docker.sock", listening)
    named = socket_at(home / "mine.sock", listening)
    found = engines({"DOCKER_HOST": f"unix://{named}", "XDG_RUNTIME_DIR": str(home)}, home)
    assert next(engine for engine in found if engine.name == "docker") == Engine("docker", named)


def test_a_file_that_is_no_socket_is_no_engine(home: Path) -> None:
    (home / ".rd").mkdir()
    (home / ".rd/docker.sock").write_text("")
    assert home / ".rd/docker.sock" not in [engine.socket for engine in engines({}, home)]


def test_engines_that_were_used_are_remembered_until_they_are_forgotten(tmp_path: Path) -> None:
    used, engine = UsedEngines(tmp_path), Engine("docker", Path("/run/docker.sock"))
    assert used.all() == ()
    used.note(engine)
    assert UsedEngines(tmp_path).all() == (engine,)
    used.forget(engine)
    assert used.all() == ()
