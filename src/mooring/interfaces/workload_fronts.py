"""What a workload has of its own before its server: a guard on top of the gateway's, a door, an address."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import cache, partial
from pathlib import Path

import msgspec
from msgspec import Struct, field
from msgspec.structs import replace

from mooring.config.guarding import Guard, authenticator
from mooring.config.schema import Config
from mooring.config.workload_credentials import shows_token, upstream_auth
from mooring.config.workload_guard import Secret, authorities_of, forget, guard_config, resource_url
from mooring.gateway.dispatch import Dispatcher
from mooring.interfaces.door import Door, Refused
from mooring.interfaces.own_address import OwnAddress, Route
from mooring.interfaces.web_guard import WebGuard
from mooring.policy.credentials.settings import UpstreamAuth
from mooring.policy.settings import Auth
from mooring.transports.http_client import TlsContext, shared_tls_context, trusting
from mooring.transports.http_limits import ListenerLimits
from mooring.transports.http_listener import Listener
from mooring.transports.loopback import is_loopback
from mooring.workloads.runconfig import InvalidRunConfig, RunConfig
from mooring.workloads.supervisor import AddressTaken

LOOPBACK = "127.0.0.1"
OUTGOING_SECONDS = 3600.0
"""Longer than any drain: whoever sees a server out says when its connections end."""
FAREWELL_SECONDS = 1.0
"""How long the last answers of a server that has ended get to reach their readers."""


class Front(Struct, frozen=True):
    """One workload's own things."""

    run: RunConfig
    own: Config | None
    """What it adds to the guard of its server."""
    auth: Auth
    guard: Guard | None = None
    door: Door | None = None
    resource: str | None = None
    """What the server is called towards providers of tokens, if not by its address."""
    listener: Listener | None = None
    port: int = 0
    url: str | None = None
    credential: UpstreamAuth = field(default_factory=UpstreamAuth)
    """What the server is shown, if it is a remote one."""
    authorities: Path | None = None
    """Whom to believe about who it is, besides those the system believes."""

    @property
    def is_asking(self) -> bool:
        """Whether it has a way of its own to find out who calls."""
        return self.own is not None and self.own.auth.mode != "none"


class Outgoing(Struct, frozen=True):
    """The front of a server that was taken out, while its last calls end."""

    name: str
    front: Front
    closing: asyncio.Task[None] | None
    """Its address is somebody else's now: no more connections, those in use stay."""


