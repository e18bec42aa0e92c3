"""The second wall alone, without the mounts before it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mooring.workloads.sandbox.launcher import LIST, READ, WRITE, landlock_version

pytestmark = pytest.mark.skipif(landlock_version() < 1, reason="this kernel has no Landlock")
PROBE = """
import json, sys
from pathlib import Path
from mooring.workloads.sandbox.launcher import lock_in

rules, folder = json.loads(sys.argv[1]), Path(sys.argv[2])
lock_in([(path, level) for path, level in rules])

def attempt(action):
    try:
        action()
    except OSError as error:
        return type(error).__name__
    return "done"

print(json.dumps({
    "read secret": attempt((folder / "secret/key").read_text),
    "read shown": attempt((folder / "shown/a.txt").read_text),
    "write shown": attempt(lambda: (folder / "shown/b.txt").write_text("x")),
    "write work": attempt(lambda: (folder / "work/b.txt").write_text("x")),
    "list": attempt(lambda: list(folder.iterdir())),
}))
"""


def test_only_the_named_paths_can_be_read_or_written(tmp_path: Path) -> None:
    for name in ("secret/key", "shown/a.txt", "work/a.txt"):
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text("text")
    rules = [("/", LIST), (str(tmp_path / "shown"), READ), (str(tmp_path / "work"), WRITE)]
    done = subprocess.run(
        [sys.executable, "-c", PROBE, json.dumps(rules), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert json.loads(done.stdout) == {
        "read secret": "PermissionError",
        "read shown": "done",
        "write shown": "PermissionError",
        "write work": "done",
        "list": "done",
    }
