"""The chain of the guard: every middleware, in one order, fused into as few awaits as it takes.

The order is `ORDER`; the table in `docs/guides/guard.md` is compared with it. What is not configured is not
in the chain, and costs nothing.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import ExitStack
from typing import Final, Protocol

import msgspec
from msgspec import Struct, field

from mooring.gateway.exchange import Exchange, Handler, Middleware
from mooring.gateway.normalizing import normalize, write_once
from mooring.policy.catalogue import Catalogue
from mooring.policy.items import (
    ABOUT,
    LISTS,
    Absent,
    Listing,
    absent,
    read_listing,
    set_params,
    subject,
)
from mooring.protocol import jsonrpc
from mooring.transports.wire import Answer

ORDER: Final = (
    "recovery",
    "telemetry",
    "audit",
    "rate limits",
    "mutating webhooks",
    "validating webhooks",
    "filter and override",
    "authorization",
    "approvals",
    "pinning and lock",
    "plug-ins",
    "file adapters and result handles",
    "sanitizing",
    "outgoing credentials",
    "route",
)
"""Outermost first. Recovery and route are the two ends of the chain, in `mooring.gateway.server`."""
_FILES: Final = ORDER.index("file adapters and result handles")

Check = Callable[[Exchange], None]
"""Looks at a request before it goes on; raises to refuse it."""
Present = Callable[[Exchange, Listing], None]
"""Changes a list on its way to the client."""


Settle = Callable[[Exchange, Answer], Answer]
"""Looks at an answer on its way to the client."""


class Observer(Protocol):
    """Told of every exchange, however it ends; what it returns goes to the client."""

    def began(self, exchange: Exchange) -> None: ...
    def ended(self, exchange: Exchange, answer: Answer | None) -> Answer | None: ...
    def failed(self, exchange: Exchange, error: BaseException) -> None: ...


class Step(Struct, frozen=True):
    """One middleware: either a set of plain functions, which are fused, or a coroutine of its own."""

    name: str
    observer: Observer | None = None
    check: Check | None = None
    present: Present | None = None
    settle: Settle | None = None
    settles: frozenset[str] | None = None
    """The only methods whose answers it settles; None: all that it concerns."""
    needs_catalogue: bool = False
    middleware: Middleware | None = None
    methods: frozenset[str] | None = None
    """The only methods it concerns; None: all."""

    def concerns(self, method: str) -> bool:
        return self.methods is None or method in self.methods

    def settles_calls(self) -> bool:
        """Whether it looks at the answers of calls."""
        return self.concerns("tools/call") and (self.settles is None or "tools/call" in self.settles)


class Chain(Struct, frozen=True):
    """What a server gets: the composed middlewares, and the methods that have to pass them."""

    middlewares: list[Middleware]
    methods: frozenset[str] | None
    names: tuple[str, ...]
    below: list[Middleware] = field(default_factory=list[Middleware])
    """Those that come after the file adapters, and so see what the server itself says."""

    quick: Fused | None = None
    """All of the chain that calls of tools pass, if they never wait in it."""

    def concerns(self, method: str) -> bool:
        return bool(self.middlewares or self.below) and (self.methods is None or method in self.methods)


def build(steps: Sequence[Step], catalogue: Catalogue | None = None) -> Chain:
    """Put the steps into the one order, and fuse neighbours that need no waiting."""
    ordered = sorted(steps, key=lambda step: ORDER.index(step.name))
    below = [step for step in ordered if ORDER.index(step.name) > _FILES]
    methods: frozenset[str] | None = frozenset()
    for step in ordered:
        methods = None if methods is None or step.methods is None else methods | step.methods
    middlewares = _composed(ordered[: len(ordered) - len(below)], catalogue)
    fused = [middleware for middleware in middlewares if isinstance(middleware, Fused)]
    unfused = [step for step in ordered if step.middleware is not None or step in below]
    waits = any(step.concerns("tools/call") for step in unfused)
    lowest = _composed(below, None)
    quick = fused[0] if len(fused) == 1 and not waits else None
    if quick is not None:
        quick.after = (*middlewares[middlewares.index(quick) + 1 :], *lowest)
    return Chain(middlewares, methods, tuple(step.name for step in ordered), lowest, quick)


def _composed(steps: Sequence[Step], catalogue: Catalogue | None) -> list[Middleware]:
    middlewares: list[Middleware] = []
    group: list[Step] = []
    for step in steps:
        if step.middleware is not None:
            _flush(group, middlewares, catalogue)
            middlewares.append(step.middleware)
        else:
            group.append(step)
    _flush(group, middlewares, catalogue, learns=True)
    return middlewares


def _flush(
    group: list[Step], middlewares: list[Middleware], catalogue: Catalogue | None, *, learns: bool = False
) -> None:
    if group:
        middlewares.append(Fused(tuple(group), catalogue, learns=learns))
        group.clear()


class Fused:
    """Several steps as one coroutine."""

    def __init__(self, steps: tuple[Step, ...], catalogue: Catalogue | None, *, learns: bool) -> None:
        self._observers = tuple(step.observer for step in steps if step.observer is not None)
        named = [step for step in steps if step.needs_catalogue and catalogue is not None]
        plain = [step for step in steps if step not in named]
        self._checks = tuple(step.check for step in plain if step.check is not None)
        self._named_checks = tuple(step.check for step in named if step.check is not None)
        self._presenters = tuple(step.present for step in reversed(steps) if step.present is not None)
        settling = [step for step in reversed(steps) if step.settle is not None]
        self._settlers = tuple(step.settle for step in settling if step.settle is not None)
        self._call_settlers = tuple(step.settle for step in settling if step.settle and step.settles_calls())
        self._catalogue = catalogue if named else None
        # Then a call of a tool needs no coroutine here: nobody waits for anything, nor for its answer.
        self._only_checks_calls = not (self._observers or named or self._call_settlers)
        self.after: tuple[Middleware, ...] = ()
        # The lowest one sees lists as the server gives them, under the names that checks ask for.
        self._learner = catalogue if learns else None

    def enter(self, exchange: Exchange) -> None:
        """The way in for a call, without waiting; what needs waiting is left to `__call__`."""
        for observer in self._observers:
            observer.began(exchange)
        try:
            write_once(exchange)
            for check in self._checks:
                check(exchange)
            catalogue = self._catalogue
            if catalogue is not None:
                normalize(exchange)
                original = exchange.envelope.params
                try:
                    for check in self._named_checks:
                        check(exchange)
                except Absent:  # perhaps not for ever: its list has to be asked for
                    set_params(exchange, jsonrpc.members(original))
                    return
                found = subject(exchange)
                assert found is not None
                if not catalogue.knows(exchange, *found):
                    set_params(exchange, jsonrpc.members(original))
                    return
            exchange.checked = True
        except Exception as error:  # noqa: BLE001 - raised again where it is handled
            exchange.refusal = error

    def leave(self, exchange: Exchange, answer: Answer) -> Answer | None:
        """The way out of a call."""
        observers = self._observers
        try:
            for settle in self._call_settlers:
                answer = settle(exchange, answer)
            found: Answer | None = answer
            for observer in reversed(observers):
                found = observer.ended(exchange, found)
        except BaseException as error:
            self.fail(exchange, error)
            raise
        return found

    def fail(self, exchange: Exchange, error: BaseException) -> None:
        """It ended otherwise than by an answer. Everybody hears of it, even if one of them cannot note it."""
        with ExitStack() as telling:
            for observer in self._observers:  # the last one is told first
                telling.callback(observer.failed, exchange, error)

    def __call__(self, exchange: Exchange, handler: Handler) -> Awaitable[Answer | None]:
        if self._only_checks_calls and exchange.method == "tools/call" and exchange.guard is None:
            if not exchange.guarded:
                self._check_at_once(exchange)
            return handler(exchange)
        return self._observe(exchange, handler)

    async def _observe(self, exchange: Exchange, handler: Handler) -> Answer | None:
        observers = self._observers
        if exchange.guard is None:
            for observer in observers:
                observer.began(exchange)
        try:
            if exchange.guarded:  # a part of a request that has been let through
                answer = await handler(exchange)
            else:
                answer = await self._pass(exchange, handler)
            for observer in reversed(observers):
                answer = observer.ended(exchange, answer)
        except BaseException as error:
            self.fail(exchange, error)
            raise
        return answer

    async def _pass(self, exchange: Exchange, handler: Handler) -> Answer | None:
        is_list = exchange.method in LISTS
        if is_list:
            exchange.relayable = False
        if exchange.refusal is not None:
            raise exchange.refusal
        if not exchange.checked:
            await self._check(exchange, handler)
        answer = await handler(exchange)
        if answer is not None:
            for settle in self._settlers:
                answer = settle(exchange, answer)
            if is_list and (self._presenters or self._learner is not None):
                return self._present(exchange, answer)
        return answer

    async def _check(self, exchange: Exchange, handler: Handler) -> None:
        if exchange.guard is None:  # else it has passed these on its way in
            self._check_at_once(exchange)
        catalogue = self._catalogue
        if catalogue is not None and exchange.method in ABOUT:
            await self._check_named(exchange, catalogue, handler)
        else:
            for check in self._named_checks:
                check(exchange)

    def _check_at_once(self, exchange: Exchange) -> None:
        if exchange.method in ABOUT:
            write_once(exchange)
        for check in self._checks:
            check(exchange)

    async def _check_named(self, exchange: Exchange, catalogue: Catalogue, handler: Handler) -> None:
        """What is on no list of this caller does not exist; what they may not see takes the same way."""
        normalize(exchange)
        shown = subject(exchange)
        assert shown is not None
        original = exchange.envelope.params
        try:
            for check in self._named_checks:
                check(exchange)
        except Absent:
            if not await catalogue.look_up(exchange, shown[0], None, handler):
                raise
            set_params(exchange, jsonrpc.members(original))
            for check in self._named_checks:  # again, with what the list says about it
                check(exchange)
        found = subject(exchange)
        assert found is not None
        if not catalogue.knows(exchange, *found):
            await catalogue.look_up(exchange, *found, handler)
            if not catalogue.knows(exchange, *found):
                missing = absent(exchange, *shown)
                missing.hidden = False
                raise missing

    def _present(self, exchange: Exchange, answer: Answer) -> Answer:
        listing = read_listing(exchange, answer)
        if listing is None:
            return answer
        if self._learner is not None:
            self._learner.learn(exchange, listing)
        before = [item.raw for item in listing.items], dict(listing.members)
        for present in self._presenters:
            present(exchange, listing)
        if listing.is_as_it_came and ([item.raw for item in listing.items], listing.members) == before:
            # As it came, byte by byte, but for what stands around it, where another list might hide.
            return msgspec.structs.replace(answer, whole=b"")
        return Answer(version=answer.version, result=listing.encode(), status=answer.status)
