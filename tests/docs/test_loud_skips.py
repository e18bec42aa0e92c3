"""What could not be set up is said in one loud last line; in CI it is a failure."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

CONFTEST = Path(__file__).parents[1] / "conftest.py"
TESTS = """
import pytest

def test_a():
    pytest.skip("no npm here: install Node.js")

def test_b():
    pytest.skip("no npm here: install Node.js")

def test_c():
    assert True
"""


def run(folder: Path, ci: str) -> subprocess.CompletedProcess[str]:
    shutil.copy(CONFTEST, folder)
    (folder / "test_some.py").write_text(TESTS)
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "--rootdir",
        str(folder),
        str(folder),
    ]
    environment = {**os.environ, "CI": ci}
    return subprocess.run(
        command, capture_output=True, text=True, cwd=folder, env=environment, timeout=60, check=False
    )


def test_a_skip_is_named_once_at_the_end_and_does_not_fail_a_person_s_run(tmp_path: Path) -> None:
    done = run(tmp_path, "")
    assert done.returncode == 0
    assert (
        done.stdout.count("NOT TESTED ON THIS MACHINE (the rest was tested): no npm here: install Node.js")
        == 1
    )


def test_a_skip_fails_in_ci(tmp_path: Path) -> None:
    done = run(tmp_path, "true")
    assert done.returncode == 6, "not 1, which `make test` would try again"
    assert "NOT TESTED ON THIS MACHINE (a failure, because CI=true): no npm here" in done.stdout
