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
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Final, Self, TypeAlias
from weakref import WeakKeyDictionary

from msgspec import structs

from mooring import __version__
from mooring.config import guarding, reloading, schema
from mooring.config.admission import admission
from mooring.config.credentials_build import Credentials
from mooring.config.guard_part import Part
from mooring.config.loading import ConfigError
from mooring.config.locations import socket_in
from mooring.config.running import completed, entry_of, is_run, run_config_of
from mooring.errors import MooringError
from mooring.gateway.detection import Verdict
from mooring.gateway.dispatch import Dispatcher
from mooring.gateway.exchange import Exchange, Middleware, Watch
from mooring.gateway.health import BreakerPolicy
from mooring.gateway.in_flight import InFlightLimit
from mooring.gateway.interactions import Interactions
from mooring.gateway.principal import ANONYMOUS, NOBODY, Caller
from mooring.gateway.sealing import Seal, load_key
from mooring.gateway.server import Server
from mooring.gateway.sessions import SessionTable
from mooring.gateway.tracing import Record, Tracer, encode_record
from mooring.gateway.upstream import Upstream, UpstreamPolicy
from mooring.interfaces.door import Door, Place, Refused, local_principal
from mooring.interfaces.gateway_app import GatewayApp, Rules
from mooring.interfaces.web_guard import WebGuard
from mooring.interfaces.well_known import PREFIX, ResourceMetadata
from mooring.interfaces.workload_fronts import Fronts
from mooring.policy.settings import Auth
from mooring.protocol import jsonrpc
from mooring.protocol.versions import Era
from mooring.transports import spool
from mooring.transports.dialing import Dialer, HttpDialer, Transport
from mooring.transports.http_endpoint import Buffered, Endpoint
from mooring.transports.http_limits import ClientLimits, ListenerLimits
from mooring.transports.http_listener import Listener
from mooring.transports.http_reply import Reply
from mooring.transports.http_request import Request
from mooring.transports.http_rules import Refusal
from mooring.workloads.groups import Groups
from mooring.workloads.lifecycle import RestartPolicy
from mooring.workloads.runconfig import RunConfig
from mooring.workloads.state import DataDirectory
from mooring.workloads.store import Store
from mooring.workloads.supervisor import Supervisor
from mooring.workloads.supervisor_runtimes import Runtimes
from mooring.workloads.supervisor_secrets import SecretValues
from mooring.workloads.supervisor_start import Launcher
from mooring.workloads.supervisor_workload import Workload

if TYPE_CHECKING:
    from mooring.ecosystem.clients.registration import ServerAddress
    from mooring.files.middleware import FileAdapters
    from mooring.files.service import FileService
    from mooring.interfaces.rest.ecosystem import Ecosystem
    from mooring.policy.credentials.grants import Grant

log = logging.getLogger(__name__)

SWEEP_SECONDS: Final = 0.25
TIDY_SECONDS: Final = 2.0
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
"""Names of glibc's `mallopt`."""
COLLECTOR_THRESHOLDS: Final = (20_000, 20, 50)
STARTS_AT_ONCE: Final = 8
LISTS_CHANGED: Final = tuple(
    f"notifications/{kind}/list_changed" for kind in ("tools", "prompts", "resources")
)
WATCH_SECONDS: Final = 1.0
ERAS: Final = {"auto": None, "legacy": Era.LEGACY, "modern": Era.MODERN}
STOP_SECONDS: Final = 5.0
"""How long requests in flight get to finish when the gateway is told to stop."""


