"""Claims about what is left when we are killed: nothing."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from tests.support.waiting import alive

from mooring.transports import watcher
from mooring.transports.reaper import Reaper
from mooring.transports.watcher import group_lives

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

GONE_SECONDS = 2.0

# A process that runs a child with two grandchildren, one of them in a process group of its own.
PARENT = """
import asyncio, sys, uvloop
from mooring.transports.child import Child, Command, reaper

SCRIPT = "sleep 1000 & a=$!; timeout 1000 sleep 1000 & echo $$ $a $!; wait"

def say(data):
    print(reaper._watcher, data.decode().strip(), flush=True)

async def main():
    child = await Child.spawn(Command(("sh", "-c", SCRIPT), {}), on_stdout=say, on_stderr=say, on_exit=say)
    await child.wait()

loops = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
with asyncio.Runner(loop_factory=loops[sys.argv[1]]) as runner:
    runner.run(main())
"""


@contextmanager
def parent_with_family(loop: str) -> Iterator[tuple[subprocess.Popen[str], int, list[int]]]:
    """The parent, its watcher's number, and the numbers of the child and its children."""
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, loop], stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as parent:
        assert parent.stdout is not None
        family: list[int] = []
        try:
            watching, *family = [int(word) for word in parent.stdout.readline().split()]
            assert len(family) == 3
            assert all(alive(pid) for pid in (watching, *family))
            assert within(GONE_SECONDS, lambda: os.getpgid(family[2]) == family[2])
            yield parent, watching, family
        finally:
            parent.kill()
            for group in family:
                with suppress(ProcessLookupError):
                    os.killpg(group, signal.SIGKILL)


def within(seconds: float, condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.005)
    return True


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_after_kill_9_the_child_its_children_and_the_watcher_are_gone(loop: str) -> None:
    with parent_with_family(loop) as (parent, watching, family):
        parent.kill()
        assert within(GONE_SECONDS, lambda: not any(alive(pid) for pid in (watching, *family)))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_meant_for_everybody_does_not_end_the_watcher_first(number: int) -> None:
    with parent_with_family("asyncio") as (parent, watching, family):
        os.kill(watching, number)
        os.killpg(parent.pid, signal.SIGKILL)
        assert within(GONE_SECONDS, lambda: not any(alive(pid) for pid in (watching, *family)))


def test_the_watcher_is_in_no_group_of_ours() -> None:
    with parent_with_family("asyncio") as (parent, watching, family):
        assert os.getpgid(watching) not in (os.getpgid(parent.pid), os.getpgid(family[0]))


def test_the_child_itself_dies_with_us_even_without_the_watcher() -> None:
    with parent_with_family("uvloop") as (parent, watching, family):
        os.kill(watching, signal.SIGKILL)
        assert within(GONE_SECONDS, lambda: not alive(watching))
        assert alive(family[0])
        parent.kill()
        assert within(GONE_SECONDS, lambda: not alive(family[0]))


# A process that is killed as early as can be: its child runs, and it has not even been told so.
HASTY_PARENT = """
import asyncio, os, signal, sys, uvloop
from pathlib import Path
from mooring.transports.child import Child, Command

class Hasty(Child):
    def connection_made(self, transport):
        while not Path(sys.argv[2]).exists():
            pass
        os.kill(os.getpid(), signal.SIGKILL)

async def main():
    script = 'sleep 1000 & echo $$ $! > "$0.new"; mv "$0.new" "$0"; wait'
    await Hasty.spawn(Command(("sh", "-c", script, sys.argv[2]), {}), on_stdout=id, on_stderr=id, on_exit=id)

loops = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
with asyncio.Runner(loop_factory=loops[sys.argv[1]]) as runner:
    runner.run(main())
"""


@pytest.mark.parametrize("loop", ["asyncio", "uvloop"])
def test_nothing_is_left_when_we_are_killed_in_the_middle_of_a_spawn(loop: str, tmp_path: Path) -> None:
    note = tmp_path / "family"
    done = subprocess.run([sys.executable, "-c", HASTY_PARENT, loop, note], timeout=30, check=False)
    assert done.returncode == -signal.SIGKILL
    family = [int(word) for word in note.read_text().split()]
    assert within(GONE_SECONDS, lambda: not any(alive(pid) for pid in family))


