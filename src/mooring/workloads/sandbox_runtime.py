"""The process runtime: programs and packages of this machine, each in a bubblewrap sandbox."""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import os
import pwd
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path

import msgspec

from mooring.transports.dialing import Folders
from mooring.workloads import cgroups
from mooring.workloads.environment import arguments_of, inner_environment
from mooring.workloads.ignore import hidden_below, hidden_in
from mooring.workloads.profile_reading import mounts_of
from mooring.workloads.runtime import (
    CannotRun,
    CommandSource,
    ImageSource,
    Leftover,
    OnEvent,
    OnProgress,
    PackageSource,
    Resolved,
    RunningWorkload,
    WorkloadSpec,
    mounts_for,
)
from mooring.workloads.sandbox import bubblewrap
from mooring.workloads.sandbox.errand import Errands
from mooring.workloads.sandbox.launch import Launch, Program
from mooring.workloads.sandbox.plan import View, view_of
from mooring.workloads.sandbox.workload import SandboxedWorkload
from mooring.workloads.sources.commands import resolve_command
from mooring.workloads.sources.packages import PackageStore
from mooring.workloads.sources.runners import package_of


class ProcessRuntime:
    """Runs commands and packages; `data` is where volumes, packages and the sandbox's own files are kept."""

    name = "process"

    def __init__(self, data: Path, *, ignore_globally: Path | None = None) -> None:
        self._data = data.absolute()
        self._files = bubblewrap.Files(self._data / "sandbox")
        self._hierarchy = cgroups.detect() if sys.platform == "linux" else None
        self._prefix = f"mooring-{hashlib.sha256(str(self._data).encode()).hexdigest()[:10]}"
        self._numbers = itertools.count(1)
        self._ignore_globally = ignore_globally
        errands = Errands(self._files, self._hierarchy, self._prefix, _home(), self._numbers)
        self._packages = PackageStore(self._data / "packages", errands)
        self._working: bool = False

    async def problem(self) -> str | None:
        if self._working:  # asked before every start, and it does not change under us
            return None
        problem = await bubblewrap.problem()
        self._working = problem is None
        return problem

    async def prepare(self, spec: WorkloadSpec, progress: OnProgress) -> Resolved:
        match spec.source:
            case CommandSource(argv=argv):
                if spec.sandbox == "on" and (found := package_of(argv)) is not None:
                    resolved = await self._install(found[0], spec, progress)
                    return msgspec.structs.replace(resolved, argv=(*resolved.argv, *found[1]))
                cwd = spec.cwd or Path.cwd()
                return await asyncio.to_thread(resolve_command, argv, cwd=cwd, home=_home())
            case PackageSource() as source:
                return await self._install(source, spec, progress)
            case ImageSource():
                raise CannotRun("an image needs a container engine: use `--runtime container`")
            case _:
                raise CannotRun("a remote server needs no runtime: give it as `upstream.url`")

    async def _install(self, source: PackageSource, spec: WorkloadSpec, progress: OnProgress) -> Resolved:
        sandboxed = spec.sandbox == "on"
        if sandboxed and (problem := await self.problem()):
            raise CannotRun(problem)
        self._write_files()
        return await self._packages.install(source, progress, sandboxed=sandboxed)

    async def start(
        self, spec: WorkloadSpec, resolved: Resolved, secrets: Mapping[str, str], on_event: OnEvent
    ) -> RunningWorkload:
        if spec.profile.privileged and spec.sandbox == "on":
            raise CannotRun(
                f"`{spec.name}` asks for `privileged`, which a sandboxed process cannot have: take it out of "
                "the profile, or say `--sandbox off`"
            )
        if spec.sandbox == "on" and (problem := await self.problem()):
            raise CannotRun(problem)
        home = _home()
        self._write_files()
        program = self._program(spec, resolved, secrets, home)
        new_launch = partial(self._launch, spec, resolved, program)
        await asyncio.to_thread(self._view, spec, resolved, home, ())  # what is wrong with it is said now
        workload = SandboxedWorkload(spec, new_launch, on_event)
        if spec.transport != "stdio":
            await workload.start_http()
        return workload

    def _write_files(self) -> None:
        self._files.write(_user(), os.getuid(), os.getgid(), _home())

    def _program(
        self, spec: WorkloadSpec, resolved: Resolved, secrets: Mapping[str, str], home: Path
    ) -> Program:
        return Program(
            (*resolved.argv, *arguments_of(spec)),
            inner_environment(spec, secrets, home=home, proxied=spec.sandbox == "on"),
            spec.limits,
            self._files,
            self._hierarchy,
            f"{self._prefix}-{spec.name}",
        )

    async def _launch(
        self, spec: WorkloadSpec, resolved: Resolved, program: Program, folders: Folders
    ) -> Launch:
        if folders or spec.mounts or spec.profile.read or spec.profile.write:
            # It looks through them for what is to be hidden, which takes as long as they are deep.
            view = await asyncio.to_thread(self._view, spec, resolved, _home(), folders)
        else:
            view = self._view(spec, resolved, _home(), folders)
        return Launch(program, view, next(self._numbers), cwd=spec.cwd)

    def _view(self, spec: WorkloadSpec, resolved: Resolved, home: Path, folders: Folders) -> View | None:
        if spec.sandbox == "off":
            return None
        mounts = (*mounts_of(spec.profile, self._data / "volumes"), *spec.mounts)
        readable = tuple(Path(file) for file in resolved.readable)
        hidden = (
            self._data,
            *hidden_below(mounts, self._ignore_globally, globally=spec.ignore_globally),
            *(path for folder in readable for path in hidden_in(folder)),
        )
        return view_of(
            (*mounts, *mounts_for(folders)),
            readable,
            home=home,
            cwd=(spec.cwd or home).absolute(),
            hidden=hidden,
        )

    async def leftovers(self) -> tuple[Leftover, ...]:
        """Processes end with their daemon; what may stay is an empty control group."""
        if self._hierarchy is None:
            return ()
        groups = cgroups.leftover_groups(self._hierarchy, f"{self._prefix}-")
        names = (folder.name for group in groups for _, folder in group.folders[:1])
        return tuple(
            Leftover(self.name, name.removeprefix(f"{self._prefix}-").rpartition("-")[0], name, running=False)
            for name in names
        )

    async def remove(self, leftover: Leftover) -> None:
        if self._hierarchy is not None:
            for group in cgroups.leftover_groups(self._hierarchy, leftover.reference):
                if group.folders[0][1].name == leftover.reference:  # and not one that only begins like it
                    group.remove()


def _home() -> Path:
    found = os.environ.get("HOME", "")
    return Path(found) if found.startswith("/") and len(found) > 1 else Path("/home/mooring")


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return "mooring"
