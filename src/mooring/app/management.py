"""The API for people and programs that look after a gateway. It is loaded when the first of them comes."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from mooring import __version__
from mooring.config import schema
from mooring.config.credentials_build import Credentials
from mooring.gateway.dispatch import Dispatcher
from mooring.gateway.principal import ANONYMOUS, Caller
from mooring.gateway.server import Server
from mooring.gateway.sessions import SessionTable
from mooring.interfaces.door import local_principal
from mooring.transports.http_reply import Reply
from mooring.transports.http_request import Request
from mooring.workloads.groups import Groups
from mooring.workloads.store import Store
from mooring.workloads.supervisor import Supervisor

if TYPE_CHECKING:
    from mooring.ecosystem.clients.table import ServerAddress
    from mooring.files.service import FileService
    from mooring.interfaces.rest.ecosystem import Ecosystem


class Management:
    """What the API needs to know of its gateway, and what it adds: secrets, registries and clients."""

    def __init__(
        self,
        config: schema.Config,
        servers: dict[str, Server],
        sessions: SessionTable,
        dispatcher: Dispatcher,
        *,
        files: Callable[[], FileService | None],
        groups: Callable[[], dict[str, str]],
        url_of: Callable[[str], str],
        stop: Callable[[], None],
        credentials: Callable[[], Credentials],
        keys_file: Callable[[], Path],
        is_open: Callable[[], bool],
    ) -> None:
        """`is_open` says whether nobody has to prove who they are."""
        self._config = config
        self._servers = servers
        self._sessions = sessions
        self._dispatcher = dispatcher
        self._files = files
        self._groups = groups
        self._url_of = url_of
        self._stop = stop
        self._credentials = credentials
        self._keys_file = keys_file
        self._is_open = is_open

    def begin(self, store: Store, supervisor: Supervisor) -> None:
        """From here on requests are answered."""
        self._store = store
        self._supervisor = supervisor
        self._started = monotonic()  # and not when somebody first asks

    def serve(self, request: Request, reply: Reply, caller: Caller) -> None:
        self._handler(request, reply, caller)

    def _local(self) -> Caller:
        """Whoever uses the control socket."""
        return Caller(ANONYMOUS if self._is_open() else local_principal(), "unix")

    @cached_property
    def _handler(self) -> Callable[[Request, Reply, Caller], None]:
        from mooring.interfaces.rest.approvals import ApprovalOperations  # noqa: PLC0415
        from mooring.interfaces.rest.files import FileOperations  # noqa: PLC0415
        from mooring.interfaces.rest.groups import GroupOperations  # noqa: PLC0415
        from mooring.interfaces.rest.keys import KeyOperations  # noqa: PLC0415
        from mooring.interfaces.rest.logins import LoginOperations  # noqa: PLC0415
        from mooring.interfaces.rest.router import RestApi  # noqa: PLC0415
        from mooring.interfaces.rest.system import SystemOperations  # noqa: PLC0415
        from mooring.interfaces.rest.workloads import WorkloadOperations  # noqa: PLC0415
        from mooring.policy.approvals import FOLDER as APPROVALS  # noqa: PLC0415
        from mooring.policy.approvals import Requests  # noqa: PLC0415
        from mooring.policy.authentication.api_keys import KeyStore  # noqa: PLC0415

        config = self._config
        groups = Groups(self._store, self._supervisor)
        system = SystemOperations(
            self._servers,
            self._sessions,
            self._dispatcher,
            self._supervisor,
            url_of=self._url_of,
            version=__version__,
            pid=os.getpid(),
            started=self._started,
            max_message_bytes=config.limits.max_message_bytes,
            local=self._local,
            stop=self._stop,
        )
        operations = [
            *system.table(),
            *self.ecosystem.table(
                [
                    *WorkloadOperations(self._supervisor, groups, self._url_of).table(),
                    *GroupOperations(groups, self._supervisor, self.ecosystem.clients.seeing).table(),
                ]
            ),
            *FileOperations(self._files, self._local).table(),
            *ApprovalOperations(lambda: Requests(config.storage.root / APPROVALS)).table(),
            *KeyOperations(lambda: KeyStore(self._keys_file())).table(),
            *LoginOperations(self._credentials, self._local, self._supervisor.look_again).table(),
        ]
        return RestApi(self._dispatcher, operations, __version__).handle

    @cached_property
    def ecosystem(self) -> Ecosystem:
        from mooring.interfaces.rest.ecosystem import Ecosystem  # noqa: PLC0415

        return Ecosystem(
            self._config.storage.root,
            dict(os.environ),
            self.addresses,
            lambda: self._url_of("").removesuffix("/mcp/"),
        )

    def secret(self, name: str) -> str:
        """What a stored secret is worth."""
        from mooring.workloads.secrets.store import open_store  # noqa: PLC0415

        return open_store(self.ecosystem.secrets).get(name)

    def addresses(self) -> list[ServerAddress]:
        """All servers as clients are told of them."""
        from mooring.ecosystem.clients.table import ServerAddress  # noqa: PLC0415

        workloads = self._supervisor.workloads

        def told(name: str) -> str:
            url = self._url_of(name)
            return workloads[name].config.told(url) if name in workloads else url

        return [ServerAddress(name, told(name), group) for name, group in self._groups().items()]

    async def tell_clients(self, before: list[ServerAddress]) -> None:
        """Bring the files of registered clients up to what has become of these servers."""
        if self.addresses() != before:
            await self.ecosystem.clients.tell(before)

    async def catch_up(self) -> None:
        """Tell registered clients what changed while no gateway ran."""
        if (self._config.storage.root / "clients.told.json").exists():  # others need not wait for the rest
            await self.ecosystem.clients.catch_up()
