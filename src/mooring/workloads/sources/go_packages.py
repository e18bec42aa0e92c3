"""`go://path@version`: a Go program, built from its module with the machine's Go."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final, cast
from urllib.parse import unquote, urlsplit

import msgspec

from mooring.workloads.runtime import CannotRun, OnProgress, PackageSource, Resolved
from mooring.workloads.sandbox.errand import Errand, Errands
from mooring.workloads.sources.tools import ask_all, find_tool, hosts_of

_FIX: Final = "install Go (`apt-get install golang-go`, or from go.dev)"
_VARIABLES: Final = ("GOPROXY", "GOSUMDB", "GONOSUMDB", "GOPRIVATE", "GONOPROXY", "GOINSECURE")
_BETWEEN: Final = re.compile(r"([,|])")
_THIS_MACHINE: Final = "localhost."


async def install_go(source: PackageSource, place: Path, errands: Errands, progress: OnProgress) -> Resolved:
    """Build it; the build carries its module's version and hash."""
    go = str(find_tool("go", _FIX))
    given = await _settings(go)
    proxies = _BETWEEN.split(given.get("GOPROXY", ""))
    if errands.sandboxed and proxies:
        given["GOPROXY"] = "".join(_through_proxy(url) for url in proxies)
    cache = place / ".cache"
    env = {
        "GOBIN": str(place / "bin"),
        "GOPATH": str(cache / "path"),
        "GOCACHE": str(cache / "build"),
        "GOFLAGS": "-modcacherw",
        "GOTOOLCHAIN": "local",
        **given,
    }
    wish = f"{source.package}@{source.version or 'latest'}"
    folders = tuple(_folders_of(proxies))
    await errands.run(Errand((go, "install", wish), place, env, hosts_of(proxies), folders), progress)
    return await _describe(source, place, Errand((go, "version", "-m"), place, env), errands, progress)


async def _settings(go: str) -> dict[str, str]:
    """What this machine's Go is set to, by its environment or by `go env -w`."""
    told = await ask_all(go, "env", "-json", *_VARIABLES)
    return cast("dict[str, str]", msgspec.json.decode(told or "{}"))


def _through_proxy(url: str) -> str:
    """Go asks no proxy for what is on this machine, unless it does not notice."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return url
    return url.replace(host, _THIS_MACHINE, 1) if host == "localhost" or _is_loopback(host) else url


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host) == ipaddress.ip_address("127.0.0.1")
    except ValueError:
        return False


def _folders_of(proxies: Iterable[str]) -> Iterable[Path]:
    """The folders among the places modules come from."""
    for url in proxies:
        if url.startswith("file:///"):
            yield Path(unquote(urlsplit(url).path))


async def _describe(
    source: PackageSource, place: Path, question: Errand, errands: Errands, progress: OnProgress
) -> Resolved:
    programs = sorted((place / "bin").iterdir())
    if len(programs) != 1:
        raise CannotRun(f"`{source.package}` has {len(programs)} programs, not one")
    asked = Errand((*question.argv, str(programs[0])), place, question.env)
    told = await errands.run(asked, progress)
    module = [word for line in told.splitlines() if line.strip().startswith("mod") for word in line.split()]
    return Resolved(
        argv=(str(programs[0]),),
        readable=(str(place),),
        version=module[2] if len(module) > 2 else None,
        integrity=module[3] if len(module) > 3 else None,
        tools=(("go", told.partition(": ")[2].partition("\n")[0]),),
    )
