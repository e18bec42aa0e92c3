"""A shim of a version manager is asked once which program it stands for; that one runs in the sandbox.

The managers are stand-ins: scripts that answer `which NAME` as the real ones do.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.support.waiting import eventually
from tests.workloads.daemon import somebody

from mooring.workloads.runtime import CannotRun
from mooring.workloads.sources.commands import resolve_command
from mooring.workloads.sources.shims import behind_shim


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def interpreter(root: Path) -> Path:
    """A Python of its own under the manager's folder, as a copy of a prefix would be."""
    real = root / "versions" / "3.12.1" / "bin" / "python3"
    return script(real, 'exec /usr/bin/python3 "$@"')


def pyenv(root: Path, answer: str) -> Path:
    script(root / "bin" / "pyenv", f'[ "$1 $2" = "which python3" ] && {answer}')
    return script(root / "shims" / "python3", f'exec "{root}/libexec/pyenv" exec python3 "$@"')


def test_a_script_of_pyenv_is_the_interpreter_it_names(tmp_path: Path) -> None:
    real = interpreter(tmp_path)
    shim = pyenv(tmp_path, f"echo {real}")
    resolved = resolve_command((str(shim), "-V"), cwd=tmp_path, home=tmp_path / "home")
    assert resolved.argv == (str(real), "-V")
    assert str(real.parent.parent) in resolved.readable


def test_links_of_volta_and_mise_are_followed_by_asking_them(tmp_path: Path) -> None:
    real = script(tmp_path / "node" / "bin" / "node", "exit 0")
    for target, manager in (("volta-shim", "volta"), ("mise", "mise")):
        folder = tmp_path / manager / "bin"
        script(folder / manager, f'[ "$1 $2" = "which node" ] && echo {real}')
        if target != manager:
            script(folder / target, "exit 1")
        shim = tmp_path / manager / "shims" / "node"
        shim.parent.mkdir()
        shim.symlink_to(folder / target)
        assert behind_shim(shim, path="/usr/bin", cwd=tmp_path) == real


def test_what_is_no_shim_is_itself(tmp_path: Path) -> None:
    program = script(tmp_path / "shims" / "mine", "exit 0")
    assert behind_shim(program, path="/usr/bin", cwd=tmp_path) == program


def test_a_shim_that_leads_nowhere_is_said(tmp_path: Path) -> None:
    shim = pyenv(tmp_path, "{ echo 'python3: command not found' >&2; exit 127; }")
    with pytest.raises(CannotRun, match=r"here .python3: command not found.: choose"):
        behind_shim(shim, path="/usr/bin", cwd=tmp_path)
    (tmp_path / "bin" / "pyenv").unlink()
    with pytest.raises(CannotRun, match="`pyenv` was not found: write the full path"):
        behind_shim(shim, path="/nowhere", cwd=tmp_path)


@pytest.mark.e2e
def test_a_server_behind_a_shim_runs_in_the_sandbox(tmp_path: Path) -> None:
    root = tmp_path / "pyenv"
    pyenv(root, f"echo {interpreter(root)}")
    server = Path(__file__).parents[2] / "examples" / "notes_server.py"
    with somebody(tmp_path) as person:
        person.environment["PATH"] = f"{root / 'shims'}:{os.environ['PATH']}"
        person("run", "--name", "notes", "--", "python3", str(server))
        eventually(lambda: person.status("notes") == "running", "the server to run")
        assert "note" in person("tool", "list", "notes").stdout
