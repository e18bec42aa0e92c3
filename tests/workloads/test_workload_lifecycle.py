"""The life of a workload: what may never happen, whatever happens."""

from __future__ import annotations

import hypothesis.strategies as st
from hypothesis import given, settings
from msgspec.structs import replace

from mooring.workloads import lifecycle_events as life
from mooring.workloads.lifecycle import Phase, RestartPolicy, Status, Wanted, recovered, step

POLICY = RestartPolicy(idle_stop_seconds=300)


class World:
    """Runs what the machine asks for. Which processes exist is known here, not believed."""

    def __init__(self, policy: RestartPolicy = POLICY) -> None:
        self.status = Status()
        self.policy = policy
        self.now = 1000.0
        self.processes: set[int] = set()
        self.spawned = 0
        self.forgotten = False
        self.stubborn = False

    def hear(self, event: life.Event) -> list[life.Action]:
        self.status, actions = step(self.status, event, self.policy)
        for action in actions:
            match action:
                case life.Spawn(process):
                    self.processes.add(process)
                    self.spawned += 1
                case life.Forget():
                    self.forgotten = True
                case life.Terminate(process) | life.Kill(process):
                    assert process in self.processes, "only what runs is ended"
        assert len(self.processes) <= 1, f"two processes run: {self.processes}"
        return actions

    def end(self, process: int, reason: str = "ended with exit code 1") -> None:
        self.processes.discard(process)
        self.hear(life.Exited(self.now, process, reason))

    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.hear(life.Ticked(self.now))

    def start(self) -> int:
        self.hear(life.StartWanted(self.now))
        assert self.status.process is not None
        self.hear(life.Ready(self.now, self.status.process))
        return self.status.process


WISHES = st.sampled_from(["start", "stop", "restart", "remove", "forbid", "call", "idle", "ready", "answer"])
NEWS = st.sampled_from(["exit", "fail", "fail for good", "ping", "auth", "auth for good", "tick", "old exit"])
SCRIPT = st.lists(st.tuples(st.one_of(WISHES, NEWS), st.floats(0, 200)), max_size=60)


def play(world: World, name: str) -> None:
    at, current = world.now, world.status.process
    number = -1 if current is None else current
    match name:
        case "start":
            world.hear(life.StartWanted(at))
        case "stop":
            world.hear(life.StopWanted(at))
        case "restart":
            world.hear(life.RestartWanted(at))
        case "remove":
            world.hear(life.RemoveWanted(at))
        case "forbid":
            world.hear(life.PolicyStopWanted(at, "the policy says no"))
        case "call":
            world.hear(life.CallWaiting(at))
        case "idle":
            world.hear(life.Idled(at, number))
        case "ready":
            world.hear(life.Ready(at, number))
        case "answer":
            world.hear(life.Answered(at, number))
        case "exit" if world.processes:
            world.end(next(iter(world.processes)))
        case "fail" | "fail for good" if world.processes:
            process = world.processes.pop()
            world.hear(life.StartFailed(at, process, "not found", final=name != "fail"))
        case "ping":
            world.hear(life.PingFailed(at, number, "no answer"))
        case "auth" | "auth for good":
            world.hear(life.AuthFailed(at, number, "the token has expired", permanent=name != "auth"))
        case "old exit":
            world.hear(life.Exited(at, number - 1, "ended long ago"))
        case _:
            world.hear(life.Ticked(at))


@settings(max_examples=300, deadline=None)
@given(SCRIPT, st.booleans())
def test_no_sequence_of_events_runs_two_processes(script: list[tuple[str, float]], lazy: bool) -> None:
    world = World(replace(POLICY, lazy=lazy))
    for name, pause in script:
        world.now += pause
        play(world, name)  # `hear` looks at the processes after every event
        assert world.status.process in (None, *world.processes)


@settings(max_examples=300, deadline=None)
@given(SCRIPT, st.booleans())
def test_every_stop_ends(script: list[tuple[str, float]], stubborn: bool) -> None:
    world = World()
    for name, pause in script:
        world.now += pause
        play(world, name)
    world.hear(life.StopWanted(world.now))
    for _ in range(10):
        if not stubborn and world.processes:
            world.end(next(iter(world.processes)))
        world.wait(POLICY.stop_seconds)
    assert world.status.phase not in (Phase.STOPPING, Phase.STARTING, Phase.RUNNING)
    if world.processes:
        assert "could not be killed" in world.status.context
        world.end(next(iter(world.processes)))
    assert world.forgotten or world.status.phase in (Phase.STOPPED, Phase.POLICY_STOPPED)
    assert world.status.process is None
    before = world.spawned
    for _ in range(5):
        world.wait(1000)
        world.hear(life.CallWaiting(world.now))
    assert world.spawned == before, "nothing starts again by itself after a stop"


@settings(max_examples=200, deadline=None)
@given(SCRIPT)
def test_a_daemon_that_finds_the_books_of_another_gets_out_of_every_state(
    script: list[tuple[str, float]],
) -> None:
    world = World()
    for name, pause in script:
        world.now += pause
        play(world, name)
    found, wanted = World(), world.status.wanted
    found.status = recovered(world.status, found.now)
    assert found.status.process is None
    found.wait(0)
    if found.status.process is not None:
        assert wanted is Wanted.UP
        found.hear(life.Ready(found.now, found.status.process))
        assert found.status.phase is Phase.RUNNING
    assert found.status.phase not in (Phase.STARTING, Phase.STOPPING)


