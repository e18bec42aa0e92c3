"""Finding out how a server speaks: its era and its transport, as the specification says to find out."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any, Final, Protocol, cast

import msgspec

from mooring.errors import (
    HEADER_MISMATCH,
    MISSING_CAPABILITY,
    UNSUPPORTED_VERSION,
    UpstreamFailed,
    UpstreamUnavailable,
)
from mooring.gateway import profile as profiles
from mooring.gateway.exchange import Client
from mooring.gateway.legacy_session import SHARED_CAPABILITIES, HandshakeRefused, LegacySession
from mooring.gateway.modern_session import ModernSession
from mooring.gateway.profile import Profile
from mooring.gateway.tracing import Tracer
from mooring.gateway.upstream_session import UpstreamSession
from mooring.protocol import jsonrpc, meta, routing_headers
from mooring.protocol.jsonrpc import Envelope
from mooring.protocol.versions import LATEST_LEGACY, LATEST_MODERN, LEGACY_VERSIONS, MODERN_VERSIONS, Era
from mooring.transports.dialing import Dialer, Transport
from mooring.transports.streamable_wire import HttpRefused
from mooring.transports.wire import Answer, Leg, Wire

PROBE_SECONDS: Final = 3.0
"""How long a server may take to answer `server/discover` before we greet it in the legacy way."""
_MODERN_ERRORS: Final = frozenset({HEADER_MISMATCH, MISSING_CAPABILITY, UNSUPPORTED_VERSION})
_FALL_BACK_STATUSES: Final = frozenset({400, 404, 405})
_PROBE: Final = meta.with_request_metadata(
    b"", version=LATEST_MODERN, capabilities=b"{}", client_info=b'{"name":"mooring","version":"0.1.0"}', log_level=b""
)


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a server speaks, as far as we know or were told."""

    transport: Transport | None = None
    era: Era | None = None


class Opening(Protocol):
    """What it takes to open a session: for whom, and how to make the session object."""

    key: str
    owner: Client | None
    version: str
    capabilities: bytes
    info: bytes


@dataclass(frozen=True, slots=True)
class SharedOpening:
    """A session for several clients declares what we can pass on to each of them."""

    key: str
    owner: Client | None = None
    version: str = LATEST_LEGACY
    capabilities: bytes = SHARED_CAPABILITIES
    info: bytes = b""


