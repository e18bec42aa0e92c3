"""Files that stay hidden inside mounted folders: `.mooringignore`, or `.thvignore` as ToolHive calls it.

The patterns are git's: `#` comments, `!` to show again, `/` at the start for the folder itself, `/` at the
end for folders only, `*`, `?`, `[...]` and `**`. The last pattern that matches decides.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mooring.workloads.runtime import CannotRun, MountPoint

NAMES: Final = (".mooringignore", ".thvignore")
MAX_ENTRIES: Final = 200_000
"""How many files of a folder are looked at; a larger one needs a narrower mount."""


class TooManyFiles(CannotRun):
    """A mounted folder has more files than can be looked through."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """One line of such a file."""

    matches: re.Pattern[str]
    shows: bool
    folders_only: bool


def read_patterns(text: str) -> tuple[Pattern, ...]:
    """The patterns of a file, in order."""
    lines = (line.rstrip("\n").rstrip() for line in text.splitlines())
    return tuple(_pattern(line) for line in lines if line and not line.startswith("#"))


def hidden_below(
    mounts: Iterable[MountPoint], everywhere: Path | None = None, *, globally: bool = True
) -> list[Path]:
    """What is hidden in mounted folders: by what lies in them, and by the patterns of one file for all."""
    file = everywhere or _global_file()
    patterns = read_patterns(file.read_text("utf-8")) if globally and file.is_file() else ()
    folders = (mount.host.resolve() for mount in mounts if mount.host.is_dir())
    return [path for folder in folders for path in hidden_in(folder, patterns)]


def _global_file() -> Path:
    """Patterns that hide files in every mounted folder."""
    folder = os.environ.get("XDG_CONFIG_HOME") or str(Path(os.environ.get("HOME") or "/") / ".config")
    return Path(folder) / "mooring/mooringignore"


def hidden_in(folder: Path, everywhere: Iterable[Pattern] = ()) -> tuple[Path, ...]:
    """What is hidden in a mounted folder: its ignore file, what that names, and what `everywhere` names."""
    own = [folder / name for name in NAMES if (folder / name).is_file()]
    patterns = (*everywhere, *(found for file in own for found in read_patterns(file.read_text("utf-8"))))
    if not patterns:
        return tuple(own)
    return (*own, *(path for path in _walk(folder, patterns) if path not in own))


def _walk(root: Path, patterns: tuple[Pattern, ...]) -> Iterator[Path]:
    count = 0
    folders = [root]
    while folders:
        folder = folders.pop()
        try:
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            continue  # what we cannot read, the workload cannot either
        for entry in entries:
            count += 1
            if count > MAX_ENTRIES:
                raise TooManyFiles(f"`{root}` has more than {MAX_ENTRIES} files: mount a smaller folder")
            path = Path(entry.path)
            is_folder = entry.is_dir(follow_symlinks=False)
            if is_hidden(path.relative_to(root).as_posix(), patterns, is_folder=is_folder):
                if not entry.is_symlink():  # nothing can be mounted on a link, and what it leads to is hidden
                    yield path
            elif is_folder:
                folders.append(path)


def is_hidden(path: str, patterns: Iterable[Pattern], *, is_folder: bool) -> bool:
    """Whether the patterns hide this path, relative to the folder they were written for."""
    hidden = False
    for pattern in patterns:
        if (is_folder or not pattern.folders_only) and pattern.matches.fullmatch(path):
            hidden = not pattern.shows
    return hidden


def _pattern(line: str) -> Pattern:
    shows = line.startswith("!")
    text = line[1:] if shows else line.removeprefix("\\")
    folders_only = text.endswith("/")
    text = text.rstrip("/")
    anchored = "/" in text
    body = _expression(text.lstrip("/"))
    return Pattern(re.compile(body if anchored else f"(?:.*/)?{body}"), shows, folders_only)


def _expression(glob: str) -> str:
    """A git pattern as a regular expression over a path with `/` between its parts."""
    out, index = "", 0
    while index < len(glob):
        rest = glob[index:]
        if rest.startswith("**/"):
            out, index = out + "(?:.*/)?", index + 3
        elif rest.startswith("**"):
            out, index = out + ".*", index + 2
        elif rest[0] == "*":
            out, index = out + "[^/]*", index + 1
        elif rest[0] == "?":
            out, index = out + "[^/]", index + 1
        elif rest[0] == "[" and (end := rest.find("]", 2)) > 0:
            inner = rest[1:end].replace("\\", "\\\\").replace("[", "\\[")
            inner = f"^{inner[1:]}" if inner.startswith("!") else inner
            out, index = out + f"(?!/)[{inner}]", index + end + 1
        else:
            skipped = rest[0] == "\\" and len(rest) > 1
            out, index = out + re.escape(rest[1] if skipped else rest[0]), index + (2 if skipped else 1)
    return out
