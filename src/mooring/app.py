"""The composition root: a configuration becomes one running gateway."""

from __future__ import annotations

import asyncio
import ctypes
import gc
import logging
import os
import signal
import ssl
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version as package_version
from pathlib import Path
from time import monotonic
from typing import Final, Self

from mooring.config import guarding, schema
from mooring.config.locations import socket_in
from mooring.gateway.detection import Verdict
from mooring.gateway.dispatch import Dispatcher
from mooring.gateway.health import BreakerPolicy
from mooring.gateway.interactions import Interactions
from mooring.gateway.principal import NOBODY, Caller
from mooring.gateway.sealing import Seal, load_key
from mooring.gateway.server import Server
from mooring.gateway.sessions import SessionTable
from mooring.gateway.tracing import Record, Tracer, encode_record
from mooring.gateway.upstream import Upstream, UpstreamPolicy
from mooring.interfaces.control import ControlApi
from mooring.interfaces.door import Door, Place, Refused, local_principal
from mooring.interfaces.gateway_app import GatewayApp
from mooring.interfaces.web_guard import WebGuard
from mooring.interfaces.well_known import PREFIX, ResourceMetadata
from mooring.protocol.versions import Era
from mooring.transports.child import Command
from mooring.transports.dialing import Dialer, HttpDialer, ProcessDialer, Transport
from mooring.transports.http_client import ClientPool, Origin
from mooring.transports.http_endpoint import Buffered, Endpoint
from mooring.transports.http_limits import ClientLimits, ListenerLimits
from mooring.transports.http_listener import Listener
from mooring.transports.http_request import Request

log = logging.getLogger(__name__)

SWEEP_SECONDS: Final = 0.25
TIDY_SECONDS: Final = 2.0
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
"""Names of glibc's `mallopt`."""
COLLECTOR_THRESHOLDS: Final = (20_000, 20, 50)
STOP_SECONDS: Final = 5.0
"""How long requests in flight get to finish when the gateway is told to stop."""


@dataclass(frozen=True, slots=True)
class Started:
    """Where a running gateway is reached."""

    url: str
    socket: Path
    servers: list[tuple[str, str]]


