"""A client, a server and a way back, as small as an exchange needs them."""

from __future__ import annotations

import asyncio
import json
from typing import Any, ClassVar

from msgspec import Raw

from mooring.gateway.exchange import Exchange
from mooring.gateway.principal import Caller, Principal
from mooring.protocol import jsonrpc
from mooring.protocol.versions import Era, era_of
from mooring.transports.spool import Kept
from mooring.transports.wire import Answer, Leg, Relay


class Files:
    """A server, by name."""

    def __init__(self, server_id: str = "files") -> None:
        self.id = server_id


class Spent:
    """What was used up, in memory."""

    def __init__(self) -> None:
        self._values: set[str] = set()

    async def spend(self, value: str, until: float) -> bool:
        fresh = value not in self._values
        self._values.add(value)
        return fresh and until > 0


class Person:
    """Who asks."""

    def __init__(self, principal: str = "anonymous", version: str = "2026-07-28") -> None:
        self.era: Era = era_of(version)
        self.version = version
        self.principal = principal
        self.caller = Caller(Principal(principal, principal))
        self.capabilities = b"{}"
        self.info = b""
        self.log_level = b""
        self.key = principal
        self.running: dict[int | str, Exchange] = {}
        self.pushed: list[bytes] = []

    def can(self, method: str, params: bytes | Raw) -> bool:
        return True

    async def ask(self, exchange: Exchange | None, method: str, params: bytes | Raw) -> Answer:
        raise AssertionError("modern clients are asked through results")

    def push(self, message: bytes) -> None:
        self.pushed.append(message)

    def wants_log(self, level: str) -> bool:
        return True


class Mailbox:
    """Where answers arrive."""

    flows: ClassVar[bool] = False

    def __init__(self) -> None:
        self.emitted: list[bytes] = []
        self.answers: list[dict[str, Any]] = []
        self.answered = asyncio.Event()

    def bind(self, exchange: Exchange) -> None: ...
    def throttle(self, leg: Leg) -> None: ...

    def emit(self, message: bytes) -> None:
        self.emitted.append(message)

    def answer(self, message: bytes, status: int = 200) -> None:
        self.answers.append(json.loads(message))
        self.answered.set()

    def relay(self, relay: Relay) -> None:
        raise AssertionError("these answers are whole")

    def keep(self, kept: Kept) -> None:
        raise AssertionError("these answers are small")

    def drop(self) -> None: ...
    def stream(self, *, at_once: bool) -> None: ...
    def polled(self, retry_milliseconds: int | None) -> None: ...
    def tick(self, age_seconds: float) -> None: ...


def call(
    params: dict[str, Any],
    *,
    method: str = "tools/call",
    request_id: int = 1,
    client: Person | None = None,
    server: Files | None = None,
) -> Exchange:
    """A request in flight."""
    body = jsonrpc.request(b"%d" % request_id, method, json.dumps(params).encode())
    envelope = jsonrpc.decode(body)
    return Exchange(server or Files(), client or Person(), envelope, method, body, Mailbox())


def mailbox(exchange: Exchange) -> Mailbox:
    assert isinstance(exchange.sink, Mailbox)
    return exchange.sink
