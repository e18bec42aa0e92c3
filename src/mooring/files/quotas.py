"""How much is kept, by whom: counted as bytes come and go, never by looking at the disk."""

from __future__ import annotations

import threading
from collections import defaultdict
from dataclasses import dataclass

from mooring.files.faults import NoRoom, TooLarge, TooMany


@dataclass(frozen=True, slots=True)
class Quotas:
    """Limits in bytes and numbers; None is no limit."""

    total_bytes: int | None = None
    server_bytes: int | None = None
    scope_bytes: int | None = None
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
        self.artifacts: defaultdict[str, int] = defaultdict(int)
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
            if self.by_scope[scope] <= 0:
                del self.by_scope[scope]

    def add_artifact(self, scope: str, server: str, size: int) -> None:
        """Count a whole artifact, or refuse it and count nothing."""
        with self._turn:
            self.count_artifact(scope)
            try:
                self._add(scope, server, size)
            except NoRoom:
                self.forget_artifact(scope)
                raise

    def remove_artifact(self, scope: str, server: str, size: int) -> None:
        self.remove(scope, server, size)
        self.forget_artifact(scope)

    def load(self, scope: str, server: str, kind: str, size: int, count: int) -> None:
        """What was already there when we started; limits do not apply to it."""
        self.total += size
        self.by_server[server] += size
        self.by_scope[scope] += size
        if kind == "artifact":
            self.artifacts[scope] += count

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

    def count_artifact(self, scope: str) -> None:
        limit = self.quotas.artifacts_per_scope
        with self._turn:
            if limit is not None and self.artifacts.get(scope, 0) >= limit:
                raise NoRoom(f"this session has {limit} artifacts, which is all it may have")
            self.artifacts[scope] += 1

    def forget_artifact(self, scope: str) -> None:
        with self._turn:
            self.artifacts[scope] -= 1
            if self.artifacts[scope] <= 0:
                del self.artifacts[scope]


def too_large(limit: int) -> TooLarge:
    return TooLarge(f"a file may have at most {in_words(limit)} here: a smaller one is needed")


def in_words(size: int) -> str:
    """A number of bytes as it stands in a configuration, for people."""
    for power, unit in ((4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB")):
        if size and size % 1024**power == 0:
            return f"{size // 1024**power} {unit}"
    return f"{size:,} bytes"
