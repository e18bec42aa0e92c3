"""`npx://name@version`: an npm package and its dependencies in a folder, run with the machine's Node."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from mooring.workloads.runtime import CannotRun, OnProgress, PackageSource, Resolved
from mooring.workloads.sandbox.errand import Errand, Errands
from mooring.workloads.sandbox.program import readable_for
from mooring.workloads.sources.tools import ask, find_tool, hosts_of

_FIX: Final = "install Node.js 20 or later with npm (`apt-get install nodejs npm`, or from nodejs.org)"
FLAGS: Final = ("--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error")


async def install_npm(source: PackageSource, place: Path, errands: Errands, progress: OnProgress) -> Resolved:
    """Install without any of the package's scripts first, while the user's npm settings are readable; run the
    scripts after that, when they no longer are: there may be a token in them."""
    node, npm = find_tool("node", _FIX), find_tool("npm", _FIX)
    registry, hosts = await registry_settings()
    (place / "package.json").write_text('{"private": true}\n')
    settings = Path.home() / ".npmrc"
    env = {"npm_config_cache": str(place / ".cache")}
    shared = {"npm_config_registry": registry} if registry else {}
    await errands.run(
        Errand(
            (str(npm), "install", "--ignore-scripts", "--omit=dev", *FLAGS, npm_wish(source)),
            place,
            {**env, **shared},
            hosts,
            readable=(settings, Path("/etc/npmrc")),
        ),
        progress,
    )
    await errands.run(Errand((str(npm), "rebuild", *FLAGS), place, env, hosts), progress)
    return await _describe(source, place, node)


async def registry_settings(*, required: bool = True) -> tuple[str, tuple[str, ...]]:
    """The registry this machine's npm is set to, and the hosts an installation may have to reach."""
    npm = find_tool("npm", _FIX) if required else shutil.which("npm")
    registry = await ask(str(npm), "config", "get", "registry") if npm else ""
    return registry, hosts_of((registry, "https://registry.npmjs.org"))


def npm_wish(source: PackageSource) -> str:
    """What npm is asked for."""
    return f"{source.package}@{source.version}" if source.version else source.package


async def _describe(source: PackageSource, place: Path, node: Path) -> Resolved:
    folder = place / "node_modules" / source.package
    manifest = cast("dict[str, Any]", msgspec.json.decode((folder / "package.json").read_bytes()))
    lock = cast("dict[str, Any]", msgspec.json.decode((place / "package-lock.json").read_bytes()))
    entry: dict[str, Any] = lock.get("packages", {}).get(f"node_modules/{source.package}", {})
    script = folder / npm_program(source, manifest.get("bin"))
    path = os.environ.get("PATH", os.defpath)
    needed = readable_for([str(node)], path=path, cwd=place, home=Path.home())
    return Resolved(
        argv=(str(node), str(script)),
        readable=(str(place), *(str(file) for file in needed)),
        version=str(manifest.get("version") or ""),
        integrity=entry.get("integrity"),
        tools=(("node", await ask(str(node), "--version")),),
    )


def npm_program(source: PackageSource, programs: object) -> str:
    """The file to run: the only program, or the one named like the package."""
    if isinstance(programs, str):
        return programs
    named = cast("dict[str, str]", programs) if isinstance(programs, dict) else {}
    name = source.package.rpartition("/")[2]
    if name in named:
        return named[name]
    if len(set(named.values())) == 1:
        return next(iter(named.values()))
    if not named:
        raise CannotRun(f"the npm package `{source.package}` has no program to run")
    raise CannotRun(
        f"the npm package `{source.package}` has several programs ({', '.join(sorted(named))}) and none of "
        "its own name: run one of them as a command"
    )
