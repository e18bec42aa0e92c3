"""What passes on both legs of a server, for whoever looks: free when nobody does, and never with secrets
in it."""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final

import msgspec

from mooring.errors import RpcError
from mooring.protocol import jsonrpc

HISTORY: Final = 200
"""Messages kept per watched server, so that a late `mooring trace` has something to show."""
SHOWN_BYTES: Final = 64 * 1024

# Quantifiers are bounded or possessive: a peer chooses this text, and must not choose how long we look at it.
_SECRET_NAME = (
    rb"(?:authorization|password|passwd|secret|token|api[_-]?key|credential|cookie|private[_-]?key)"
)
_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)'  # one that was cut off ends with the text
_SECRET_WORD = re.compile(_SECRET_NAME, re.IGNORECASE)
_SECRET_MEMBER = re.compile(
    rb'(?<!\\)("[^"\\]{0,100}?' + _SECRET_NAME + rb'[^"\\]{0,100}"\s*:\s*)'
    rb"(" + _STRING + rb"|-?[0-9][0-9.eE+-]*|\[\s*(?:" + _STRING + rb"[\s,]*)++(?:\]|\Z))",
    re.IGNORECASE | re.DOTALL,
)
_NOT_SECRET = re.compile(
    rb'^"(?:progressToken|nextPageToken|maxTokens|max_tokens|inputTokens|outputTokens)"', re.IGNORECASE
)
_ANY_STRING = re.compile(_STRING, re.DOTALL)
_BEARER = re.compile(rb"\b(Bearer|Basic)\s+[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE)
_NESTED_TEXTS = 3

Record = dict[str, Any]
Watcher = Callable[[Record], None]


class Tracer:
    """The taps on one server's wire."""

    __slots__ = ("_history", "_pending", "_recorders", "_watchers", "active", "server_id")

    def __init__(self, server_id: str) -> None:
        self.server_id = server_id
        self.active = False
        self._watchers: list[Watcher] = []
        self._recorders: list[Watcher] = []
        self._history: deque[Record] = deque(maxlen=HISTORY)
        self._pending: dict[tuple[str, str, str], float] = {}

    def watch(self, watcher: Watcher) -> None:
        self._watchers.append(watcher)
        self.active = True

    def unwatch(self, watcher: Watcher) -> None:
        self._watchers.remove(watcher)
        self._settle()

    def record(self, recorder: Watcher) -> None:
        """As `watch`, but with every message in its whole length."""
        self._recorders.append(recorder)
        self.active = True

    def stop_recording(self, recorder: Watcher) -> None:
        self._recorders.remove(recorder)
        self._settle()

    @property
    def is_recording(self) -> bool:
        """Whether answers are wanted whole, so that none may flow through unseen."""
        return bool(self._recorders)

    def _settle(self) -> None:
        if not self._watchers and not self._recorders:
            self.active = False
            self._pending.clear()

    def history(self) -> list[Record]:
        return list(self._history)

    def message(self, leg: str, direction: str, peer: str, data: bytes, note: str | None = None) -> None:
        """One message, as it is on the wire of this leg (`client` or `server`), `in` towards us or `out`.

        Of a batch, each of its messages.
        """
        parts = [data]
        if jsonrpc.is_batch(data):
            note = "in a batch"
            with suppress(RpcError):
                parts = [bytes(part) for part in jsonrpc.split_batch(data)]
        for part in parts:
            self._message(leg, direction, peer, part, note)

    def _message(self, leg: str, direction: str, peer: str, data: bytes, note: str | None) -> None:
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
        if self._recorders:
            whole = {**record, "bytes": redact(data).decode("utf-8", "replace")}
            for recorder in list(self._recorders):
                recorder(whole)

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


def redact(data: bytes, depth: int = _NESTED_TEXTS) -> bytes:
    """The same bytes with the values of secret-looking members, and credentials in texts, blotted out."""
    data = _BEARER.sub(rb"\1 [redacted]", data)
    if not _SECRET_WORD.search(data):
        return data
    data = _SECRET_MEMBER.sub(_blot, data)
    if not depth or b'\\"' not in data:
        return data
    return _ANY_STRING.sub(lambda match: _redact_text(match[0], depth - 1), data)


def _blot(match: re.Match[bytes]) -> bytes:
    return match[0] if _NOT_SECRET.match(match[1]) else match[1] + b'"[redacted]"'


def _redact_text(text: bytes, depth: int) -> bytes:
    """Tools like to give their structured result a second time, as JSON in a text."""
    if b'\\"' not in text or not _SECRET_WORD.search(text):
        return text
    inner = _text(text) or _text(text.rstrip(b"\\") + b'"')
    if inner is None:
        return b'"[redacted]"'
    shown = redact(inner, depth)
    return text if shown == inner else msgspec.json.encode(shown.decode())


def _text(string: bytes) -> bytes | None:
    try:
        return msgspec.json.decode(string, type=str).encode()
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def encode_record(record: Record, *, with_bytes: bool) -> bytes:
    shown = record if with_bytes else {name: value for name, value in record.items() if name != "bytes"}
    return msgspec.json.encode(shown) + b"\n"