class Fronts:
    """The fronts of all workloads; the application looks at `doors` and `guards`, which stay current."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        guard: Guard,
        secret: Secret,
        on_refused: Callable[[Refused], None],
        route: Route,
        tls: ssl.SSLContext | None,
    ) -> None:
        self._dispatcher = dispatcher
        self._guard = guard
        self._secret = secret
        self._on_refused = on_refused
        self._route = route
        self._tls = tls
        self._fronts: dict[str, Front] = {}
        self.doors: dict[str, Door] = {}
        self.guards: dict[bytes, WebGuard] = {}

    def get(self, name: str) -> Front | None:
        return self._fronts.get(name)

    @property
    def page(self) -> Callable[[], str] | None:
        """What Prometheus reads, where a workload wants it to."""
        pages = (front.guard.page for front in self._fronts.values() if front.guard is not None)
        return next((page for page in pages if page is not None), None)

    def url_of(self, name: str) -> str | None:
        """The address of its own, where it has one."""
        front = self._fronts.get(name)
        return None if front is None else front.url

    def authorities_of(self, name: str) -> TlsContext:
        """How a remote server proves who it is."""
        front = self._fronts.get(name)
        known = None if front is None else front.authorities
        return shared_tls_context if known is None else cache(partial(trusting, known))

    def check(self, config: Config, run: RunConfig) -> None:
        """Whether its front could be made; `InvalidRunConfig` says what is wrong."""
        guard_config(config, run, self._secret)
        upstream_auth(run, self._secret)
        authorities_of(run)
        _check_host(config, run)

    async def open(self, config: Config, run: RunConfig, listen: tuple[str, int]) -> None:
        """Make what it asks for. `AddressTaken` means that all but its own address is there."""
        own = guard_config(config, run, self._secret)
        _check_host(config, run)
        credential = upstream_auth(run, self._secret)
        authorities = authorities_of(run)
        front = Front(run, own, config.auth, credential=credential, authorities=authorities)
        if own is not None:
            guard = Guard(own, on_top_of=self._guard)
            front = self._with_door(replace(front, guard=guard, resource=resource_url(run)), config)
        self._put(front, config, listen)
        if run.fields.port:
            listener, url = await self._listen(config, run)
            self._fronts[run.name] = replace(front, listener=listener, port=run.fields.port, url=url)

    def use(self, config: Config, listen: tuple[str, int]) -> None:
        """The rules of the gateway changed, which hold for these servers too."""
        for front in tuple(self._fronts.values()):
            found = front if front.guard is None else self._with_door(front, config)
            self._put(found, config, listen)
            if found.listener is not None and isinstance(address := found.listener.app, OwnAddress):
                here = (front.run.fields.host or LOOPBACK, front.port)
                address.use(_web_guard(config, front.run, here, None))

    def _with_door(self, front: Front, config: Config) -> Front:
        own, guard = front.own, front.guard
        assert own is not None
        assert guard is not None
        auth = own.auth if front.is_asking else config.auth
        trusts = front.run.fields.trust_proxy_headers or config.trust_proxy_headers
        own = msgspec.structs.replace(own, auth=auth, trust_proxy_headers=trusts)
        return replace(front, auth=auth, door=self._door(own, guard))

    def _put(self, front: Front, config: Config, listen: tuple[str, int]) -> None:
        run = front.run
        self._forget(run.name)
        self._fronts[run.name] = front
        if front.door is not None:
            self.doors[run.name] = front.door
        if run.fields.allowed_origins:
            web = _web_guard(config, run, listen, config.public_url)
            for end in ("", "/sse", "/messages"):
                self.guards[f"/mcp/{run.name}{end}".encode()] = web

    def ask_users(self, run: RunConfig) -> bool:
        """Let its users sign in, unless it is shown something else; whether that is new."""
        front = self._fronts.get(run.name)
        if front is None or front.credential.type != "none" or shows_token(run):
            return False
        self._fronts[run.name] = replace(front, credential=UpstreamAuth(type="oauth"))
        return True

    def _door(self, own: Config, guard: Guard) -> Door | None:
        found = authenticator(own)
        if found is None and not guard.wants_callers and not own.trust_proxy_headers:
            return None
        return Door(
            found,
            self._dispatcher,
            audiences=frozenset(own.auth.audience),
            trust_proxy_headers=own.trust_proxy_headers,
            failures_per_minute=own.auth.max_failures_per_minute,
            key_header=own.auth.shared_token_header,
            on_refused=self._on_refused,
        )

    async def _listen(self, config: Config, run: RunConfig) -> tuple[Listener, str]:
        fields = run.fields
        host, port = fields.host or LOOPBACK, fields.port
        web = _web_guard(config, run, (host, port), None)
        limits = ListenerLimits(max_connections=config.limits.max_connections)
        listener = Listener(OwnAddress(run.name, web, self._route, config.limits.max_body_bytes), limits)
        try:
            await listener.listen_tcp(host, port, ssl=self._tls)
        except OSError as error:
            await listener.close()
            raise AddressTaken(
                f"`{run.name}` asks for `{host}:{port}`, which cannot be had ({error.strerror}): stop what "
                "uses it, or change `port`, or leave it out"
            ) from error
        shown = f"[{host}]" if ":" in host else host
        end = "sse" if fields.proxy_mode == "sse" else "mcp"
        return listener, f"{'https' if self._tls else 'http'}://{shown}:{port}/{end}"

    async def close(self, name: str) -> None:
        """Its server is no more."""
        front = self._fronts.get(name)
        self._forget(name)
        if front is not None and front.listener is not None:
            await front.listener.close()
        if front is not None and front.guard is not None:
            await front.guard.close()

    def _forget(self, name: str) -> None:
        self._fronts.pop(name, None)
        self.doors.pop(name, None)
        for path in [path for path in self.guards if path.split(b"/")[2] == name.encode()]:
            del self.guards[path]

    def see_out(self, name: str, names: Collection[str], ports: Collection[int]) -> Outgoing | None:
        """Its server ends with its last calls, and so does this; these names and ports are for others now.

        Where nobody takes its place, those who answer come in by its own door.
        """
        front = self._fronts.get(name)
        if front is None:
            return None
        if name in names or not front.is_asking:
            self._forget(name)
        closing = None
        if front.listener is not None and front.port in ports:
            closing = asyncio.get_running_loop().create_task(front.listener.close(OUTGOING_SECONDS))
        return Outgoing(name, front, closing)

    async def part(self, outgoing: Outgoing) -> None:
        """What ran there has ended."""
        front, closing = outgoing.front, outgoing.closing
        current = self._fronts.get(outgoing.name)
        if front.is_asking and current is not None and current.guard is front.guard:
            self._forget(outgoing.name)  # which nobody else has by now
        if closing is not None:
            closing.cancel()
            with suppress(asyncio.CancelledError):
                await closing
        if front.listener is not None:
            await front.listener.close(FAREWELL_SECONDS)
        if front.guard is not None:
            await front.guard.close()

    async def close_all(self) -> None:
        for name in tuple(self._fronts):
            await self.close(name)

    def forget(self, config: Config, name: str) -> None:
        """It will not come back."""
        forget(config, name)

    def tidy(self) -> None:
        for front in self._fronts.values():
            if front.guard is not None:
                front.guard.tidy()


def _web_guard(config: Config, run: RunConfig, listen: tuple[str, int], public_url: str | None) -> WebGuard:
    """More pages may call it; what they may use is the same for all."""
    cors, origins = config.cors, config.cors.allowed_origins + run.fields.allowed_origins
    return WebGuard(*listen, public_url, origins, cors.allowed_methods, cors.allowed_headers)


def _check_host(config: Config, run: RunConfig) -> None:
    fields = run.fields
    if not fields.port or is_loopback(fields.host or LOOPBACK):
        return
    if config.auth.mode == "none" and not fields.oidc_config and not config.auth.insecure_allow_anonymous:
        raise InvalidRunConfig(
            f"`host`: other machines can reach `{fields.host}`, and nobody would have to say who they are: "
            "set `oidc_config`, or `auth` in `mooring.yaml`"
        )