@contextmanager
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", "1000"], start_new_session=True) as process:
        try:
            yield process
        finally:
            process.kill()


@contextmanager
def reaper() -> Iterator[Reaper]:
    reaper = Reaper()
    try:
        yield reaper
    finally:
        reaper.close()


def ended(process: subprocess.Popen[bytes]) -> bool:
    return process.poll() is not None


def test_a_session_that_was_removed_is_forgotten() -> None:
    with sleeper() as kept, reaper() as ours:
        ours.add(kept.pid)
        ours.remove(kept.pid)
        assert within(GONE_SECONDS, lambda: ended(kept))
        with subprocess.Popen(["sleep", "1000"], start_new_session=True) as other:
            ours.close()
            assert not ended(other)
            other.kill()


def test_closing_kills_what_was_not_removed() -> None:
    with sleeper() as one, sleeper() as two, reaper() as ours:
        ours.add(one.pid)
        ours.add(two.pid)
        ours.close()
        assert within(GONE_SECONDS, lambda: ended(one) and ended(two))


def test_who_was_introduced_and_is_no_child_of_ours_is_left_alone() -> None:
    with sleeper() as ours_indeed, sleeper() as stranger, reaper() as ours:
        ours.add(ours_indeed.pid)
        os.write(ours.start(), watcher.ADD % stranger.pid)
        ours.correct()
        ours.close()
        assert within(GONE_SECONDS, lambda: ended(ours_indeed))
        assert not ended(stranger)


def test_many_sessions_are_told_to_a_new_watcher_without_loss() -> None:
    with sleeper() as first, sleeper() as last, reaper() as ours:
        ours._sessions.update(range(2**31 - 9000, 2**31))
        ours.add(first.pid)
        ours.add(last.pid)
        ours.correct()
        ours.close()
        assert within(GONE_SECONDS, lambda: ended(first) and ended(last))


def test_a_dead_watcher_is_replaced_before_a_child_speaks_to_it() -> None:
    with reaper() as ours:
        ours.start()
        first = ours._watcher
        assert first is not None
        os.kill(first, signal.SIGKILL)
        assert within(GONE_SECONDS, lambda: not alive(first))
        os.write(ours.start(), watcher.ADD % (2**31 - 1))
        assert ours._watcher not in (None, first)


def test_a_watcher_that_was_killed_is_replaced_and_told_everything() -> None:
    with sleeper() as one, sleeper() as two, reaper() as ours:
        ours.add(one.pid)
        first = ours._watcher
        assert first is not None
        os.kill(first, signal.SIGKILL)
        assert within(GONE_SECONDS, lambda: not alive(first))
        ours.add(two.pid)
        assert ours._watcher not in (None, first)
        assert not ended(one)
        ours.close()
        assert within(GONE_SECONDS, lambda: ended(one) and ended(two))


def test_a_watcher_that_was_stopped_neither_blocks_us_nor_kills_later() -> None:
    with sleeper() as one, reaper() as ours:
        ours.add(one.pid)
        first = ours._watcher
        assert first is not None
        os.kill(first, signal.SIGSTOP)
        # More than its pipe holds; numbers beyond any process.
        for number in range(20_000):
            ours.add(2**31 - 1 - number % 3)
        assert within(GONE_SECONDS, lambda: not alive(first))
        assert ours._watcher not in (None, first)
        assert not ended(one)


def test_a_group_of_zombies_counts_as_gone() -> None:
    # The parent never asks after its dead child: it stays a zombie.
    script = (
        "import subprocess, sys; p = subprocess.Popen(['true'], process_group=0); print(p.pid, flush=True)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", f"{script}; sys.stdin.read()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as parent:
        assert parent.stdout is not None
        zombie = int(parent.stdout.readline())
        assert within(GONE_SECONDS, lambda: not alive(zombie))
        os.killpg(zombie, 0)  # the kernel still takes signals for it
        assert not group_lives(zombie)
        assert group_lives(os.getpgrp())
