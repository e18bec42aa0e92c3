"""A server as its clients see it: runs their exchanges, answers what is ours to answer, passes on the
rest."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from time import monotonic
from typing import Final

import msgspec
from msgspec import Raw

from mooring.errors import (
    InvalidParams,
    LoginNeeded,
    MethodNotFound,
    RpcError,
    UpstreamFailed,
    UpstreamTimedOut,
    UpstreamUnavailable,
)
from mooring.gateway import additions as own
from mooring.gateway import answering, tasks
from mooring.gateway import profile as profiles
from mooring.gateway.clients import LegacyClient
from mooring.gateway.exchange import Client, Exchange, Handler, Middleware, Quick, Watch, compose
from mooring.gateway.hearing import MAX_SUBSCRIPTIONS, Hearing
from mooring.gateway.input_calls import InputCalls
from mooring.gateway.interactions import Interactions
from mooring.gateway.listening import ListenStream
from mooring.gateway.modern_session import INPUT_METHODS
from mooring.gateway.param_headers import ParamHeaders
from mooring.gateway.task_calls import TaskCalls, is_ours
from mooring.gateway.task_owners import OwnerBook, TaskOwners
from mooring.gateway.tasks import TaskTable
from mooring.gateway.tracing import Tracer
from mooring.gateway.upstream import Upstream
from mooring.gateway.upstream_session import FAREWELL_SECONDS
from mooring.protocol import jsonrpc, meta
from mooring.protocol.subscriptions import (
    PROMPTS_CHANGED,
    RESOURCES_CHANGED,
    TOOLS_CHANGED,
    Filter,
    deliver,
)
from mooring.protocol.versions import Era
from mooring.transports.wire import Answer

log = logging.getLogger(__name__)

GONE_IN_MODERN: Final = frozenset(
    {"initialize", "ping", "logging/setLevel", "resources/subscribe", "resources/unsubscribe"}
    | {"tasks/list", "tasks/result"}
)
"""Requests that 2026-07-28 no longer has."""
MODERN_TASK_METHODS: Final = frozenset({"tasks/get", "tasks/update", "tasks/cancel"})
LEGACY_TASK_METHODS: Final = frozenset({"tasks/get", "tasks/result", "tasks/list", "tasks/cancel"})
OURS_IN_MODERN: Final = GONE_IN_MODERN | MODERN_TASK_METHODS | {"server/discover", "subscriptions/listen"}
"""What the gateway has to look at itself."""
NOT_IN_LEGACY: Final = frozenset({"server/discover", "subscriptions/listen"})


class Server:
    """One entry of the configuration, behind `/mcp/<id>`."""

    def __init__(
        self,
        server_id: str,
        upstream: Upstream,
        interactions: Interactions,
        tracer: Tracer,
        chain: list[Middleware],
        owners: OwnerBook,
    ) -> None:
        self.id = server_id
        self.upstream = upstream
        self.interactions = interactions
        self.tracer = tracer
        self.session_idle_seconds: float | None = None
        """How long a session of its clients may be idle; None: as long as any other's."""
        self.endpoint_prefix = b""
        """What a proxy in front of us has cut off the paths of its clients (HTTP+SSE names them a path)."""
        self.exchanges: dict[Exchange, None] = {}
        self.tasks = TaskTable(interactions)
        self._task_owners = TaskOwners(upstream, owners)
        self._task_calls = TaskCalls(self, self._task_owners)
        self._param_headers = ParamHeaders()
        self._input_calls = InputCalls(upstream, interactions)
        self.hearing = Hearing(upstream)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._legacy_routes: dict[str, Handler] = {
            "initialize": self._introduce_itself,
            "ping": self._pong,
            "logging/setLevel": self.hearing.set_level,
            "resources/subscribe": self.hearing.change_subscription,
            "resources/unsubscribe": self.hearing.change_subscription,
            **dict.fromkeys(LEGACY_TASK_METHODS, self._task_calls.legacy_task),
            **dict.fromkeys(NOT_IN_LEGACY, self._unknown),
        }
        self.forwards: frozenset[bytes] = frozenset()
        """Headers of clients' requests that go on to the server."""
        self.requires: tuple[str, ...] = ()
        """Headers without which a request is refused."""
        self.additions: own.Additions | None = None
        self.listeners: dict[ListenStream, None] = {}
        self.use(chain, None)

    def use(
        self,
        chain: list[Middleware],
        concerned: frozenset[str] | None,
        watch: Watch | None = None,
        quick: Quick | None = None,
    ) -> None:
        """From now on this chain is what requests pass; who is on the way through another one goes on there.

        `concerned` are the only methods that the chain is about; None: it is about all. `quick` is the chain
        again, if it never waits.
        """
        self._chain = chain
        self._quick = quick
        self.watch = watch
        self._handle: Handler = compose(chain, self._route)
        self._concerned = about = concerned if chain else frozenset[str]()
        self._looks_at = None if about is None else about | OURS_IN_MODERN
        self._legacy_looks_at = None if about is None else about | self._legacy_routes.keys()
        """The methods that must not take the short way; None: all."""

    def retire(self) -> None:
        """Another one answers in its place, or none: what is under way may end, nothing new begins."""
        if self._refuse_anew not in self._chain:
            self.use([self._refuse_anew, *self._chain], None, self.watch)

    def awaits(self, method: str | None, params: meta.Params) -> bool:
        """Whether a modern request is the retry of a call that is under way here, or about a task."""
        if method in MODERN_TASK_METHODS:
            return self._task_calls.knows(meta.text(params.task_id))
        return method in INPUT_METHODS and self.interactions.waits_at(self, params)

    async def _refuse_anew(self, exchange: Exchange, handler: Handler) -> Answer | None:
        if exchange.client.era is Era.MODERN:
            is_known = self.awaits(exchange.method, exchange.read_params())
        else:
            is_known = exchange.method in LEGACY_TASK_METHODS and self._task_calls.begins_nothing(exchange)
        if is_known:
            return await handler(exchange)
        raise UpstreamUnavailable(f"`{self.id}` was taken away or changed; connect again")

    def announce(self) -> None:
        """Its lists may look different from now on: whoever listens is told to ask again, and hears no more
        of resources that they may not read now."""
        for session in self.upstream.sessions:
            for subscriber in session.subscribers:
                if self.watch is not None and isinstance(subscriber, (LegacyClient, ListenStream)):
                    uris = subscriber.wants.resource_subscriptions
                    left = tuple(uri for uri in uris if self.watch.lets_read(subscriber.caller, uri))
                    subscriber.wants = msgspec.structs.replace(subscriber.wants, resource_subscriptions=left)
            for method in (TOOLS_CHANGED, PROMPTS_CHANGED, RESOURCES_CHANGED):
                deliver(session.subscribers, method, b"")

    # Running an exchange

    def start(self, exchange: Exchange) -> None:
        """Begin to work on a request; its sink gets the answer."""
        now = monotonic()
        policy = self.upstream.policy
        exchange.started = now
        exchange.patience = policy.call_seconds
        exchange.deadline = now + policy.call_seconds
        exchange.final_deadline = now + policy.total_seconds
        self.exchanges[exchange] = None
        if self.tracer.active and self.tracer.is_recording:
            exchange.relayable = False
        if self._looks_at is not None and self._begin_directly(exchange):
            return
        quick = None if self._passes_by(exchange) else self._quick
        if quick is not None and self._begin_quickly(quick, exchange):
            return
        self.take_over(exchange)

    def _passes_by(self, exchange: Exchange) -> bool:
        """Whether nothing in the chain is about this exchange."""
        return self._concerned is not None and exchange.method not in self._concerned

    def handle(self, exchange: Exchange) -> Awaitable[Answer | None]:
        """The answer to a request that somebody else sees to."""
        return (self._route if self._passes_by(exchange) else self._handle)(exchange)

    def take_over(self, exchange: Exchange) -> None:
        """Run an exchange as a task."""
        loop = self._loop
        if loop is None:  # asked for once: it is a system call
            loop = self._loop = asyncio.get_running_loop()
        exchange.task = loop.create_task(self._run(exchange))

    def _begin_directly(self, exchange: Exchange) -> bool:
        """Whether the exchange could be sent on the short way, where nothing but its bytes matter."""
        if exchange.sink is None or self.tracer.active or self.upstream.policy.share == "call":
            return False
        if exchange.client.era is Era.LEGACY:
            if not self.goes_directly(exchange.method, exchange.body):
                return False
        elif self._param_headers or self._looks_at is None or exchange.method in self._looks_at:
            return False
        elif tasks.may_declare_extension(exchange.client.capabilities):
            return False  # its answer may be a task, whose owner has to be remembered
        return self.upstream.begin_directly(self, exchange)

    def _begin_quickly(self, quick: Quick, exchange: Exchange) -> bool:
        """A call that its chain lets through at once can take the short way too."""
        if exchange.sink is None or exchange.guarded or self.tracer.active or self._param_headers:
            return False
        if self.quick_for(exchange.method, exchange.body) is not quick:
            return False
        if self.upstream.policy.share == "call" or tasks.may_declare_extension(exchange.client.capabilities):
            return False
        exchange.guard = quick
        quick.enter(exchange)
        return exchange.checked and self.upstream.begin_directly(self, exchange)

    def quick_for(self, method: str, body: bytes) -> Quick | None:
        """The chain of a call which neither waits in it nor asks for a task."""
        if method != "tools/call" or b'"task"' in body or b"\\u" in body:
            return None
        return self._quick

    def finish_directly(self, exchange: Exchange, data: bytes, result: Raw) -> None:
        """The answer of a call on the short way, through the rest of its chain."""
        guard = exchange.guard
        assert guard is not None
        try:
            given = Answer(version=exchange.client.version, whole=data, result=result)
            answer = guard.leave(exchange, given)
            if answer is given and exchange.sink is not None:
                exchange.sink.answer(data)
            else:
                self._finish(exchange, answer)
        except RpcError as error:
            self._fail(exchange, error)
        except Exception as error:  # noqa: BLE001 - the end of the chain: nothing else breaks
            self._fail(exchange, answering.broken(self.id, exchange.method, error))

    def goes_directly(self, method: str, body: bytes) -> bool:
        """Whether a request of a legacy client concerns nobody but the server at the other end."""
        if self._legacy_looks_at is None or method in self._legacy_looks_at:
            return False
        return b'"task"' not in body and b"\\u" not in body  # a name may be spelled with escapes

    async def _run(self, exchange: Exchange) -> None:
        exchange.begun = True
        try:
            if exchange.withdrawn:
                raise self._withdrawal(exchange)
            # What was sent on the short way is no business of a chain that has come since.
            passes_by = exchange.posted is not None or self._passes_by(exchange)
            handle = self._route if passes_by else self._handle
            if exchange.guard is not None:  # which may be another one by now
                handle = compose([exchange.guard, *exchange.guard.after], self._route)
            self._finish(exchange, await handle(exchange))
        except asyncio.CancelledError:
            self._cancelled(exchange)
        except RpcError as error:
            self._fail(exchange, error)
        except msgspec.DecodeError as error:  # a rule had to look at what its decoder does not take
            log.warning("%s: `%s` cannot be read: %s", self.id, exchange.method, error)
            self._fail(exchange, InvalidParams(f"the request or its answer cannot be read: {error}"))
        except Exception as error:  # noqa: BLE001 - the end of the chain: nothing else breaks
            self._fail(exchange, answering.broken(self.id, exchange.method, error))
        finally:
            self.forget(exchange)
            if exchange.parked is not None:
                self.interactions.forget(exchange)

    def _withdrawal(self, exchange: Exchange) -> asyncio.CancelledError:
        """A request that was taken back before its first step; the chain it has entered hears of it."""
        cancelled = asyncio.CancelledError()
        if exchange.guard is not None:
            exchange.guard.fail(exchange, cancelled)
        return cancelled

    def forget(self, exchange: Exchange) -> None:
        del self.exchanges[exchange]
        running = exchange.client.running
        if exchange.key is not None and running.get(exchange.key) is exchange:
            del running[exchange.key]

    def _cancelled(self, exchange: Exchange) -> None:
        if exchange.failure is not None:
            self._fail(exchange, exchange.failure)
        elif exchange.sink is not None:
            exchange.sink.drop()

    def _fail(self, exchange: Exchange, error: RpcError) -> None:
        if exchange.sink is None:
            failed = Answer(version=exchange.client.version, error=error.encode())
            self.interactions.keep_outcome(exchange, failed)
        else:
            answering.refuse(exchange, error, exchange.sink)

    def _finish(self, exchange: Exchange, answer: Answer | None) -> None:
        sink = exchange.sink
        if answer is None:
            return
        if answer.kept is not None:
            if sink is not None and exchange.relayable and answering.send_kept(exchange, answer, sink):
                return
            answer = Answer(version=answer.version, result=answer.kept.load())
        if sink is None:
            self.interactions.keep_outcome(exchange, answer)
            return
        if answer.relay is not None:
            sink.relay(answer.relay)
            return
        if exchange.method == "tools/list" and exchange.client.era is Era.MODERN:
            self._learn_param_headers(exchange.client, answer.result)
        answering.send(exchange, answer, sink)

    def _learn_param_headers(self, client: Client, tools: Raw | bytes) -> None:
        known = self._param_headers or jsonrpc.may_contain(tools, b'"x-mcp-header"')
        if known and not self.upstream.checks_headers(client):
            self._param_headers.learn(tools)

    def look_after(self, exchange: Exchange, now: float) -> None:
        """Deadline and keep-alive of something in flight; called a few times a second."""
        if exchange.sink is None:
            return  # it waits for its client, which has a limit of its own
        if exchange.failure is not None:
            return  # it is being given up already
        if now > exchange.deadline:
            waited = now - exchange.started
            exchange.fail(UpstreamTimedOut(f"`{self.id}` did not answer within {waited:.0f} s"))
        elif self._task_calls.should_be_task(exchange, now):
            self._task_calls.make_task(exchange)
        else:
            exchange.sink.tick(now - exchange.started)

    def tidy(self, now: float) -> None:
        """Give up what nobody needs any more; called every few seconds."""
        self.tasks.sweep(now)
        self.upstream.stop_idle(now)

    # Routing

    def _route(self, exchange: Exchange) -> Awaitable[Answer | None]:
        """Who answers; not a coroutine itself, since every layer of them costs each call a little."""
        if exchange.client.era is Era.MODERN:
            return self._route_modern(exchange)
        special = self._legacy_routes.get(exchange.method)
        if special is not None:
            return special(exchange)
        if exchange.method == "tools/call" and jsonrpc.may_contain(exchange.body, b'"task"'):
            return self._task_calls.call_or_task(exchange)
        return self.upstream.call(exchange)

    async def _pong(self, exchange: Exchange) -> Answer:
        return Answer(version=exchange.client.version, result=b"{}")

    async def _unknown(self, exchange: Exchange) -> Answer:
        raise MethodNotFound(f"`{exchange.method}` does not exist in revision {exchange.client.version}")

    async def _route_modern(self, exchange: Exchange) -> Answer | None:
        method = exchange.method
        if method in GONE_IN_MODERN:
            raise MethodNotFound(f"`{method}` does not exist in revision {exchange.client.version}")
        if method == "server/discover":
            return await self._discover(exchange)
        if method == "subscriptions/listen":
            return await self._listen(exchange)
        if method in MODERN_TASK_METHODS:
            if is_ours(exchange):
                return self.tasks.answer_modern(exchange)
            return await self._task_owners.ask(exchange, self.upstream.call)
        if method in INPUT_METHODS:
            if method == "tools/call" and self._param_headers:
                self._param_headers.check(exchange)
            answer = await self._input_calls.call(exchange)
            if answer is not None and method == "tools/call":
                await self._task_owners.learn(exchange.client, answer)
            return answer
        return await self.upstream.call(exchange)

    # What the gateway answers itself

    async def introduce(self, client: LegacyClient) -> bytes:
        """The result of `initialize`."""
        found = await self._learn(client)
        return profiles.initialize_result(found, client.version, self.id, self._added)

    async def _learn(self, client: Client) -> profiles.Profile:
        try:
            return await self.upstream.learn(client)
        except LoginNeeded:
            return profiles.UNKNOWN  # whoever uses it is asked then, when they can be

    @property
    def _added(self) -> own.Capabilities:
        return own.NOTHING if self.additions is None else self.additions.capabilities

    def introductions(self) -> list[tuple[str, str, bytes]]:
        """What the server said of itself in each open session: the session, the method, the result."""
        found: list[tuple[str, str, bytes]] = []
        for session in self.upstream.sessions:
            profile = session.profile
            if profile is None:
                continue
            if profile.era is Era.LEGACY:
                result = profiles.initialize_result(profile, profile.version, self.id)
                found.append((session.wire_label, "initialize", result))
            else:
                found.append(
                    (session.wire_label, "server/discover", profiles.discover_result(profile, self.id))
                )
        return found

    def reasons(self, now: float) -> list[str]:
        """What is wrong with this server, for the health report."""
        found = [*self.upstream.health.reasons(now), *(self.watch.reasons() if self.watch else ())]
        return found if self.additions is None else [*found, *self.additions.reasons()]

    async def _introduce_itself(self, exchange: Exchange) -> Answer:
        client = exchange.client
        assert isinstance(client, LegacyClient)
        return Answer(version=client.version, result=await self.introduce(client))

    async def _discover(self, exchange: Exchange) -> Answer:
        found = await self._learn(exchange.client)
        if found.era is Era.LEGACY:
            result = profiles.discover_result(found, self.id, self._added)
            return Answer(version=exchange.client.version, result=result)
        answer = await self.upstream.call(exchange)
        if answer.error or answer.relay is not None:
            return answer
        spoken = msgspec.json.encode(profiles.MODERN_VERSIONS)
        result = meta.with_member(answer.result, "supportedVersions", spoken)
        if self.additions is not None:
            capabilities = jsonrpc.members(result).get("capabilities", b"{}")
            result = meta.with_member(result, "capabilities", own.merged(capabilities, self._added))
        return Answer(version=answer.version, result=result)

    async def _listen(self, exchange: Exchange) -> Answer:
        """A stream of changes, open until the client closes it or the server is gone."""
        raw = jsonrpc.members(exchange.envelope.params).get("notifications", b"{}")
        try:
            wish = msgspec.json.decode(raw, type=Filter)
        except msgspec.DecodeError as error:
            raise InvalidParams(f"`notifications` cannot be read: {error}") from None
        if len(wish.resource_subscriptions) + len(wish.task_ids) > MAX_SUBSCRIPTIONS:
            raise InvalidParams(f"a stream has at most {MAX_SUBSCRIPTIONS} subscriptions")
        wish = await self._task_owners.narrow(exchange.client, wish)
        session = await self.upstream.session_for(exchange.client)
        stream = ListenStream(exchange, wish)
        exchange.deadline = exchange.final_deadline = float("inf")
        self.listeners[stream] = None
        try:
            stream.acknowledge(own.granted(await session.subscribe(stream), wish, self._added))
            await stream.ended
        finally:
            del self.listeners[stream]
            await asyncio.shield(session.unsubscribe(stream))
        return Answer(version=exchange.client.version, result=stream.closing_result())

    async def give_up(self, why: str) -> None:
        """Whoever still waits for an answer is told that none will come."""
        for stream in list(self.listeners):
            stream.end(why)
        waiting = [exchange for exchange in self.exchanges if exchange.method != "subscriptions/listen"]
        for exchange in waiting:
            exchange.fail(UpstreamFailed(why))
        tasks = [exchange.task for exchange in self.exchanges if exchange.task is not None]
        if tasks:
            await asyncio.wait(tasks, timeout=FAREWELL_SECONDS)

    async def close(self) -> None:
        self.hearing.close()
        for exchange in list(self.exchanges):
            exchange.cancel()
        await self.upstream.close()

    async def detach(self, client: LegacyClient) -> None:
        """The client is gone."""
        session = self.upstream.session_if_open(client)
        try:
            if session is not None and session.owner is not client and client in session.subscribers:
                await session.unsubscribe(client)
        except UpstreamFailed as error:
            log.info("%s: %s", self.id, error)
        finally:
            self.upstream.release(client)
            if self.additions is not None:
                await self.additions.client_gone(client)
