"""Requests and answers over one channel shared by everything: a child's pipes, or HTTP+SSE.

One reader, a table from our ids to waiting requests, a writer that sends whole messages. Nothing is
awaited while reading. The table cannot leak: a request leaves it in `finally`, whatever happened to it.
"""

from __future__ import annotations

import asyncio
import re
from abc import ABC, abstractmethod
from collections import deque
from contextlib import suppress
from time import monotonic
from typing import Final

import msgspec

from mooring.errors import RpcError, SessionDied, UpstreamFailed
from mooring.protocol import jsonrpc, meta
from mooring.protocol.jsonrpc import Envelope
from mooring.transports.large_messages import LargeMessage
from mooring.transports.wire import Answer, Leg, WireEvents

FORGOTTEN_KEPT: Final = 256
"""How many ids of abandoned requests are remembered, so that their late answers are not called noise."""
UNANSWERED_KEPT: Final = 1024
"""How many of them are known one by one to be unanswered; whoever has given up more is never sure again."""
_ANSWER_HEAD: Final = re.compile(rb'\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d{1,19})\s*,')
PROBE: Final = "server/discover"
"""A server that never answers it asks nothing on its behalf either."""
GIVEN_UP_SECONDS: Final = 1.0
"""How long after a cancellation what the server says may still come from the cancelled call."""
CANCEL_SECONDS: Final = 2.0
"""A server that does not even read its cancellations is not worth waiting for any longer."""


