"""One workload and everything that is done about it. It decides nothing: `lifecycle.step` does."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final, Protocol

import msgspec

from mooring.errors import MooringError, UpstreamFailed, UpstreamUnavailable
from mooring.gateway.server import Server
from mooring.transports.dialing import Dialer, Transport
from mooring.transports.streamable_wire import HttpRefused
from mooring.workloads import lifecycle_events as events
from mooring.workloads.lifecycle import Phase, RestartPolicy, Status, may_be_called, step
from mooring.workloads.logs import WorkloadLog
from mooring.workloads.runconfig import RunConfig
from mooring.workloads.runtime import (
    CannotRun,
    Ended,
    Refused,
    RunningWorkload,
    Said,
    Spawned,
)
from mooring.workloads.runtime import Event as RuntimeEvent
from mooring.workloads.store import Record, Store
from mooring.workloads.supervisor_dialer import WorkloadDialer, transports_of
from mooring.workloads.supervisor_pulse import PING_SECONDS, Pulse
from mooring.workloads.supervisor_start import Launcher

log = logging.getLogger(__name__)

RETRY_PATIENCE_SECONDS: Final = 10.0
"""A call waits for a restart that is due within this time; for a later one it is sent away."""
_UNAUTHORIZED: Final = (401, 403)
_ENDING: Final = (Phase.STOPPING, Phase.REMOVING)


class Host(Protocol):
    """The gateway, as the supervisor sees it."""

    async def prepare(self, config: RunConfig) -> None:
        """Make what its server has of its own: whoever it is, it is guarded from its first call on."""
        ...

    def attach(self, workload: Workload) -> Server:
        """Serve it at its address from now on; it was prepared."""
        ...

    async def detach(self, server: Server) -> None:
        """This one is served no more."""
        ...

    def is_taken(self, name: str) -> bool:
        """Whether something that is no workload has this name."""
        ...


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all workloads of a supervisor share."""

    host: Host
    store: Store
    launcher: Launcher
    on_change: Callable[[Workload], None]


