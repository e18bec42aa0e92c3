"""`mooring` as a process with a home of its own, away from whoever runs the tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIMIT_SECONDS = 30
# What a client, a keyring or another tool might have set for the person at this machine.
_FOREIGN = ("MOORING_", "XDG_", "APPDATA", "OP_", "PYTHON_KEYRING", "DBUS_")


class Command:
    """Runs `mooring`; the home folder is `home`."""

    def __init__(self, home: Path) -> None:
        self.home = home
        home.mkdir(parents=True, exist_ok=True)
        kept = {key: value for key, value in os.environ.items() if not key.startswith(_FOREIGN)}
        self.environment = {
            **kept,
            "HOME": str(home),
            "NO_COLOR": "1",
            "PYTHONPATH": str(ROOT),
            "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring",
        }

    @property
    def data(self) -> Path:
        return self.home / ".local" / "share" / "mooring"

    def arguments(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "mooring.interfaces.cli.main", *words]

    def __call__(
        self, *words: str, stdin: str | bytes = "", cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            self.arguments(*words),
            input=stdin.encode() if isinstance(stdin, str) else stdin,
            capture_output=True,
            cwd=cwd or self.home,
            env=self.environment,
            timeout=LIMIT_SECONDS,
            check=False,
        )
        return subprocess.CompletedProcess(
            done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
        )

    def ok(self, *words: str, stdin: str | bytes = "", cwd: Path | None = None) -> str:
        """The output of a command that must succeed."""
        done = self(*words, stdin=stdin, cwd=cwd)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def refusal(self, *words: str, stdin: str | bytes = "", cwd: Path | None = None) -> str:
        """What a command that must fail says."""
        done = self(*words, stdin=stdin, cwd=cwd)
        assert done.returncode == 1, (done.returncode, done.stdout, done.stderr)
        assert done.stdout == ""
        return done.stderr
