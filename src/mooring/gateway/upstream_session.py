"""What a session with a server has in common in both eras: its calls in flight, its subscribers, its wire."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine
from contextlib import suppress
from time import monotonic
from typing import Any, Final

import msgspec
from msgspec import Raw

from mooring.errors import RpcError
from mooring.gateway.exchange import Client, Exchange
from mooring.gateway.profile import Profile
from mooring.gateway.tracing import Tracer
from mooring.protocol import subscriptions
from mooring.protocol.jsonrpc import Envelope
from mooring.protocol.subscriptions import Filter, Subscriber
from mooring.protocol.versions import Era
from mooring.transports.dialing import Folders
from mooring.transports.http_upstream import UpstreamConnection
from mooring.transports.wire import Answer, Wire

log = logging.getLogger(__name__)
NOISE_SHOWN: Final = 200
FAREWELL_SECONDS: Final = 2.0
"""How long the end of a session waits for the server to take notice of cancelled calls."""


class _Coded(msgspec.Struct):
    code: int = 0


def error_code(answer: Answer) -> int:
    """The code of an error answer."""
    try:
        return msgspec.json.decode(answer.error, type=_Coded).code
    except msgspec.DecodeError:
        return 0


def _nothing_idle() -> None:
    return None


class UpstreamSession(ABC):
    """One session with a server, used by one client or shared by many.

    `owner` is the only client of a session that is nobody else's; ids and tokens may then pass unchanged.
    """

    era: Era
    wire: Wire

    def __init__(self, key: str, owner: Client | None, tracer: Tracer) -> None:
        self.key = key
        self.owner = owner
        self.tracer = tracer
        self.profile: Profile | None = None
        self.calls: dict[Exchange, None] = {}
        self.subscribers: dict[Subscriber, None] = {}
        self.take_idle: Callable[[], UpstreamConnection | None] = _nothing_idle
        """For the short way: a connection to the server that is free right now."""
        self.last_used = 0.0
        self.folders: Folders = ()
        """What its process sees of our files."""
        self.on_change: Callable[[str], None] | None = None
        """Told which list of the server is another now, whoever else wants to know."""
        self.lost: str | None = None
        self.leased = False
        self.personal = False
        """What the server is shown depends on who calls."""
        self.tainted = False
        """The server may still ask on behalf of a call that was given up; nobody new may hear it."""
        self._farewells: set[asyncio.Task[None]] = set()
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def version(self) -> str:
        return self.profile.version if self.profile is not None else ""

    @property
    def idle(self) -> bool:
        return not self.calls and not self.subscribers and not self.leased

    @abstractmethod
    async def call(self, exchange: Exchange) -> Answer: ...

    def done_with(self, exchange: Exchange) -> None:
        """However long it took: only now does the time begin that nobody uses the session."""
        del self.calls[exchange]
        self.last_used = monotonic()

    def lane_for(self, exchange: Exchange) -> bytes | None:
        """How a request begins on the short way, up to its length; None if it cannot go there."""
        del exchange
        return None

    @abstractmethod
    async def request(self, method: str, params: bytes | Raw = b"") -> Answer:
        """A request of our own."""

    @abstractmethod
    async def notify(self, client: Client, envelope: Envelope, data: bytes) -> None: ...

    @abstractmethod
    async def adjust(self, wish: Filter) -> Filter:
        """Ask the server for these changes and no others; returns what it granted."""

    async def close(self) -> None:
        await self._take_leave()
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(list(self._tasks), timeout=2.0)
        await self.wire.close()

    async def _take_leave(self) -> None:
        """Calls that are being given up tell the server so, before the session ends."""
        leaving = [call.task for call in self.calls if call.task is not None and call.task.cancelling()]
        if leaving:
            await asyncio.wait(leaving, timeout=FAREWELL_SECONDS)
        if self._farewells:
            await asyncio.wait(list(self._farewells), timeout=FAREWELL_SECONDS)

    async def subscribe(self, subscriber: Subscriber) -> Filter:
        """From now on this subscriber hears of what it wants, as far as the server grants it."""
        self.subscribers[subscriber] = None
        granted = await self.adjust(subscriptions.union(s.wants for s in self.subscribers))
        return subscriber.wants.within(granted)

    async def unsubscribe(self, subscriber: Subscriber) -> None:
        if self.subscribers.pop(subscriber, True) is None and self.lost is None:
            await self.adjust(subscriptions.union(s.wants for s in self.subscribers))

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Work of this session's own, which ends with it."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def spawn_farewell(self, work: Coroutine[Any, Any, None]) -> None:
        """Work that the end of the session waits for."""
        task = self.spawn(work)
        self._farewells.add(task)
        task.add_done_callback(self._farewells.discard)

    async def start_task(
        self, asking: Coroutine[Any, Any, Answer], cancel: Callable[[Answer], Coroutine[Any, Any, None]]
    ) -> Answer:
        """The answer to a request that starts a task. Whoever gives it up before that leaves us waiting for
        the task's name: without it nobody could cancel what has begun."""
        asked = asyncio.ensure_future(asking)
        try:
            return await asyncio.shield(asked)
        except asyncio.CancelledError:
            self.spawn_farewell(_take_back(asked, cancel))
            raise

    def deliver_change(self, method: str, params: Raw | bytes) -> None:
        if self.on_change is not None:
            self.on_change(method)
        subscriptions.deliver(self.subscribers, method, params)

    # What the wire tells us

    @property
    def tracing(self) -> bool:
        return self.tracer.active

    def on_traffic(self, direction: str, data: bytes) -> None:
        self.tracer.message("server", direction, self.wire_label, data)

    def on_noise(self, data: bytes, why: str) -> None:
        log.warning("%s: %s: %r", self.tracer.server_id, why, data[:NOISE_SHOWN])
        self.tracer.noted("server", self.wire_label, why, data[:4096], "noise")

    def on_lost(self, reason: str) -> None:
        if self.lost is not None:
            return
        self.lost = reason
        if self.tracer.active:
            self.tracer.noted("server", self.wire_label, reason)
        for subscriber in list(self.subscribers):
            subscriber.end(reason)

    @property
    def wire_label(self) -> str:
        wire = getattr(self, "wire", None)
        return wire.label if wire is not None else ""


async def _take_back(
    asked: asyncio.Future[Answer], cancel: Callable[[Answer], Coroutine[Any, Any, None]]
) -> None:
    with suppress(TimeoutError, RpcError):  # nobody waits for it any more
        async with asyncio.timeout(FAREWELL_SECONDS):
            answer = await asked
        await cancel(answer)