@dataclass(frozen=True, slots=True)
class Started:
    """Where a running gateway is reached."""

    url: str
    socket: Path
    servers: list[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class _Described:
    """What a server was made from."""

    entry: schema.Server
    adapters: FileAdapters | None


@dataclass(frozen=True, slots=True)
class _Outgoing:
    """Parts of an earlier guard, and who was on the way through it when it was replaced."""

    parts: list[Part]
    users: list[tuple[Server, Exchange]]

    @property
    def is_done(self) -> bool:
        if any(exchange in server.exchanges for server, exchange in self.users):
            return False
        return not any(part.is_busy is not None and part.is_busy() for part in self.parts)


class CannotReload(MooringError):
    """The new configuration needs a restart; the message says why. Nothing was changed."""


class Gateway:
    """Everything that runs on one data directory. An async context manager: it runs between enter and exit.

    What a configuration says about servers and callers can be changed while it runs: see `reload`.
    """

    def __init__(self, config: schema.Config) -> None:
        self._config = config
        root = config.storage.root
        self._directory = DataDirectory(root)
        root.mkdir(parents=True, exist_ok=True, mode=0o700)
        spool.keep_in(root / "tmp")
        self._seal = Seal(load_key(root / "seal.key"))
        self._sessions = SessionTable(
            self._seal, config.sessions.idle_ttl_seconds, config.sessions.max_active
        )
        self._interactions = Interactions(self._seal, config.sessions.suspended_ttl_seconds)
        self._dispatcher = Dispatcher()
        self._trace_file = (
            _TraceFile(config.trace.file, with_bytes=config.trace.bytes) if config.trace.file else None
        )
        self._guard = guarding.Guard(config)
        self._outgoing: list[_Outgoing] = []
        self._guard.hooks.end_session = lambda client: self._dispatcher.spawn(self._sessions.end(client))
        self._files: FileService | None = None
        self._entries: dict[str, schema.Server] = {}
        self.servers: dict[str, Server] = {}
        self._described: WeakKeyDictionary[Server, _Described] = WeakKeyDictionary()
        self.stop_wanted = asyncio.Event()
        self._stack = AsyncExitStack()
        self._url = ""
        self._has_logins = False
        self.started: Started | None = None

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            await self._enter(stack)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def _enter(self, stack: AsyncExitStack) -> None:
        config = self._config
        if self._trace_file is not None:
            stack.callback(self._trace_file.close)
        stack.push_async_callback(self._close_guard)
        stack.enter_context(self._directory)
        store = self._store = await stack.enter_async_context(Store(self._directory.database))
        secrets = SecretValues(lambda: self._ecosystem.secrets)
        runtimes = Runtimes(config.storage.root, config.runtimes.order, config.runtimes.bases)
        stack.push_async_callback(runtimes.close)
        launcher = Launcher(runtimes.choose, secrets, asyncio.Semaphore(STARTS_AT_ONCE))
        allows = admission(config, local_principal())
        self._supervisor = Supervisor(self._directory, store, self, launcher, runtimes.leaving, allows)
        self._guard.hooks.stop_server = self._supervisor.forbid
        holder = _LateApp()
        listener = Listener(holder, ListenerLimits(max_connections=config.limits.max_connections))
        stack.push_async_callback(self._dispatcher.close)
        stack.push_async_callback(listener.close)
        tls = _tls_context(config.tls)
        self._fronts = Fronts(
            self._dispatcher,
            self._guard,
            self._secret,
            self._refused,
            self._route,
            tls,
        )
        stack.push_async_callback(self._fronts.close_all)
        self._port = await listener.listen_tcp(config.host, config.port, ssl=tls)
        shown = f"[{config.host}]" if ":" in config.host else config.host
        own = f"{'https' if tls else 'http'}://{shown}:{self._port}"
        self._url = (config.public_url or own).rstrip("/")
        self._app = GatewayApp(self._sessions, self._dispatcher, self._rules(config), self._serve_api)
        stack.push_async_callback(self._close_files)
        await self._open_files(config)
        await self._know_groups(config)
        for entry in config.servers:
            await self._add_entry(entry)
        await stack.enter_async_context(self._supervisor)
        stack.push_async_callback(self._close_servers)
        stack.push_async_callback(self._close_listener, listener)
        holder.app = self._app
        socket = socket_in(config.storage.root)
        await listener.listen_unix(socket)
        sweeper = asyncio.get_running_loop().create_task(self._sweep())
        stack.callback(sweeper.cancel)
        self.started = Started(self._url, socket, [(entry, self.url_of(entry)) for entry in self.servers])

    async def _open_files(self, config: schema.Config) -> None:
        """Where files come in and go out; a gateway without adapters has none of it."""
        if self._files is not None or not any(config.wants_files(entry) for entry in config.servers):
            return
        # Loaded only where files are carried: a gateway without them starts sooner.
        from mooring.config.files_build import service_for  # noqa: PLC0415
        from mooring.interfaces.downloads import Downloads  # noqa: PLC0415
        from mooring.interfaces.file_requests import FileRequests  # noqa: PLC0415
        from mooring.interfaces.uploads import Uploads  # noqa: PLC0415

        files = service_for(config, self._seal, load_key(config.storage.root / "seal.key"))
        files.links.base = self._url
        await files.start()
        self._files = files
        requests = FileRequests(
            files,
            self.servers,
            self._sessions,
            lambda: self._app.rules,
            lambda name: self._guard.watch_for(name),  # noqa: PLW0108 - the guard changes
        )
        downloads = Downloads(requests, artifacts=config.core.allow_artifacts_download)
        self._app.add_prefix(f"{files.links.upload_path}/".encode(), Uploads(requests).endpoint)
        self._app.add_prefix(b"/artifacts/", downloads.endpoint)
        self._app.add_prefix(b"/files/once/", downloads.endpoint)

    async def _close_files(self) -> None:
        if self._files is not None:
            await self._files.close()

    def _adapters(self, entry: schema.Server) -> FileAdapters | None:
        if self._files is None or not self._config.wants_files(entry):
            return None
        from mooring.config.files_build import adapters_for  # noqa: PLC0415 - see `_open_files`

        return adapters_for(self._files, self._config, entry)

    async def _close_listener(self, listener: Listener) -> None:
        busy = any(server.exchanges for server in self.servers.values())
        await listener.close(STOP_SECONDS if busy else 0.0)

    async def _close_servers(self) -> None:
        await self._sessions.close_all()
        await asyncio.gather(*(server.close() for server in self.servers.values()))

    # The API for people and programs that look after the gateway: loaded when one of them comes

    def _serve_api(self, request: Request, reply: Reply, caller: Caller) -> None:
        self._api(request, reply, caller)

    @cached_property
    def _api(self) -> Callable[[Request, Reply, Caller], None]:
        from mooring.interfaces.rest.files import FileOperations  # noqa: PLC0415
        from mooring.interfaces.rest.groups import GroupOperations  # noqa: PLC0415
        from mooring.interfaces.rest.router import RestApi  # noqa: PLC0415
        from mooring.interfaces.rest.system import SystemOperations  # noqa: PLC0415
        from mooring.interfaces.rest.workloads import WorkloadOperations  # noqa: PLC0415

        config = self._config
        groups = Groups(self._store, self._supervisor)
        local = Caller(local_principal(), "unix") if config.auth.mode != "none" else NOBODY
        system = SystemOperations(
            self.servers,
            self._sessions,
            self._dispatcher,
            self._supervisor,
            url_of=self.url_of,
            version=__version__,
            pid=os.getpid(),
            max_message_bytes=config.limits.max_message_bytes,
            local=local,
            stop=self.stop_wanted.set,
        )
        operations = [
            *system.table(),
            *self._ecosystem.table(WorkloadOperations(self._supervisor, groups, self.url_of).table()),
            *GroupOperations(groups, self._supervisor).table(),
            *FileOperations(lambda: self._files, local).table(),
        ]
        return RestApi(self._dispatcher, operations, __version__).handle

    @cached_property
    def _ecosystem(self) -> Ecosystem:
        from mooring.interfaces.rest.ecosystem import Ecosystem  # noqa: PLC0415

        return Ecosystem(self._config.storage.root, dict(os.environ), self._addresses)

    def _secret(self, name: str) -> str:
        """What a stored secret is worth."""
        from mooring.workloads.secrets.store import open_store  # noqa: PLC0415

        return open_store(self._ecosystem.secrets).get(name)

    def _route(self, path: bytes) -> Buffered | None:
        return self._app.route(path)

    def _addresses(self) -> list[ServerAddress]:
        """All servers, running or not: an address is good for as long as its server exists."""
        from mooring.ecosystem.clients.registration import ServerAddress  # noqa: PLC0415

        workloads = self._supervisor.workloads
        groups = {name: workload.record.group for name, workload in workloads.items()}
        names = dict.fromkeys((*self._entries, *workloads))
        return [ServerAddress(name, self.url_of(name), groups.get(name, "default")) for name in names]

    def _rules(self, config: schema.Config) -> Rules:
        return Rules(
            guard=WebGuard(config.host, self._port, config.public_url, config.cors.allowed_origins),
            max_body_bytes=config.limits.max_body_bytes,
            trust_proxy_headers=config.trust_proxy_headers,
            api_over_tcp=config.auth.mode != "none",
            metrics=self._page(),
            door=self._door(),
            place_of=self._place,
            links_need_credentials=config.auth.links_need_credentials,
            documents=dict(filter(None, (self._document(name) for name in self.servers))),
            mounts={
                entry.mount_path.encode(): f"/mcp/{entry.id}".encode()
                for entry in config.servers
                if entry.mount_path is not None
            },
            doors=self._fronts.doors,
            guards=self._fronts.guards,
        )

    async def _know_groups(self, config: schema.Config) -> None:
        """A group that the file names is one that can be asked for."""
        for group in sorted({entry.group for entry in config.servers if entry.group}):
            await self._store.add_group(group)

    # Servers come and go

    async def _add_entry(self, entry: schema.Server) -> None:
        """A server of the configuration file."""
        self._entries[entry.id] = entry
        if is_run(entry):
            await self.prepare(run_config_of(entry))
            policy = RestartPolicy(lazy=True, idle_stop_seconds=entry.timeouts.idle_stop_seconds)
            self._supervisor.declare(run_config_of(entry), policy)
        else:
            self._serve(self._build_server(entry, *self._http_dialer(entry)))

    async def _retire(self, server: Server, workload: Workload | None) -> None:
        """Who is being served by what was taken out gets the time to finish."""
        deadline = monotonic() + STOP_SECONDS
        while server.exchanges and monotonic() < deadline:  # noqa: ASYNC110 - nobody tells of the last
            await asyncio.sleep(SWEEP_SECONDS)
        if workload is not None:
            await self._supervisor.withdraw(workload)
        else:
            await self.detach(server)

    def _take_out(self, name: str) -> tuple[Server, Workload | None]:
        entry, server = self._entries.pop(name), self.servers.pop(name)
        self._app.remove(name)
        return server, self._supervisor.release(name) if is_run(entry) else None

    async def prepare(self, config: RunConfig) -> None:
        had_page = self._page() is not None
        await self._fronts.open(self._config, config, (self._config.host, self._port))
        if not had_page and self._page() is not None:
            self._app.use(self._rules(self._config))  # there are numbers to show now

    def attach(self, workload: Workload) -> Server:
        declared = self._entries.get(workload.name)
        workload.own_url = self._fronts.url_of(workload.name)
        entry = completed(declared, workload.config) if declared else entry_of(workload.config)
        transports = workload.dialer.transports
        era = ERAS[entry.workload.era] if entry.workload is not None else None
        pinned = Verdict(transports[0] if len(transports) == 1 else None, era)
        return self._serve(self._build_server(entry, workload.dialer, pinned))

    async def detach(self, server: Server) -> None:
        if self.servers.get(server.id) is server:
            del self.servers[server.id]
            self._app.remove(server.id)
            await self._fronts.close(server.id)
            self._fronts.forget(self._config, server.id)
        await self._sessions.close_of(server)
        await server.close()

    def is_taken(self, name: str) -> bool:
        return name in self._entries

    def _serve(self, server: Server) -> Server:
        self.servers[server.id] = server
        self._app.add(server, self._document(server.id))
        return server

    async def reload(self, config: schema.Config) -> list[str]:
        """Make the running gateway serve what this says. Servers that did not change keep their sessions."""
        changed = reloading.changed_keys(self._config, config)
        if cold := reloading.cold_keys(self._config, config):
            raise CannotReload(f"a change of {', '.join(f'`{name}`' for name in cold)} needs a restart")
        new = {entry.id: entry for entry in config.servers}
        for name in new.keys() - self._entries.keys():
            if name in self._supervisor.workloads:
                raise CannotReload(f"a workload is called `{name}` already: `mooring rm {name}` first")
        for entry in new.values():
            if is_run(entry):
                self._fronts.check(config, run_config_of(entry))
        guard = self._guard
        if reloading.guard_changed(self._config, config):
            guard = guarding.Guard(config, earlier=guard)
        gone = [name for name in self._entries if name not in new]
        other = [name for name in new if name in self._entries and new[name] != self._entries[name]]
        judged = [name for name in other if reloading.only_rules_differ(self._entries[name], new[name])]
        other = [name for name in other if name not in judged]
        added = [name for name in new if name not in self._entries]
        await self._know_groups(config)
        await self._open_files(config)
        for name in (*gone, *other):
            await self._fronts.close(name)
        # Nothing waits from here on, so that no request finds one half of the old and one of the new.
        if "authorization" in changed:
            self._supervisor.allow(admission(config, local_principal()))
        self._config = config
        retired = [self._take_out(name) for name in (*gone, *other)]
        for name in judged:
            self._judge_anew(new[name])
        self._change_guard(guard, [server for server, _ in retired], judged)
        self._app.use(self._rules(config))
        for name in (*other, *added):
            await self._add_entry(new[name])
        self._app.use(self._rules(config))
        await asyncio.gather(*(self._retire(server, workload) for server, workload in retired))
        words = (("added", added), ("changed", other + judged), ("removed", gone))
        said = [f"{word} {', '.join(names)}" for word, names in words if names]
        return said or ([f"{', '.join(changed)}; no server changed"] if changed else [])

    def _judge_anew(self, entry: schema.Server) -> None:
        """The rules of this server changed, and nothing else of it."""
        self._entries[entry.id] = entry
        server = self.servers[entry.id]
        known = self._described[server]
        rules = {name: getattr(entry, name) for name in reloading.RULES_OF_ENTRIES}
        self._described[server] = replace(known, entry=structs.replace(known.entry, **rules))

    def _change_guard(self, guard: guarding.Guard, retired: list[Server], judged: list[str]) -> None:
        """Every server gets its new chain at once; what only the old ones need ends with their last user."""
        before, self._guard = self._guard, guard
        guard.come_into_force()
        users = [(server, exchange) for server in (*self.servers.values(), *retired)
                 for exchange in server.exchanges]  # fmt: skip
        if unused := before.without(guard):
            self._outgoing.append(_Outgoing(unused, users))
        all_anew = guard.differs_from(before)
        for server in self.servers.values():
            if all_anew or server.id in judged:
                server.use(*self._chain_of(self._described[server]))
                server.announce()

    def _page(self) -> Callable[[], str] | None:
        """What Prometheus reads, if the gateway or a workload wants it to."""
        return self._guard.page or self._fronts.page

    def _tidy_guard(self) -> None:
        if self._guard.tidy():
            for server in self.servers.values():
                server.announce()

    async def _close_outgoing(self) -> None:
        for outgoing in [each for each in self._outgoing if each.is_done]:
            self._outgoing.remove(outgoing)
            await guarding.close_parts(outgoing.parts)

    async def _close_guard(self) -> None:
        for outgoing in self._outgoing:
            await guarding.close_parts(outgoing.parts)
        await self._guard.close()

    def _build_server(self, entry: schema.Server, dialer: Dialer, pinned: Verdict) -> Server:
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
        upstream = Upstream(entry.id, dialer, pinned, policy, tracer)
        adapters = self._adapters(entry)
        server = Server(entry.id, upstream, self._interactions, tracer, [])
        self._described[server] = described = _Described(entry, adapters)
        server.use(*self._chain_of(described))
        if entry.upstream is not None:
            server.forwards = frozenset(name.lower().encode() for name in entry.upstream.forward_headers)
        if adapters is not None:
            adapters.attach(server)
            self._dispatcher.spawn(adapters.wire_now())
        return server

    def _chain_of(
        self, described: _Described
    ) -> tuple[list[Middleware], frozenset[str] | None, Watch | None]:
        """What a request for a server passes, the methods it concerns, and who is told of the rest."""
        entry, adapters = described.entry, described.adapters
        front = self._fronts.get(entry.id)
        chain = self._guard.chain_for(entry, front.guard if front is not None else None)
        middlewares, methods = chain.middlewares, chain.methods
        in_flight = self._config.sessions.max_in_flight_per_session
        if in_flight is not None:
            calls = frozenset({"tools/call"})
            methods = None if methods is None else methods | calls
            middlewares = [InFlightLimit(in_flight), *middlewares]
        if adapters is not None:
            methods = adapters.methods_after(methods)
            middlewares = [*middlewares, adapters]
        middlewares = [*middlewares, *chain.below]
        login = self._login(entry)
        if login is not None:  # all methods: whatever it is, its user may have to sign in first
            middlewares, methods = [*middlewares, login], None
        return middlewares, methods, self._guard.watch_for(entry.id)

    def _http_dialer(self, entry: schema.Server) -> tuple[Dialer, Verdict]:
        assert entry.upstream is not None
        upstream = entry.upstream
        transports = {
            "auto": (Transport.STREAMABLE_HTTP, Transport.SSE),
            "streamable_http": (Transport.STREAMABLE_HTTP,),
            "sse": (Transport.SSE,),
        }[upstream.transport]
        limits = ClientLimits(connect_seconds=entry.timeouts.connect_seconds, head_seconds=None)
        forwards = bool(upstream.forward_headers)
        pool = self._credentials.pool_for(entry.id, upstream.url, upstream.auth, limits, forwards=forwards)
        pinned = Verdict(transports[0] if len(transports) == 1 else None, ERAS[upstream.era])
        max_bytes = self._config.limits.max_message_bytes
        dialer = HttpDialer(
            upstream.url, pool, upstream.headers, transports=transports, max_message_bytes=max_bytes
        )
        return dialer, pinned

    # What servers are shown

    @cached_property
    def _credentials(self) -> Credentials:
        return Credentials(self._config.storage.root, self._url, self._config.providers, self._grants_key)

    def _grants_key(self) -> bytes:
        """What grants are sealed with: a secret of ours where secrets are kept encrypted, else a key file."""
        from mooring.workloads.secrets.own import own_key  # noqa: PLC0415

        return own_key(self._ecosystem.secrets, self._config.storage.root / "grants.key")

    def _login(self, entry: schema.Server) -> Middleware | None:
        """Who asks users of this server to sign in; the pages for it are there from the first such server."""
        login = self._credentials.login_for(entry.upstream.auth) if entry.upstream is not None else None
        if login is not None and not self._has_logins:
            from mooring.interfaces import logins  # noqa: PLC0415

            self._has_logins = True
            tells_apart = self._config.auth.mode != "none"
            pages = logins.Logins(self._credentials, self._dispatcher, tells_apart=tells_apart)
            self._app.add_prefix(logins.PREFIX, pages.endpoint)
            self._credentials.flows.on_granted.append(self._granted)
        return login

    def _granted(self, grant: Grant) -> None:
        """A user agreed: what their clients could not list before can be listed now."""
        server = self.servers.get(grant.party.removeprefix("server:"))
        for client in self._sessions.clients_of(server) if server is not None else ():
            if client.principal == grant.principal:
                for method in LISTS_CHANGED:
                    client.push(jsonrpc.notification(method))

    # The guard

    def _door(self) -> Door | None:
        """None while it matters to nobody who calls: then nobody stands there."""
        authenticator = guarding.authenticator(self._config)
        if authenticator is None and not self._guard.wants_callers:
            return None
        auth = self._config.auth
        return Door(
            authenticator,
            self._dispatcher,
            audiences=frozenset(auth.audience),
            trust_proxy_headers=self._config.trust_proxy_headers,
            failures_per_minute=auth.max_failures_per_minute,
            on_refused=self._refused,
        )

    def _refused(self, refused: Refused) -> None:
        log.warning("%s: %s from %s: %s", refused.server_id, refused.status, refused.address, refused.reason)
        caller = Caller(refused.principal or ANONYMOUS, refused.address, refused.user_agent)
        self._guard.refused(refused.server_id, caller, refused.status, refused.reason)

    def _place(self, server_id: str) -> Place:
        auth = self._auth_of(server_id)
        described = f"{self._url}{PREFIX}/mcp/{server_id}" if auth.mode == "oidc" else None
        return Place(server_id, self._resource(server_id), tuple(auth.required_scopes), described)

    def _auth_of(self, server_id: str) -> Auth:
        front = self._fronts.get(server_id)
        return self._config.auth if front is None or front.guard is None else front.auth

    def _resource(self, server_id: str) -> str:
        """What tokens for this server must name."""
        front = self._fronts.get(server_id)
        return (front.resource if front is not None else None) or self.url_of(server_id)

    def _document(self, name: str) -> tuple[bytes, Buffered] | None:
        """What clients read about a server's authorization."""
        auth = self._auth_of(name)
        if auth.mode != "oidc":
            return None
        scopes = list(dict.fromkeys(auth.required_scopes + auth.scopes_supported))
        described = ResourceMetadata(self._resource(name), name, auth.issuer, scopes)
        return f"{PREFIX}/mcp/{name}".encode(), Buffered(described.handle, 0)

    def url_of(self, server_id: str) -> str:
        return f"{self._url}/mcp/{server_id}"

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
                _guarded(self._tidy_guard)
                if any(outgoing.is_done for outgoing in self._outgoing):
                    self._dispatcher.spawn(self._close_outgoing())
                _guarded(self._fronts.tidy)
                for server in list(self.servers.values()):
                    _guarded(server.tidy, now)
            _guarded(self._interactions.expire, now)
            _guarded(self._app.keep_alive, now)
            for client in self._sessions.sweep(now):
                self._dispatcher.spawn(self._sessions.close(client))


def _guarded(step: Callable[..., None], *arguments: object) -> None:
    """One thing that goes wrong must not keep the others from being looked after."""
    try:
        step(*arguments)
    except Exception:
        log.exception("looking after what runs failed; it goes on")


class _LateApp:
    """The listener must know its port before the application can know its own address."""

    app: GatewayApp | None = None

    def accept(self, request: Request) -> Endpoint:
        if self.app is None:
            raise Refusal(503, "the gateway is starting; try again in a moment")
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


def _tls_context(tls: schema.Tls) -> ssl.SSLContext | None:
    if tls.cert is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(tls.cert, tls.key)
    return context


Load: TypeAlias = Callable[[], schema.Config]
"""Reads the configuration file anew; ConfigError if it cannot be used."""


def run(config: schema.Config, *, ready: Callable[[Started], None], watch: Path | None, load: Load) -> int:
    """Run the gateway in the foreground until it is told to stop; follow what becomes of its file."""
    try:
        import uvloop  # noqa: PLC0415 - not everywhere
    except ImportError:
        return asyncio.run(_serve(config, ready, watch, load))
    return uvloop.run(_serve(config, ready, watch, load))


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


async def _serve(
    config: schema.Config, ready: Callable[[Started], None], watch: Path | None, load: Load
) -> int:
    gateway = Gateway(config)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, gateway.stop_wanted.set)
    async with gateway:
        assert gateway.started is not None
        _settle_memory()
        ready(gateway.started)
        follower = loop.create_task(_follow_file(gateway, watch, load))
        await gateway.stop_wanted.wait()
        follower.cancel()
    return 0


async def _follow_file(gateway: Gateway, watch: Path | None, load: Load) -> None:
    """Reload on SIGHUP, and when the file has changed and stayed so for one look."""
    asked = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, asked.set)
    known = seen = _stamp(watch)
    while True:
        with suppress(TimeoutError):
            await asyncio.wait_for(asked.wait(), WATCH_SECONDS)
        before, seen = seen, _stamp(watch)
        if asked.is_set() or (seen == before and seen not in (known, None)):
            asked.clear()
            known = seen
            await _reload(gateway, load)


def _stamp(path: Path | None) -> tuple[int, int, int] | None:
    """What changes when a file is written or replaced."""
    try:
        found = path.stat() if path is not None else None
    except OSError:
        return None
    return None if found is None else (found.st_mtime_ns, found.st_size, found.st_ino)


async def _reload(gateway: Gateway, load: Load) -> None:
    try:
        said = await gateway.reload(load())
    except (ConfigError, MooringError) as error:
        log.error("the configuration was not reloaded and nothing was changed: %s", error)  # noqa: TRY400
    except Exception:
        log.exception("the configuration could not be reloaded")
    else:
        log.info("the configuration was reloaded: %s", "; ".join(said) or "nothing changed")
