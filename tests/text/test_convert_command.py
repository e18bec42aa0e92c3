"""`mooring convert` on files, pipes and streams of lines."""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mooring.interfaces.cli import convert as command
from mooring.interfaces.cli.failure import Failed
from mooring.text.tree import canonical, doc, node

from .hard_cases import p, panel

PAGE = doc(p("a *b*"), panel("info", p("c", node("mention", id="5"))))
RUN = """
import argparse, sys
from mooring.interfaces.cli import convert
from mooring.interfaces.cli.failure import Failed
parser = argparse.ArgumentParser()
convert.add_parser(parser.add_subparsers())
try:
    sys.exit(convert.run(parser.parse_args(["convert", *sys.argv[1:]])))
except Failed as error:
    sys.exit(f"error: {error}")
"""


def run(*words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", RUN, *words],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    command.add_parser(parser.add_subparsers())
    return parser.parse_args(["convert", *words])


def test_a_file_goes_there_and_back_through_pipes(tmp_path: Path) -> None:
    page = tmp_path / "page.json"
    page.write_text(json.dumps(PAGE))
    there = run("--from", "adf", "--to", "markdown", str(page))
    assert there.stdout.startswith("a \\*b\\*\n\n::: info\n")
    back = run("--from", "markdown", "--to", "adf", stdin=there.stdout)
    assert canonical(json.loads(back.stdout)) == canonical(PAGE)
    assert (there.returncode, back.returncode, there.stderr) == (0, 0, "")


def test_lines_are_converted_one_by_one_and_faults_stay_in_place() -> None:
    lines = [json.dumps(PAGE), '{"type": 1}', "nonsense", json.dumps(doc(p("x")))]
    done = run("--from", "adf", "--to", "markdown", "--jsonl", stdin="\n".join(lines) + "\n")
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert [sorted(each) for each in answers] == [["out", "report"], ["err"], ["err"], ["out", "report"]]
    assert answers[3] == {"out": "x\n", "report": []}
    assert done.returncode == 0


def test_strict_turns_loss_into_an_error_that_names_the_place(tmp_path: Path) -> None:
    page = tmp_path / "page.json"
    page.write_text(
        json.dumps(doc({**p("x"), "marks": [{"type": "alignment", "attrs": {"align": "center"}}]}))
    )
    done = run("--from", "adf", "--to", "markdown", "--dialect", "plain", "--strict", str(page))
    assert done.returncode == 1
    assert "content/0" in done.stderr
    assert "alignment" in done.stderr


def test_bad_input_is_an_error_with_its_position() -> None:
    done = run("--from", "adf", "--to", "markdown", stdin='{"type": "doc",\n oops}')
    assert done.returncode == 1
    assert "line 2, column 2" in done.stderr


def test_lenient_keeps_bad_input_visible() -> None:
    done = run("--from", "adf", "--to", "markdown", "--lenient", stdin="oops")
    assert done.stdout == "```json\noops\n```\n"


def test_users_give_mentions_their_names(tmp_path: Path) -> None:
    (tmp_path / "users.json").write_text('{"5": "Ann Lee"}')
    words = (
        "--from",
        "adf",
        "--to",
        "markdown",
        "--dialect",
        "plain",
        "--users",
        str(tmp_path / "users.json"),
    )
    assert "> [INFO] c@Ann Lee" in run(*words, stdin=json.dumps(PAGE)).stdout


def test_capture_keeps_input_and_output_verbatim(tmp_path: Path) -> None:
    source = json.dumps(PAGE, indent=3)
    done = run("--from", "adf", "--to", "markdown", "--capture", str(tmp_path / "kept"), stdin=source)
    kept = {each.name.partition(".")[2]: each.read_text() for each in (tmp_path / "kept").iterdir()}
    assert kept["input.json"] == source
    assert kept["output.md"] == done.stdout
    assert json.loads(kept["report.json"]) == []


def test_shrink_finds_the_smallest_part_that_breaks() -> None:
    page = doc(
        p("one"), p("two"), panel("info", p("three"), {**p("four"), "marks": [{"type": "x"}], "odd": 1})
    )
    exact = run("--from", "adf", "--to", "markdown", "--shrink", stdin=json.dumps(page))
    assert (exact.returncode, exact.stdout) == (0, "")
    plain = run("--from", "adf", "--to", "markdown", "--dialect", "plain", "--shrink", stdin=json.dumps(page))
    assert plain.returncode == 1
    smallest = json.loads(plain.stdout)
    assert len(json.dumps(smallest)) < 120


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(Failed, match=r"nothing\.json"):
        command.run(parsed("--from", "adf", "--to", "wiki", str(tmp_path / "nothing.json")))


def test_on_a_terminal_the_last_line_ends_and_in_a_pipe_nothing_is_added(tmp_path: Path) -> None:
    page = tmp_path / "page.json"
    page.write_text(json.dumps(PAGE))
    words = ("--from", "adf", "--to", "wiki", str(page))
    piped = run(*words).stdout
    assert not piped.endswith("\n")
    terminal, theirs = os.openpty()
    subprocess.run([sys.executable, "-c", RUN, *words], stdout=theirs, timeout=60, check=True)
    os.close(theirs)
    assert os.read(terminal, 65536).decode().replace("\r\n", "\n") == f"{piped}\n"
    os.close(terminal)
