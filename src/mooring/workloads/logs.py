"""What a workload said and what became of it, in files that do not grow without end.

Each workload has a folder with one file per kind: what the server wrote on its standard error (`server`),
what we did with it (`events`), and which connections it was refused (`network`). A line is its time, a space
and the text. A full file becomes `<kind>.log.1`, that one `.2`, and the oldest is dropped.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, Literal, TypeAlias, get_args

from msgspec import Struct

Kind: TypeAlias = Literal["server", "events", "network"]
KINDS: Final[tuple[Kind, ...]] = get_args(Kind)
MAX_FILE_BYTES: Final = 5 * 1024**2
KEPT_FILES: Final = 3
"""Besides the one that is being written."""
MAX_LINE_BYTES: Final = 16 * 1024
_TIME: Final = "%Y-%m-%dT%H:%M:%S.%fZ"


class Line(Struct, frozen=True):
    """One line of a log."""

    time: str
    kind: Kind
    text: str


Watcher: TypeAlias = Callable[[Line], None]


class WorkloadLog:
    """The log of one workload: written here, read here, followed by watchers."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[Kind, tuple[int, int]] = {}
        self._rest = b""
        self._watchers: dict[Watcher, None] = {}

    # Writing

    def server_said(self, data: bytes) -> None:
        """Bytes of its standard error, cut anywhere."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        while len(self._rest) > MAX_LINE_BYTES:
            lines.append(self._rest[:MAX_LINE_BYTES])
            self._rest = self._rest[MAX_LINE_BYTES:]
        for line in lines:
            self._write("server", line.decode("utf-8", "replace").rstrip("\r"))

    def server_ended(self) -> None:
        """Its last line may lack an end."""
        if self._rest:
            self.server_said(b"\n")

    def happened(self, text: str) -> None:
        self._write("events", text)

    def refused(self, text: str) -> None:
        self._write("network", text)

    def _write(self, kind: Kind, text: str) -> None:
        text = text.replace("\n", "\\n")
        line = Line(datetime.now(UTC).strftime(_TIME), kind, text)
        # A full disk must not end the server whose words it cannot take.
        with contextlib.suppress(OSError):
            self._append(kind, f"{line.time} {text}\n".encode())
        for watcher in tuple(self._watchers):
            watcher(line)

    def _append(self, kind: Kind, data: bytes) -> None:
        descriptor, size = self._files.get(kind) or self._open(kind)
        if size + len(data) > MAX_FILE_BYTES and size:
            # Forgotten before anything can fail: its number may soon be that of another file.
            del self._files[kind]
            os.close(descriptor)
            self._rotate(kind)
            descriptor, size = self._open(kind)
        self._files[kind] = (descriptor, size + os.write(descriptor, data))

    def _open(self, kind: Kind) -> tuple[int, int]:
        self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_CLOEXEC", 0)
        descriptor = os.open(self._folder / f"{kind}.log", flags, 0o600)
        self._files[kind] = (descriptor, os.fstat(descriptor).st_size)
        return self._files[kind]

    def _rotate(self, kind: Kind) -> None:
        names = [f"{kind}.log", *(f"{kind}.log.{number}" for number in range(1, KEPT_FILES + 1))]
        for older, newer in zip(reversed(names), reversed(names[:-1]), strict=False):
            with contextlib.suppress(FileNotFoundError):
                (self._folder / newer).replace(self._folder / older)

    # Reading

    def tail(self, kinds: tuple[Kind, ...], count: int) -> list[Line]:
        """The last lines of these kinds, in the order of their times."""
        lines = [line for kind in kinds for line in self._tail(kind, count)]
        return sorted(lines, key=lambda line: line.time)[-count:] if count else []

    def last_words(self, within: float = 60) -> list[str]:
        """What the server said within the last minute, the last few lines of it; it says no more now."""
        self.server_ended()
        since = (datetime.now(UTC) - timedelta(seconds=within)).strftime(_TIME)
        return [line.text for line in self.tail(("server",), 3) if line.time >= since]

    def _tail(self, kind: Kind, count: int) -> list[Line]:
        found: list[str] = []
        for name in (f"{kind}.log", *(f"{kind}.log.{number}" for number in range(1, KEPT_FILES + 1))):
            if len(found) >= count:
                break
            try:
                text = (self._folder / name).read_text(encoding="utf-8", errors="replace")
            except FileNotFoundError:
                break
            found = text.split("\n")[:-1] + found
        parts = (line.partition(" ") for line in found[-count:])
        return [Line(time, kind, text) for time, _, text in parts]

    def watch(self, watcher: Watcher) -> None:
        self._watchers[watcher] = None

    def unwatch(self, watcher: Watcher) -> None:
        self._watchers.pop(watcher, None)

    # The end

    def close(self) -> None:
        for descriptor, _ in self._files.values():
            os.close(descriptor)
        self._files.clear()

    def remove(self) -> None:
        self.close()
        shutil.rmtree(self._folder, ignore_errors=True)