class Detector:
    """Opens sessions with one server, and remembers what it learned about it in doing so."""

    def __init__(self, dialer: Dialer, pinned: Verdict, tracer: Tracer) -> None:
        self._dialer = dialer
        self._pinned = pinned
        self._tracer = tracer
        self.verdict = pinned
        self.modern_profile: Profile | None = None

    async def open(self, opening: Opening) -> UpstreamSession:
        """A session in whatever way the server speaks; a verdict that proves wrong is found anew, once."""
        known = self.verdict
        try:
            return await self._open(opening)
        except UpstreamUnavailable:
            if known == self._pinned:
                raise
            self.forget()
            return await self._open(opening)

    def forget(self) -> None:
        self.verdict = self._pinned
        self.modern_profile = None

    async def _open(self, opening: Opening) -> UpstreamSession:
        transports = (self.verdict.transport,) if self.verdict.transport else self._dialer.transports
        for index, transport in enumerate(transports):
            try:
                session = await self._open_by(transport, opening)
            except HttpRefused as error:
                last = index == len(transports) - 1
                if last or error.http_status not in _FALL_BACK_STATUSES:
                    raise
                continue
            self.verdict = Verdict(transport, session.era)
            return session
        raise UpstreamUnavailable("the server speaks none of the transports we know")

    async def _open_by(self, transport: Transport, opening: Opening) -> UpstreamSession:
        modern = ModernSession(opening.key, opening.owner, self._tracer)
        legacy = LegacySession(opening.key, opening.owner, self._tracer)
        if transport is Transport.SSE:
            wire = await self._dialer.dial(transport, legacy)
            return await self._greet(legacy, wire, opening)
        if self.verdict.era is Era.MODERN and self.modern_profile is not None:
            modern.open(await self._dialer.dial(transport, modern), self.modern_profile)
            return modern
        events = _Switch(modern, legacy)
        wire = await self._dialer.dial(transport, events)
        late: asyncio.Task[Answer] | None = None
        if self.verdict.era is not Era.LEGACY:
            found, late = await self._probe(wire)
            if found is not None:
                return self._open_modern(modern, wire, found, events)
            if self.verdict.era is Era.MODERN:
                await wire.close()
                raise UpstreamUnavailable("the server does not speak 2026-07-28; set `era: auto` or `legacy`")
        events.settle(legacy)
        try:
            return await self._greet(legacy, wire, opening)
        except UpstreamUnavailable:
            if late is not None and late.done() and not late.cancelled() and late.exception() is None:
                found = _read_probe(late.result())
                if found is not None:
                    return self._open_modern(modern, wire, found, events)
            raise
        finally:
            if late is not None:
                late.cancel()

    def _open_modern(self, modern: ModernSession, wire: Wire, found: Profile, events: _Switch) -> ModernSession:
        events.settle(modern)
        self.modern_profile = found
        modern.open(wire, found)
        return modern

    async def _greet(self, legacy: LegacySession, wire: Wire, opening: Opening) -> LegacySession:
        try:
            await legacy.open(wire, opening.version, opening.capabilities, opening.info)
        except HandshakeRefused as error:
            await wire.close()
            if error.answer.status in _FALL_BACK_STATUSES:
                raise HttpRefused(error.answer.status, started=False) from error
            raise
        except BaseException:
            await wire.close()
            raise
        return legacy

    async def _probe(self, wire: Wire) -> tuple[Profile | None, asyncio.Task[Answer] | None]:
        """Ask `server/discover`. Whatever is not clearly a modern answer means legacy, never one certain code."""
        leg = Leg("server/discover", _PROBE, _ignore)
        if wire.correlates:
            leg.headers = routing_headers.write(LATEST_MODERN, "server/discover", None)
        probe = asyncio.get_running_loop().create_task(_quietly(wire, leg))
        done, _ = await asyncio.wait({probe}, timeout=PROBE_SECONDS)
        if not done:
            return None, probe
        return _read_probe(probe.result()), None


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
    """An error that only a modern server sends proves one; it must then also speak a revision that we speak."""
    error = cast("dict[str, Any]", msgspec.json.decode(answer.error))
    if error.get("code") not in _MODERN_ERRORS:
        return None
    data = error.get("data")
    supported = cast("dict[str, Any]", data).get("supported", []) if isinstance(data, dict) else []
    if any(version in MODERN_VERSIONS for version in supported):
        return profiles.Profile(Era.MODERN, LATEST_MODERN, b"{}", b"", b"")
    if any(version in LEGACY_VERSIONS for version in supported):
        return None
    raise UpstreamUnavailable(f"the server speaks only revisions we do not: {supported}")


def _ignore(_envelope: Envelope, _data: bytes) -> None:
    """What a server says while it is being asked how it speaks concerns nobody."""


class _Switch:
    """The wire is opened before we know what kind of session it will carry."""

    def __init__(self, first: UpstreamSession, second: UpstreamSession) -> None:
        self._target = first
        second.wire_label  # noqa: B018 - both answer to the same events

    def settle(self, target: UpstreamSession) -> None:
        self._target = target

    @property
    def tracing(self) -> bool:
        return self._target.tracing

    def on_traffic(self, direction: str, data: bytes) -> None:
        self._target.on_traffic(direction, data)

    def on_unsolicited(self, envelope: Envelope, data: bytes) -> None:
        self._target.on_unsolicited(envelope, data)  # type: ignore[attr-defined]

    def on_noise(self, data: bytes, why: str) -> None:
        self._target.on_noise(data, why)

    def on_lost(self, reason: str) -> None:
        self._target.on_lost(reason)


__all__ = ["Detector", "Opening", "SharedOpening", "Verdict", "jsonrpc"]
