"""A program that is already on this machine."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Final

from mooring.workloads.runtime import CannotRun, Resolved
from mooring.workloads.sandbox.program import find_program, readable_for
from mooring.workloads.sources.shims import behind_shim

_CHUNK_BYTES: Final = 1024 * 1024


def resolve_command(argv: tuple[str, ...], *, cwd: Path, home: Path) -> Resolved:
    """Find the program and what it needs; its integrity is the hash of its file, or of the script it runs."""
    if not argv or not argv[0]:
        raise CannotRun("the command is empty: give the program as its first word")
    path = os.environ.get("PATH", os.defpath)
    program = behind_shim(find_program(argv[0], path=path, cwd=cwd), path=path, cwd=cwd)
    if not os.access(program, os.X_OK):
        raise CannotRun(f"`{argv[0]}` is not executable: run `chmod +x` on it, or name its interpreter")
    words = [str(cwd / word) for word in argv[1:2] if (cwd / word).is_file()]
    return Resolved(
        argv=(str(program), *argv[1:]),
        readable=tuple(
            str(file) for file in readable_for((str(program), *argv[1:]), path=path, cwd=cwd, home=home)
        ),
        integrity=f"sha256:{_digest(Path(words[0]) if words else program)}",
    )


def _digest(file: Path) -> str:
    digest = hashlib.sha256()
    with file.open("rb") as opened:
        while data := opened.read(_CHUNK_BYTES):
            digest.update(data)
    return digest.hexdigest()
