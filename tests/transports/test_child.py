"""Claims about child processes, each with real ones, on both event loops."""

import asyncio
import gc
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from pathlib import Path

import pytest
import uvloop
from tests.support.waiting import alive

from mooring.protocol.lines import LineReader, Message, Noise
from mooring.transports import child as child_module
from mooring.transports.child import CannotStart, Child, Command, child_environment
from mooring.transports.pipes import STDIN_HIGH_WATER_BYTES, InputPipe, OutputPipe, StdinClosed

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="children are POSIX processes")

LIMIT_SECONDS = 30
Run = Callable[[Coroutine[object, object, None]], None]


@pytest.fixture(params=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Iterator[Run]:
    """Run a coroutine to its end on one of the event loops, within a limit, with no fault in a callback."""
    loop_factory = uvloop.new_event_loop if request.param == "uvloop" else asyncio.new_event_loop
    faults: list[dict[str, object]] = []
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.get_loop().set_exception_handler(lambda _, context: faults.append(context))
        yield lambda coroutine: runner.run(asyncio.wait_for(coroutine, LIMIT_SECONDS))
    assert faults == []


class Heard:
    """What a child said, and how it ended."""

    def __init__(self) -> None:
        self.stdout = b""
        self.stderr = b""
        self.codes: list[int] = []

    def on_stdout(self, data: bytes) -> None:
        self.stdout += data

    def on_stderr(self, data: bytes) -> None:
        self.stderr += data


async def start(heard: Heard, *argv: str, **env: str) -> Child:
    return await Child.spawn(
        Command(argv, env),
        on_stdout=heard.on_stdout,
        on_stderr=heard.on_stderr,
        on_exit=heard.codes.append,
    )


def python(heard: Heard, program: str) -> Awaitable[Child]:
    return start(heard, sys.executable, "-S", "-c", program)


async def until(condition: Callable[[], object]) -> None:
    """Look again and again; the limit of `run` ends it."""
    while not condition():  # noqa: ASYNC110
        await asyncio.sleep(0.005)


# Speaking


def test_what_is_written_comes_back_from_an_echo(run: Run) -> None:
    async def scenario() -> None:
        heard = Heard()
        child = await start(heard, "cat")
        assert child.pid > 0
        assert child.returncode is None
        for line in (b'{"id":1}\n', b"x" * 300_000 + b"\n"):
            child.write(line)
            await until(lambda: heard.stdout.endswith(b"\n"))
            assert heard.stdout == line
            heard.stdout = b""
        assert await child.close() == 0
        assert heard.codes == [0]

    run(scenario())


def test_stray_output_does_not_hide_the_message_after_it(run: Run) -> None:
    async def scenario() -> None:
        heard, reader = Heard(), LineReader(1000)
        child = await start(heard, "sh", "-c", r"""echo starting; printf '\377\n'; echo '{"id":1}'""")
        await child.wait()
        await until(lambda: heard.codes)
        lines = reader.feed(heard.stdout)
        assert [type(line) for line in lines] == [Noise, Noise, Message]
        await child.close()

    run(scenario())


def test_standard_error_is_captured_apart(run: Run) -> None:
    async def scenario() -> None:
        heard = Heard()
        child = await start(heard, "sh", "-c", "echo out; echo err >&2")
        await until(lambda: heard.codes)
        assert (heard.stdout, heard.stderr) == (b"out\n", b"err\n")
        await child.close()

    run(scenario())


@pytest.mark.parametrize(("script", "code"), [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", -9)])
def test_the_exit_code_is_told_once(run: Run, script: str, code: int) -> None:
    async def scenario() -> None:
        heard = Heard()
        child = await start(heard, "sh", "-c", script)
        assert await child.wait() == code
        await until(lambda: heard.codes)
        assert await child.close() == code
        assert child.returncode == code
        assert heard.codes == [code]

    run(scenario())


def test_all_output_is_delivered_before_the_exit_is_told(run: Run) -> None:
    async def scenario() -> None:
        sizes_at_exit: list[int] = []
        heard = Heard()
        child = await Child.spawn(
            Command(("head", "-c", "3000000", "/dev/zero"), {}),
            on_stdout=heard.on_stdout,
            on_stderr=heard.on_stderr,
            on_exit=lambda _: sizes_at_exit.append(len(heard.stdout)),
        )
        await until(lambda: sizes_at_exit)
        assert sizes_at_exit == [3_000_000]
        await child.close()

    run(scenario())


# Flow


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_slow_consumer_makes_the_child_wait(run: Run) -> None:
    async def scenario() -> None:
        heard = Heard()
        total = 5_000_000
        child = await start(heard, "head", "-c", str(total), "/dev/zero")
        await until(lambda: heard.stdout)
        child.pause_reading()
        await asyncio.sleep(0)
        held = len(heard.stdout)
        # It is asleep in a write to a full pipe, and stays there.
        await until(
            lambda: b"pipe" in Path(f"/proc/{child.pid}/wchan").read_bytes() or _written(child) == total
        )
        assert _written(child) <= held + (1 << 20)
        assert len(heard.stdout) == held
        assert child.returncode is None
        child.resume_reading()
        await until(lambda: heard.codes)
        assert len(heard.stdout) == total
        await child.close()

    run(scenario())


def _written(child: Child) -> int:
    lines = Path(f"/proc/{child.pid}/io").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("wchar")))


def test_output_that_was_paused_at_the_end_is_not_lost(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_module, "OUTPUT_GRACE_SECONDS", 0.05)

    async def scenario() -> None:
        heard = Heard()
        child = await start(heard, "sh", "-c", "read line; printf 123456789")
        child.pause_reading()
        child.write(b"go\n")
        await child.wait()
        await asyncio.sleep(0.2)  # longer than output may stay open after the end
        assert (heard.stdout, heard.codes) == (b"", [])
        child.resume_reading()
        await until(lambda: heard.codes)
        assert heard.stdout == b"123456789"
        await child.close()

    run(scenario())


@pytest.mark.skipif(sys.platform != "linux", reason="makes a pipe larger")
def test_output_that_is_taken_in_small_bites_after_the_end_is_not_lost(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_module, "OUTPUT_GRACE_SECONDS", 0.05)
    program = "import fcntl, sys; fcntl.fcntl(1, fcntl.F_SETPIPE_SZ, 1 << 20); sys.stdin.readline()"

    async def scenario() -> None:
        heard = Heard()

        def bite(data: bytes) -> None:
            heard.on_stdout(data)
            child.pause_reading()

        child = await Child.spawn(
            Command((sys.executable, "-S", "-c", f"{program}; sys.stdout.write('x' * 1000000)"), {}),
            on_stdout=bite,
            on_stderr=heard.on_stderr,
            on_exit=heard.codes.append,
        )
        child.pause_reading()
        child.write(b"go\n")
        await child.wait()
        bites = 0
        while not heard.codes:
            child.resume_reading()
            await asyncio.sleep(0.1)  # longer than output may stay open after the end
            bites += 1
        assert len(heard.stdout) == 1_000_000
        assert bites > 2
        await child.close()

    run(scenario())


def test_writers_wait_in_turn_for_a_child_that_does_not_read(run: Run) -> None:
    message = b"x" * 100_000

    async def scenario() -> None:
        heard, done = Heard(), []
        child = await python(
            heard, "import sys; sys.stdout.write('up'); sys.stdout.flush()\nwhile True: pass"
        )
        await until(lambda: heard.stdout)
        os.kill(child.pid, signal.SIGSTOP)

        async def send(number: int) -> None:
            await child.drain()
            child.write(message)
            done.append(number)

        senders = [asyncio.create_task(send(number)) for number in range(40)]
        await until(lambda: not child.writable)
        for _ in range(10):
            await asyncio.sleep(0)
        # The mark, what the pipe itself holds, and one message: no more, with 40 writers waiting.
        assert len(done) * len(message) <= STDIN_HIGH_WATER_BYTES + (1 << 16) + 2 * len(message)
        os.kill(child.pid, signal.SIGKILL)
        results = await asyncio.gather(*senders, return_exceptions=True)
        assert done == list(range(len(done)))
        assert all(isinstance(result, StdinClosed) for result in results[len(done) :])
        await child.close()

    run(scenario())


def test_writers_go_on_in_turn_once_the_child_reads(run: Run) -> None:
    async def scenario() -> None:
        heard, done, queued = Heard(), [], []
        child = await start(heard, "sh", "-c", "kill -STOP $$; head -c 4000000 | wc -c")

        async def send(number: int) -> None:
            await child.drain()
            child.write(b"x" * 100_000)
            done.append(number)
            transport = child._stdin._transport
            assert transport is not None
            queued.append(transport.get_write_buffer_size())

        senders = [asyncio.create_task(send(number)) for number in range(40)]
        await until(lambda: not child.writable)
        os.killpg(child.pid, signal.SIGCONT)
        await asyncio.gather(*senders)
        assert done == list(range(40))
        assert max(queued) <= STDIN_HIGH_WATER_BYTES + 100_000
        await until(lambda: heard.codes)
        assert int(heard.stdout) == 4_000_000
        await child.close()

    run(scenario())


def test_writing_to_a_child_that_ended_says_so(run: Run) -> None:
    async def scenario() -> None:
        child = await start(Heard(), "true")
        await child.wait()
        assert not child.writable
        with pytest.raises(StdinClosed, match="closed its input"):
            child.write(b"{}\n")
        with pytest.raises(StdinClosed, match="closed its input"):
            await child.drain()
        await child.close()

    run(scenario())


# Ending


def test_a_child_that_ignores_sigterm_is_killed_with_its_group(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_module, "STDIN_GRACE_SECONDS", 0.1)
    monkeypatch.setattr(child_module, "TERM_GRACE_SECONDS", 0.1)

    async def scenario() -> None:
        heard = Heard()
        child = await start(
            heard, "sh", "-c", "trap '' TERM; sleep 1000 & echo $!; while :; do sleep 1000; done"
        )
        await until(lambda: heard.stdout)
        assert await child.close() == -signal.SIGKILL
        await until(lambda: not alive(int(heard.stdout)))
        assert heard.codes == [-signal.SIGKILL]

    run(scenario())


def test_a_child_gets_the_chance_to_end_well_on_each_step(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_module, "STDIN_GRACE_SECONDS", 0.5)
    on_term = "trap 'exit 7' TERM; echo up; while :; do sleep 0.01; done"

    async def scenario() -> None:
        for script, code in (("echo up; read line; exit 5", 5), (on_term, 7)):
            heard = Heard()
            child = await start(heard, "sh", "-c", script)
            await until(lambda: heard.stdout)  # noqa: B023
            assert await child.close() == code

    run(scenario())


def test_closing_unblocks_a_child_that_waits_for_its_paused_reader(run: Run) -> None:
    async def scenario() -> None:
        heard = Heard()
        child = await start(heard, "sh", "-c", "head -c 500000 /dev/zero; exit 4")
        child.pause_reading()
        before = len(heard.stdout)
        assert await child.close() == 4
        assert len(heard.stdout) <= before + (1 << 18)

    run(scenario())


def test_closing_twice_or_at_once_is_closing_once(run: Run) -> None:
    async def scenario() -> None:
        heard = Heard()
        child = await start(heard, "cat")
        assert await asyncio.gather(child.close(), child.close()) == [0, 0]
        assert await child.close() == 0
        assert heard.codes == [0]

    run(scenario())


def test_a_cancelled_close_still_ends_the_child(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_module, "STDIN_GRACE_SECONDS", 0.1)
    monkeypatch.setattr(child_module, "TERM_GRACE_SECONDS", 0.1)

    async def scenario() -> None:
        child = await start(Heard(), "sh", "-c", "trap '' TERM; while :; do sleep 1000; done")
        closing = asyncio.create_task(child.close())
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert child.returncode is not None
        assert not alive(child.pid)

    run(scenario())


def test_a_child_that_closes_its_stdout_is_not_taken_for_dead(run: Run) -> None:
    async def scenario() -> None:
        heard = Heard()
        child = await start(heard, "sh", "-c", "echo bye; exec >&-; read line; echo $line >&2; exit 6")
        await until(lambda: heard.stdout)
        assert child.returncode is None
        child.write(b"still here\n")
        assert await child.wait() == 6
        await until(lambda: heard.codes)
        assert heard.stderr == b"still here\n"
        await child.close()

    run(scenario())


def test_the_end_of_stdout_is_told_though_the_child_and_a_grandchild_live_on(run: Run) -> None:
    # A second copy of the pipe, leaked into the child, would keep it open.
    async def scenario() -> None:
        heard, ended = Heard(), asyncio.Event()
        child = await Child.spawn(
            Command(("sh", "-c", "sleep 1000 >&- 2>&- <&- & exec >&- 2>&-; read line"), {}),
            on_stdout=heard.on_stdout,
            on_stderr=heard.on_stderr,
            on_exit=heard.codes.append,
            on_stdout_end=ended.set,
        )
        await ended.wait()
        assert child.returncode is None
        await child.close()

    run(scenario())


def test_what_a_child_leaves_running_ends_after_it(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(child_module, "TERM_GRACE_SECONDS", 0.1)
    polite = "sleep 1000 & echo $!"
    stubborn = "(trap '' TERM; while :; do sleep 1000; done) & echo $!"
    # This program moves to a process group of its own.
    elsewhere = "timeout 1000 sleep 1000 & echo $!; while [ $(ps -o pgid= $!) != $! ]; do :; done"

    async def scenario() -> None:
        for script in (polite, stubborn, elsewhere):
            heard = Heard()
            child = await start(heard, "sh", "-c", script)
            await until(lambda: heard.codes)  # noqa: B023
            await until(lambda: not alive(int(heard.stdout)))  # noqa: B023
            await child.close()
            assert heard.codes == [0]

    run(scenario())


def test_a_daemon_that_holds_the_output_does_not_hold_up_the_exit(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(child_module, "OUTPUT_GRACE_SECONDS", 0.1)

    async def scenario() -> None:
        heard = Heard()
        daemon = "setsid sh -c 'echo $$; exec sleep 1000' & read line; exit 2"
        child = await start(heard, "sh", "-c", daemon)
        await until(lambda: heard.stdout)
        child.write(b"go\n")
        await until(lambda: heard.codes)
        assert heard.codes == [2]
        await child.close()
        os.kill(int(heard.stdout), signal.SIGKILL)

    run(scenario())


def test_a_late_close_does_not_touch_whoever_has_the_number_by_then(run: Run) -> None:
    async def scenario() -> None:
        heard = Heard()
        child = await start(heard, "true")
        await until(lambda: heard.codes)
        with subprocess.Popen(["sleep", "1000"], start_new_session=True) as stranger:
            child.pid = stranger.pid  # as if the kernel had given the number away
            assert await child.close() == 0
            assert stranger.poll() is None
            stranger.kill()

    run(scenario())


def test_fifty_children_leave_no_process_and_no_descriptor(run: Run) -> None:
    async def scenario() -> None:
        await (await start(Heard(), "true")).close()
        before, pids = descriptors(), []
        for number in range(50):
            child = await start(Heard(), *(("cat",), ("true",), ("sh", "-c", "exit 1"))[number % 3])
            pids.append(child.pid)
            await child.close()
        for argv in (("no-such-program",), ("/etc/passwd",)):
            with pytest.raises(CannotStart):
                await start(Heard(), *argv)
        await asyncio.sleep(0)
        assert descriptors() == before
        assert [pid for pid in pids if Path(f"/proc/{pid}").exists()] == []

    run(scenario())


def descriptors() -> int:
    return len(os.listdir("/dev/fd"))


def test_a_spawn_that_is_cancelled_leaves_nothing(run: Run) -> None:
    async def scenario() -> None:
        await (await start(Heard(), "true")).close()
        before = descriptors()
        for turns in range(12):
            spawning = asyncio.create_task(start(Heard(), "sleep", f"98{turns:02}"))
            for _ in range(turns):
                await asyncio.sleep(0)
            if spawning.cancel():
                with pytest.raises(asyncio.CancelledError):
                    await spawning
            else:
                await (await spawning).close()
        await until(lambda: descriptors() == before)
        await until(lambda: not _running("sleep\x0098"))

    run(scenario())


def test_a_pipe_that_is_given_up_while_it_is_made_is_closed_once(run: Run) -> None:
    # Closed twice, the second close would hit whoever has the number by then.
    async def give_up_both() -> None:
        for pipe in (InputPipe(lambda: None), OutputPipe(len, lambda: None)):
            making = asyncio.create_task(pipe.connect())
            await asyncio.sleep(0)
            making.cancel()
            with pytest.raises(asyncio.CancelledError):
                await making
        await asyncio.sleep(0)

    async def scenario() -> None:
        await give_up_both()  # the first time, the loop opens something for itself
        before = descriptors()
        await give_up_both()
        await until(lambda: descriptors() == before)
        gc.collect()  # a file that is closed late complains here

    run(scenario())


def _running(command: str) -> list[Path]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if path.read_bytes().startswith(command.encode()):
                found.append(path)
        except OSError:
            continue
    return found


# Starting


def test_a_child_sees_the_short_list_and_its_own_variables_only(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MOORING_TEST_SECRET", "do not leak")
    monkeypatch.setenv("LC_TIME", "C")

    async def scenario() -> None:
        heard = Heard()
        child = await start(heard, "env", GREETING="hello", PATH="/usr/bin:/bin")
        await until(lambda: heard.codes)
        seen = dict(line.split("=", 1) for line in heard.stdout.decode().splitlines())
        assert seen == child_environment({"GREETING": "hello", "PATH": "/usr/bin:/bin"})
        assert seen["GREETING"] == "hello"
        assert seen["PATH"] == "/usr/bin:/bin"
        assert seen["LC_TIME"] == "C"
        assert "MOORING_TEST_SECRET" not in seen
        await child.close()

    run(scenario())


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_child_inherits_no_descriptor_of_ours(run: Run) -> None:
    async def scenario() -> None:
        ours, other = os.pipe()
        os.set_inheritable(ours, True)
        heard = Heard()
        child = await python(heard, "import os; print(sorted(os.listdir('/proc/self/fd')))")
        await until(lambda: heard.codes)
        os.close(ours)
        os.close(other)
        # The fourth is the listing's own.
        assert heard.stdout == b"['0', '1', '2', '3']\n"
        await child.close()

    run(scenario())


def test_a_child_runs_in_its_directory_and_leads_its_own_session(run: Run, tmp_path: Path) -> None:
    async def scenario() -> None:
        heard = Heard()
        child = await Child.spawn(
            Command(("sh", "-c", "pwd; read line"), {}, tmp_path),
            on_stdout=heard.on_stdout,
            on_stderr=heard.on_stderr,
            on_exit=heard.codes.append,
        )
        await until(lambda: heard.stdout)
        assert Path(heard.stdout.decode().strip()) == tmp_path.resolve()
        assert os.getsid(child.pid) == os.getpgid(child.pid) == child.pid
        await child.close()

    run(scenario())


@pytest.mark.parametrize(
    ("argv", "env", "directory", "message"),
    [
        ((), {}, None, "the command is empty: give the program"),
        (("no-such-program",), {}, None, "`no-such-program` was not found on PATH: install it"),
        (("sh",), {"PATH": "/nonexistent"}, None, "`sh` was not found on PATH"),
        (("./no/such/file",), {}, None, "`./no/such/file` does not exist or is not a file: check the path"),
        (("/etc/passwd",), {}, None, "`/etc/passwd` is not executable: run `chmod [+]x`"),
        (("/etc",), {}, None, "`/etc` does not exist or is not a file"),
        (
            ("sh",),
            {},
            Path("/nonexistent"),
            "working directory `/nonexistent` of `sh` is not a directory: create",
        ),
        (("sh", "a\0b"), {}, None, "holds a NUL byte: remove it"),
        (("sh",), {"A": "\0"}, None, "holds a NUL byte: remove it"),
        (("sh",), {"A=B": "c"}, None, "rename it"),
        (("sh", "x" * 3_000_000), {}, None, "`sh` cannot be started: .*too long"),
    ],
)
def test_a_command_that_cannot_run_says_what_to_do(
    run: Run, argv: tuple[str, ...], env: dict[str, str], directory: Path | None, message: str
) -> None:
    async def scenario() -> None:
        heard = Heard()
        with pytest.raises(CannotStart, match=message):
            await Child.spawn(
                Command(argv, env, directory),
                on_stdout=heard.on_stdout,
                on_stderr=heard.on_stderr,
                on_exit=heard.codes.append,
            )
        assert heard.codes == []

    run(scenario())
