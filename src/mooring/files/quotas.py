"""How much is kept, by whom: counted as bytes come and go, never by looking at the disk."""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from dataclasses import dataclass

from mooring.files.faults import NoRoom, TooLarge, TooMany
from mooring.files.handles import Kind


@dataclass(frozen=True, slots=True)
class Quotas:
    """Limits in bytes and numbers; None is no limit."""

    total_bytes: int | None = None
    server_bytes: int | None = None
    scope_bytes: int | None = None
    files_per_scope: int | None = None
    """Bytes alone do not limit files that have none."""
    artifacts_per_scope: int | None = None
    writes_per_scope: int = 8
    """Files that one scope may be sending at the same time."""
    writes: int = 256


class Usage:
    """The counters. What is being written counts from its first byte, so that many together cannot pass."""

    def __init__(self, quotas: Quotas) -> None:
        self.quotas = quotas
        self.total = 0
        self.by_server: defaultdict[str, int] = defaultdict(int)
        self.by_scope: defaultdict[str, int] = defaultdict(int)
        self.files: Counter[str] = Counter()
        self.artifacts: Counter[str] = Counter()
        self.writing: defaultdict[str, int] = defaultdict(int)
        self.writing_in_all = 0
        self._turn = threading.RLock()

    def add(self, scope: str, server: str, size: int) -> None:
        """Count some bytes, or refuse them and count nothing. From any thread."""
        with self._turn:
            self._add(scope, server, size)

    def _add(self, scope: str, server: str, size: int) -> None:
        quotas = self.quotas
        if quotas.scope_bytes is not None and self.by_scope.get(scope, 0) + size > quotas.scope_bytes:
            raise NoRoom(
                f"this session may keep {in_words(quotas.scope_bytes)} in all: "
                "wait until older files expire, or end the session"
            )
        if quotas.server_bytes is not None and self.by_server.get(server, 0) + size > quotas.server_bytes:
            raise NoRoom(f"`{server}` may keep {in_words(quotas.server_bytes)} in all: try again later")
        if quotas.total_bytes is not None and self.total + size > quotas.total_bytes:
            raise NoRoom(f"the gateway may keep {in_words(quotas.total_bytes)} in all: try again later")
        self.total += size
        self.by_server[server] += size
        self.by_scope[scope] += size

    def remove(self, scope: str, server: str, size: int) -> None:
        with self._turn:
            self.total -= size
            self.by_server[server] -= size
            self.by_scope[scope] -= size
            if self.by_scope[scope] <= 0 and scope not in self.files:
                del self.by_scope[scope]

    def add_file(self, kind: Kind, scope: str, server: str, size: int) -> None:
        """Count a file with as many bytes as are known of it, or refuse it and count nothing."""
        quotas = self.quotas
        with self._turn:
            _refuse_more("files", self.files[scope], quotas.files_per_scope)
            if kind == "artifact":
                _refuse_more("artifacts", self.artifacts[scope], quotas.artifacts_per_scope)
            self._add(scope, server, size)
            self._count(kind, scope, 1)

    def remove_file(self, kind: Kind, scope: str, server: str, size: int) -> None:
        """A file is gone, and all the bytes that were counted of it."""
        with self._turn:
            self._count(kind, scope, -1)
            self.remove(scope, server, size)

    def add_artifact(self, scope: str, server: str, size: int) -> None:
        self.add_file("artifact", scope, server, size)

    def remove_artifact(self, scope: str, server: str, size: int) -> None:
        self.remove_file("artifact", scope, server, size)

    def load(self, scope: str, server: str, kind: Kind, size: int, count: int) -> None:
        """What was already there when we started; limits do not apply to it."""
        self.total += size
        self.by_server[server] += size
        self.by_scope[scope] += size
        self._count(kind, scope, count)

    def _count(self, kind: Kind, scope: str, number: int) -> None:
        for counted in (self.files, self.artifacts) if kind == "artifact" else (self.files,):
            counted[scope] += number
            if counted[scope] <= 0:
                del counted[scope]

    def begin(self, scope: str) -> None:
        """One more file is being written."""
        if self.writing.get(scope, 0) >= self.quotas.writes_per_scope:
            raise TooMany(
                f"this session is sending {self.quotas.writes_per_scope} files already: wait for one to end"
            )
        if self.writing_in_all >= self.quotas.writes:
            raise TooMany("too many files are being sent to the gateway: try again in a moment")
        self.writing[scope] += 1
        self.writing_in_all += 1

    def end(self, scope: str) -> None:
        self.writing_in_all -= 1
        self.writing[scope] -= 1
        if self.writing[scope] <= 0:
            del self.writing[scope]


def _refuse_more(what: str, kept: int, limit: int | None) -> None:
    if limit is not None and kept >= limit:
        next_step = "wait until older ones expire, or end the session"
        raise NoRoom(f"this session may keep {limit:,} {what} at most: {next_step}")


def too_large(limit: int) -> TooLarge:
    return TooLarge(f"a file may have at most {in_words(limit)} here: a smaller one is needed")


def in_words(size: int) -> str:
    """A number of bytes as it stands in a configuration, for people."""
    for power, unit in ((4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB")):
        if size and size % 1024**power == 0:
            return f"{size // 1024**power} {unit}"
    return f"{size:,} bytes"
