"""The programs a run needs: compiled here, installed from Debian, or in virtual environments of their own."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
BUILT = ROOT / ".cache" / "bench"
VENVS = ROOT / ".venvs"
_HEADERS = ("answers.h",)
_PACKAGES = {"nginx": "nginx-light", "wrk": "wrk"}
_INSTALL_SECONDS = 300


class MissingProgramError(RuntimeError):
    """A program the benchmark needs is absent and could not be set up; the message says what to do."""


def compiled(name: str) -> Path:
    """The program made from bench/NAME.c, compiled when the source is newer than it."""
    source, program = HERE / f"{name}.c", BUILT / name
    inputs = [source, *(HERE / header for header in _HEADERS)]
    if program.exists() and program.stat().st_mtime > max(each.stat().st_mtime for each in inputs):
        return program
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        raise MissingProgramError("no C compiler; install one: `apt-get install gcc libc6-dev`")
    BUILT.mkdir(parents=True, exist_ok=True)
    fresh = BUILT / f"{name}.{os.getpid()}"
    made = subprocess.run(
        [compiler, "-O2", "-Wall", "-Wextra", "-o", str(fresh), str(source)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if made.returncode:
        raise MissingProgramError(f"`{source.name}` does not compile:\n{made.stderr}")
    fresh.replace(program)
    return program


def debian_program(name: str) -> str:
    """The path of nginx or wrk, installed with apt-get when it is missing and we may."""
    found = _find(name)
    if found is None:
        _apt_install(_PACKAGES[name])
        found = _find(name)
    if found is None:
        raise MissingProgramError(f"`{name}` is missing; install it: `apt-get install {_PACKAGES[name]}`")
    return found


def virtual_environment(name: str) -> Path:
    """The bin folder of .venvs/NAME, filled from bench/requirements-NAME.txt."""
    place, wanted = VENVS / name, (HERE / f"requirements-{name}.txt").read_text()
    stamp = place / "bench-requirements.txt"
    VENVS.mkdir(exist_ok=True)
    with (VENVS / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text() != wanted:
            _fill_environment(place, HERE / f"requirements-{name}.txt")
            stamp.write_text(wanted)
    return place / "bin"


def mooring_program() -> Path:
    """`mooring` beside the Python that runs the benchmark, else in the repository's .venv."""
    for folder in (Path(sys.executable).parent, ROOT / ".venv" / "bin"):
        if (folder / "mooring").exists():
            return folder / "mooring"
    raise MissingProgramError("`mooring` is not installed; run `make setup`, then `make bench`")


def version_of(command: list[str]) -> str:
    """The last line a program prints about its version, or `unknown`."""
    try:
        said = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except OSError:
        return "unknown"
    lines = (said.stdout + said.stderr).strip().splitlines()
    return lines[0].strip() if lines else "unknown"


def _find(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/bin")


def _apt_install(package: str) -> None:
    if shutil.which("apt-get") is None or os.geteuid() != 0:
        return
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (
        ["apt-get", "-qq", "update"],
        ["apt-get", "-qq", "install", "-y", "--no-install-recommends", package],
    ):
        subprocess.run(command, env=environment, capture_output=True, timeout=_INSTALL_SECONDS, check=False)


def _fill_environment(place: Path, requirements: Path) -> None:
    venv.EnvBuilder(with_pip=True, clear=True).create(place)
    made = subprocess.run(
        [
            str(place / "bin" / "python"),
            "-m",
            "pip",
            "install",
            "-q",
            "--disable-pip-version-check",
            "-r",
            str(requirements),
        ],
        capture_output=True,
        text=True,
        timeout=_INSTALL_SECONDS,
        check=False,
    )
    if made.returncode:
        raise MissingProgramError(f"`pip install -r {requirements.name}` failed:\n{made.stderr[-600:]}")
