"""Where a container engine's API socket may be: Podman, Docker, Colima, Rancher Desktop, OrbStack."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

from mooring.durable import private_folder, replace_file

EngineName: TypeAlias = Literal["docker", "podman"]


class Engine(Struct, frozen=True):
    """An engine whose socket is there; whether it answers is another matter."""

    name: EngineName
    socket: Path


def engines(environment: Mapping[str, str], home: Path) -> tuple[Engine, ...]:
    """Every engine found, the preferred one first; what the environment names before the usual places."""
    found = (engine for engine in _places(environment, home) if engine.socket.is_socket())
    return tuple(dict.fromkeys(found))


def current_engines() -> tuple[Engine, ...]:
    return engines(os.environ, Path.home())


class UsedEngines:
    """The engines where containers of ours may be, kept in a folder: a later daemon looks at these."""

    def __init__(self, data: Path) -> None:
        self._folder = data / "engines"

    def all(self) -> tuple[Engine, ...]:
        found: list[Engine] = []
        for name in _VARIABLES:
            file = self._folder / name
            if file.is_file():
                found.append(Engine(name, Path(file.read_text())))
        return tuple(found)

    def note(self, engine: Engine) -> None:
        file = self._folder / engine.name
        if not file.is_file() or file.read_text() != str(engine.socket):
            replace_file(private_folder(self._folder) / engine.name, str(engine.socket).encode())

    def forget(self, engine: Engine) -> None:
        (self._folder / engine.name).unlink(missing_ok=True)


def _places(environment: Mapping[str, str], home: Path) -> Iterator[Engine]:
    for name, variables in _VARIABLES.items():
        for variable in variables:
            value = environment.get(variable, "").removeprefix("unix://")
            if value.startswith("/"):
                yield Engine(name, Path(value))
    runtime = environment.get("XDG_RUNTIME_DIR")
    if runtime:
        yield Engine("podman", Path(runtime) / "podman/podman.sock")
    yield Engine("podman", Path("/run/podman/podman.sock"))
    yield Engine("podman", home / ".local/share/containers/podman/machine/podman.sock")
    if temporary := environment.get("TMPDIR"):  # where a Mac's Podman machine has it
        for place in sorted(Path(temporary).glob("podman/*-api.sock")):
            yield Engine("podman", place)
    if runtime:
        yield Engine("docker", Path(runtime) / "docker.sock")
    yield Engine("docker", Path("/var/run/docker.sock"))
    for place in _DOCKER_IN_HOME:
        yield Engine("docker", home / place)
    for place in sorted(home.glob(".colima/*/docker.sock")):
        yield Engine("docker", place)


_VARIABLES: dict[EngineName, tuple[str, ...]] = {
    "podman": ("MOORING_PODMAN_SOCKET", "TOOLHIVE_PODMAN_SOCKET", "CONTAINER_HOST"),
    "docker": ("MOORING_DOCKER_SOCKET", "TOOLHIVE_DOCKER_SOCKET", "TOOLHIVE_COLIMA_SOCKET", "DOCKER_HOST"),
}
_DOCKER_IN_HOME = (
    ".docker/run/docker.sock",
    ".docker/desktop/docker.sock",
    ".rd/docker.sock",
    ".orbstack/run/docker.sock",
    ".colima/default/docker.sock",
)
