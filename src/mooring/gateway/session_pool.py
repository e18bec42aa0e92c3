"""Our sessions with one server: which of them serves which client, opened when needed, given up when idle or
lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from time import monotonic
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from mooring.errors import (
    LoginNeeded,
    RpcError,
    UpstreamFailed,
    UpstreamUnavailable,
)
from mooring.gateway.detection import FALL_BACK_STATUSES, Detector, Opening, Verdict
from mooring.gateway.exchange import Client
from mooring.gateway.health import BreakerPolicy, Health
from mooring.gateway.legacy_session import INTERACTIVE, POOLED
from mooring.gateway.profile import Profile
from mooring.gateway.tracing import Tracer
from mooring.gateway.upstream_session import UpstreamSession
from mooring.protocol import jsonrpc
from mooring.protocol.versions import LATEST_LEGACY, Era
from mooring.transports.dialing import Dialer, Folders, Transport

MAX_PROCESSES: Final = 256
MAX_SESSIONS: Final = 100_000
"""How many sessions with one server we open at most: processes cost more than numbers in a table."""
_SUB_FLAGS: Final = {"listChanged", "tools", "context", "form", "url"}
LEASED_SESSIONS: Final = 8
"""How many sessions with one server serve interactive calls that cannot be told apart on one channel."""
LOOKS_PER_SECOND: Final = 1_000
"""How many sessions are looked at for idleness."""
DOUBT_SECONDS: Final = 5.0
"""How often a server that refuses requests is asked at most whether it is still what it was."""


class UpstreamPolicy(Struct, frozen=True):
    """How one server is shared and how long it may take."""

    share: str = "client"
    connect_seconds: float = 10.0
    call_seconds: float = 300.0
    total_seconds: float = 3600.0
    idle_stop_seconds: float | None = 300.0
    session_retries: int = 1
    breaker: BreakerPolicy = field(default_factory=BreakerPolicy)


class SessionPool:
    """All our sessions with one server."""

    def __init__(
        self, server_id: str, dialer: Dialer, pinned: Verdict, policy: UpstreamPolicy, tracer: Tracer
    ) -> None:
        self.server_id = server_id
        self.policy = policy
        self.health = Health(policy.breaker)
        self._profiles: dict[Era, Profile] = {}
        self._dialer = dialer
        self._detector = Detector(dialer, pinned, tracer)
        self._sessions: dict[str, UpstreamSession] = {}
        self._opening: dict[str, asyncio.Task[UpstreamSession]] = {}
        self._lease_waiters: list[asyncio.Future[None]] = []
        self.on_change: Callable[[str], None] | None = None
        self.folders_for: Callable[[Client], Awaitable[Folders]] | None = None
        """What a process that is started for this client sees of our files."""
        self._own_sessions = 0
        self.broken: str | None = None
        """Why a session ended that was not ended by us, the last time that happened."""
        self._closing: set[asyncio.Task[None]] = set()
        self._look_at = 0.0
        self._doubt_at = 0.0
        processes = dialer.transports == (Transport.STDIO,)
        self._most_sessions = MAX_PROCESSES if processes else MAX_SESSIONS

    @property
    def verdicts(self) -> list[Verdict]:
        """How the server turned out to speak, for each era that was asked for."""
        return [self._detector.verdict(era) for era in Era]

    @property
    def sessions(self) -> list[UpstreamSession]:
        """Those that are open, and those that broke and were not needed since."""
        return list(self._sessions.values())

    @property
    def has_separate_processes(self) -> bool:
        """Whether different principals never reach the same process."""
        return self.policy.share != "global" and self._dialer.transports == (Transport.STDIO,)

    @property
    def is_opening(self) -> bool:
        """Whether a session is on its way."""
        return bool(self._opening) or self._own_sessions > 0

    @property
    def session_count(self) -> int:
        return len(self._sessions)

    def refuse_if_down(self, now: float) -> None:
        left = self.health.blocked_for(now)
        if left > 0:
            reason = "; ".join(self.health.reasons(now)[:1])
            raise UpstreamUnavailable(f"`{self.server_id}` is down ({reason}); try again in {left:.0f} s")

    # Whom a session is for

    def _is_stateless(self, client: Client) -> bool:
        verdict = self._detector.verdict(client.era)
        return verdict.era is Era.MODERN and verdict.transport is Transport.STREAMABLE_HTTP

    async def became_another(self, client: Client, status: int | None) -> bool:
        """Whether a stateless server that refused a request with this HTTP status is a legacy one by now.

        Only such a server has no session that breaks when another program takes its place.
        """
        if status not in FALL_BACK_STATUSES or not self._is_stateless(client):
            return False
        now = monotonic()
        session = next((each for each in self._sessions.values() if each.era is Era.MODERN), None)
        if session is None or now < self._doubt_at:
            return False
        self._doubt_at = now + DOUBT_SECONDS
        if await self._detector.is_modern_still(session.wire):
            return False
        self._detector.forget()
        self._profiles.clear()
        for each in self.sessions:
            self.discard(each, "the server no longer speaks the revision it spoke")
        return True

    async def session_for(self, client: Client) -> UpstreamSession:
        """The session that serves this client, opened if need be."""
        key, opening = self._key_for(client)
        session = self._sessions.get(key)
        if session is not None and session.lost is None:
            if not session.tainted or session.calls:
                return session
            self.discard(session, "a call in it was given up")
        return await self._session(key, opening)

    def _key_for(self, client: Client) -> tuple[str, Opening]:
        if self._is_stateless(client):
            if self._dialer.personal:
                key = f"stateless:{_who(client)}"
                return key, Opening(key, client.era, caller=client.caller)
            return "stateless", Opening("stateless", client.era)
        match self.policy.share:
            case "global" if not self._dialer.personal:
                return "global", Opening("global", client.era)
            case "principal" | "global":
                key = f"principal:{_who(client)}"
                return key, Opening(key, client.era, caller=client.caller)
            case _:
                if client.era is Era.LEGACY:
                    return client.key, _opening_for(client, client.key, dedicated=True)
                # A call with files runs where its files are: its client then has a key of its own.
                key = POOLED + (client.key or _who(client))
                if self._detector.verdict(client.era).era is not Era.MODERN:
                    # A legacy server is told once and for all what its client can do.
                    key += f"|{_fingerprint(client.capabilities)}"
                return key, _opening_for(client, key, dedicated=False)

    async def _session(self, key: str, opening: Opening) -> UpstreamSession:
        """Opened once, however many ask for it at the same time."""
        session = self._sessions.get(key)
        if session is not None:
            if session.lost is None:
                return session
            self.discard(session, session.lost)
        task = self._opening.get(key)
        if task is None:
            if len(self._sessions) + len(self._opening) >= self._most_sessions:
                raise UpstreamUnavailable(
                    f"`{self.server_id}` already runs in {self._most_sessions} processes; try again later"
                )
            task = asyncio.get_running_loop().create_task(self._open_as(key, opening))
            self._opening[key] = task
            task.add_done_callback(lambda _: self._opening.pop(key))
        return await asyncio.shield(task)

    async def _open_as(self, key: str, opening: Opening) -> UpstreamSession:
        session = await self._open(opening)
        if session.era is Era.MODERN and key.startswith(POOLED):
            key = key.rpartition("|")[0] or key  # it turned out that capabilities do not matter to it
            other = self._sessions.get(key)
            if other is not None and other.lost is None:
                self._close_soon(session)  # and clients with others were faster
                return other
        self._sessions[key] = session
        return session

    async def _open(self, opening: Opening) -> UpstreamSession:
        if self.folders_for is not None and opening.asker is not None:
            opening = replace(opening, folders=await self.folders_for(opening.asker))
        try:
            async with asyncio.timeout(self.policy.connect_seconds):
                session = await self._detector.open(opening)
        except TimeoutError:
            raise UpstreamUnavailable(
                f"`{self.server_id}` did not answer within {self.policy.connect_seconds:g} s"
            ) from None
        except OSError as error:
            raise UpstreamUnavailable(f"`{self.server_id}` could not be started: {error}") from error
        session.last_used = monotonic()
        session.folders = opening.folders
        session.on_change = self.on_change
        session.personal = self._dialer.personal
        if session.profile is not None:
            self._profiles[opening.prefers] = session.profile
        return session

    async def learn(self, client: Client) -> Profile:
        """What the server is and can do; known from an earlier session, or asked now."""
        known = self._profiles.get(client.era)
        if known is None:
            self.refuse_if_down(monotonic())
            try:
                session = await self.session_for(client)
            except LoginNeeded:
                raise
            except UpstreamFailed as error:
                self.health.failed_with(error, monotonic())
                raise
            self.health.succeeded(monotonic())
            assert session.profile is not None
            return session.profile
        return known

    @property
    def profile(self) -> Profile | None:
        """What some session told us."""
        return next(iter(self._profiles.values()), None)

    def speaks_legacy_to(self, client: Client) -> bool:
        found = self._profiles.get(client.era)
        return found is not None and found.era is Era.LEGACY

    def session_if_open(self, client: Client) -> UpstreamSession | None:
        return self._sessions.get(self._key_for(client)[0])

    def release(self, client: Client) -> None:
        """This client is gone, and with it the session that was only its own."""
        session = self._sessions.get(client.key)
        if session is not None and session.owner is client:
            self.discard(session, "its client has gone")
        task = self._opening.get(client.key)
        if task is not None:
            task.add_done_callback(lambda _: self.release(client))

    def discard(self, session: UpstreamSession, reason: str) -> None:
        if session.lost is not None:
            self.broken = session.lost
        for key, known in list(self._sessions.items()):
            if known is session:
                del self._sessions[key]
        session.on_lost(reason)
        self._close_soon(session)

    def _close_soon(self, session: UpstreamSession) -> None:
        task = asyncio.get_running_loop().create_task(_close_quietly(session))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    def stop_idle(self, now: float) -> None:
        """Give up what nobody has used for a while. The more there are, the less often they are looked at."""
        if now < self._look_at:
            return
        self._look_at = now + len(self._sessions) / LOOKS_PER_SECOND
        for session in list(self._sessions.values()):
            if session.lost is not None and not session.calls:
                self.discard(session, session.lost)
            elif (
                self.policy.idle_stop_seconds is not None
                and session.idle
                and now - session.last_used > self.policy.idle_stop_seconds
            ):
                self.discard(session, "nobody used it")

    async def hang_up(self, reason: str) -> None:
        """End every session with the server; the next call opens a new one, and learns anew what it is.

        Those on their way are left to find out for themselves: somebody waits for them.
        """
        for session in list(self._sessions.values()):
            self.discard(session, reason)
        self._profiles.clear()
        self.broken = None
        if self._closing:
            await asyncio.wait(list(self._closing), timeout=10.0)

    async def close(self) -> None:
        for task in self._opening.values():
            task.cancel()
        await self.hang_up("the gateway is stopping")
        await self._dialer.close()

    # Sessions that no other call uses meanwhile

    @asynccontextmanager
    async def _own_session(self, client: Client) -> AsyncGenerator[UpstreamSession]:
        """`share: call`: a session for this call only."""
        if self._own_sessions >= self._most_sessions:
            raise UpstreamUnavailable(
                f"`{self.server_id}` has {self._most_sessions} calls running; try later"
            )
        self._own_sessions += 1
        try:
            session = await self._open(_opening_for(client, f"call:{id(client)}", dedicated=False))
            try:
                yield session
            finally:
                self._close_soon(session)
        finally:
            self._own_sessions -= 1

    @asynccontextmanager
    async def _leased(self, client: Client) -> AsyncGenerator[UpstreamSession]:
        """A session in which this is the only call, because its server may ask something of the caller."""
        key, opening = self._key_for(client)
        limit = LEASED_SESSIONS if self.policy.share == "client" else 1
        session = await self._lease(key, opening, limit)
        try:
            yield session
        finally:
            session.leased = False
            self._wake_lease_waiters()

    def _wake_lease_waiters(self) -> None:
        waiters, self._lease_waiters = self._lease_waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)

    async def _lease(self, key: str, opening: Opening, limit: int) -> UpstreamSession:
        while True:
            for number in range(limit):
                session = self._sessions.get(f"{key}#{number}" if number else key)
                if session is None or (not session.leased and not session.calls):
                    break
            else:
                waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
                self._lease_waiters.append(waiter)
                await waiter
                continue
            name = f"{key}#{number}" if number else key
            session = await self._session(name, opening)
            if session.tainted and not session.calls:
                self.discard(session, "a call in it was given up")
                continue
            if session.era is Era.MODERN or session.wire.correlates:
                return session  # it was not known before: its calls can be told apart
            if not session.leased and not session.calls:
                session.leased = True
                return session


async def _close_quietly(session: UpstreamSession) -> None:
    try:
        await session.close()
    except (RpcError, OSError) as error:
        session.on_noise(b"", f"closing: {error}")


def _opening_for(client: Client, key: str, *, dedicated: bool) -> Opening:
    capabilities = client.capabilities
    if client.era is Era.MODERN:
        known = jsonrpc.members(capabilities)
        known.pop("extensions", None)
        capabilities = jsonrpc.assemble(known)
    version = client.version if client.era is Era.LEGACY else LATEST_LEGACY
    owner = client if dedicated else None
    return Opening(key, client.era, owner, version, capabilities, client.info, client, caller=client.caller)


def _who(client: Client) -> str:
    """Whose session it is: of one principal, and with the same headers to pass on."""
    forwarded = client.caller.forwarded
    return f"{client.principal}|{forwarded.hex()}" if forwarded else client.principal


def is_interactive(client: Client) -> bool:
    declared = jsonrpc.members(client.capabilities)
    return any(name in declared for name in INTERACTIVE)


def _fingerprint(capabilities: bytes) -> str:
    """Clients that can be asked the same things may share a session, whatever else they declare."""
    declared = jsonrpc.members(capabilities)
    known = [
        f"{name}({','.join(sorted(_SUB_FLAGS & jsonrpc.members(declared[name]).keys()))})"
        for name in INTERACTIVE
        if name in declared
    ]
    return "+".join(known) or "none"
