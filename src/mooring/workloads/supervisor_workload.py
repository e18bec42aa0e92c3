"""One workload and everything that is done about it. It decides nothing: `lifecycle.step` does."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine
from contextlib import suppress
from time import monotonic
from typing import Any, Final

import msgspec

from mooring.errors import LoginNeeded, MooringError, UpstreamFailed, UpstreamUnavailable
from mooring.transports.dialing import Dialer, Transport
from mooring.transports.streamable_wire import HttpRefused
from mooring.workloads import lifecycle_events as events
from mooring.workloads.availability import absence_of, is_coming, why_not
from mooring.workloads.lifecycle import Phase, RestartPolicy, Status, step
from mooring.workloads.logs import WorkloadLog
from mooring.workloads.runconfig import RunConfig
from mooring.workloads.runtime import CannotRun, Ended, RunningWorkload
from mooring.workloads.runtime import Event as RuntimeEvent
from mooring.workloads.store import Record
from mooring.workloads.supervisor_dialer import WorkloadDialer, transports_of
from mooring.workloads.supervisor_host import Surroundings
from mooring.workloads.supervisor_noting import note
from mooring.workloads.supervisor_pulse import PING_SECONDS, Pulse

log = logging.getLogger(__name__)

SPARE_SECONDS: Final = 2.0
"""Between one client and the next nothing need run for so long."""
_UNKNOWN: Final = 401
_UNAUTHORIZED: Final = (_UNKNOWN, 403)
_ENDING: Final = (Phase.STOPPING, Phase.REMOVING)
_BUSY: Final = (*_ENDING, Phase.STARTING)


class Workload:
    """A workload of this supervisor. All its methods run in the event loop; `hear` never waits."""

    def __init__(
        self,
        record: Record,
        config: RunConfig,
        policy: RestartPolicy,
        surroundings: Surroundings[Workload],
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
        self._report()
        shared = config.fields.mooring.share == "global"
        self.pulse = Pulse(self.server, shared=shared, knock_at=self._door)

    @property
    def name(self) -> str:
        return self.record.name

    def _door(self) -> str | None:
        """Where to see whether somebody is there, when we would not be let in."""
        return self.config.fields.remote_url if self.dialer.personal else None

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
            self._report()
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()
            self._around.on_change(self)

    def _report(self) -> None:
        """The health report never says that something is up which does not run."""
        self.server.upstream.health.absence = absence_of(self.name, self.status, monotonic())

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
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            return False
        return True

    # Starting

    async def _spawn(self, process: int, *, greet: bool) -> None:
        began = monotonic()
        try:
            async with self._around.launcher.starts:
                running = await self._start()
                self._running = running
                self._do(self._await_end(process, running))
                if greet:
                    await self.pulse.greet()
        except HttpRefused as error:
            if error.http_status in _UNAUTHORIZED:
                await self._not_let_in(process, error.http_status)
            else:
                await self._start_failed(process, str(error))
        except CannotRun as error:
            await self._start_failed(process, str(error), final=True)
        except (MooringError, OSError) as error:
            took = monotonic() - began
            await self._start_failed(process, self._with_last_words(str(error), took))
        except Exception:
            log.exception("%s: starting it failed", self.name)
            await self._start_failed(process, "internal error: see the log of the daemon")
        else:
            self._used_at = monotonic()
            if not await self._lacks_login(process):
                if greet:  # otherwise nobody has heard from it yet
                    self.server.upstream.health.succeeded(monotonic())
                self.hear(events.Ready(monotonic(), process))

    async def _not_let_in(self, process: int, status: int) -> None:
        """Where nothing was to be shown to it, users may sign in: then it is dialled anew."""
        if status == _UNKNOWN and self._around.host.ask_users(self):
            await self._let_go("its users have to sign in")
            self._running = running = await self._start()
            self._do(self._await_end(process, running))
            if not await self._lacks_login(process):
                self.hear(events.Ready(monotonic(), process))
            return
        reason = f"the server does not know us (HTTP {status}): give it a token with `--header`"
        self.hear(events.AuthFailed(monotonic(), process, reason, permanent=True))

    async def _lacks_login(self, process: int) -> bool:
        problem = await self._around.host.login_problem(self)
        if problem is not None:
            failed = events.AuthFailed(monotonic(), process, problem.text, permanent=not problem.passing)
            self.hear(failed)
        return problem is not None

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

    def _with_last_words(self, reason: str, took: float = 0.0) -> str:
        """A server that cannot start usually says why on its standard error, also long before we give up."""
        said = self.log.last_words(60 + took)
        return f"{reason}; it said: {' | '.join(said)}" if said else reason

    async def _await_end(self, process: int, running: RunningWorkload) -> None:
        ended = await running.wait()
        if self._running is running and self.status.phase not in _ENDING:
            await self._lost(process, ended.reason)

    # Ending

    async def _lost(self, process: int, reason: str) -> None:
        reason = self._with_last_words(reason)
        await self._end_running(reason)
        self.hear(events.Exited(monotonic(), process, reason))

    async def _terminate(self, process: int) -> None:
        if self._spawning is not None and not self._spawning.done():
            self._spawning.cancel()
            await asyncio.wait([self._spawning])
        await self._end_running(self.status.context or "it was stopped")
        self.hear(events.Exited(monotonic(), process, "stopped"))

    async def _let_go(self, reason: str) -> None:
        """End what runs, to begin again in the same place."""
        running, self._running = self._running, None
        await self._end(running, reason)

    async def _end_running(self, reason: str) -> None:
        """End what runs. Whoever asks is answered only when it is over, also if somebody asked before."""
        if self._ending is None or self._ending.done():
            running, self._running = self._running, None
            self._ending = self._do(self._end(running, reason))
        await asyncio.shield(self._ending)

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
            if not is_coming(status, monotonic()):
                raise UpstreamUnavailable(self.why_not())
            await self._changed.wait()

    def why_not(self) -> str:
        """Why a call cannot be served, and what to do about it."""
        return why_not(self.name, self.status, monotonic())

    def _on_event(self, event: RuntimeEvent) -> None:
        note(event, self.name, self.log, self.server.tracer, aloud=self.declared)
        if isinstance(event, Ended):
            # By then the session above has heard of it too.
            asyncio.get_running_loop().call_later(0.05, self._look_for_losses)

    def _look_for_losses(self) -> bool:
        """A stdio workload has ended when none of its processes is left and one of them ended by itself."""
        process = self.status.process
        if not self.is_stdio or process is None or self._running is None or self.status.phase in _BUSY:
            return False
        upstream = self.server.upstream
        if upstream.is_opening or any(session.lost is None for session in upstream.sessions):
            upstream.broken = None
            return False
        lost = next((session.lost for session in upstream.sessions if session.lost), upstream.broken)
        if lost is not None:
            self._do(self._lost(process, lost))
        return lost is not None

    # Time

    def tick(self, now: float) -> None:
        """Called about once a second."""
        self.hear(events.Ticked(now))
        self._report()
        process = self.status.process
        if process is None or self.status.phase in (*_BUSY, Phase.ERROR):
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
        elif self._is_silent(now) and not self._asking:
            self._do(self._ask_for_life(process))

    @property
    def _has_no_process(self) -> bool:
        """The last client left and took its process along, or every one was given up as idle."""
        upstream = self.server.upstream
        return self.is_stdio and not upstream.sessions and not upstream.is_opening

    def _is_idle(self, now: float) -> bool:
        if self.policy.lazy and self._has_no_process:
            return now - self._used_at > SPARE_SECONDS
        longest = self.policy.idle_stop_seconds
        return longest is not None and now - self._used_at > longest and not self.config.is_remote

    def look_again(self) -> None:
        """Somebody signed in or out."""
        if self.status.process is not None:
            self._do(self._judge_login(self.status.process))

    async def _judge_login(self, process: int) -> None:
        if not await self._lacks_login(process):
            self.hear(events.Answered(monotonic(), process))

    def _is_silent(self, now: float) -> bool:
        """Nobody heard of it lately; where no process is left, what is kept up gets one of our own again."""
        patience = SPARE_SECONDS if self._has_no_process else PING_SECONDS
        return not self.server.exchanges and now - (self.status.alive_at or 0.0) >= patience

    async def _ask_for_life(self, process: int) -> None:
        self._asking = True
        try:
            with suppress(LoginNeeded):  # that is an answer, too
                await self.pulse.ask()
        except HttpRefused as error:
            if error.http_status in _UNAUTHORIZED:
                await self._not_let_in(process, error.http_status)
            else:
                self.hear(events.PingFailed(monotonic(), process, str(error)))
        except (UpstreamFailed, OSError) as error:
            self.hear(events.PingFailed(monotonic(), process, str(error)))
        else:
            await self._judge_login(process)
        finally:
            self._asking = False
