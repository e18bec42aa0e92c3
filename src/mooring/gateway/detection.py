"""Finding out how a server speaks: its era and its transport, as the specification says to find out."""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec
from msgspec import Struct

from mooring.errors import (
    HEADER_MISMATCH,
    MISSING_CAPABILITY,
    UNSUPPORTED_VERSION,
    LoginNeeded,
    UpstreamFailed,
    UpstreamUnavailable,
)
from mooring.gateway import profile as profiles
from mooring.gateway.exchange import Client
from mooring.gateway.legacy_refusals import HandshakeRefused, OtherEra
from mooring.gateway.legacy_session import SHARED_CAPABILITIES, LegacySession
from mooring.gateway.modern_session import ModernSession
from mooring.gateway.principal import Caller
from mooring.gateway.profile import Profile
from mooring.gateway.tracing import Tracer
from mooring.gateway.upstream_session import UpstreamSession, error_code
from mooring.protocol import meta, routing_headers
from mooring.protocol.jsonrpc import Envelope
from mooring.protocol.versions import LATEST_LEGACY, LATEST_MODERN, LEGACY_VERSIONS, MODERN_VERSIONS, Era
from mooring.transports.dialing import Dialer, Folders, Transport
from mooring.transports.streamable_wire import HttpRefused
from mooring.transports.wire import Answer, Leg, Wire

PROBE_SECONDS: Final = 3.0
"""How long a server may take to answer `server/discover` before we greet it in the legacy way."""
_MODERN_ERRORS: Final = frozenset({HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION})
FALL_BACK_STATUSES: Final = frozenset({400, 404, 405})
PROBE: Final = meta.with_request_metadata(
    b"",
    version=LATEST_MODERN,
    capabilities=b"{}",
    client_info=b'{"name":"mooring","version":"0.1.0"}',
    log_level=b"",
)


class Verdict(Struct, frozen=True):
    """How a server speaks, as far as we know or were told."""

    transport: Transport | None = None
    era: Era | None = None


class Opening(Struct, frozen=True):
    """What it takes to open a session: in whose name, and in which era rather than the other.

    A session for several clients declares everything that we can pass on to whoever of them calls.
    """

    key: str
    prefers: Era
    owner: Client | None = None
    version: str = LATEST_LEGACY
    capabilities: bytes = SHARED_CAPABILITIES
    info: bytes = b""
    asker: Client | None = None
    """Whose first call needs it, and whose folders its process sees; none if it is everybody's."""
    folders: Folders = ()
    caller: Caller | None = None
    """Who it is for, where what the server is shown depends on that."""


