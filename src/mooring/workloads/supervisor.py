"""All workloads of one daemon: found again after a restart, started, stopped, and looked after."""

from __future__ import annotations

import asyncio
import itertools
import logging
import time
from collections.abc import Callable, Iterable
from time import monotonic
from typing import Final, Self, TypeAlias

import msgspec

from mooring.errors import MooringError
from mooring.workloads import lifecycle_events as events
from mooring.workloads.lifecycle import Phase, RestartPolicy, Status, Wanted, recovered
from mooring.workloads.logs import WorkloadLog
from mooring.workloads.runconfig import RunConfig
from mooring.workloads.runconfig_effect import spec_of
from mooring.workloads.runtime import Leaving
from mooring.workloads.state import DataDirectory
from mooring.workloads.store import DEFAULT_GROUP, Record, Store
from mooring.workloads.supervisor_host import Host, Surroundings
from mooring.workloads.supervisor_start import Launcher
from mooring.workloads.supervisor_workload import Workload

log = logging.getLogger(__name__)

TICK_SECONDS: Final = 1.0
OBEY_TICKS: Final = 5
"""How often the policies are asked again about what runs."""
SETTLE_SECONDS: Final = 300.0
"""How long whoever asked waits for a start or stop at most; a first download takes its time."""
_UNSETTLED: Final = (Phase.STOPPING, Phase.REMOVING)

Allows: TypeAlias = Callable[[RunConfig], str | None]
"""Why a policy forbids this workload; None where it does not."""
OnChange: TypeAlias = Callable[[Workload], None]


class NoSuchWorkload(MooringError):
    """Nothing here has this name."""


class NameTaken(MooringError):
    """Something here has this name already."""


class Forbidden(MooringError):
    """A policy says no."""


class DeclaredInFile(MooringError):
    """It stands in the configuration file, which decides about it."""


class AddressTaken(MooringError):
    """The address of its own that a workload asks for cannot be had; the rest is there."""


class DidNotStart(MooringError):
    """It was started, and did not come up."""


