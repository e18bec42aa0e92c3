"""From what the configuration says to what is made of it: how a server is reached, what listens."""

from __future__ import annotations

import ssl
from typing import Final

from mooring.config import schema
from mooring.config.credentials_build import Credentials
from mooring.gateway.detection import Verdict
from mooring.gateway.health import BreakerPolicy
from mooring.gateway.upstream import UpstreamPolicy
from mooring.interfaces.gateway_app import GatewayApp
from mooring.protocol.versions import Era
from mooring.transports.dialing import Dialer, HttpDialer, Transport
from mooring.transports.http_endpoint import Endpoint
from mooring.transports.http_limits import ClientLimits
from mooring.transports.http_request import Request
from mooring.transports.http_rules import Refusal

ERAS: Final = {"auto": None, "legacy": Era.LEGACY, "modern": Era.MODERN}
TRANSPORTS: Final = {
    "auto": (Transport.STREAMABLE_HTTP, Transport.SSE),
    "streamable_http": (Transport.STREAMABLE_HTTP,),
    "sse": (Transport.SSE,),
}


def policy_of(entry: schema.Server, session_retries: int) -> UpstreamPolicy:
    """How a server is shared, and how long it may take."""
    return UpstreamPolicy(
        share=entry.share,
        connect_seconds=entry.timeouts.connect_seconds,
        call_seconds=entry.timeouts.call_seconds,
        total_seconds=entry.timeouts.total_seconds,
        idle_stop_seconds=entry.timeouts.idle_stop_seconds,
        session_retries=session_retries,
        breaker=BreakerPolicy(entry.breaker.failures, entry.breaker.open_seconds),
    )


def pinned_of(transports: tuple[Transport, ...], era: str | None) -> Verdict:
    """What need not be found out, because the configuration says it."""
    return Verdict(transports[0] if len(transports) == 1 else None, ERAS[era or "auto"])


def http_dialer(
    entry: schema.Server, credentials: Credentials, max_message_bytes: int
) -> tuple[Dialer, Verdict]:
    """How a server at a URL is reached."""
    assert entry.upstream is not None
    upstream = entry.upstream
    transports = TRANSPORTS[upstream.transport]
    limits = ClientLimits(connect_seconds=entry.timeouts.connect_seconds, head_seconds=None)
    forwards = bool(upstream.forward_headers)
    pool = credentials.pool_for(entry.id, upstream.url, upstream.auth, limits, forwards=forwards)
    dialer = HttpDialer(
        upstream.url, pool, upstream.headers, transports=transports, max_message_bytes=max_message_bytes
    )
    return dialer, pinned_of(transports, upstream.era)


class LateApp:
    """The listener must know its port before the application can know its own address."""

    app: GatewayApp | None = None

    def accept(self, request: Request) -> Endpoint:
        if self.app is None:
            raise Refusal(503, "the gateway is starting; try again in a moment")
        return self.app.accept(request)


def tls_context(tls: schema.Tls) -> ssl.SSLContext | None:
    if tls.cert is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(tls.cert, tls.key)
    return context
