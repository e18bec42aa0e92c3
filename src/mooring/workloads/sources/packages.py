"""Published packages, each installed once into a folder that is then shared and only read.

A folder counts as installed once its record is written, which is the last thing that happens: a crash before
leaves something that is installed anew.
"""

from __future__ import annotations

import asyncio
import os
import shutil
from pathlib import Path
from typing import Final

import msgspec

from mooring.workloads.runtime import CannotRun, OnProgress, PackageSource, Resolved
from mooring.workloads.sandbox.errand import Errands
from mooring.workloads.sources.go_packages import install_go
from mooring.workloads.sources.naming import check_package, folder_name
from mooring.workloads.sources.npm_packages import install_npm
from mooring.workloads.sources.python_packages import install_python

INSTALLERS: Final = {"npx": install_npm, "uvx": install_python, "go": install_go}
_RECORD: Final = "mooring.json"


class PackageStore:
    """The installed packages below one folder."""

    def __init__(self, folder: Path, errands: Errands) -> None:
        self._folder = folder
        self._errands = errands
        self._locks: dict[Path, asyncio.Lock] = {}

    async def install(
        self, source: PackageSource, progress: OnProgress, *, sandboxed: bool = True
    ) -> Resolved:
        """What is installed, after installing it if need be."""
        check_package(source)
        place = self._folder.resolve() / source.scheme / folder_name(source)
        async with self._locks.setdefault(place, asyncio.Lock()):
            if (known := _read_record(place)) is not None:
                return known
            progress(f"installing {source}")
            await asyncio.to_thread(_make_empty, place)
            errands = self._errands if sandboxed else self._errands.without_sandbox()
            found = await INSTALLERS[source.scheme](source, place, errands, progress)
            await asyncio.to_thread(_write_record, place, found)
            progress(f"installed {source}: {found.version}")
            return found

    def forget(self, source: PackageSource) -> None:
        """Install it anew the next time: what is the latest version may have changed."""
        (self._folder / source.scheme / folder_name(source) / _RECORD).unlink(missing_ok=True)


def _make_empty(place: Path) -> None:
    if place.exists():
        shutil.rmtree(place)
    place.mkdir(parents=True)


def _read_record(place: Path) -> Resolved | None:
    try:
        found = msgspec.json.decode((place / _RECORD).read_bytes(), type=Resolved)
    except (OSError, msgspec.DecodeError):
        return None
    # An interpreter that was upgraded away, or a folder that was moved, makes the installation useless.
    complete = all(Path(file).exists() for file in found.readable) and str(place) in found.readable
    return found if complete and found.argv and os.access(found.argv[0], os.X_OK) else None


def _write_record(place: Path, found: Resolved) -> None:
    if not found.argv:
        raise CannotRun("the package has no program to run")
    shutil.rmtree(place / ".cache", ignore_errors=True)
    temporary = place / f"{_RECORD}.new"
    temporary.write_bytes(msgspec.json.format(msgspec.json.encode(found)))
    temporary.rename(place / _RECORD)
