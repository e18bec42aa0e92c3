"""Which files of this machine a command needs merely to run: interpreter, script folder, package folder."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from mooring.workloads.runtime import CannotRun

_SYSTEM: Final = tuple(Path(name) for name in ("/usr", "/bin", "/sbin", "/lib", "/lib64"))
_STORES: Final = (Path("/nix/store"), Path("/gnu/store"))
_PROJECT_MARKS: Final = ("package.json", "node_modules")
_SHEBANG_BYTES: Final = 512
_DEPTH: Final = 5  # a script whose interpreter is a script whose ...


def find_program(name: str, *, path: str, cwd: Path) -> Path:
    """The file a first word stands for, not resolved: a virtual environment is known by its links."""
    if "/" in name:
        found = (cwd / name).absolute()
        if not found.is_file():
            raise CannotRun(f"`{name}` does not exist or is not a file: check the path")
        return found
    where = shutil.which(name, path=path)
    if where is None:
        raise CannotRun(f"`{name}` was not found on PATH: install it, or write its full path")
    return Path(where).absolute()


def readable_for(argv: Sequence[str], *, path: str, cwd: Path, home: Path) -> tuple[Path, ...]:
    """What must be readable for this command to start: nothing twice, nothing that the system has anyway."""
    program = find_program(argv[0], path=path, cwd=cwd)
    found = [*_interpreters(program, path, home, _DEPTH)]
    if script := _script(argv[1:], cwd):
        found += _script_folder(script, home)
    return _outermost(found)


def _interpreters(program: Path, path: str, home: Path, depth: int) -> Iterator[Path]:
    """The program's installation, and those of the interpreters it names."""
    real = program.resolve()
    for file in (program, real):
        yield from _installation(file, home)
    if depth and (interpreter := _shebang(real, path)) is not None:
        yield from _interpreters(interpreter, path, home, depth - 1)


def _installation(file: Path, home: Path) -> Iterator[Path]:
    if any(file.is_relative_to(root) for root in _SYSTEM):
        return
    for store in _STORES:
        if file.is_relative_to(store):
            yield store  # what it needs is spread all over the store, which holds no secrets
            return
    root = file.parent.parent if file.parent.name in ("bin", "Scripts") else file.parent
    yield from _narrow(root, file, home)
    settings = root / "pyvenv.cfg"
    if settings.is_file():
        yield from _behind_environment(settings, home)


def _behind_environment(settings: Path, home: Path) -> Iterator[Path]:
    """A virtual environment is a shell around another Python."""
    for line in settings.read_text(errors="replace").splitlines():
        key, _, value = line.partition("=")
        if key.strip() == "home" and value.strip():
            folder = Path(value.strip())
            python = next(iter(sorted(folder.glob("python3*"))), folder / "python3")
            for file in {python, python.resolve()}:
                yield from _installation(file, home)


def _shebang(file: Path, path: str) -> Path | None:
    try:
        with file.open("rb") as opened:
            first = opened.read(_SHEBANG_BYTES).split(b"\n", 1)[0]
    except OSError:
        return None
    if not first.startswith(b"#!"):
        return None
    words = first[2:].decode(errors="replace").split()
    if words and Path(words[0]).name == "env":
        words = [word for word in words[1:] if not word.startswith("-") and "=" not in word]
    if not words:
        return None
    where = words[0] if "/" in words[0] else shutil.which(words[0], path=path)
    return Path(where) if where and Path(where).is_file() else None


def _script(arguments: Sequence[str], cwd: Path) -> Path | None:
    """The first word that is no option and is a file: `python server.py`, `node build/index.js`."""
    for word in arguments:
        if word in ("-c", "-m", "-e"):
            return None
        if not word.startswith("-"):
            file = cwd / word
            return file.absolute() if file.is_file() else None
    return None


def _script_folder(script: Path, home: Path) -> Iterator[Path]:
    """The folder of a script; for Node the project around it, whose packages lie further up, or the packages
    among which it is installed."""
    for file in {script, script.resolve()}:
        folder = file.parent
        if "node_modules" in folder.parts:
            yield Path(*folder.parts[: folder.parts.index("node_modules") + 1])
            continue
        for parent in (folder, *folder.parents):
            if parent == home or home.is_relative_to(parent):
                break
            if any((parent / mark).exists() for mark in _PROJECT_MARKS):
                folder = parent
                break
        yield from _narrow(folder, file, home)


def _narrow(folder: Path, file: Path, home: Path) -> Iterator[Path]:
    """The folder, unless that would be somebody's whole home or the like: then only the file."""
    too_wide = folder == home or home.is_relative_to(folder) or len(folder.parts) < 3
    too_wide = too_wide or folder in (home / ".local", home / ".config", home / ".cache")
    yield file if too_wide else folder


def _outermost(paths: list[Path]) -> tuple[Path, ...]:
    unique = sorted({path for path in paths if path.exists()}, key=lambda path: len(path.parts))
    kept: list[Path] = []
    for path in unique:
        if not any(path.is_relative_to(other) for other in (*kept, *_SYSTEM)):
            kept.append(path)
    return tuple(kept)
