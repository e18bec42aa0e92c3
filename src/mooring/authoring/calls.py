"""One request in flight: who asked, where its answer goes, and how it is given up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import msgspec

from mooring.authoring.cancellation import CancelToken
from mooring.protocol import jsonrpc, meta
from mooring.protocol.jsonrpc import RequestId

KEPT_MESSAGES: Final = 64
"""What a call says while nobody listens, because its client went to find an answer."""
LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")

Json = dict[str, Any]


class Sink(Protocol):
    """Where the answer to one request goes, and what is said before it."""

    def emit(self, message: bytes) -> None: ...
    def answer(self, message: bytes, status: int = 200) -> None: ...
    def drop(self) -> None:
        """No answer will come: the request was cancelled."""
        ...

    def close_stream(self, retry_milliseconds: int | None) -> None:
        """Let the client go and come back for the answer, where its revision can."""
        ...


@dataclass(frozen=True, slots=True)
class Question:
    """Something that only the client knows."""

    method: str
    params: Json
    key: str
    """Names the question where several can be open (2026-07-28)."""
    needs: Json
    """The capability that the client must have declared."""


class Peer(Protocol):
    """Who asks: a legacy session, or the sender of one modern request."""

    version: str
    capabilities: Json
    info: Json
    is_modern: bool

    def wants_log(self, level: str) -> bool: ...
    def ask(self, call: Call, question: Question) -> asyncio.Future[Json]: ...


@dataclass(slots=True, eq=False)
class Call:
    """Exactly one task runs a call; cancelling that task cancels the call."""

    peer: Peer
    id: bytes
    method: str
    params: Json
    sink: Sink | None
    running: dict[RequestId, Call]
    key: RequestId
    headers: bytes | None = None
    """The `Mcp-Param-*` headers that came with it; None where there are none to come."""
    token: CancelToken = field(default_factory=CancelToken)
    task: asyncio.Task[None] | None = None
    questions: dict[str, tuple[Question, asyncio.Future[Json]]] = field(default_factory=dict[str, Any])
    answers: Json = field(default_factory=dict[str, Any])
    """Answers that came before their question, by its key: volunteered, or from an earlier run."""
    given: Json = field(default_factory=dict[str, Any])
    """Every answer so far, by the key of its question."""
    outcome: Callable[[bytes], bytes] | None = None
    """The answer, for the id that it will have, of a call that ended while its client was away."""
    parked: str = ""
    kept: list[tuple[str, Json]] = field(default_factory=list[tuple[str, Json]])

    @property
    def meta(self) -> Json:
        found = self.params.get("_meta")
        return found if isinstance(found, dict) else {}  # pyright: ignore[reportUnknownVariableType]

    def notify(self, method: str, params: Json) -> None:
        """Tell the client something in the course of this call."""
        if self.sink is None:
            if len(self.kept) >= KEPT_MESSAGES:
                del self.kept[0]  # the newest progress is worth more than the oldest
            self.kept.append((method, params))
            return
        if method == "notifications/progress":
            token = self.meta.get(meta.PROGRESS_TOKEN)
            if token is None:
                return
            params = {meta.PROGRESS_TOKEN: token, **params}
        elif method == "notifications/message" and not self.peer.wants_log(params["level"]):
            return
        self.sink.emit(jsonrpc.notification(method, msgspec.json.encode(params)))

    def say_what_was_kept(self) -> None:
        kept, self.kept = self.kept, []
        for method, params in kept:
            self.notify(method, params)

    def cancel(self) -> None:
        self.token.cancel()
        for _, future in list(self.questions.values()):
            future.cancel()
        if self.task is not None:
            self.task.cancel()

    def answer(self, message: bytes, status: int = 200) -> None:
        """The last word. From here on the client may use the id again, even before we have tidied up."""
        self.leave()
        if self.sink is not None:
            self.sink.answer(message, status)

    def leave(self) -> None:
        """No longer one of those that are running under this id."""
        if self.running.get(self.key) is self:
            del self.running[self.key]


def at_least(level: str, threshold: str | None) -> bool:
    """Whether a line of this level passes; an unknown threshold lets everything through."""
    if threshold is None or threshold not in LEVELS or level not in LEVELS:
        return True
    return LEVELS.index(level) >= LEVELS.index(threshold)


def can(capabilities: Json, needs: Json) -> bool:
    """Whether everything that is needed was declared; an empty `elicitation` means forms."""
    for name, parts in needs.items():
        declared = capabilities.get(name)
        if not isinstance(declared, dict):
            return False
        for part in parts:
            if part not in declared and not (
                name == "elicitation" and part == "form" and "url" not in declared
            ):
                return False
    return True
