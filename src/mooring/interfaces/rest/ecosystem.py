"""Secrets, registries and clients of one gateway, put together from its folders."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, MutableMapping
from pathlib import Path

from mooring.config.locations import default_data_directory, socket_in
from mooring.ecosystem.clients.registration import ClientBook
from mooring.ecosystem.clients.table import ClientPlaces
from mooring.ecosystem.clients.takeover import Surroundings
from mooring.ecosystem.registry.sources import Registries
from mooring.interfaces.rest.clients import Addresses, ClientOperations
from mooring.interfaces.rest.operations import Operation
from mooring.interfaces.rest.registries import RegistryOperations
from mooring.interfaces.rest.secrets import SecretOperations
from mooring.interfaces.rest.takeovers import TakeOverOperations
from mooring.workloads.secrets.errors import NotSetUp
from mooring.workloads.secrets.store import SecretPlaces, SecretStore, open_store


class Ecosystem:
    """What a gateway knows of the world around it."""

    def __init__(
        self,
        root: Path,
        environment: MutableMapping[str, str],
        addresses: Addresses,
        url: Callable[[], str],
    ) -> None:
        """`environment` is the gateway's own copy: a password that opens the secrets is kept in it."""
        # A gateway of its own folder without secrets of its own uses those of the user.
        has_own = SecretPlaces(root, environment).settings_file.exists()
        self.secrets = SecretPlaces(root if has_own else default_data_directory(environment), environment)
        places = ClientPlaces(Path.home(), sys.platform, environment)
        program = shutil.which("mooring") or str(Path(sys.executable).with_name("mooring"))

        def command(server: str) -> list[str]:
            return [program, "proxy", "stdio", server, "--socket", str(socket_in(root))]

        book = ClientBook(root, places, command, self._store)
        self.clients = ClientOperations(book, places, addresses)
        self._surroundings = Surroundings(book, places, command)
        self._addresses = addresses
        self._url = url
        self._environment = environment
        self._registries = Registries(root, lambda name: open_store(self.secrets).get(name))

    def table(self, workloads: list[Operation]) -> list[Operation]:
        """All operations; those on workloads and groups also keep clients' files in step."""
        workloads = self.clients.following(workloads)
        takeovers = TakeOverOperations(
            self._surroundings,
            self._addresses,
            self._url,
            lambda: open_store(self.secrets),
            workloads,
            self.clients.lock,
        )
        return [
            *workloads,
            *self.clients.table(),
            *takeovers.table(),
            *RegistryOperations(self._registries, self._keep).table(),
            *SecretOperations(self.secrets, self._environment).table(),
        ]

    def _keep(self, name: str, value: str) -> None:
        open_store(self.secrets).set(name, value)

    def _store(self) -> SecretStore | None:
        try:
            return open_store(self.secrets)
        except NotSetUp:
            return None
