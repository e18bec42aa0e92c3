"""Which package a text or a command names, which files a command needs, and which files are hidden."""

from __future__ import annotations

from pathlib import Path

import pytest

from mooring.workloads.ignore import is_hidden, read_patterns
from mooring.workloads.runtime import CannotRun, CommandSource, PackageSource, WorkloadSpec
from mooring.workloads.sandbox.program import readable_for
from mooring.workloads.sandbox_runtime import ProcessRuntime
from mooring.workloads.sources.naming import folder_name, parse_package
from mooring.workloads.sources.runners import package_of
from mooring.workloads.sources.tools import find_tool


@pytest.mark.parametrize(
    ("text", "source"),
    [
        ("npx://@scope/name@1.2.3", PackageSource("npx", "@scope/name", "1.2.3")),
        ("npx://name", PackageSource("npx", "name")),
        ("uvx://mcp-server-time@2025.1.1", PackageSource("uvx", "mcp-server-time", "2025.1.1")),
        (
            "go://github.com/owner/it@v1.0.0",
            PackageSource("go", "github.com/owner/it", "v1.0.0"),
        ),
        ("docker.io/library/x:1", None),
        ("https://example.com", None),
    ],
)
def test_a_package_is_named_by_its_scheme(text: str, source: PackageSource | None) -> None:
    assert parse_package(text) == source


@pytest.mark.parametrize(
    "text", ["npx://--global", "npx://../x", "uvx://-r", "uvx://x@--y", "npx://", "go://x"]
)
def test_a_name_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(CannotRun):
        parse_package(text)


def test_two_packages_never_share_a_folder() -> None:
    sources = [PackageSource("npx", "@a/b"), PackageSource("npx", "a_b"), PackageSource("npx", "a/b")]
    assert len({folder_name(source) for source in sources}) == 3


@pytest.mark.parametrize(
    ("argv", "package"),
    [
        (["npx", "-y", "@scope/name", "/srv"], (PackageSource("npx", "@scope/name"), ("/srv",))),
        (["/usr/bin/npx", "--yes", "name@1", "--flag"], (PackageSource("npx", "name", "1"), ("--flag",))),
        (["uvx", "mcp-server-git==1.0"], (PackageSource("uvx", "mcp-server-git", "1.0"), ())),
        (["uv", "tool", "run", "thing"], (PackageSource("uvx", "thing"), ())),
        (["npx", "-p", "a", "b"], None),
        (["uvx", "--from", "git+https://x", "y"], None),
        (["python", "server.py"], None),
    ],
)
def test_a_runner_of_packages_is_recognised(argv: list[str], package: object) -> None:
    assert package_of(argv) == package


def test_a_missing_tool_is_an_error_that_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(CannotRun, match="install Go"):
        find_tool("go", "install Go")


@pytest.mark.anyio
async def test_a_changed_script_has_another_identity(tmp_path: Path) -> None:
    script = tmp_path / "program/server.py"
    script.parent.mkdir()
    spec = WorkloadSpec("x", CommandSource(("/usr/bin/python3", str(script))))
    runtime = ProcessRuntime(tmp_path / "data")
    script.write_text("print(1)")
    first = await runtime.prepare(spec, lambda _: None)
    script.write_text("print(2)")
    second = await runtime.prepare(spec, lambda _: None)
    assert first.identity != second.identity


def test_a_script_brings_its_folder_and_its_environment(tmp_path: Path) -> None:
    home = tmp_path / "home"
    environment = home / "project/.venv"
    (environment / "bin").mkdir(parents=True)
    (environment / "bin/python").symlink_to("/usr/bin/python3")
    (environment / "pyvenv.cfg").write_text("home = /usr/bin\n")
    (home / "project/src").mkdir()
    (home / "project/src/server.py").touch()
    (home / "lonely.py").touch()

    def needed(script: str) -> tuple[Path, ...]:
        argv = [str(environment / "bin/python"), script]
        return readable_for(argv, path="/usr/bin", cwd=home / "project", home=home)

    assert set(needed("src/server.py")) == {environment, home / "project/src"}
    assert set(needed(str(home / "lonely.py"))) == {environment, home / "lonely.py"}, "never all of home"


def test_a_node_script_brings_its_project(tmp_path: Path) -> None:
    project = tmp_path / "home/project"
    (project / "build").mkdir(parents=True)
    (project / "build/index.js").touch()
    (project / "package.json").touch()
    found = readable_for(
        ["/usr/bin/env", "build/index.js"], path="/usr/bin", cwd=project, home=tmp_path / "home"
    )
    assert found == (project,)


@pytest.mark.parametrize(
    ("path", "is_folder", "hidden"),
    [
        (".env", False, True),
        ("deep/down/.env", False, True),
        ("keep.env", False, False),
        ("build", True, True),
        ("build", False, False),
        ("docs/secret", False, True),
        ("other/docs/secret", False, False),
        ("a/b/c.key", False, True),
        ("a/public.key", False, False),
        ("log1.txt", False, True),
        ("logs.txt", False, False),
    ],
)
def test_ignore_patterns_are_those_of_git(path: str, is_folder: bool, hidden: bool) -> None:
    patterns = read_patterns("# comment\n.env\nbuild/\n/docs/secret\n**/*.key\n!public.key\nlog[0-9].txt\n")
    assert is_hidden(path, patterns, is_folder=is_folder) is hidden