class DuplexWire(ABC):
    """The part that pipes and HTTP+SSE share."""

    correlates = False

    def __init__(self, events: WireEvents, label: str) -> None:
        self.label = label
        self.version = ""
        self._events = events
        self._next_id = 1
        self._waiting: dict[int, tuple[Leg, asyncio.Future[Answer]]] = {}
        self._forgotten: deque[int] = deque(maxlen=FORGOTTEN_KEPT)
        self._unanswered: set[int] = set()
        self._lost_count = False
        self._gave_up_at = 0.0
        self._lost: str | None = None
        self._large: LargeMessage | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def send(self, message: bytes) -> None:
        if self._events.tracing:
            self._events.on_traffic("out", message)
        await self.write(message)

    async def deliver(self, message: bytes, answered: asyncio.Future[Answer]) -> None:
        """Send a request; there is no need to go on trying once it is answered."""
        del answered  # what is written is written
        await self.send(message)

    @abstractmethod
    async def write(self, message: bytes) -> None: ...

    @abstractmethod
    async def close(self) -> None: ...

    @property
    def has_given_up(self) -> bool:
        """Whether the server may still be working on a request that nobody waits for any more."""
        return self._lost_count or bool(self._unanswered)

    @property
    def gave_up_lately(self) -> bool:
        """The same, for a server that stops when it is told to: as specified, it never answers after that."""
        return self.has_given_up and monotonic() - self._gave_up_at < GIVEN_UP_SECONDS

    @property
    def in_flight(self) -> list[Leg]:
        return [leg for leg, _ in self._waiting.values()]

    async def request(self, leg: Leg) -> Answer:
        if self._lost is not None:
            raise UpstreamFailed(self._lost, started=False)
        number = self._next_id
        self._next_id += 1
        params = meta.with_meta(leg.params, meta.PROGRESS_TOKEN, b"%d" % number) if leg.token else leg.params
        loop = self._loop
        if loop is None:  # asked for once: it is a system call
            loop = self._loop = asyncio.get_running_loop()
        future: asyncio.Future[Answer] = loop.create_future()
        self._waiting[number] = (leg, future)
        try:
            try:
                await self.deliver(jsonrpc.request(b"%d" % number, leg.method, params), future)
            except UpstreamFailed:
                if future.done() and future.exception() is None:
                    return future.result()  # the answer overtook the trouble
                raise
            return await future
        except asyncio.CancelledError:
            self._forgotten.append(number)
            if leg.method != PROBE:
                self._give_up(number)
            await self._tell_cancelled(number)
            raise
        finally:
            del self._waiting[number]

    def _give_up(self, number: int) -> None:
        self._gave_up_at = monotonic()
        if self._lost_count or len(self._unanswered) >= UNANSWERED_KEPT:
            self._lost_count = True
            self._unanswered.clear()
        else:
            self._unanswered.add(number)

    async def _tell_cancelled(self, number: int) -> None:
        notice = jsonrpc.notification("notifications/cancelled", b'{"requestId":%d}' % number)
        if self._lost is None:
            try:
                async with asyncio.timeout(CANCEL_SECONDS):
                    await asyncio.shield(self._send_quietly(notice))
            except TimeoutError:
                self._events.on_noise(b"", "the server does not read its cancellations")

    async def _send_quietly(self, message: bytes) -> None:
        with suppress(UpstreamFailed):  # the channel is gone; the loss is reported where it was noticed
            await self.send(message)

    def receive(self, data: bytes) -> None:
        """One message from the server, or a batch of them (2025-03-26 servers may send one)."""
        if self._events.tracing:
            self._events.on_traffic("in", data)
        try:
            if jsonrpc.is_batch(data):
                for message in jsonrpc.split_batch(data):
                    self._receive_one(jsonrpc.decode(message), bytes(message))
            else:
                self._receive_one(jsonrpc.decode(data), data)
        except RpcError as error:
            self._events.on_noise(data, str(error))

    def receive_part(self, data: bytes, *, last: bool) -> None:
        """A piece of a message that is too large to be held."""
        large = self._large
        if large is None:
            large = self._large = LargeMessage()
        large.add(data)
        if last:
            self._large = None
            self._receive_large(large)

    def forget_part(self) -> None:
        """The rest of it will not come."""
        if self._large is not None:
            self._large.forget()
            self._large = None

    def _receive_large(self, large: LargeMessage) -> None:
        try:
            large.finish()
            number = _number(large.id)
            entry = self._waiting.get(number)
            if large.is_complete_result and (
                entry is None or (entry[0].keepable and not self._events.tracing)
            ):
                self._settle(number, Answer(version=self.version, kept=large.result()), b"")
            else:
                self.receive(large.load())
        except RpcError as error:
            large.forget()
            self._events.on_noise(b"", f"{error} (in a message of {large.size} bytes)")
            self._fail_one(_number(large.id), UpstreamFailed(f"the server's answer was lost: {error}"))

    def _receive_one(self, envelope: Envelope, data: bytes) -> None:
        if envelope.method is None:
            self._answer(envelope, data)
        elif envelope.method == "notifications/progress":
            self._progress(envelope, data)
        else:
            self._events.on_unsolicited(envelope, data)

    def _answer(self, envelope: Envelope, data: bytes) -> None:
        answer = Answer(version=self.version, result=envelope.result, error=envelope.error)
        self._settle(_number(envelope.id), answer, data)

    def _settle(self, number: int, answer: Answer, data: bytes) -> None:
        entry = self._waiting.get(number)
        self._unanswered.discard(number)
        if entry is None or entry[1].done():
            if number not in self._forgotten:
                self._events.on_noise(data, "an answer to a request that nobody is waiting for")
            return
        entry[1].set_result(answer)

    def lose_answer(self, head: bytes, reason: str) -> None:
        """An answer that cannot be read: whoever waits for it, if its beginning shows who, hears of it
        now."""
        self.forget_part()
        named = _ANSWER_HEAD.match(head)
        if named is not None:
            self._fail_one(int(named[1]), UpstreamFailed(reason))
        elif len(self._waiting) == 1:
            self._fail_one(next(iter(self._waiting)), UpstreamFailed(reason))

    def _fail_one(self, number: int, error: UpstreamFailed) -> None:
        entry = self._waiting.get(number)
        if entry is not None and not entry[1].done():
            entry[1].set_exception(error)

    def _progress(self, envelope: Envelope, data: bytes) -> None:
        number = _number(meta.read_params(envelope.params).progress_token)
        entry = self._waiting.get(number)
        if entry is None or not entry[0].token:
            if number not in self._forgotten:
                self._events.on_noise(data, "progress of a request that nobody is waiting for")
            return
        params = meta.with_member(envelope.params, meta.PROGRESS_TOKEN, entry[0].token)
        restored = jsonrpc.notification("notifications/progress", params)
        entry[0].on_message(Envelope("2.0", method=envelope.method, params=msgspec.Raw(params)), restored)

    def fail(self, reason: str) -> None:
        """The channel is gone: everybody who waits hears of it, once."""
        if self._lost is not None:
            return
        self._lost = reason
        self.forget_part()
        died = SessionDied(reason)  # the same for all: it happened once
        for _, future in self._waiting.values():
            if not future.done():
                future.set_exception(died)
        self._events.on_lost(reason)


def _number(raw: msgspec.Raw) -> int:
    """An id as one of our numbers; anything else matches nothing."""
    text = bytes(raw)
    return int(text) if text.isdigit() and len(text) < 20 else -1