class Gateway:
    """Everything that runs for one configuration. An async context manager: it runs between enter and
    exit."""

    def __init__(self, config: schema.Config) -> None:
        self._config = config
        root = config.storage.root
        root.mkdir(parents=True, exist_ok=True)
        self._seal = Seal(load_key(root / "seal.key"))
        self._sessions = SessionTable(self._seal, config.sessions.idle_ttl_seconds)
        self._interactions = Interactions(self._seal, config.sessions.suspended_ttl_seconds)
        self._dispatcher = Dispatcher()
        self._trace_file = (
            _TraceFile(config.trace.file, with_bytes=config.trace.bytes) if config.trace.file else None
        )
        self._guard = guarding.Guard(config)
        self.servers = {entry.id: self._build_server(entry) for entry in config.servers}
        self._app: GatewayApp | None = None
        self._listener: Listener | None = None
        self._sweeper: asyncio.Task[None] | None = None
        self.started: Started | None = None

    def _build_server(self, entry: schema.Server) -> Server:
        tracer = Tracer(entry.id)
        if self._trace_file is not None:
            tracer.watch(self._trace_file.write)
        policy = UpstreamPolicy(
            share=entry.share,
            connect_seconds=entry.timeouts.connect_seconds,
            call_seconds=entry.timeouts.call_seconds,
            total_seconds=entry.timeouts.total_seconds,
            idle_stop_seconds=entry.timeouts.idle_stop_seconds,
            session_retries=self._config.sessions.upstream_session_termination_retries,
            breaker=BreakerPolicy(entry.breaker.failures, entry.breaker.open_seconds),
        )
        dialer, pinned = self._dialer(entry, tracer)
        upstream = Upstream(entry.id, dialer, pinned, policy, tracer)
        chain = self._guard.chain_for(entry)
        return Server(entry.id, upstream, self._interactions, tracer, chain.middlewares, chain.methods)

    def _dialer(self, entry: schema.Server, tracer: Tracer) -> tuple[Dialer, Verdict]:
        max_bytes = self._config.limits.max_message_bytes
        if entry.workload is not None:
            command = Command(tuple(entry.workload.run), entry.workload.env, entry.workload.cwd)
            on_log = partial(_log_stderr, entry.id, tracer)
            dialer = ProcessDialer(command, server_id=entry.id, max_message_bytes=max_bytes, on_log=on_log)
            return dialer, Verdict(Transport.STDIO)
        assert entry.upstream is not None
        upstream = entry.upstream
        transports = {
            "auto": (Transport.STREAMABLE_HTTP, Transport.SSE),
            "streamable_http": (Transport.STREAMABLE_HTTP,),
            "sse": (Transport.SSE,),
        }[upstream.transport]
        limits = ClientLimits(connect_seconds=entry.timeouts.connect_seconds, head_seconds=None)
        pool = ClientPool(Origin.of(upstream.url), limits)
        era = {"auto": None, "legacy": Era.LEGACY, "modern": Era.MODERN}[upstream.era]
        pinned = Verdict(transports[0] if len(transports) == 1 else None, era)
        return (
            HttpDialer(
                upstream.url, pool, upstream.headers, transports=transports, max_message_bytes=max_bytes
            ),
            pinned,
        )

    async def __aenter__(self) -> Self:
        config = self._config
        host, port = config.host, config.port
        tls = _tls_context(config.tls)
        control = ControlApi(
            self.servers,
            self._sessions,
            self._dispatcher,
            url_of=self.url_of,
            version=package_version("mooring"),
            max_message_bytes=config.limits.max_message_bytes,
            local=Caller(local_principal(), "unix") if config.auth.mode != "none" else NOBODY,
        )
        self._url = ""
        holder = _LateApp()
        listener = Listener(holder, ListenerLimits(max_connections=config.limits.max_connections))
        port = await listener.listen_tcp(host, port, ssl=tls)
        scheme = "https" if tls else "http"
        shown = f"[{host}]" if ":" in host else host
        self._url = (config.public_url or f"{scheme}://{shown}:{port}").rstrip("/")
        guard = WebGuard(host, port, config.public_url, config.cors.allowed_origins)
        holder.app = self._app = GatewayApp(
            self.servers,
            self._sessions,
            self._dispatcher,
            guard,
            control,
            max_body_bytes=config.limits.max_body_bytes,
            trust_proxy_headers=config.trust_proxy_headers,
            door=self._door(),
            places={name: self._place(name) for name in self.servers},
            documents=self._documents(),
        )
        socket = socket_in(config.storage.root)
        await listener.listen_unix(socket)
        self._listener = listener
        self._sweeper = asyncio.get_running_loop().create_task(self._sweep())
        self.started = Started(self._url, socket, [(entry, self.url_of(entry)) for entry in self.servers])
        return self

    # The guard

    def _door(self) -> Door | None:
        """None while authentication is off: then nobody stands there."""
        authenticator = guarding.authenticator(self._config)
        if authenticator is None:
            return None
        auth = self._config.auth
        return Door(
            authenticator,
            self._dispatcher,
            audiences=frozenset(auth.audience),
            trust_proxy_headers=self._config.trust_proxy_headers,
            failures_per_minute=auth.max_failures_per_minute,
            on_refused=_log_refusal,
        )

    def _place(self, server_id: str) -> Place:
        auth = self._config.auth
        described = f"{self._url}{PREFIX}/mcp/{server_id}" if auth.mode == "oidc" else None
        return Place(server_id, self.url_of(server_id), tuple(auth.required_scopes), described)

    def _documents(self) -> dict[bytes, Buffered]:
        auth = self._config.auth
        if auth.mode != "oidc":
            return {}
        scopes = list(dict.fromkeys(auth.required_scopes + auth.scopes_supported))
        described = {
            name: ResourceMetadata(self.url_of(name), name, auth.issuer, scopes) for name in self.servers
        }
        return {f"{PREFIX}/mcp/{name}".encode(): Buffered(described[name].handle, 0) for name in described}

    def url_of(self, server_id: str) -> str:
        return f"{self._url}/mcp/{server_id}"

    async def __aexit__(self, *_: object) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
        if self._listener is not None:
            await self._listener.close(
                STOP_SECONDS if any(s.exchanges for s in self.servers.values()) else 0.0
            )
        await self._sessions.close_all()
        await asyncio.gather(*(server.close() for server in self.servers.values()))
        await self._dispatcher.close()
        socket_in(self._config.storage.root).unlink(missing_ok=True)
        if self._trace_file is not None:
            self._trace_file.close()

    def _busy_servers(self) -> list[Server]:
        return [server for server in self.servers.values() if server.exchanges]

    async def _sweep(self) -> None:
        """Deadlines, keep-alives and expiry of everything, in one place and without a timer per request."""
        next_tidying = 0.0
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            now = monotonic()
            for server in self._busy_servers():
                for exchange in list(server.exchanges):
                    _guarded(server.look_after, exchange, now)
            if now >= next_tidying:
                next_tidying = now + TIDY_SECONDS
                _guarded(self._guard.tidy)
                for server in self.servers.values():
                    _guarded(server.tidy, now)
            _guarded(self._interactions.expire, now)
            if self._app is not None:
                _guarded(self._app.keep_alive, now)
            for client in self._sessions.sweep(now):
                self._dispatcher.spawn(self._sessions.close(client))