class Detector:
    """Opens sessions with one server, and remembers what it learned about it in doing so.

    A server may speak both eras. A client is then served in its own, where nothing needs translating: for a
    legacy client `initialize` is tried first, for a modern one `server/discover`.
    """

    def __init__(self, dialer: Dialer, pinned: Verdict, tracer: Tracer) -> None:
        self._dialer = dialer
        self._pinned = pinned
        self._tracer = tracer
        self._verdicts = dict.fromkeys(Era, pinned)
        self._modern_profile: Profile | None = None

    def verdict(self, prefers: Era) -> Verdict:
        return self._verdicts[prefers]

    async def open(self, opening: Opening) -> UpstreamSession:
        """A session in whatever way the server speaks; a verdict that proves wrong is found anew, once."""
        known = self._verdicts[opening.prefers]
        try:
            return await self._open(opening, known)
        except LoginNeeded:
            raise
        except UpstreamUnavailable:
            if known == self._pinned:
                raise
            self.forget()
            return await self._open(opening, self._pinned)

    async def is_modern_still(self, wire: Wire) -> bool:
        """Ask again, over HTTP; who does not answer has not become another one."""
        leg = Leg("server/discover", PROBE, _ignore)
        leg.headers = routing_headers.write(LATEST_MODERN, "server/discover", None)
        try:
            async with asyncio.timeout(PROBE_SECONDS):
                return _read_probe(await _quietly(wire, leg)) is not None
        except (UpstreamUnavailable, TimeoutError):
            return True

    def forget(self) -> None:
        """Know no more than what the configuration says."""
        self._verdicts = dict.fromkeys(Era, self._pinned)
        self._modern_profile = None

    async def _open(self, opening: Opening, known: Verdict) -> UpstreamSession:
        transports = (known.transport,) if known.transport else self._dialer.transports
        for transport in transports:
            try:
                session = await self._open_by(transport, opening, known.era)
            except HttpRefused as error:
                if transport is transports[-1] or error.http_status not in FALL_BACK_STATUSES:
                    raise
                continue
            self._verdicts[opening.prefers] = Verdict(transport, session.era)
            return session
        raise UpstreamUnavailable("the server speaks none of the transports we know")

    async def _open_by(self, transport: Transport, opening: Opening, era: Era | None) -> UpstreamSession:
        try:
            return await self._open_once(transport, opening, era)
        except UpstreamUnavailable:
            raise
        except UpstreamFailed:
            if era is not None or transport is not Transport.STDIO or opening.prefers is Era.LEGACY:
                raise
        # There are legacy servers that end if the first they hear is not `initialize`: say that to a new one.
        return await self._open_once(transport, opening, Era.LEGACY)

    async def _open_once(self, transport: Transport, opening: Opening, era: Era | None) -> UpstreamSession:
        attempt = _Attempt(
            ModernSession(opening.key, opening.owner, self._tracer),
            LegacySession(opening.key, opening.owner, self._tracer),
        )
        wire = await self._dialer.dial(transport, attempt, opening.folders, opening.caller)
        try:
            for tried in _order(transport, opening.prefers, era):
                if tried is Era.MODERN:
                    session = await self._try_modern(attempt, wire)
                elif wire.correlates and era is None and opening.prefers is Era.LEGACY:
                    session = await self._try_legacy(attempt, wire, opening, stamped=True)
                    if session is None and not attempt.is_modern:  # it may have stumbled over the stamp
                        session = await self._try_legacy(attempt, wire, opening, stamped=False)
                else:
                    session = await self._try_legacy(attempt, wire, opening, stamped=False)
                if session is not None:
                    return session
            raise attempt.failure or UpstreamUnavailable("the server does not speak the era it is pinned to")
        except BaseException:
            await wire.close()
            raise
        finally:
            attempt.give_up_waiting()

    async def _try_modern(self, attempt: _Attempt, wire: Wire) -> ModernSession | None:
        if self._modern_profile is None:
            self._modern_profile = await self._probe(attempt, wire)
        if self._modern_profile is None:
            return None
        return attempt.settle_modern(wire, self._modern_profile)

    async def _try_legacy(
        self, attempt: _Attempt, wire: Wire, opening: Opening, *, stamped: bool
    ) -> LegacySession | ModernSession | None:
        attempt.target = attempt.legacy
        try:
            await attempt.legacy.open(
                wire, opening.version, opening.capabilities, opening.info, stamped=stamped
            )
        except HandshakeRefused as error:
            status = error.answer.status
            attempt.is_modern = error_code(error.answer) in _MODERN_ERRORS
            fall_back = HttpRefused(status, started=False) if status in FALL_BACK_STATUSES else error
            attempt.failure = fall_back
        except HttpRefused as error:
            attempt.failure = error
        except OtherEra as error:
            attempt.is_modern = True
            attempt.failure = error
        else:
            return attempt.legacy
        late = attempt.late_answer()
        if late is not None:
            self._modern_profile = late
            return attempt.settle_modern(wire, late)
        return None

    async def _probe(self, attempt: _Attempt, wire: Wire) -> Profile | None:
        """Ask `server/discover`. Whatever is not clearly a modern answer means legacy, never one certain
        code."""
        attempt.target = attempt.modern
        leg = Leg("server/discover", PROBE, _ignore)
        if wire.correlates:
            leg.headers = routing_headers.write(LATEST_MODERN, "server/discover", None)
        probe = attempt.probe = asyncio.get_running_loop().create_task(_quietly(wire, leg))
        done, _ = await asyncio.wait({probe}, timeout=PROBE_SECONDS)
        return _read_probe(probe.result()) if done else None