def test_a_crash_is_tried_again_after_ever_longer_pauses() -> None:
    world = World()
    process = world.start()
    pauses: list[float] = []
    for _ in range(POLICY.flap_count - 1):
        world.end(process)
        assert world.status.retry_at is not None
        assert not world.processes
        pauses.append(world.status.retry_at - world.now)
        world.wait(pauses[-1])
        assert world.status.process is not None
        process = world.status.process
    assert pauses == [1, 2, 4, 8]


def test_a_server_that_keeps_dying_is_left_alone_until_somebody_asks() -> None:
    world = World()
    process = world.start()
    for _ in range(POLICY.flap_count):
        world.end(process)
        world.wait(120)
        process = world.status.process or process
    assert world.status.phase is Phase.ERROR
    assert "5 times in a row" in world.status.context
    spawned = world.spawned
    world.wait(10_000)
    assert world.spawned == spawned
    world.hear(life.StartWanted(world.now))
    assert world.spawned == spawned + 1


def test_a_long_run_makes_the_next_crash_count_as_the_first() -> None:
    world = World()
    for _ in range(2 * POLICY.flap_count):
        process = world.start()
        world.now += POLICY.stable_seconds
        world.end(process)
        assert world.status.failures == 1
        world.wait(1)


def test_what_cannot_start_is_not_tried_again() -> None:
    world = World()
    world.hear(life.StartWanted(world.now))
    process = world.processes.pop()
    world.hear(life.StartFailed(world.now, process, "`npx` was not found: install Node.js", final=True))
    assert world.status.phase is Phase.ERROR
    world.wait(1000)
    assert world.spawned == 1


def test_a_remote_server_is_tried_for_ever() -> None:
    world = World(replace(POLICY, gives_up=False))
    process = world.start()
    for _ in range(20):
        world.end(process, "connection refused")
        world.wait(60)
        assert world.status.process is not None
        process = world.status.process
    world.end(process, "connection refused")
    assert world.status.phase is Phase.UNHEALTHY


def test_running_is_not_said_without_a_recent_sign_of_life() -> None:
    world = World()
    process = world.start()
    world.wait(POLICY.recent_seconds + 1)
    assert world.status.phase is Phase.UNKNOWN
    world.hear(life.Answered(world.now, process))
    assert world.status.phase is Phase.RUNNING


def test_missed_pings_make_it_unhealthy_and_then_restart_it() -> None:
    world = World()
    process = world.start()
    for _ in range(3):
        world.hear(life.PingFailed(world.now, process, "no answer within 5 s"))
    assert (world.status.phase, world.status.context) == (Phase.UNHEALTHY, "no answer within 5 s")
    world.hear(life.Answered(world.now, process))
    assert world.status.phase is Phase.RUNNING
    for _ in range(6):
        world.hear(life.PingFailed(world.now, process, "no answer within 5 s"))
    assert world.status.phase is Phase.STOPPING
    world.end(process)
    world.wait(10)
    assert world.spawned == 2


def test_idle_is_a_stop_that_the_next_call_undoes() -> None:
    world = World()
    process = world.start()
    world.hear(life.Idled(world.now, process))
    world.end(process, "ended with exit code 0")
    assert (world.status.phase, world.status.context) == (Phase.STOPPED, "idle; the next call starts it")
    world.wait(1000)
    assert world.spawned == 1
    world.hear(life.CallWaiting(world.now))
    assert world.spawned == 2


def test_what_is_started_by_calls_is_not_started_again_by_its_end() -> None:
    world = World(replace(POLICY, lazy=True))
    world.end(world.start(), "ended with exit code 3")
    assert world.status.context == "ended with exit code 3; the next call starts it"
    world.wait(1000)
    assert world.spawned == 1
    world.hear(life.CallWaiting(world.now))
    assert world.spawned == 2


def test_a_start_while_it_stops_waits_for_the_end() -> None:
    world = World()
    process = world.start()
    world.hear(life.StopWanted(world.now))
    world.hear(life.StartWanted(world.now))
    assert world.processes == {process}
    world.end(process)
    assert world.spawned == 2


def test_tokens_that_expire_are_retried_up_to_the_ceiling() -> None:
    world = World()
    process = world.start()
    world.hear(life.AuthFailed(world.now, process, "503 from the issuer", permanent=False))
    assert world.status.phase is Phase.AUTH_RETRYING
    world.now += POLICY.auth_ceiling_seconds
    world.hear(life.AuthFailed(world.now, process, "503 from the issuer", permanent=False))
    assert world.status.phase is Phase.UNAUTHENTICATED
    world.hear(life.Answered(world.now, process))
    assert world.status.phase is Phase.RUNNING


def test_what_a_policy_stopped_says_so_and_stays_down() -> None:
    world = World()
    process = world.start()
    world.hear(life.PolicyStopWanted(world.now, "`run_workload` is denied"))
    world.end(process)
    assert (world.status.phase, world.status.context) == (Phase.POLICY_STOPPED, "`run_workload` is denied")
    world.hear(life.CallWaiting(world.now))
    assert world.spawned == 1


def test_removing_ends_the_process_before_the_books_forget_it() -> None:
    world = World()
    process = world.start()
    world.hear(life.RemoveWanted(world.now))
    assert not world.forgotten
    world.hear(life.StartWanted(world.now))
    world.end(process)
    assert world.forgotten
    assert world.spawned == 1


def test_an_answer_from_before_a_refusal_does_not_undo_it() -> None:
    world = World()
    process = world.start()
    world.hear(life.AuthFailed(world.now + 5, process, "signed out", permanent=True))
    world.hear(life.Answered(world.now + 4, process))
    assert world.status.phase is Phase.UNAUTHENTICATED
    world.hear(life.Answered(world.now + 6, process))
    assert world.status.phase is Phase.RUNNING