def _log_refusal(refused: Refused) -> None:
    log.warning("%s: %s from %s: %s", refused.server_id, refused.status, refused.address, refused.reason)


def _guarded(step: Callable[..., None], *arguments: object) -> None:
    """One thing that goes wrong must not keep the others from being looked after."""
    try:
        step(*arguments)
    except Exception:
        log.exception("looking after what runs failed; it goes on")


class _LateApp:
    """The listener must know its port before the application can know its own address."""

    app: GatewayApp

    def accept(self, request: Request) -> Endpoint:
        return self.app.accept(request)


class _TraceFile:
    """Every message of every server as a JSON line."""

    def __init__(self, path: Path, *, with_bytes: bool) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._file = os.fdopen(descriptor, "ab", buffering=0)
        self._with_bytes = with_bytes

    def write(self, record: Record) -> None:
        self._file.write(encode_record(record, with_bytes=self._with_bytes))

    def close(self) -> None:
        self._file.close()


def _log_stderr(server_id: str, tracer: Tracer, data: bytes) -> None:
    for line in data.decode("utf-8", "replace").splitlines():
        log.info("%s: %s", server_id, line)
    if tracer.active:
        tracer.noted("server", "stderr", data.decode("utf-8", "replace").strip()[:2000], data, "noise")


def _tls_context(tls: schema.Tls) -> ssl.SSLContext | None:
    if tls.cert is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(tls.cert, tls.key)
    return context


def run(config: schema.Config, *, ready: Callable[[Started], None]) -> int:
    """Run the gateway in the foreground until it is told to stop."""
    try:
        import uvloop  # noqa: PLC0415 - not everywhere
    except ImportError:
        return asyncio.run(_serve(config, ready))
    return uvloop.run(_serve(config, ready))


def _settle_memory() -> None:
    """What is loaded now stays; the collector need not look at it again, nor run every few requests."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(*COLLECTOR_THRESHOLDS)
    if sys.platform == "linux":
        # By default every large read buffer is mapped and unmapped anew, which costs more than filling it.
        with suppress(AttributeError, OSError):
            library = ctypes.CDLL(None)
            library.mallopt(_M_MMAP_THRESHOLD, 4 * 1024 * 1024)
            library.mallopt(_M_TRIM_THRESHOLD, 16 * 1024 * 1024)


async def _serve(config: schema.Config, ready: Callable[[Started], None]) -> int:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    async with Gateway(config) as gateway:
        assert gateway.started is not None
        _settle_memory()
        ready(gateway.started)
        await stop.wait()
    return 0
