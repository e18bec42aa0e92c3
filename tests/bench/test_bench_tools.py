"""The benchmark's own tools: its arithmetic, its verdicts, its document, and the processes it starts."""

from __future__ import annotations

import cProfile
import json
import os
import pstats
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from bench.figures import Record, Spread, paired, quantile, rotated, spread
from bench.processes import LOAD_CPU, Process, wait_until
from bench.run import QUICK, Run
from bench.suites.suite import Figure, Suite
from bench.targets import Stage
from hypothesis import given
from hypothesis import strategies as st

from bench import goals, hotpath, load, programs, report, wire

ROOT = Path(__file__).resolve().parents[2]


# -- arithmetic


def test_a_spread_is_the_median_with_the_lowest_and_the_highest_round() -> None:
    assert spread([3.0, 1.0, 2.0, 10.0]) == Spread(2.5, 1.0, 10.0, 4)
    assert spread([]) is None


def test_ratios_are_formed_within_a_round_and_only_then_summarised() -> None:
    # The second round ran on a machine twice as slow: the ratio of medians would hide that 2 is the answer.
    assert paired({0: 20.0, 1: 40.0, 2: 22.0}, {0: 10.0, 1: 20.0, 2: 11.0}) == Spread(2.0, 2.0, 2.0, 3)


def test_a_round_that_one_side_lacks_or_that_divides_by_nothing_is_left_out() -> None:
    assert paired({0: 1.0, 1: 6.0, 2: 9.0}, {1: 2.0, 2: 0.0, 3: 5.0}) == Spread(3.0, 3.0, 3.0, 1)
    assert paired({0: 1.0}, {0: -1.0}) is None


@given(st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=50), st.floats(0.01, 1.0))
def test_a_quantile_is_one_of_the_values_and_enough_of_them_do_not_exceed_it(
    values: list[float], share: float
) -> None:
    found = quantile(values, share)
    assert found in values
    assert sum(value <= found for value in values) >= share * len(values) - 1e-9
    assert sum(value < found for value in values) < share * len(values) + 1e-9


def test_every_target_comes_first_once() -> None:
    orders = [rotated(("a", "b", "c"), number) for number in range(3)]
    assert orders == [["a", "b", "c"], ["b", "c", "a"], ["c", "a", "b"]]


# -- verdicts and tables


def _record(**rounds: tuple[float, ...]) -> Record:
    record = Record()
    for target, values in rounds.items():
        for number, value in enumerate(values):
            record.add("calls", target, number, cpu_us=value)
    return record


def _verdict(record: Record, text: str) -> goals.Verdict:
    return next(verdict for verdict in goals.judge(record) if verdict.goal.text.startswith(text))


def test_a_goal_is_judged_by_the_median_of_the_ratios() -> None:
    just = _record(nginx=(10.0, 10.0, 10.0), mooring=(20.0, 19.0, 50.0))
    missed = _record(nginx=(10.0, 10.0, 10.0), mooring=(20.0, 20.1, 20.1))
    assert _verdict(just, "CPU per call, against nginx").word == "reached"
    assert _verdict(missed, "CPU per call, against nginx").word == "not reached"


def test_at_least_is_not_at_most() -> None:
    assert (
        _verdict(_record(fastmcp=(990.0,), mooring=(10.0,)), "CPU per call of FastMCP").word == "not reached"
    )
    assert _verdict(_record(fastmcp=(1000.0,), mooring=(10.0,)), "CPU per call of FastMCP").word == "reached"


def test_memory_is_judged_by_its_worst_round() -> None:
    record = Record()
    for number, growth in enumerate((100.0, 9_000.0, 100.0)):
        record.add("results", "mooring", number, peak_kb_10mb=growth)
    assert _verdict(record, "10 MB result: memory").word == "not reached"


def test_what_was_not_measured_is_not_called_reached() -> None:
    verdicts = goals.judge(Record())
    assert {verdict.word for verdict in verdicts} == {"not measured"}
    assert not any(verdict.reached for verdict in verdicts)


_BEGIN, _END = (mark.format(part="figures") for mark in (report.BEGIN, report.END))
_SUITE = Suite("calls", "small calls", "nginx", (Figure("cpu_us", "CPU per call", "µs"),), lambda _: None)


def test_the_table_shows_spread_and_ratio() -> None:
    header, rows = report.table_of(_SUITE, _record(nginx=(10.0, 12.0), mooring=(20.0, 18.0)))
    assert header == ("median [min–max] · ratio to nginx", "nginx", "mooring")
    assert rows == [("CPU per call", "11.0 µs [10.0–12.0]", "19.0 µs [18.0–20.0] · 1.75×")]


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "0"), (0.0123, "0.012"), (0.456, "0.46"), (12.34, "12.3"), (48_339.4, "48,339")]
)
def test_numbers_have_about_three_digits(value: float, text: str) -> None:
    assert report.number(value) == text


_ABOUT = {
    "date": "2026-01-02",
    "mode": "quick",
    "commit": "abc",
    "cpus": 2,
    "cpu": "CPU",
    "kernel": "6",
    "python": "3.11",
    "load_average_before": 0.1,
    "nginx": "1",
    "fastmcp": "2",
    "mcp-proxy": "3",
    "wrk": "wrk 4",
}


