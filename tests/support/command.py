"""`mooring` as a process with a home of its own, away from whoever runs the tests."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

from mooring.interfaces.cli.main import main

ROOT = Path(__file__).parents[2]
LIMIT_SECONDS = 30
# What a client, a keyring or another tool might have set for the person at this machine.
_FOREIGN = ("MOORING_", "XDG_", "APPDATA", "OP_", "PYTHON_KEYRING", "DBUS_")


class _Captured(io.TextIOWrapper):
    """A stream that keeps what was written to it."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", newline="\n", write_through=True)

    @property
    def text(self) -> str:
        kept = self.buffer
        assert isinstance(kept, io.BytesIO)
        return kept.getvalue().decode()


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
        """Run the command in this process: a process of its own costs a second."""
        output, errors = _Captured(), _Captured()
        typed = stdin.encode() if isinstance(stdin, str) else stdin
        old = (sys.stdin, sys.stdout, sys.stderr, Path.cwd(), dict(os.environ))
        sys.stdin, sys.stdout, sys.stderr = io.TextIOWrapper(io.BytesIO(typed)), output, errors
        os.environ.clear()
        os.environ.update(self.environment)
        os.chdir(cwd or self.home)
        try:
            code = main(list(words))
        except SystemExit as error:
            code = int(error.code or 0)
        finally:
            sys.stdin, sys.stdout, sys.stderr = old[:3]
            os.chdir(old[3])
            os.environ.clear()
            os.environ.update(old[4])
        return subprocess.CompletedProcess(self.arguments(*words), code, output.text, errors.text)

    def process(
        self, *words: str, stdin: str | bytes = "", cwd: Path | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run the command as a process of its own."""
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
