"""Opening a file that a tool made, and nothing but that: no links, no devices, nothing outside the folder."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Final

MAX_FOUND: Final = 100
"""Files that one call may yield."""
FOLDER_FLAGS: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE_FLAGS: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


class NotCapturable(Exception):
    """There is something, but not an ordinary file of this workload."""


def open_confined(folder: Path, path: Path) -> int:
    """A descriptor of the regular file at `path`, which must be below `folder` without any link on the way.

    Every component is opened relative to the one before, so that nothing can be exchanged meanwhile.
    """
    try:
        parts = path.relative_to(folder).parts
    except ValueError:
        raise NotCapturable("it is outside the workload's own folder") from None
    if not parts or ".." in parts:
        raise NotCapturable("it is outside the workload's own folder")
    try:
        current = os.open(folder, FOLDER_FLAGS)
        device = os.fstat(current).st_dev
        for part in parts[:-1]:
            inner = os.open(part, FOLDER_FLAGS, dir_fd=current)
            os.close(current)
            current = inner
    except OSError as error:
        raise NotCapturable(f"its folder cannot be opened: {error.strerror}") from error
    try:
        descriptor = os.open(parts[-1], FILE_FLAGS, dir_fd=current)
    except OSError as error:
        raise NotCapturable(f"it cannot be opened: {error.strerror}") from error
    finally:
        os.close(current)
    try:
        _check(descriptor, device)
    except NotCapturable:
        os.close(descriptor)
        raise
    return descriptor


def _check(descriptor: int, device: int) -> None:
    found = os.fstat(descriptor)
    if not stat.S_ISREG(found.st_mode):
        raise NotCapturable("it is not a regular file")
    if found.st_nlink != 1:
        raise NotCapturable("it has other names: hard links are not captured")
    if found.st_dev != device:
        raise NotCapturable("it is on another file system")


def files_below(folder: Path) -> Iterator[Path]:
    """Ordinary files in a folder and its folders, one more than a call may yield if there are more; links are
    not even looked at."""
    found = 0
    for root, folders, names in os.walk(folder, followlinks=False):
        folders.sort()
        for name in sorted(names):
            path = Path(root) / name
            if path.is_symlink():
                continue
            yield path
            found += 1
            if found > MAX_FOUND:
                return
