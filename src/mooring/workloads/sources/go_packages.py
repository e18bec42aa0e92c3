"""`go://path@version`: a Go program, built from its module with the machine's Go."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from mooring.workloads.runtime import CannotRun, OnProgress, PackageSource, Resolved
from mooring.workloads.sandbox.errand import Errand, Errands
from mooring.workloads.sources.tools import find_tool, hosts_of

_FIX: Final = "install Go (`apt-get install golang-go`, or from go.dev)"
_PROXY: Final = ("https://proxy.golang.org", "https://sum.golang.org")
_VARIABLES: Final = ("GOPROXY", "GOSUMDB", "GONOSUMDB", "GOPRIVATE")


async def install_go(source: PackageSource, place: Path, errands: Errands, progress: OnProgress) -> Resolved:
    """Build it; the build carries its module's version and hash."""
    go = str(find_tool("go", _FIX))
    given = {name: os.environ[name] for name in _VARIABLES if name in os.environ}
    hosts = hosts_of((*_PROXY, *given.get("GOPROXY", "").replace("|", ",").split(",")))
    cache = place / ".cache"
    env = {
        "GOBIN": str(place / "bin"),
        "GOPATH": str(cache / "path"),
        "GOCACHE": str(cache / "build"),
        "GOFLAGS": "-modcacherw",
        "GOTOOLCHAIN": "local",
        **given,
    }
    await errands.run(
        Errand((go, "install", f"{source.package}@{source.version or 'latest'}"), place, env, hosts), progress
    )
    programs = sorted((place / "bin").iterdir())
    if len(programs) != 1:
        raise CannotRun(f"`{source.package}` has {len(programs)} programs, not one")
    told = await errands.run(Errand((go, "version", "-m", str(programs[0])), place, env), progress)
    module = [word for line in told.splitlines() if line.strip().startswith("mod") for word in line.split()]
    return Resolved(
        argv=(str(programs[0]),),
        readable=(str(place),),
        version=module[2] if len(module) > 2 else None,
        integrity=module[3] if len(module) > 3 else None,
        tools=(("go", told.partition(": ")[2].partition("\n")[0]),),
    )