class Supervisor:
    """Keeps what runs like what is wanted. An async context manager: it looks after things in between."""

    def __init__(
        self,
        directory: DataDirectory,
        store: Store,
        host: Host[Workload],
        launcher: Launcher,
        leaving: Iterable[Leaving] = (),
        allows: Allows = lambda _config: None,
    ) -> None:
        self._directory = directory
        self._store = store
        self._host = host
        self._launcher = launcher
        self._leaving = tuple(leaving)
        self._allows = allows
        self._watchers: dict[OnChange, None] = {}
        self._ticker: asyncio.Task[None] | None = None
        self.workloads: dict[str, Workload] = {}

    def allow(self, allows: Allows) -> None:
        """From now on this says what may run."""
        self._allows = allows

    async def __aenter__(self) -> Self:
        await self._recover()
        self._ticker = asyncio.get_running_loop().create_task(self._tick())
        return self

    def look_away(self) -> None:
        """The gateway closes: what ends from now on is not to be brought back."""
        if self._ticker is not None:
            self._ticker.cancel()

    async def __aexit__(self, *_: object) -> None:
        self.look_away()
        await asyncio.gather(*(workload.close() for workload in self.workloads.values()))

    # What there is

    def get(self, name: str) -> Workload:
        try:
            return self.workloads[name]
        except KeyError:
            known = ", ".join(f"`{found}`" for found in sorted(self.workloads)) or "none yet"
            raise NoSuchWorkload(f"no workload is called `{name}`; there are: {known}") from None

    def in_group(self, group: str) -> list[Workload]:
        return [workload for workload in self.workloads.values() if workload.record.group == group]

    def watch(self, watcher: OnChange) -> None:
        """Be told of every change."""
        self._watchers[watcher] = None

    def unwatch(self, watcher: OnChange) -> None:
        self._watchers.pop(watcher, None)

    # What people ask for

    async def create(self, config: RunConfig) -> Workload:
        """A new workload, in the books and not yet started."""
        if config.name in self.workloads:
            raise NameTaken(
                f"`{config.name}` exists already: start it with `mooring start {config.name}`, remove it "
                f"with `mooring rm {config.name}`, or choose another name with `--name`"
            )
        if self._host.is_taken(config.name):
            raise NameTaken(f"`{config.name}` is a server of the configuration file: choose another `--name`")
        if reason := self._allows(config):
            raise Forbidden(f"the policy does not allow `{config.name}`: {reason}")
        spec_of(config)  # what cannot be understood is refused before it is in the books
        await self.check_secrets(config)
        record = Record(
            config.name, config.encode(), config.fields.group or DEFAULT_GROUP, Status(), time.time()
        )
        await self._host.prepare(config)
        await self._store.put(record)
        return self._add(record, config)

    async def check_secrets(self, config: RunConfig) -> None:
        """What cannot be had is said before anything is fetched, started or ended for it."""
        await self._launcher.secrets(config)

    async def run(self, config: RunConfig) -> Workload:
        """Create and start; what does not come up is gone again, and its last words are in the error."""
        workload = await self.create(config)
        self.start(workload)
        await self.settle(workload)
        if workload.status.phase in (Phase.STARTING, Phase.ERROR):
            reason = workload.status.context
            workload.hear(events.RemoveWanted(monotonic()))
            await self.settle(workload)
            raise DidNotStart(f"`{config.name}` did not start: {reason}")
        return workload

    def start(self, workload: Workload) -> None:
        if reason := self._allows(workload.config):
            workload.hear(events.PolicyStopWanted(monotonic(), reason))
            raise Forbidden(f"the policy does not allow `{workload.name}`: {reason}")
        workload.hear(events.StartWanted(monotonic()))

    def stop(self, workload: Workload) -> None:
        workload.hear(events.StopWanted(monotonic()))

    def forbid(self, name: str, reason: str) -> None:
        """Stop a workload, if it is one, because of what turned out about it."""
        if (workload := self.workloads.get(name)) is not None:
            workload.hear(events.PolicyStopWanted(monotonic(), reason))

    def look_again(self, name: str) -> None:
        """Somebody signed in at this server, or out of it, if it is one of ours."""
        if (workload := self.workloads.get(name)) is not None:
            workload.look_again()

    def restart(self, workload: Workload) -> None:
        if self._allows(workload.config):
            self.start(workload)
        workload.hear(events.RestartWanted(monotonic()))

    def remove(self, workload: Workload) -> None:
        if workload.declared:
            raise DeclaredInFile(
                f"`{workload.name}` stands in the configuration file: remove it there, the gateway notices"
            )
        workload.hear(events.RemoveWanted(monotonic()))

    async def settle(self, workload: Workload, seconds: float = SETTLE_SECONDS) -> None:
        """Wait until what was asked for has happened, or has turned out not to happen."""
        deadline = monotonic() + seconds
        while workload.name in self.workloads and self.workloads[workload.name] is workload:
            status = workload.status
            starting = status.phase is Phase.STARTING and status.process is not None
            left = deadline - monotonic()
            if (not starting and status.phase not in _UNSETTLED) or left <= 0:
                return
            await workload.changed(min(left, TICK_SECONDS))

    async def move(self, workload: Workload, group: str) -> None:
        """Into another group, which is there."""
        config = workload.config.changed(group=group)
        await self._store.move(workload.name, group, config.encode())
        workload.config = config
        workload.record = msgspec.structs.replace(workload.record, group=group, config=config.encode())
        self._host.moved(workload)
        self._changed(workload)

    # What stands in a file

    def declare(self, config: RunConfig, policy: RestartPolicy) -> Workload:
        """A workload of the configuration file: started by its first call."""
        status = Status(wanted=Wanted.UP, asleep=True, context="not called yet; the first call starts it")
        record = Record(
            config.name, config.encode(), config.fields.group or DEFAULT_GROUP, status, time.time()
        )
        workload = self._add(record, config, policy)
        self._obey(workload)
        return workload

    def release(self, name: str) -> Workload:
        """It no longer stands in the file: its name is free at once, it ends with `withdraw`."""
        return self.workloads.pop(name)

    async def withdraw(self, workload: Workload) -> None:
        workload.hear(events.RemoveWanted(monotonic()))
        deadline = monotonic() + SETTLE_SECONDS
        while not workload.is_gone and monotonic() < deadline:
            await workload.changed(TICK_SECONDS)
            workload.tick(monotonic())

    # Books

    def _add(self, record: Record, config: RunConfig, policy: RestartPolicy | None = None) -> Workload:
        around = Surroundings(self._host, self._store, self._launcher, self._changed)
        workload = Workload(
            record,
            config,
            policy or policy_for(config),
            around,
            WorkloadLog(self._directory.logs / record.name),
            declared=policy is not None,
        )
        self.workloads[record.name] = workload
        return workload

    def _changed(self, workload: Workload) -> None:
        if workload.is_gone and self.workloads.get(workload.name) is workload:
            del self.workloads[workload.name]
        for watcher in tuple(self._watchers):
            watcher(workload)

    async def _recover(self) -> None:
        """Find every workload of the last daemon, and take away whatever it left running."""
        await self._clear_leftovers()
        for record in await self._store.workloads():
            status = recovered(record.status, monotonic())
            config = RunConfig.decode(record.config)
            if self._host.is_taken(record.name):
                log.error(
                    "%s: the configuration file has a server of this name now; it stays down", record.name
                )
                continue
            if not await self._is_prepared(config):
                continue
            workload = self._add(msgspec.structs.replace(record, status=status), config)
            if status.wanted is Wanted.REMOVED:
                workload.hear(events.RemoveWanted(monotonic()))
            elif status.retry_at is not None and (reason := self._allows(config)):
                workload.hear(events.PolicyStopWanted(monotonic(), reason))

    async def _is_prepared(self, config: RunConfig) -> bool:
        """A workload whose guard cannot be made is not served at all; without its own address it can be."""
        try:
            await self._host.prepare(config)
        except AddressTaken as error:
            log.error("%s; it is served at the gateway's address only", error)  # noqa: TRY400 - no trace
        except MooringError as error:
            log.error("%s: it stays down: %s", config.name, error)  # noqa: TRY400 - as above
            return False
        return True

    async def _clear_leftovers(self) -> None:
        """Before anything is started: nothing of the last daemon runs beside it."""
        for runtime in self._leaving:
            found = await runtime.leftovers()
            for name in sorted({leftover.name for leftover in found if leftover.running}):
                log.warning("removing what the last daemon left of `%s`", name)
            await asyncio.gather(*(runtime.remove(leftover) for leftover in found))

    def _obey(self, workload: Workload) -> None:
        """Stop what a policy does not allow, or allows no longer."""
        if workload.status.wanted is Wanted.UP and (reason := self._allows(workload.config)):
            workload.hear(events.PolicyStopWanted(monotonic(), reason))

    async def _tick(self) -> None:
        for number in itertools.count(1):
            now = monotonic()
            for workload in list(self.workloads.values()):
                try:
                    workload.tick(now)
                    if number % OBEY_TICKS == 0:
                        self._obey(workload)
                except Exception:
                    log.exception("%s: looking after it failed; it goes on", workload.name)
            await asyncio.sleep(TICK_SECONDS)


def policy_for(config: RunConfig) -> RestartPolicy:
    """How patient to be with a workload."""
    if config.is_remote:
        return RestartPolicy(gives_up=False)
    return RestartPolicy(idle_stop_seconds=config.fields.mooring.idle_stop_seconds)
