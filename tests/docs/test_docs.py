"""The documents say what is true: links lead somewhere, examples load, and commands run."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from mooring.config import reference as configuration_page
from mooring.config.loading import load_with_notes
from mooring.interfaces.cli import reference as commands_page

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", *DOCS.rglob("*.md")])
README = (ROOT / "README.md").read_text(encoding="utf-8")
LIMIT_SECONDS = 30
# Written by `make conformance` and `make bench`, which are others' business.
GENERATED_ELSEWHERE = {DOCS / "conformance.md", DOCS / "performance.md"}


def blocks(page: Path, language: str) -> list[str]:
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)


def examples(language: str) -> list[object]:
    return [
        pytest.param(block, id=f"{page.relative_to(ROOT)}-{index}")
        for page in PAGES
        for index, block in enumerate(blocks(page, language))
    ]


def test_the_pages_of_reference_are_what_the_program_says() -> None:
    advice = "run `make fix`, which writes the page anew"
    assert (DOCS / "reference/commands.md").read_text(encoding="utf-8") == commands_page.render(), advice
    assert (DOCS / "reference/configuration.md").read_text(encoding="utf-8") == configuration_page.render(), (
        advice
    )


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
    paths = [(page.parent / target).resolve() for target in targets if not re.match(r"[a-z]+:", target)]
    missing = [path for path in paths if not path.exists() and path not in GENERATED_ELSEWHERE]
    assert missing == []


@pytest.mark.parametrize("block", examples("yaml"))
def test_every_yaml_example_is_a_valid_configuration(tmp_path: Path, block: str) -> None:
    file = tmp_path / "mooring.yaml"
    file.write_text(block if "mooring: 1" in block else f"mooring: 1\n{block}")
    (tmp_path / "policies.cedar").write_text("permit(principal, action, resource);")
    assert load_with_notes(file, environment={"SEARCH_TOKEN": "x", "CORP_SECRET": "x"}).config.mooring == 1


@pytest.mark.parametrize("block", examples("json"))
def test_every_json_example_is_a_client_s_file(tmp_path: Path, block: str) -> None:
    file = tmp_path / "mcp.json"
    file.write_text(block)
    assert len(load_with_notes(file, environment={"TOKEN": "x"}).config.servers) == len(
        json.loads(block)["mcpServers"]
    )


def test_the_demo_and_when_to_use_it_stand_in_the_first_forty_lines() -> None:
    opening = "\n".join(README.splitlines()[:40])
    for part in ("**Use it when**", "**Do not use it when**", "make demo", "tool call"):
        assert part in opening
    assert "make test" in README


def test_every_make_target_in_the_readme_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in set(re.findall(r"make ([a-z]+)`", README)):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_in_a_document_is_one_the_program_knows(page: Path) -> None:
    from mooring.interfaces.cli.main import build_parser

    text = page.read_text(encoding="utf-8")
    for line in re.findall(r"^(?:\.venv/bin/)?(mooring .*)$", "\n".join(blocks(page, "sh")), re.MULTILINE):
        build_parser().parse_args(shlex.split(line, comments=True)[1:])
    for words in re.findall(r"`mooring ([a-z]+)", text):
        with pytest.raises(SystemExit) as ended:
            build_parser().parse_args([words, "--help"])
        assert ended.value.code == 0, words


@dataclass(frozen=True)
class Demo:
    environment: dict[str, str]
    """What its commands need."""
    said: list[str]
    """What stands in its terminal when it is ready, with `data` for the folder of its data."""


@contextmanager
def running_demo(data: Path, *words: str) -> Iterator[Demo]:
    """`make demo` without make, with data of its own."""
    environment = {**os.environ, "DEMO_DATA": str(data)}
    environment.pop("MOORING_SOCKET", None)
    command = [sys.executable, "scripts/demo.py", *words]
    file = data / "said"
    with (
        file.open("wb") as said,
        subprocess.Popen(command, cwd=ROOT, env=environment, stdout=said, stderr=said) as process,
    ):
        deadline = time.monotonic() + LIMIT_SECONDS
        while "Ctrl-C" not in file.read_text() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        try:
            yield Demo(environment, file.read_text().replace(str(data), "data").splitlines())
        finally:
            process.send_signal(signal.SIGINT)
            assert process.wait(LIMIT_SECONDS) == 0
            assert not (data / "mooring.sock").exists()


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Demo]:
    with running_demo(tmp_path_factory.mktemp("d"), "--listen", "127.0.0.1:0") as found:
        yield found


@pytest.mark.e2e
def test_the_demo_shows_addresses_snippet_and_what_to_do_on_a_small_terminal(demo: Demo) -> None:
    screen = demo.said[-(24 - 1) :]  # the cursor stands on the last line
    assert max(map(len, screen)) <= 80
    snippet = "\n".join(screen[screen.index("{") : screen.index("}") + 1])
    servers = json.loads(snippet)["mcpServers"]
    assert servers.keys() >= {"notes", "clock", "library", "weather"}, "one of each kind of server"
    assert servers.keys() >= {"pages", "garden"}, "servers written with `mooring.authoring`"
    assert all(server["url"].startswith("http://127.0.0.1:") for server in servers.values())
    assert screen[-1] == "Ctrl-C here stops everything"


@pytest.mark.e2e
def test_the_commands_that_the_demo_shows_run(demo: Demo) -> None:
    lines = [line.strip() for line in demo.said[demo.said.index("}") :] if line.startswith("  ")]
    assert len(lines) >= 4
    # A poster of the test is not for the folder of whoever runs the tests.
    script = "\n".join(lines).replace("data", demo.environment["DEMO_DATA"])
    done = subprocess.run(
        ["sh"],
        input=f"set -e\n{script} --no-follow\n",
        cwd=ROOT,
        env=demo.environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        check=False,
    )
    assert (done.returncode, lines[-1]) == (0, "mooring trace library"), done.stderr


@pytest.mark.e2e
def test_the_demo_goes_elsewhere_where_its_port_is_taken(tmp_path: Path) -> None:
    with ExitStack() as stack:
        with suppress(OSError):  # then somebody else has it, which will do
            stack.enter_context(socket.create_server(("127.0.0.1", 7433)))
        found = stack.enter_context(running_demo(tmp_path))
        assert re.search(r"is ready at http://127\.0\.0\.1:(?!7433)\d+$", found.said[0])


def commands_of_the_readme() -> list[str]:
    lines = "\n".join(blocks(ROOT / "README.md", "sh")).splitlines()
    return [line for line in lines if line.startswith(".venv/bin/mooring ")]


@pytest.mark.e2e
@pytest.mark.parametrize("line", commands_of_the_readme())
def test_the_commands_of_the_readme_run(demo: Demo, line: str) -> None:
    words = shlex.split(line, comments=True)[1:]
    if words[0] == "trace":
        words.append("--no-follow")
    done = subprocess.run(
        [sys.executable, "-m", "mooring.interfaces.cli.main", *words],
        cwd=ROOT,
        env=demo.environment,
        capture_output=True,
        text=True,
        timeout=LIMIT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout or words[0] == "trace"


def test_the_readme_has_commands_to_run() -> None:
    assert len(commands_of_the_readme()) >= 4
