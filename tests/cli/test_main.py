"""The command as a whole: start-up, usage errors, finding the gateway."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from mooring.interfaces.cli import output


def test_version_prints_the_version_and_nothing_else(alone: Any) -> None:
    done = alone("version")
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{version('mooring')}\n", "")


def test_the_flag_prints_it_too(alone: Any) -> None:
    assert alone("--version").stdout == f"{version('mooring')}\n"


def test_without_any_word_the_first_steps_fit_on_a_screen(alone: Any) -> None:
    done = alone()
    assert (done.returncode, done.stdout) == (2, "")
    lines = done.stderr.splitlines()
    assert len(lines) <= 22
    assert max(map(len, lines)) < 80
    assert lines[-1] == "all commands: mooring --help"
    for line in lines:
        if line.startswith("  mooring "):
            assert alone(line.split()[1], "--help").returncode == 0, line


@pytest.mark.parametrize(
    ("source", "told"),
    [
        (
            "./server.py",
            "`server.py` is no RunConfig (.json or .yaml): if it is a command, put it after `--`",
        ),
        ("server.json", "there is no file `server.json`"),
    ],
)
def test_a_path_is_not_taken_for_an_image(alone: Any, tmp_path: Path, source: str, told: str) -> None:
    (tmp_path / "server.py").touch()
    done = alone("run", source)
    assert (done.returncode, done.stderr) == (1, f"error: {told}\n")


def test_a_wrong_word_is_a_usage_error(alone: Any) -> None:
    done = alone("sereve")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: `sereve` is no command: did you mean `serve`?\nsee `mooring --help`\n"


@pytest.mark.parametrize(
    ("typed", "told"),
    [
        (
            ("run", "npx://x", "--naem", "y"),
            "there is no --naem: did you mean --name?\nsee `mooring run --help`",
        ),
        (("client", "stats"), "`stats` is no action: did you mean `status`?\nsee `mooring client --help`"),
        (("list", "--format", "jso"), "--format `jso`: did you mean `json`?\nsee `mooring list --help`"),
        (("logs", "x", "-n", "y"), "--lines `y` must be a whole number\nsee `mooring logs --help`"),
        (("logs", "x", "-n"), "--lines/-n needs a value\nsee `mooring logs --help`"),
        (
            ("serve", "--user", "--config", "x"),
            "--config cannot be given together with --user\nsee `mooring serve --help`",
        ),
        (("stop",), "say which: names, or --all, or --group GROUP"),
        (
            ("run", "https://"),
            "`https://` names no host: write for example `https://mcp.example.com/mcp`",
        ),
        (("upload", "x"), "give one of these: --to --server\nsee `mooring upload --help`"),
        (("list", "x"), "`x` is one word too many\nsee `mooring list --help`"),
        (("logs",), "NAME is missing\nsee `mooring logs --help`"),
        (
            ("group",),
            "ACTION is missing: there are `create`, `list`, `rm`, `move`\nsee `mooring group --help`",
        ),
    ],
)
def test_a_typo_is_told_what_was_meant(alone: Any, typed: tuple[str, ...], told: str) -> None:
    done = alone(*typed)
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"error: {told}\n")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_what_is_there_to_be_copied_is_never_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    monkeypatch.setenv("NO_COLOR", "1")
    handle = f"upload://sessions/{'a' * 32}/{'b' * 32}"
    shown = Terminal()
    output.print_table(("file", "size", "handle"), [["report.txt", "16 B", handle]], shown)
    assert shown.getvalue() == f"file        size  handle\nreport.txt  16 B\n    {handle}\n"


def test_only_rows_that_do_not_fit_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("NO_COLOR", "1")
    shown = Terminal()
    output.print_table(("id", "file"), [["a", "/short"], ["b", "/" + "long/" * 10]], shown)
    assert shown.getvalue() == f"id  file\na   /short\nb\n    /{'long/' * 10}\n"


def test_a_table_that_does_not_fit_becomes_lines_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("NO_COLOR", "1")
    shown = Terminal()
    output.print_table(
        ("name", "kind", "text"), [["a" * 30, "-", "one two three"], ["b", "npm", "four"]], shown
    )
    assert shown.getvalue() == f"{'a' * 30}\n    one two three\nb\n    kind: npm\n    four\n"


def test_columns_that_matter_least_make_room_for_a_line_per_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "30")
    monkeypatch.setenv("NO_COLOR", "1")
    heads, rows = ("id", "state", "kind", "calls", "url"), [["notes", "up", "process", "3", "http://x/notes"]]
    shown = Terminal()
    output.print_table(heads, rows, shown, least=("kind", "calls", "state"))
    assert shown.getvalue() == "id     state  url\nnotes  up     http://x/notes\n"
    monkeypatch.setenv("COLUMNS", "60")
    shown = Terminal()
    output.print_table(heads, rows, shown, least=("kind", "calls", "state"))
    assert "process" in shown.getvalue()


def test_only_what_is_needed_is_called_missing(alone: Any) -> None:
    assert alone("tool", "call").stderr.startswith("error: ID, NAME are missing\n")
    assert alone("tool", "list").stderr.startswith("error: ID is missing\n")
    assert alone("convert").stderr.startswith("error: --from, --to are missing\n")


def test_a_flag_cannot_be_shortened_into_another_one(alone: Any) -> None:
    assert alone("trace", "x", "--byte").returncode == 2


@pytest.mark.parametrize(
    "words",
    [("status",), ("trace", "x"), ("tool", "list", "x"), ("tool", "call", "x", "y"), ("proxy", "stdio", "x")],
)
def test_without_a_gateway_the_next_step_is_said(alone: Any, words: tuple[str, ...]) -> None:
    done = alone(*words)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: no gateway answers at `")
    assert "mooring serve --config FILE" in done.stderr


def test_a_data_directory_that_cannot_be_looked_into_is_an_error_of_one_line(alone: Any) -> None:
    alone.environment["XDG_DATA_HOME"] = f"/tmp/{'x' * 300}"
    for words in (("list",), ("secret", "list"), ("status",), ("client", "status"), ("run", "--", "cat")):
        done = alone(*words)
        assert (done.returncode, done.stdout) == (1, ""), words
        assert done.stderr.startswith("error: "), done.stderr
        assert "file name too long" in done.stderr
        assert len(done.stderr.splitlines()) == 1, done.stderr


def test_a_file_here_whose_gateway_does_not_run_is_named(gateway: Any, alone: Any, tmp_path: Path) -> None:
    (tmp_path / "mooring.yaml").write_text("mooring: 1\nstorage: {root: away}\n")
    done = alone("status")
    assert (done.returncode, done.stdout) == (1, "")
    assert "of `mooring.yaml` in this folder" in done.stderr
    assert "`mooring serve`" in done.stderr


def test_the_gateway_is_found_by_flag_variable_and_file(gateway: Any, alone: Any, tmp_path: Path) -> None:
    (tmp_path / "mooring.yaml").write_text("mooring: 1\nstorage: {root: .}\n")
    assert alone("status").returncode == 0
    (tmp_path / "mooring.yaml").rename(tmp_path / "other.yaml")
    assert alone("status").returncode == 1
    assert alone("status", "--config", "other.yaml").returncode == 0
    assert alone("status", "--socket", str(gateway.path)).returncode == 0
    assert alone("status", "--config", "nowhere.yaml").returncode == 1
    alone.environment["MOORING_SOCKET"] = str(gateway.path)
    assert alone("status").returncode == 0


def test_a_file_that_cannot_be_read_does_not_lead_to_another_gateway(alone: Any, tmp_path: Path) -> None:
    (tmp_path / "mooring.yaml").write_text("mooring: 1\nservers:\n  - id: a\n   b: c\n")
    done = alone("status")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: mooring.yaml: line 4, column 4: is not YAML: ")
    assert done.stderr.endswith("; mend it, or name the gateway's control socket with --socket\n")


def test_a_socket_in_a_very_deep_folder_is_reached(alone: Any, gateway: Any, tmp_path: Path) -> None:
    deep = tmp_path / ("d" * 120)
    deep.symlink_to(tmp_path)
    assert alone("status", "--socket", str(deep / gateway.path.name)).returncode == 0


@pytest.mark.parametrize("module", ["main", "proxy"])
def test_a_quick_command_does_not_load_what_it_does_not_need(module: str) -> None:
    code = f"import sys, mooring.interfaces.cli.{module}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=20
    )
    heavy = {"asyncio", "msgspec", "ruamel.yaml", "rich", "httptools", "cryptography", "email", "zstandard"}
    assert not heavy & set(done.stdout.split())


def test_version_loads_nothing_that_it_does_not_need() -> None:
    """What makes a command slow to start is what it imports."""
    program = (
        "import sys; from mooring.interfaces.cli.main import main; main(['version']); "
        "print(*sorted({name.split('.')[0] for name in sys.modules} & "
        "{'asyncio', 'cryptography', 'msgspec', 'rich', 'ruamel', 'ssl', 'uvloop'}), file=sys.stderr)"
    )
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr.strip()) == (0, "")


@pytest.mark.parametrize("words", [("version",), ("--help",)])
def test_little_output_into_a_closed_pipe_ends_quietly_too(alone: Any, words: tuple[str, ...]) -> None:
    """It is still in the buffer when the command is done."""
    reader, writer = os.pipe()
    os.close(reader)
    alone.environment.pop("PYTHONUNBUFFERED", None)
    done = subprocess.run(
        alone.arguments(*words),
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        env=alone.environment,
        timeout=20,
        check=False,
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, "")


def test_output_into_a_closed_pipe_ends_quietly(mooring: Any, gateway: Any) -> None:
    gateway.status["servers"] = [{"id": f"server-{n}", "state": "up", "url": "x" * 200} for n in range(2000)]
    command = " ".join(f"'{word}'" for word in mooring.arguments("status", "--format", "json"))
    done = subprocess.run(
        ["bash", "-c", f"{command} | head -n 1"],
        capture_output=True,
        text=True,
        env=mooring.environment,
        cwd=mooring.folder,
        timeout=20,
        check=False,
    )
    assert (done.stdout, done.stderr) == ("{\n", "")
