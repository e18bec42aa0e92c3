"""Programs that only stand for others: the shims of pyenv, asdf, mise, volta and their like.

A shim asks its manager at every start which program is meant, by files all over a home that no sandbox shows.
So the manager is asked once, outside, and the program itself is run.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

from mooring.workloads.runtime import CannotRun

ASK_SECONDS: Final = 10.0
_BY_SCRIPT: Final = ("pyenv", "rbenv", "nodenv", "goenv", "asdf", "mise")
"""Managers whose shims are scripts that name them, in a folder called `shims`."""
_BY_LINK: Final = {"mise": "mise", "volta-shim": "volta"}
"""What a shim that is a link leads to -> who is asked."""
_HEAD_BYTES: Final = 2048


def behind_shim(program: Path, *, path: str, cwd: Path) -> Path:
    """The program that a shim stands for here; what is no shim is itself."""
    manager = _manager(program)
    if manager is None:
        return program
    asked = _asked(manager, program, path)
    try:
        answer = subprocess.run(  # noqa: S603 - the user's own manager, found where its shim is
            [*asked, "which", program.name],
            capture_output=True,
            text=True,
            cwd=cwd,
            timeout=ASK_SECONDS,
            check=False,
            stdin=subprocess.DEVNULL,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise CannotRun(f"`{program}` is a shim of {manager}, which cannot be asked: {error}") from error
    found = Path(answer.stdout.strip() or "/")
    if answer.returncode or not found.is_file():
        why = answer.stderr.strip().splitlines()[:1]
        raise CannotRun(
            f"`{program}` is a shim of {manager}, which names no program here "
            f"({''.join(why) or 'no answer'}): choose a version, or write the full path of the program"
        )
    return found.absolute()


def _manager(program: Path) -> str | None:
    real = program.resolve()
    if real != program and real.name in _BY_LINK:
        return _BY_LINK[real.name]
    if program.parent.name != "shims":
        return None
    try:
        with program.open("rb") as opened:
            head = opened.read(_HEAD_BYTES)
    except OSError:
        return None
    return next((name for name in _BY_SCRIPT if head.startswith(b"#!") and name.encode() in head), None)


def _asked(manager: str, program: Path, path: str) -> list[str]:
    """The manager's own command: beside its shims, or on the PATH."""
    real = program.resolve()
    beside = (real, real.with_name(manager), program.parent.parent / "bin" / manager)
    on_path = (Path(folder) / manager for folder in path.split(":") if folder)
    for file in (*beside, *on_path):
        if file.name == manager and file.is_file():
            return [str(file)]
    raise CannotRun(
        f"`{program}` is a shim of {manager}, and `{manager}` was not found: write the full path of the "
        "program"
    )
