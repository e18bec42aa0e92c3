"""The composition root: a configuration becomes one running gateway."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from contextlib import AsyncExitStack
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Final, Self
from weakref import WeakKeyDictionary

from msgspec import Struct, structs
from msgspec.structs import replace

from mooring.app.building import LateApp, http_dialer, pinned_of, policy_of, tls_context
from mooring.app.carried_files import CarriedFiles
from mooring.app.management import Management
from mooring.app.outgoing_guards import OutgoingGuards
from mooring.app.reception import Reception
from mooring.app.sign_in import SignIn
from mooring.app.sweeping import SWEEP_SECONDS, guarded, sweep
from mooring.app.trace_file import TraceFile, debug_line
from mooring.config import guarding, reloading, schema
from mooring.config.admission import admission
from mooring.config.locations import socket_in
from mooring.config.running import completed, entry_of, is_run, run_config_of
from mooring.errors import MooringError
from mooring.gateway.detection import Verdict
from mooring.gateway.dispatch import Dispatcher
from mooring.gateway.exchange import Middleware, Quick
from mooring.gateway.in_flight import InFlightLimit
from mooring.gateway.interactions import Interactions
from mooring.gateway.principal import ANONYMOUS, Caller, Principal
from mooring.gateway.server import Server
from mooring.gateway.sessions import SessionTable
from mooring.gateway.tasks import TaskTable
from mooring.gateway.tracing import Tracer
from mooring.gateway.upstream import Upstream
from mooring.interfaces.door import Refused, local_principal
from mooring.interfaces.gateway_app import GatewayApp
from mooring.interfaces.workload_fronts import Fronts, Outgoing
from mooring.policy.credentials.settings import PERSONAL, UpstreamAuth
from mooring.policy.watching import Watch
from mooring.transports import spool
from mooring.transports.dialing import Dialer
from mooring.transports.http_client import ClientPool
from mooring.transports.http_endpoint import Buffered
from mooring.transports.http_limits import ClientLimits, ListenerLimits
from mooring.transports.http_listener import Listener
from mooring.transports.sealing import Seal, load_key
from mooring.workloads.lifecycle import RestartPolicy
from mooring.workloads.runconfig import RunConfig
from mooring.workloads.state import DataDirectory
from mooring.workloads.store import DEFAULT_GROUP, Store
from mooring.workloads.supervisor import AddressTaken, Supervisor
from mooring.workloads.supervisor_host import LoginProblem
from mooring.workloads.supervisor_runtimes import Runtimes
from mooring.workloads.supervisor_secrets import SecretValues
from mooring.workloads.supervisor_start import Launcher
from mooring.workloads.supervisor_workload import Workload

if TYPE_CHECKING:
    from mooring.files.middleware import FileAdapters

log = logging.getLogger(__name__)

STARTS_AT_ONCE: Final = 8
STOP_SECONDS: Final = 5.0
"""How long requests in flight get to finish when the gateway is told to stop."""


class Started(Struct, frozen=True):
    """Where a running gateway is reached."""

    url: str
    socket: Path
    servers: list[tuple[str, str]]


class _Described(Struct, frozen=True):
    """What a server was made from."""

    entry: schema.Server
    adapters: FileAdapters | None


class _TakenOut(Struct, frozen=True):
    """A server that was changed or removed, while its last calls end."""

    server: Server
    workload: Workload | None
    front: Outgoing | None


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
        self._dispatcher = Dispatcher()
        self._trace_file = (
            TraceFile(config.trace.file, with_bytes=config.trace.bytes) if config.trace.file else None
        )
        self._guard = guarding.Guard(config)
        self._outgoing = OutgoingGuards()
        self._guard.hooks.end_session = lambda client: self._dispatcher.spawn(self._sessions.end(client))
        self.stop_wanted = asyncio.Event()
        self._entries: dict[str, schema.Server] = {}
        self.servers: dict[str, Server] = {}
        self._files = CarriedFiles(self._seal, self._sessions, self.servers, self._watch_for)
        self._management = Management(
            config,
            self.servers,
            self._sessions,
            self._dispatcher,
            files=lambda: self._files.service,
            groups=self._groups,
            url_of=self.url_of,
            stop=self.stop_wanted.set,
            credentials=lambda: self._sign_in.credentials,
            keys_file=lambda: guarding.keys_file(self._config),
            is_open=lambda: self._config.auth.mode == "none",
        )
        self._retiring: dict[Server, asyncio.Task[None]] = {}
        self._handed_on: dict[str, TaskTable] = {}
        """The tasks of servers that were taken out, for those which take their places."""
        self._described: WeakKeyDictionary[Server, _Described] = WeakKeyDictionary()
        self._stack = AsyncExitStack()
        self._url = ""
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
        self._store = await stack.enter_async_context(Store(self._directory.database))
        self._interactions = Interactions(self._seal, config.sessions.suspended_ttl_seconds, self._store)
        self._supervise(stack)
        holder = LateApp()
        listener = Listener(holder, ListenerLimits(max_connections=config.limits.max_connections))
        stack.push_async_callback(self._dispatcher.close)
        stack.push_async_callback(listener.close)
        tls = tls_context(config.tls)
        self._fronts = Fronts(
            self._dispatcher,
            self._guard,
            self._management.secret,
            self._refused,
            self._route,
            tls,
        )
        stack.push_async_callback(self._fronts.close_all)
        self._port = await listener.listen_tcp(config.host, config.port, ssl=tls)
        shown = f"[{config.host}]" if ":" in config.host else config.host
        own = f"{'https' if tls else 'http'}://{shown}:{self._port}"
        self._url = (config.public_url or own).rstrip("/")
        self._reception = Reception(
            lambda: (self._config, self._guard),
            self._fronts,
            self._dispatcher,
            self._url,
            self._port,
            self._refused,
        )
        self._sign_in = SignIn(
            config,
            self._url,
            lambda: self._management.ecosystem.secrets,
            self.servers,
            self._sessions,
            self._dispatcher,
            self._supervisor.look_again,
        )
        rules = self._reception.rules(self.servers)
        self._app = GatewayApp(self._sessions, self._dispatcher, rules, self._management.serve)
        stack.push_async_callback(self._files.close)
        await self._files.open(config, self._app, self._url)
        await self._know_groups(config)
        for entry in config.servers:
            await self._add_entry(entry)
        await stack.enter_async_context(self._supervisor)
        stack.push_async_callback(self._close_servers)
        stack.callback(self._supervisor.look_away)
        stack.push_async_callback(self._close_listener, listener)
        holder.app = self._app
        socket = socket_in(config.storage.root)
        await listener.listen_unix(socket)
        sweeper = asyncio.get_running_loop().create_task(sweep(self._look_after, self._tidy))
        stack.callback(sweeper.cancel)
        self._dispatcher.spawn(self._management.catch_up())
        self.started = Started(self._url, socket, [(entry, self.url_of(entry)) for entry in self.servers])

    def _supervise(self, stack: AsyncExitStack) -> None:
        """What is needed to run servers; it begins when everything else is there."""
        config = self._config
        secrets = SecretValues(lambda: self._management.ecosystem.secrets)
        runtimes = Runtimes(config.storage.root, config.runtimes.order, config.runtimes.bases)
        runtimes.remote.pool_for = self._remote_pool
        stack.push_async_callback(runtimes.close)
        launcher = Launcher(runtimes.choose, secrets, asyncio.Semaphore(STARTS_AT_ONCE))
        allows = admission(config, local_principal())
        self._supervisor = Supervisor(self._directory, self._store, self, launcher, runtimes.leaving, allows)
        self._management.begin(self._store, self._supervisor)
        self._guard.hooks.stop_server = self._supervisor.forbid

    async def _close_listener(self, listener: Listener) -> None:
        busy = any(server.exchanges for server in (*self.servers.values(), *self._retiring))
        await listener.close(STOP_SECONDS if busy else 0.0)

    async def _close_servers(self) -> None:
        self._files.leave()
        await self._sessions.close_all()
        await asyncio.gather(*(server.close() for server in self.servers.values()))
        if self._retiring:  # a reload that was under way; nobody uses these any more
            await asyncio.wait(self._retiring.values(), timeout=STOP_SECONDS)

    def _watch_for(self, server_id: str) -> Watch | None:
        return self._guard.watch_for(server_id)  # of the guard that is in force now

    def _route(self, path: bytes) -> Buffered | None:
        return self._app.route(path)

    def _groups(self) -> dict[str, str]:
        """All servers and the group of each, running or not: an address is good while its server exists."""
        declared = {name: entry.group or DEFAULT_GROUP for name, entry in self._entries.items()}
        return declared | {name: found.record.group for name, found in self._supervisor.workloads.items()}

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
        self._begin(entry)

    def _begin(self, entry: schema.Server) -> None:
        if is_run(entry):
            policy = RestartPolicy(lazy=True, idle_stop_seconds=entry.timeouts.idle_stop_seconds)
            self._supervisor.declare(run_config_of(entry), policy)
        else:
            reached = http_dialer(entry, self._sign_in.credentials, self._config.limits.max_message_bytes)
            self._serve(self._build_server(entry, *reached))

    def _retire(self, taken: _TakenOut) -> asyncio.Future[None]:
        """Ends by itself: whoever gives up waiting for it must not keep it from that."""
        retiring = asyncio.get_running_loop().create_task(self._let_end(taken))
        self._retiring[taken.server] = retiring
        retiring.add_done_callback(lambda _: self._retiring.pop(taken.server))
        return asyncio.shield(retiring)

    async def _let_end(self, taken: _TakenOut) -> None:
        """Who is being served by what was taken out gets the time to finish."""
        server = taken.server
        began = monotonic()
        while server.exchanges or server.tasks.owes(server, began):
            if monotonic() > began + STOP_SECONDS:
                break
            await asyncio.sleep(SWEEP_SECONDS)
        self._app.part(server)
        if taken.workload is not None:
            await self._supervisor.withdraw(taken.workload)
        else:
            await self.detach(server)
        if taken.front is not None:
            await self._fronts.part(taken.front)

    def _take_out(self, name: str, names: Collection[str], ports: Collection[int]) -> _TakenOut:
        entry, server = self._entries.pop(name), self.servers.pop(name)
        server.retire()
        if name in names:
            self._handed_on[name] = server.tasks
        self._app.see_out(name)
        self._sign_in.credentials.forget(name)
        front = self._fronts.see_out(name, names, ports)
        return _TakenOut(server, self._supervisor.release(name) if is_run(entry) else None, front)

    async def prepare(self, config: RunConfig) -> None:
        had_page = self._reception.page() is not None
        await self._fronts.open(self._config, config, (self._config.host, self._port))
        if not had_page and self._reception.page() is not None:
            self._app.use(self._reception.rules(self.servers))  # there are numbers to show now

    def _credential_of(self, name: str) -> UpstreamAuth:
        front = self._fronts.get(name)
        return UpstreamAuth() if front is None else front.credential

    def _remote_pool(self, name: str, url: str, limits: ClientLimits) -> ClientPool:
        tls = self._fronts.authorities_of(name)
        return self._sign_in.credentials.pool_for(name, url, self._credential_of(name), limits, tls=tls)

    def attach(self, workload: Workload) -> Server:
        declared = self._entries.get(workload.name)
        workload.own_url = self._fronts.url_of(workload.name)
        entry = completed(declared, workload.config) if declared else entry_of(workload.config)
        entry = self._shown_to(workload, entry)
        era = entry.workload.era if entry.workload is not None else None
        pinned = pinned_of(workload.dialer.transports, era)
        server = self._build_server(entry, workload.dialer, pinned)
        fields = workload.config.fields
        server.endpoint_prefix = fields.endpoint_prefix.rstrip("/").encode()
        if fields.debug:
            server.tracer.watch(lambda record: workload.log.happened(debug_line(record)))
        return self._serve(server)

    def _shown_to(self, workload: Workload, entry: schema.Server) -> schema.Server:
        """The entry with what a remote server is shown."""
        shown = self._credential_of(workload.name)
        if shown.type == "none":
            return entry
        workload.dialer.personal = shown.type in PERSONAL
        return structs.replace(entry, upstream=schema.Upstream(workload.config.fields.remote_url, auth=shown))

    def ask_users(self, workload: Workload) -> bool:
        if not self._fronts.ask_users(workload.config):
            return False
        known = self._described[workload.server]
        anew = replace(known, entry=self._shown_to(workload, known.entry))
        self._described[workload.server] = anew
        workload.server.use(*self._chain_of(anew))
        return True

    async def login_problem(self, workload: Workload) -> LoginProblem | None:
        return await self._sign_in.problem_of(workload.name, self._credential_of(workload.name))

    def moved(self, workload: Workload) -> None:
        server = self.servers.get(workload.name)
        if server is not None:
            known = self._described[server]
            entry = structs.replace(known.entry, group=workload.record.group)
            self._described[server] = described = replace(known, entry=entry)
            server.use(*self._chain_of(described))
            server.announce()

    async def detach(self, server: Server) -> None:
        server.retire()
        if self.servers.get(server.id) is server:
            del self.servers[server.id]
            self._app.remove(server.id)
            await self._fronts.close(server.id)
            self._fronts.forget(self._config, server.id)
            await self._sign_in.credentials.forget_grants(server.id)
        await server.give_up(f"`{server.id}` was taken away or changed before it answered")
        await self._sessions.close_of(server)
        await server.close()

    def is_taken(self, name: str) -> bool:
        return name in self._entries

    def _serve(self, server: Server) -> Server:
        self.servers[server.id] = server
        self._app.add(server, self._reception.document(server.id))
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
            for entry in new.values():
                guard.chain_for(entry)  # what cannot be made is found while nothing has changed
        change = reloading.change_of(self._entries, self._config, config)
        told = self._management.addresses()
        taken_out = (*change.gone, *change.remade)
        await self._know_groups(config)
        await self._files.open(config, self._app, self._url)
        # Nothing waits from here on, so that no request finds one half of the old and one of the new.
        if "authorization" in changed:
            self._supervisor.allow(admission(config, local_principal()))
        self._config = config
        self._sign_in.use(config)
        self._fronts.use(config, (config.host, self._port))
        ports = {run_config_of(entry).fields.port for entry in new.values() if is_run(entry)}
        taken = [self._take_out(name, new.keys(), ports) for name in taken_out]
        for name in change.judged:
            self._judge_anew(new[name])
        self._change_guard(guard, [each.server for each in taken], change.judged)
        self._app.use(self._reception.rules(self.servers))
        retiring = [self._retire(each) for each in taken]
        await asyncio.sleep(0)  # addresses that the new ones ask for are free from here on
        for name in (*change.remade, *change.added):
            await self._add_anew(new[name])
        self._app.use(self._reception.rules(self.servers))
        await self._management.tell_clients(told)
        await asyncio.gather(*retiring)
        said = change.in_words()
        return said or ([f"{', '.join(changed)}; no server changed"] if changed else [])

    async def _add_anew(self, entry: schema.Server) -> None:
        """What turns out to be wrong with one server now must not keep the others from what the file says."""
        try:
            await self._add_entry(entry)
        except AddressTaken as error:
            log.error("%s; it is served at the gateway's address only", error)  # noqa: TRY400 - no trace
            self._begin(entry)
        except MooringError as error:
            log.error("%s: it is not served: %s", entry.id, error)  # noqa: TRY400 - as above
            del self._entries[entry.id]

    def _judge_anew(self, entry: schema.Server) -> None:
        """The rules of this server changed, and nothing else of it."""
        self._entries[entry.id] = entry
        server = self.servers[entry.id]
        known = self._described[server]
        if known.adapters is not None:
            self._files.show_anew(self._config, entry, known.adapters)
        rules = {name: getattr(entry, name) for name in reloading.RULES_OF_ENTRIES}
        self._described[server] = replace(known, entry=structs.replace(known.entry, **rules))

    def _change_guard(self, guard: guarding.Guard, retired: list[Server], judged: list[str]) -> None:
        """Every server gets its new chain at once; what only the old ones need ends with their last user."""
        before, self._guard = self._guard, guard
        guard.come_into_force()
        self._outgoing.add(before.without(guard), (*self.servers.values(), *retired))
        all_anew = guard.differs_from(before)
        for server in self.servers.values():
            if all_anew or server.id in judged:
                server.use(*self._chain_of(self._described[server]))
                server.announce()

    async def _close_guard(self) -> None:
        await self._outgoing.close()
        await self._guard.close()

    def _build_server(self, entry: schema.Server, dialer: Dialer, pinned: Verdict) -> Server:
        tracer = Tracer(entry.id)
        if self._trace_file is not None:
            tracer.watch(self._trace_file.write)
        policy = policy_of(entry, self._config.sessions.upstream_session_termination_retries)
        upstream = Upstream(entry.id, dialer, pinned, policy, tracer)
        adapters = self._files.adapters(self._config, entry)
        server = Server(entry.id, upstream, self._interactions, tracer, [], self._store)
        server.tasks = self._handed_on.pop(entry.id, server.tasks)
        server.session_idle_seconds = entry.timeouts.session_idle_seconds
        self._described[server] = described = _Described(entry, adapters)
        server.use(*self._chain_of(described))
        if entry.upstream is not None:
            server.forwards = frozenset(name.lower().encode() for name in entry.upstream.forward_headers)
            server.requires = tuple(entry.upstream.require_headers)
        if adapters is not None:
            adapters.attach(server)
            self._dispatcher.spawn(adapters.wire_now())
        return server

    def _chain_of(
        self, described: _Described
    ) -> tuple[list[Middleware], frozenset[str] | None, Watch | None, Quick | None]:
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
        login = self._sign_in.middleware(entry, self._app)
        if login is not None:  # all methods: whatever it is, its user may have to sign in first
            middlewares, methods = [*middlewares, login], None
        quick = chain.quick if in_flight is None and adapters is None and login is None else None
        return middlewares, methods, self._guard.watch_for(entry.id), quick

    # The guard

    def _refused(self, refused: Refused) -> None:
        log.warning("%s: %s from %s: %s", refused.server_id, refused.status, refused.address, refused.reason)
        caller = Caller(refused.principal or ANONYMOUS, refused.address, refused.user_agent)
        try:
            self._guard.refused(refused.server_id, caller, refused.status, refused.reason)
        except OSError:  # whoever is not let in must still be told so
            log.exception("a refusal could not be written down")

    def url_of(self, server_id: str) -> str:
        return self._reception.url_of(server_id)

    def _is_welcome(self, server: Server, principal: Principal) -> bool:
        door = self._app.rules.door_of(server.id)
        return door is None or door.holds(principal)

    def _part_with_strangers(self) -> None:
        """A stream is no request: nobody looks at its credential again but here."""
        for client in self._sessions.part_with(self._is_welcome):
            self._dispatcher.spawn(self._sessions.close(client))
        for server in self.servers.values():
            for stream in list(server.listeners):
                if not self._is_welcome(server, stream.caller.principal):
                    stream.end("its credential no longer counts")

    def _look_after(self, now: float) -> None:
        for server in [server for server in self.servers.values() if server.exchanges]:
            for exchange in list(server.exchanges):
                guarded(server.look_after, exchange, now)
        guarded(self._interactions.expire, now)
        guarded(self._app.keep_alive, now)
        for client in self._sessions.sweep(now):
            self._dispatcher.spawn(self._sessions.close(client))

    def _tidy(self, now: float) -> None:
        guarded(self._tidy_guard)
        guarded(self._fronts.tidy)
        for server in list(self.servers.values()):
            guarded(server.tidy, now)
        guarded(self._part_with_strangers)

    def _tidy_guard(self) -> None:
        if self._guard.tidy():
            for server in self.servers.values():
                server.announce()
        if self._outgoing.any_done:
            self._dispatcher.spawn(self._outgoing.close_done())
