"""Changing a client's file: under a lock, in one step, and only while it is as we read it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from mooring.durable import LockTimedOut, locked, replace_file
from mooring.ecosystem.documents.editing import DocumentError, Entry, Section, drop, put
from mooring.errors import MooringError

BOM = b"\xef\xbb\xbf"
# How often another program may write the file while we work on it.
TRIES = 20
# Claude Code keeps whole histories in its file; more than this is no configuration.
_LARGEST_FILE = 128 * 1024**2


class ClientFileError(MooringError):
    """The client's file cannot be read or changed; the message names it and the next step."""

    http_status = 422
    api_code = "client_file_unusable"


@dataclass(frozen=True, slots=True)
class Edit:
    """What is to change in a file: entries by name that come or go."""

    puts: dict[str, Entry] = field(default_factory=dict[str, Entry])
    drops: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.puts or self.drops)


@dataclass(frozen=True, slots=True)
class Step:
    """One change of bytes: at `start`, `removed` became `inserted`."""

    start: int
    removed: bytes
    inserted: bytes


@dataclass(frozen=True, slots=True)
class Change:
    """A file before and after; `before` is None where there was none."""

    path: Path
    before: bytes | None
    after: bytes
    steps: tuple[Step, ...]

    @property
    def is_empty(self) -> bool:
        return not self.steps


def read_bytes(path: Path) -> bytes | None:
    """The file's contents; None if there is no such file."""
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST_FILE + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ClientFileError(f"cannot read `{path}`: {(error.strerror or 'unreadable').lower()}") from error
    if len(data) > _LARGEST_FILE:
        raise ClientFileError(f"`{path}` is too large to be a configuration")
    return data


def read_text(path: Path) -> str:
    """The file as a text without its byte order mark; empty if there is no such file."""
    return _decoded(path, (read_bytes(path) or b"").removeprefix(BOM))


def preview(path: Path, section: Section, edit: Edit) -> Change:
    """What the edit would do to the file as it is now."""
    return _changed(path, read_bytes(path), section, edit)


def apply(
    path: Path, section: Section, edit: Edit, before_write: Callable[[Change], None] = lambda _: None
) -> Change:
    """Make the edit; `before_write` is told what will happen and may keep it for an undo."""
    return replace_if_same(path, lambda found: _changed(path, found, section, edit), before_write)


def replace_if_same(
    path: Path,
    change_of: Callable[[bytes | None], Change],
    before_write: Callable[[Change], None] = lambda _: None,
) -> Change:
    """Write what `change_of` makes of the file, once nobody changed it in between."""
    # A link points to where the person really keeps the file; it stays a link.
    target = path.resolve()
    with _prepared(path, target), _locked(path, target):
        for _ in range(TRIES):
            change = change_of(read_bytes(target))
            if change.is_empty:
                return change
            mode = _writable_mode(path, target)
            before_write(change)
            if read_bytes(target) == change.before:
                _write(path, target, change.after, mode)
                return change
    raise ClientFileError(f"another program keeps writing `{path}`: close the client and try again")


def digest(data: bytes | None) -> str:
    """A name for these contents; for no file, a name that no contents have."""
    return "absent" if data is None else hashlib.sha256(data).hexdigest()


def _changed(path: Path, before: bytes | None, section: Section, edit: Edit) -> Change:
    mark = BOM if (before or b"").startswith(BOM) else b""
    text = _decoded(path, (before or b"").removeprefix(BOM))
    steps: list[Step] = []
    for made in _texts(path, text, section, edit):
        step = _step(mark + text.encode(), mark + made.encode())
        if step is not None:
            steps.append(step)
        text = made
    return Change(path, before, mark + text.encode(), tuple(steps))


def _texts(path: Path, text: str, section: Section, edit: Edit) -> Iterator[str]:
    try:
        for name in edit.drops:
            text = drop(text, section, name)
            yield text
        for name, entry in edit.puts.items():
            text = put(text, section, name, entry)
            yield text
    except DocumentError as error:
        raise ClientFileError(f"`{path}` {error}; nothing was changed") from error


def _step(before: bytes, after: bytes) -> Step | None:
    if before == after:
        return None
    shorter = min(len(before), len(after))
    start = _longest(shorter, lambda length: before[:length] == after[:length])
    end = _longest(shorter - start, lambda length: before.endswith(after[len(after) - length :]))
    return Step(start, before[start : len(before) - end], after[start : len(after) - end])


def _longest(limit: int, fits: Callable[[int], bool]) -> int:
    """The largest length that fits, where every shorter one fits too."""
    low, high = 0, limit
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if fits(middle) else (low, middle - 1)
    return low


def _decoded(path: Path, data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ClientFileError(f"`{path}` is not UTF-8 text: save it as UTF-8, then try again") from error


def _writable_mode(path: Path, target: Path) -> int:
    try:
        mode = target.stat().st_mode & 0o7777
    except FileNotFoundError:
        return 0o600
    # The folder's rights decide whether a file can be replaced; whoever made it read-only meant the file.
    if not mode & 0o222 or not os.access(target, os.W_OK):
        raise ClientFileError(f"`{path}` is read-only: make it writable first (chmod u+w)")
    return mode


def _write(path: Path, target: Path, data: bytes, mode: int) -> None:
    owner = target.stat() if target.exists() else None
    try:
        replace_file(target, data, mode)
        if owner is not None and os.name == "posix" and os.geteuid() == 0:
            os.chown(target, owner.st_uid, owner.st_gid)
    except OSError as error:
        raise ClientFileError(f"cannot write `{path}`: {(error.strerror or 'refused').lower()}") from error


@contextmanager
def _prepared(path: Path, target: Path) -> Generator[None]:
    """The file's folder; what was made for a change that did not happen is taken away again."""
    missing = [folder for folder in (target.parent, *target.parent.parents) if not folder.exists()]
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ClientFileError(
            f"cannot make the folder of `{path}`: {(error.strerror or '').lower()}"
        ) from error
    try:
        yield
    finally:
        if not target.exists():
            for folder in missing:
                with suppress(OSError):
                    folder.rmdir()


@contextmanager
def _locked(path: Path, target: Path) -> Generator[None]:
    """The folder is the lock: no lock file is left among the client's own."""
    try:
        with locked(target.parent):
            yield
    except LockTimedOut as error:
        raise ClientFileError(f"another process is changing `{path}`: try again") from error
    except PermissionError as error:
        raise ClientFileError(f"cannot change `{path}`: {(error.strerror or 'refused').lower()}") from error
