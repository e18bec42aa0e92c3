"""What passes on both legs of a server, for whoever looks: free when nobody does, and never with secrets
in it."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final

import msgspec

from mooring.errors import RpcError
from mooring.protocol import jsonrpc

HISTORY: Final = 200
"""Messages kept per watched server, so that a late `mooring trace` has something to show."""
SHOWN_BYTES: Final = 64 * 1024

_SECRET_KEYS = re.compile(
    rb'("(?:[^"\\]|\\.)*(?:authorization|password|passwd|secret|token|api[_-]?key|credential|cookie|private[_-]?key)'
    rb'(?:[^"\\]|\\.)*"\s*:\s*)("(?:[^"\\]|\\.)*"|\d+)',
    re.IGNORECASE,
)
_NOT_SECRET = re.compile(
    rb'^"(?:progressToken|nextPageToken|maxTokens|max_tokens|inputTokens|outputTokens)"', re.IGNORECASE
)
_BEARER = re.compile(rb"\b(Bearer|Basic)\s+[A-Za-z0-9._~+/=-]{8,}")

Record = dict[str, Any]
Watcher = Callable[[Record], None]


class Tracer:
    """The taps on one server's wire."""

    __slots__ = ("_history", "_pending", "_watchers", "active", "server_id")

    def __init__(self, server_id: str) -> None:
        self.server_id = server_id
        self.active = False
        self._watchers: list[Watcher] = []
        self._history: deque[Record] = deque(maxlen=HISTORY)
        self._pending: dict[tuple[str, str, str], float] = {}

    def watch(self, watcher: Watcher) -> None:
        self._watchers.append(watcher)
        self.active = True

    def unwatch(self, watcher: Watcher) -> None:
        self._watchers.remove(watcher)
        if not self._watchers:
            self.active = False
            self._pending.clear()

    def history(self) -> list[Record]:
        return list(self._history)

    def message(self, leg: str, direction: str, peer: str, data: bytes, note: str | None = None) -> None:
        """One message, as it is on the wire of this leg (`client` or `server`), `in` towards us or `out`."""
        now = time.time()
        try:
            envelope = jsonrpc.decode(data)
        except RpcError:
            self._publish(self._record(now, leg, direction, peer, "noise", data, note))
            return
        kind = _kind(envelope)
        record = self._record(now, leg, direction, peer, kind, data, note)
        record["method"] = envelope.method
        identifier = bytes(envelope.id).decode("utf-8", "replace") if envelope.id else None
        record["id"] = identifier
        if identifier is not None:
            record["since_request_ms"] = self._since(now, leg, direction, peer, identifier, kind)
        self._publish(record)

    def noted(self, leg: str, peer: str, note: str, data: bytes = b"", kind: str = "state") -> None:
        """Something that is not a message: a state change, noise, a stream that flows through."""
        self._publish(self._record(time.time(), leg, "in", peer, kind, data, note))

    def _since(
        self, now: float, leg: str, direction: str, peer: str, identifier: str, kind: str
    ) -> float | None:
        if kind == "request":
            if len(self._pending) < 10_000:
                self._pending[leg + direction, peer, identifier] = now
            return None
        asked = leg + ("out" if direction == "in" else "in")
        started = self._pending.pop((asked, peer, identifier), None)
        return None if started is None else (now - started) * 1000

    def _record(
        self, now: float, leg: str, direction: str, peer: str, kind: str, data: bytes, note: str | None
    ) -> Record:
        return {
            "t": now,
            "server": self.server_id,
            "leg": leg,
            "dir": direction,
            "peer": peer,
            "kind": kind,
            "method": None,
            "id": None,
            "size": len(data),
            "since_request_ms": None,
            "note": note,
            "bytes": redact(data[:SHOWN_BYTES]).decode("utf-8", "replace"),
        }

    def _publish(self, record: Record) -> None:
        self._history.append(record)
        for watcher in list(self._watchers):
            watcher(record)


def _kind(envelope: jsonrpc.Envelope) -> str:
    if envelope.method is not None:
        return "request" if envelope.id else "notification"
    return "error" if envelope.error else "response"


def redact(data: bytes) -> bytes:
    """The same bytes with the values of secret-looking members, and credentials in texts, blotted out."""

    def blot(match: re.Match[bytes]) -> bytes:
        if _NOT_SECRET.match(match[1]):
            return match[0]
        return match[1] + b'"[redacted]"'

    return _BEARER.sub(rb"\1 [redacted]", _SECRET_KEYS.sub(blot, data))


def encode_record(record: Record, *, with_bytes: bool) -> bytes:
    shown = record if with_bytes else {name: value for name, value in record.items() if name != "bytes"}
    return msgspec.json.encode(shown) + b"\n"