class Workload:
    """A workload of this supervisor. All its methods run in the event loop; `hear` never waits."""

    def __init__(
        self,
        record: Record,
        config: RunConfig,
        policy: RestartPolicy,
        surroundings: Surroundings,
        workload_log: WorkloadLog,
        *,
        declared: bool = False,
    ) -> None:
        self.record = record
        self.config = config
        self.policy = policy
        self.log = workload_log
        self.declared = declared
        """It stands in a file, which says what becomes of it; the books know nothing of it."""
        self.status: Status = record.status
        self.started_at: float | None = record.started_at
        self.last_failure = ""
        self.is_personal = False
        """Its server answers only whoever proves to be somebody, and we are nobody."""
        self.own_url: str | None = None
        """Where it is reached besides the gateway's own address."""
        self.is_gone = False
        self._around = surroundings
        self._running: RunningWorkload | None = None
        self._spawning: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[Any]] = set()
        self._changed = asyncio.Event()
        self._by_call = False
        self._calls = 0
        self._used_at = monotonic()
        self._asking = False
        self.dialer = WorkloadDialer(transports_of(config), self)
        self.server = surroundings.host.attach(self)
        shared = config.fields.mooring.share == "global"
        self.pulse = Pulse(self.server, shared=shared, knock_at=self._door)

    @property
    def name(self) -> str:
        return self.record.name

    def _door(self) -> str | None:
        """Where to see whether somebody is there, when we would not be let in."""
        return self.config.fields.remote_url if self.is_personal else None

    @property
    def running(self) -> RunningWorkload | None:
        return self._running

    @property
    def is_stdio(self) -> bool:
        return self.dialer.transports == (Transport.STDIO,)

    # Events in, actions out

    def hear(self, event: events.Event) -> None:
        """Take notice of something, and do what follows from it."""
        before = self.status
        self.status, actions = step(before, event, self.policy)
        if self.status != before:
            self._note_change(before)
        for action in actions:
            self._perform(action)
        if self.status != before:
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()
            self._around.on_change(self)

    def _note_change(self, before: Status) -> None:
        after = self.status
        if (after.phase, after.context) != (before.phase, before.context):
            self.log.happened(f"{after.phase.value}{f': {after.context}' if after.context else ''}")
        if after.context and after.phase in (Phase.STARTING, Phase.ERROR, Phase.UNHEALTHY):
            self.last_failure = after.context
        if after.phase is Phase.RUNNING and before.phase is Phase.STARTING:
            self.started_at = time.time()
        kept = ("phase", "wanted", "context", "asleep", "attempts", "failures")
        if not self.declared and any(getattr(after, name) != getattr(before, name) for name in kept):
            self._do(self._around.store.set_status(self.name, after, self.started_at))

    def _perform(self, action: events.Action) -> None:
        match action:
            case events.Spawn(process):
                by_call, self._by_call = self._by_call, False
                self._spawning = self._do(self._spawn(process, greet=not by_call))
            case events.Terminate(process):
                self._do(self._terminate(process))
            case events.Kill(process):
                self._do(self._kill(process))
            case events.Forget():
                self._do(self._forget())

    def _do(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def changed(self, seconds: float) -> bool:
        """Wait for the next change of status; False when it did not come in time."""
        try:
            await asyncio.wait_for(self._changed.wait(), seconds)
        except TimeoutError:
            return False
        return True

    # Starting

    async def _spawn(self, process: int, *, greet: bool) -> None:
        try:
            async with self._around.launcher.starts:
                running = await self._start()
                self._running = running
                self._do(self._await_end(process, running))
                if greet:
                    await self.pulse.greet()
        except HttpRefused as error:
            if error.http_status in _UNAUTHORIZED:
                reason = f"the server does not know us (HTTP {error.http_status}): give it a token"
                self.hear(events.AuthFailed(monotonic(), process, reason, permanent=True))
            else:
                await self._start_failed(process, str(error))
        except CannotRun as error:
            await self._start_failed(process, str(error), final=True)
        except (MooringError, OSError) as error:
            await self._start_failed(process, self._with_last_words(str(error)))
        except Exception:
            log.exception("%s: starting it failed", self.name)
            await self._start_failed(process, "internal error: see the log of the daemon")
        else:
            self.server.upstream.health.succeeded(monotonic())
            self._used_at = monotonic()
            self.hear(events.Ready(monotonic(), process))

    async def _start(self) -> RunningWorkload:
        known = self.record.resolved
        running, found = await self._around.launcher.start(self.config, known, self.log, self._on_event)
        self.record = msgspec.structs.replace(self.record, resolved=found.resolved, runtime=found.runtime)
        if not self.declared:
            self._do(self._around.store.set_resolved(self.name, found.resolved, found.runtime))
        return running

    async def _start_failed(self, process: int, reason: str, *, final: bool = False) -> None:
        await self._end_running(reason)
        self.hear(events.StartFailed(monotonic(), process, reason, final=final))

    def _with_last_words(self, reason: str) -> str:
        """A server that cannot start usually says why on its standard error."""
        self.log.server_ended()
        since = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() - 60))
        said = [line.text for line in self.log.tail(("server",), 3) if line.time >= since]
        return f"{reason}; it said: {' | '.join(said)}" if said else reason

    async def _await_end(self, process: int, running: RunningWorkload) -> None:
        ended = await running.wait()
        if self._running is running and self.status.phase not in _ENDING:
            reason = self._with_last_words(ended.reason)
            await self._end_running(reason)
            self.hear(events.Exited(monotonic(), process, reason))

    # Ending

    async def _terminate(self, process: int) -> None:
        if self._spawning is not None and not self._spawning.done():
            self._spawning.cancel()
            await asyncio.wait([self._spawning])
        await self._end_running(self.status.context or "it was stopped")
        self.hear(events.Exited(monotonic(), process, "stopped"))

    async def _end_running(self, reason: str) -> None:
        """End what runs. Whoever asks is answered only when it is over, also if somebody asked before."""
        ending = self._ending
        if ending is None or ending.done():
            running, self._running = self._running, None
            ending = self._ending = self._do(self._end(running, reason))
        await asyncio.shield(ending)

    async def _end(self, running: RunningWorkload | None, reason: str) -> None:
        await self.server.upstream.hang_up(f"`{self.name}`: {reason}")
        if running is not None:
            await running.dialer.close()
            await running.stop()
        self.log.server_ended()

    async def _kill(self, process: int) -> None:
        running, self._running = self._running, None
        if running is not None:
            await running.kill()
            self.hear(events.Exited(monotonic(), process, "killed"))

    async def _forget(self) -> None:
        await self._around.host.detach(self.server)
        if self.declared:
            self.log.close()
        else:
            await self._around.store.delete(self.name)
            self.log.remove()
        self.is_gone = True
        self._around.on_change(self)
        self._changed.set()

    async def close(self) -> None:
        """The daemon stops; what was wanted stays wanted."""
        if self._spawning is not None:
            self._spawning.cancel()
        await self._end_running("the gateway is stopping")
        others = [task for task in self._tasks if task is not asyncio.current_task()]
        if others:
            _, late = await asyncio.wait(others, timeout=2.0)
            for task in late:
                task.cancel()
        self.log.close()

    # The gateway's side

    async def admit(self) -> Dialer:
        """What to dial; a call wakes what is asleep, and waits for what is on its way."""
        woken = False
        while True:
            running, status = self._running, self.status
            if running is not None and status.phase not in _ENDING:
                return running.dialer
            if status.asleep and status.phase is Phase.STOPPED:
                if woken:
                    raise UpstreamUnavailable(f"`{self.name}` did not start: {status.context}")
                woken = self._by_call = True
                self.hear(events.CallWaiting(monotonic()))
                continue
            if not self._is_coming(status):
                raise UpstreamUnavailable(self.why_not())
            await self._changed.wait()

    def _is_coming(self, status: Status) -> bool:
        if may_be_called(status) or (status.phase is Phase.STOPPING and status.wanted.value == "up"):
            return True
        due = status.retry_at
        return due is not None and due - monotonic() < RETRY_PATIENCE_SECONDS

    def why_not(self) -> str:
        """Why a call cannot be served, and what to do about it."""
        status = self.status
        why = f" ({status.context})" if status.context else ""
        match status.phase:
            case Phase.STOPPED | Phase.STOPPING:
                return f"`{self.name}` is stopped: start it with `mooring start {self.name}`"
            case Phase.ERROR:
                return f"`{self.name}` cannot run{why}: mend it, then `mooring start {self.name}`"
            case Phase.STARTING | Phase.UNHEALTHY if status.retry_at is not None:
                left = max(0.0, status.retry_at - monotonic())
                return f"`{self.name}` is down{why}; it is tried again in {left:.0f} s"
            case _:
                return f"`{self.name}` is {status.phase.value}{why}"

    def _on_event(self, event: RuntimeEvent) -> None:
        match event:
            case Said(data):
                self._server_said(data)
            case Spawned(pid):
                self.log.happened(f"process {pid} started")
            case Refused():
                self.log.refused(f"{event.target}: {event.reason}")
            case Ended():
                self.log.happened(f"process {event.pid} {event.reason}")
                # By then the session above has heard of it too.
                asyncio.get_running_loop().call_later(0.05, self._look_for_losses)

    def _server_said(self, data: bytes) -> None:
        self.log.server_said(data)
        text = data.decode("utf-8", "replace")
        if self.declared:  # whoever runs the gateway from a file watches its log
            for line in text.splitlines():
                log.info("%s: %s", self.name, line)
        if self.server.tracer.active:
            self.server.tracer.noted("server", "stderr", text.strip()[:2000], data, "noise")

    def _look_for_losses(self) -> bool:
        """A stdio workload has ended when none of its processes is left and one of them ended by itself."""
        process = self.status.process
        over = (*_ENDING, Phase.STARTING)
        if not self.is_stdio or process is None or self._running is None or self.status.phase in over:
            return False
        upstream = self.server.upstream
        if upstream.is_opening or any(session.lost is None for session in upstream.sessions):
            upstream.broken = None
            return False
        lost = next((session.lost for session in upstream.sessions if session.lost), upstream.broken)
        if lost is not None:
            self._do(self._lost(process, lost))
        return lost is not None

    async def _lost(self, process: int, reason: str) -> None:
        reason = self._with_last_words(reason)
        await self._end_running(reason)
        self.hear(events.Exited(monotonic(), process, reason))

    # Time

    def tick(self, now: float) -> None:
        """Called about once a second."""
        self.hear(events.Ticked(now))
        process = self.status.process
        if process is None or self.status.phase in (*_ENDING, Phase.STARTING, Phase.ERROR):
            return
        upstream = self.server.upstream
        if upstream.health.calls != self._calls or self.server.exchanges:
            self._calls, self._used_at = upstream.health.calls, now
            ago = upstream.health.since_success(now)
            if ago is not None and (self.status.alive_at is None or now - ago > self.status.alive_at):
                self.hear(events.Answered(now - ago, process))
        if self._look_for_losses():
            return
        self.pulse.make_room()
        if self._is_idle(now):
            self.hear(events.Idled(now, process))
        elif not self.server.exchanges and now - (self.status.alive_at or 0.0) >= PING_SECONDS:
            self._ask(process)

    def _is_idle(self, now: float) -> bool:
        upstream = self.server.upstream
        if self.is_stdio and not upstream.sessions and not upstream.is_opening:
            return now - self._used_at > 2.0  # nothing runs: every process was given up as idle
        longest = self.policy.idle_stop_seconds
        return longest is not None and now - self._used_at > longest and not self.config.is_remote

    def _ask(self, process: int) -> None:
        if not self._asking:
            self._asking = True
            self._do(self._ask_for_life(process))

    async def _ask_for_life(self, process: int) -> None:
        try:
            await self.pulse.ask()
        except HttpRefused as error:
            if error.http_status in _UNAUTHORIZED:
                reason = f"the server no longer knows us (HTTP {error.http_status})"
                self.hear(events.AuthFailed(monotonic(), process, reason, permanent=True))
            else:
                self.hear(events.PingFailed(monotonic(), process, str(error)))
        except (UpstreamFailed, OSError) as error:
            self.hear(events.PingFailed(monotonic(), process, str(error)))
        else:
            self.hear(events.Answered(monotonic(), process))
        finally:
            self._asking = False