def _order(transport: Transport, prefers: Era, known: Era | None) -> tuple[Era, ...]:
    if transport is Transport.SSE:
        return (Era.LEGACY,)
    if known is not None:
        return (known,)
    return (Era.LEGACY, Era.MODERN) if prefers is Era.LEGACY else (Era.MODERN, Era.LEGACY)


class _Attempt:
    """A wire is opened before we know what kind of session it will carry; its events go to the one being
    tried."""

    def __init__(self, modern: ModernSession, legacy: LegacySession) -> None:
        self.modern = modern
        self.legacy = legacy
        self.target: ModernSession | LegacySession = modern
        self.probe: asyncio.Task[Answer] | None = None
        self.failure: UpstreamUnavailable | HttpRefused | None = None
        self.is_modern = False

    def settle_modern(self, wire: Wire, profile: Profile) -> ModernSession:
        self.target = self.modern
        self.modern.open(wire, profile)
        return self.modern

    def late_answer(self) -> Profile | None:
        """What a slow server said to `server/discover` after we had gone on to `initialize`."""
        probe = self.probe
        if probe is None or not probe.done() or probe.cancelled() or probe.exception() is not None:
            return None
        return _read_probe(probe.result())

    def give_up_waiting(self) -> None:
        if self.probe is not None:
            self.probe.cancel()

    @property
    def tracing(self) -> bool:
        return self.target.tracing

    def on_traffic(self, direction: str, data: bytes) -> None:
        self.target.on_traffic(direction, data)

    def on_unsolicited(self, envelope: Envelope, data: bytes) -> None:
        self.target.on_unsolicited(envelope, data)

    def on_noise(self, data: bytes, why: str) -> None:
        self.target.on_noise(data, why)

    def on_lost(self, reason: str) -> None:
        self.target.on_lost(reason)


async def _quietly(wire: Wire, leg: Leg) -> Answer:
    try:
        return await wire.request(leg)
    except UpstreamUnavailable:
        raise
    except UpstreamFailed:
        return Answer(version="", error=b"{}")


def _read_probe(answer: Answer) -> Profile | None:
    if answer.error:
        return _read_probe_error(answer)
    try:
        supported = msgspec.json.decode(answer.result, type=_Discovered).supported_versions
    except msgspec.DecodeError:
        return None
    spoken = [version for version in MODERN_VERSIONS if version in supported]
    return profiles.from_discover(answer.result, spoken[0]) if spoken else None


class _Discovered(msgspec.Struct, rename="camel"):
    supported_versions: list[str]


def _read_probe_error(answer: Answer) -> Profile | None:
    """An error that only a modern server sends proves one; it must then also speak a revision that we
    speak."""
    try:
        error = msgspec.json.decode(answer.error, type=_ProbeError)
    except msgspec.DecodeError:
        return None
    if error.code not in _MODERN_ERRORS:
        return None
    supported = error.data.supported
    if any(version in MODERN_VERSIONS for version in supported):
        return profiles.Profile(Era.MODERN, LATEST_MODERN, b"{}", b"", b"")
    if any(version in LEGACY_VERSIONS for version in supported):
        return None
    raise UpstreamUnavailable(f"the server speaks only revisions we do not: {supported}")


class _Supported(msgspec.Struct):
    supported: list[str] = msgspec.field(default_factory=list[str])


class _ProbeError(msgspec.Struct):
    code: int = 0
    data: _Supported = msgspec.field(default_factory=_Supported)


def _ignore(_envelope: Envelope, _data: bytes) -> None:
    """What a server says while it is being asked how it speaks concerns nobody."""