def test_the_document_keeps_what_people_wrote_around_the_figures(tmp_path: Path) -> None:
    document = tmp_path / "performance.md"
    document.write_text(f"before\n{_BEGIN}\nold figures\n{_END}\nafter\n")
    record = _record(nginx=(10.0,), mooring=(15.0,))
    record.failures.append("calls, mooring: it broke\nwith details")
    report.write_document([_SUITE], record, _ABOUT, document)
    text = document.read_text()
    assert text.startswith("before\n")
    assert text.endswith("\nafter\n")
    assert "old figures" not in text
    assert "| CPU per call, against nginx (aim 1.5) | ≤ 2.00 × | 1.50 × | reached |" in text
    assert "- calls, mooring: it broke" in text


def test_a_document_without_its_markers_is_left_alone(tmp_path: Path) -> None:
    document = tmp_path / "performance.md"
    document.write_text("only prose")
    with pytest.raises(ValueError, match="markers"):
        report.write_document([_SUITE], Record(), _ABOUT, document)
    assert document.read_text() == "only prose"


def test_the_committed_document_can_take_new_figures() -> None:
    text = report.DOCUMENT.read_text()
    assert text.index(_BEGIN) < text.index(_END)


def test_partial_runs_do_not_replace_the_documented_figures() -> None:
    said = subprocess.run(
        [sys.executable, "-m", "bench", "--only", "calls", "--write-docs"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert said.returncode == 2
    assert "--only" in said.stderr


# -- the profile


def test_the_profile_counts_calls_per_request_and_leaves_out_what_ran_seldom() -> None:
    def inner() -> None:
        pass

    def request() -> None:
        inner()
        inner()

    profile = cProfile.Profile()
    for _ in range(10):
        profile.runcall(request)
    lines = {line.name.rpartition(" ")[2]: line.calls for line in hotpath.read(pstats.Stats(profile), 10)}
    assert lines["request"] == 1.0
    assert lines["inner"] == 2.0
    assert "request" not in {line.name.rpartition(" ")[2] for line in hotpath.read(pstats.Stats(profile), 21)}


# -- a target that fails


def test_a_target_that_fails_costs_itself_the_suite_and_nobody_else() -> None:
    record = Record()
    visited: list[tuple[str, int]] = []

    def visit(name: str, number: int) -> None:
        visited.append((name, number))
        if name == "bad":
            raise wire.WireError("HTTP 500")

    with Stage() as stage:
        Run(stage, QUICK, record, lambda _: None).rounds("calls", ("bad", "good"), visit)
    assert visited == [("bad", 0), ("good", 0), ("good", 1), ("good", 2)]
    assert record.failures == ["calls, bad: WireError: HTTP 500"]


# -- what counts as delivered


def test_progress_out_of_order_is_not_counted_as_delivered() -> None:
    def event(progress: int) -> bytes:
        params = {"progressToken": 5, "progress": progress}
        return (
            b"data: " + json.dumps({"method": "notifications/progress", "params": params}).encode() + b"\n\n"
        )

    answer = wire.Answer(
        200, {"content-type": "text/event-stream"}, [event(1), event(3), event(2), event(4)], True
    )
    assert load.in_order(answer, 5) == 2


# -- processes


def _burning(seconds: float) -> str:
    return f"import time; end = time.process_time() + {seconds}\nwhile time.process_time() < end: pass"


def test_cpu_time_includes_children_alive_and_ended(tmp_path: Path) -> None:
    script = (
        "import subprocess, sys, time\n"
        f"burn = {_burning(0.2)!r}\n"
        "subprocess.run([sys.executable, '-c', burn])\n"
        "subprocess.Popen([sys.executable, '-c', burn + '\\ntime.sleep(60)'])\n"
        "time.sleep(60)\n"
    )
    process = Process(
        [sys.executable, "-c", script], cpu=LOAD_CPU, log=tmp_path / "log", environment=dict(os.environ)
    )
    try:
        assert wait_until(lambda: process.cpu_seconds() >= 0.4, 20), process.log_tail()
        assert len(process.tree()) == 2
        assert process.memory().resident_kb > 1_000
    finally:
        tree = process.tree()
        process.stop()
    assert wait_until(lambda: not any(map(_running, tree)), 5)


def test_the_peak_of_memory_counts_from_when_it_was_forgotten(tmp_path: Path) -> None:
    script = "big = bytearray(60_000_000); del big; print('done', flush=True); import time; time.sleep(60)"
    process = Process(
        [sys.executable, "-c", script], cpu=LOAD_CPU, log=tmp_path / "log", environment=dict(os.environ)
    )
    try:
        assert process.first_line(10) == "done"
        assert process.memory().peak_kb > 55_000
        process.forget_peak()
        assert process.memory().peak_kb < 55_000
    finally:
        process.stop()


@pytest.mark.parametrize("wish", [signal.SIGINT, signal.SIGKILL])
def test_nothing_stays_behind_when_the_benchmark_is_stopped(wish: signal.Signals) -> None:
    script = (
        "import time\n"
        "from bench.targets import Stage\n"
        "with Stage() as stage:\n"
        "    print(stage.upstream().process.pid, flush=True)\n"
        "    time.sleep(60)\n"
    )
    bench = subprocess.Popen(
        [sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    with bench:
        assert bench.stdout is not None
        upstream = int(bench.stdout.readline())
        assert _running(upstream)
        bench.send_signal(wish)
        bench.wait(timeout=10)
    assert wait_until(lambda: not _running(upstream), 5)


def _running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_program_is_compiled_once_and_again_when_its_source_is_newer() -> None:
    program = programs.compiled("upstream")
    first = program.stat().st_mtime_ns
    assert programs.compiled("upstream").stat().st_mtime_ns == first
    os.utime(program, (time.time() - 1e8, time.time() - 1e8))
    assert programs.compiled("upstream").stat().st_mtime_ns >= first
