"""The lock file: definitions that somebody approved, for all sessions and callers."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from mooring import durable
from mooring.gateway.exchange import Exchange
from mooring.policy import files
from mooring.policy.catalogue import Catalogue
from mooring.policy.items import TOOLS, Item, Listing, absent, digest_of, subject
from mooring.policy.pinning.drift import fields
from mooring.policy.pinning.notes import warn

log = logging.getLogger(__name__)

LOCK_PLACE: Final = ".lock"
"""Beside what was observed: where the lock file is, for the command line."""
Json = dict[str, Any]
_NEW: Final = "it was never approved"


class Locked(msgspec.Struct):
    """The content of a lock file: server -> tool -> its definition."""

    version: int = 1
    servers: dict[str, dict[str, Json]] = msgspec.field(default_factory=dict[str, dict[str, Json]])


def read_lock(path: Path) -> Locked:
    """The file's content; nothing is locked while there is none."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Locked)
    except FileNotFoundError:
        return Locked()
    except msgspec.DecodeError as error:
        raise ValueError(f"`{path}` is not a lock file: {error}") from error


def write_lock(path: Path, locked: Locked) -> None:
    encoded = msgspec.json.encode(locked, order="sorted")
    durable.replace_file(path, msgspec.json.format(encoded) + b"\n", 0o644)


class LockFile:
    """The lock of a gateway; read again when it has changed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._stamp: tuple[int, int, int] | None = None
        self.hash = ""
        self.digests: dict[str, dict[str, str]] = {}
        self.content = Locked()
        self.refresh()

    def refresh(self) -> None:
        stamp = files.stamp(self._path)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self.content = read_lock(self._path)
        except (ValueError, OSError) as error:
            log.error("the lock was not read again, the old one stays: %s", error)  # noqa: TRY400 - no trace
            return
        self.hash = hashlib.sha256(self._path.read_bytes()).hexdigest() if self._path.exists() else ""
        self.digests = {
            server: {name: digest_of(definition) for name, definition in tools.items()}
            for server, tools in self.content.servers.items()
        }


class ServerLock:
    """The lock, applied to one server."""

    def __init__(
        self,
        lock: LockFile,
        server_id: str,
        catalogue: Catalogue,
        observed: Path,
        *,
        mode: Literal["warn", "block"],
        report: Callable[[Exchange, Json], None],
        mismatched: Callable[[str], None],
    ) -> None:
        self._lock = lock
        self._server_id = server_id
        self._catalogue = catalogue
        self._observed = observed
        self._mode = mode
        self._report = report
        self._mismatched = mismatched
        self._written = b""
        self._reported: dict[str, str] = {}

    def check(self, exchange: Exchange) -> None:
        """A call: of a tool as it was approved, or of none."""
        if self._mode != "block" or exchange.method != "tools/call":
            return
        found = subject(exchange)
        assert found is not None
        if self.shown(exchange, found[1]) is None:
            raise absent(exchange, *found, "pinning and lock")

    def shown(self, exchange: Exchange, tool: str) -> str | None:
        """Its name, if it is as it was approved, or our own."""
        view = self._catalogue.view(exchange, TOOLS)
        if (item := view.items.get(tool)) is not None and item.is_own:
            return tool
        digest = view.digest(tool)
        approved = self._lock.digests.get(self._server_id, {})
        return tool if digest and approved.get(tool) == digest else None

    def present(self, exchange: Exchange, listing: Listing) -> None:
        """A list: what differs from the lock is marked, or is not shown."""
        if listing.kind != TOOLS:
            return
        self._observe(listing)
        kept: list[Item] = []
        for item in listing.items:
            why = None if item.is_own else self._difference(item)
            if why is None:
                self._reported.pop(item.name, None)
                kept.append(item)
                continue
            if self._reported.get(item.name) != why:
                self._reported[item.name] = why
                log.warning("%s: tool `%s` is not as locked: %s", self._server_id, item.name, why)
                self._report(exchange, {"lock": {item.name: why}, "mode": self._mode})
                if self._mode == "block" and why != _NEW:  # not the server that somebody approved
                    self._mismatched(f"its tool `{item.name}` is not as it was approved ({why})")
            if self._mode == "warn":
                warn(item, f"this tool is not as it was approved: {why}")
                kept.append(item)
        listing.items = kept

    def _difference(self, item: Item) -> str | None:
        approved = self._lock.content.servers.get(self._server_id, {}).get(item.name)
        if approved is None:
            return _NEW
        changed = fields(approved, item.given_value())
        return f"changed: {', '.join(changed)}" if changed else None

    def _observe(self, listing: Listing) -> None:
        """Keep what the server offers, for whoever decides about the lock."""
        tools: dict[str, Json] = {item.name: item.given_value() for item in listing.items if not item.is_own}
        if not listing.first_page:
            tools = {**self._read_observed(), **tools}
        encoded = msgspec.json.encode(tools, order="sorted")
        if encoded != self._written:
            durable.private_folder(self._observed.parent)
            durable.replace_file(self._observed, encoded)
            self._written = encoded

    def _read_observed(self) -> dict[str, Json]:
        return msgspec.json.decode(self._written or b"{}", type=dict[str, Json])
