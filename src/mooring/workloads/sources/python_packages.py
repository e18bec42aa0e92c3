"""`uvx://name@version`: a Python package and its dependencies in an environment of its own, made with uv."""

from __future__ import annotations

import configparser
import hashlib
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from mooring.workloads.runtime import CannotRun, OnProgress, PackageSource, Resolved
from mooring.workloads.sandbox.errand import Errand, Errands
from mooring.workloads.sandbox.program import readable_for
from mooring.workloads.sources.tools import ask, find_tool, hosts_of

_FIX: Final = "install uv (`pip install uv`, or see docs.astral.sh/uv)"
_PYPI: Final = ("https://pypi.org", "https://files.pythonhosted.org")
_INDEX_VARIABLES: Final = (
    *("UV_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS"),
    *("UV_NATIVE_TLS", "UV_SYSTEM_CERTS"),
)


async def install_python(
    source: PackageSource, place: Path, errands: Errands, progress: OnProgress
) -> Resolved:
    """Decide on exact versions with their hashes first, then install exactly those."""
    uv = str(find_tool("uv", _FIX))
    given, hosts = index_settings()
    settings = (Path.home() / ".config/uv/uv.toml", Path("/etc/uv/uv.toml"))
    env = {
        "UV_CACHE_DIR": str(place / ".cache"),
        "UV_LINK_MODE": "copy",
        "UV_PYTHON_DOWNLOADS": "never",
        "UV_NO_PROGRESS": "1",
        **given,
    }

    async def step(*arguments: str) -> None:
        await errands.run(Errand((uv, *arguments), place, env, hosts, settings), progress)

    (place / "wanted.txt").write_text(f"{python_requirement(source)}\n")
    await step("venv", "--no-project", str(place / "venv"))
    python = str(place / "venv/bin/python")
    await step(
        *("pip", "compile", "--generate-hashes", "--no-header", "--quiet", "--no-annotate"),
        *("--python", python, "--output-file", "lock.txt", "wanted.txt"),
    )
    await step("pip", "install", "--python", python, "--require-hashes", "-r", "lock.txt")
    return await _describe(source, place)


def index_settings() -> tuple[dict[str, str], tuple[str, ...]]:
    """The package index of this machine as variables, and the hosts an installation may have to reach."""
    given = {name: os.environ[name] for name in _INDEX_VARIABLES if name in os.environ}
    return given, hosts_of((*_PYPI, *(word for value in given.values() for word in value.split())))


def python_requirement(source: PackageSource) -> str:
    """What uv is asked for."""
    version = source.version
    if version is None or version == "latest":
        return source.package
    return f"{source.package}{version if version[0] in '<>=!~' else f'=={version}'}"


async def _describe(source: PackageSource, place: Path) -> Resolved:
    python = place / "venv/bin/python"
    name = python_name(source)
    lock = (place / "lock.txt").read_text()
    locked = {_normal(found[1]): found[2] for found in re.finditer(r"(?m)^([\w.-]+)==(\S+)", lock)}
    version = locked.get(name, "")
    script = place / "venv/bin" / _script(place, name, version)
    path = os.environ.get("PATH", os.defpath)
    needed = readable_for([str(python)], path=path, cwd=place, home=Path.home())
    return Resolved(
        argv=(str(python), str(script)),
        readable=(str(place), *(str(file) for file in needed)),
        version=version,
        integrity=lock_integrity(lock),
        tools=(("python", (await ask(str(python), "--version")).removeprefix("Python ")),),
    )


def _script(place: Path, name: str, version: str) -> str:
    """The console script of the installed package."""
    for folder in place.glob("venv/lib/python*/site-packages/*.dist-info"):
        if _normal(folder.name.removesuffix(".dist-info").rpartition("-")[0]) != name:
            continue
        parser = configparser.ConfigParser(delimiters=("=",))
        parser.optionxform = str  # type: ignore[assignment,method-assign]
        parser.read(folder / "entry_points.txt", "utf-8")
        scripts = list(parser["console_scripts"]) if parser.has_section("console_scripts") else []
        return python_script(name, version, scripts)
    return python_script(name, version, ())


def python_script(name: str, version: str, scripts: Sequence[str]) -> str:
    """The program of a package: the only one, or the one of its name."""
    for script in scripts:
        if _normal(script) == name or len(scripts) == 1:
            return script
    if scripts:
        raise CannotRun(
            f"the package `{name}` {version} has several programs ({', '.join(scripts)}) and none of its "
            "own name: run one of them as a command"
        )
    raise CannotRun(f"the package `{name}` {version} has no program to run")


def python_name(source: PackageSource) -> str:
    """The name of the package alone, as names are compared."""
    return _normal(source.package.partition("[")[0])


def lock_integrity(lock: str) -> str:
    """One hash for all the files that were locked."""
    return f"sha256:{hashlib.sha256(lock.encode()).hexdigest()}"


def _normal(name: str) -> str:
    """Names that differ only in case and separators are the same package."""
    return re.sub(r"[-_.]+", "-", name).lower()
