"""The user's own gateway, where it runs: it keeps secrets, registries and clients, and is asked about them.

Where it does not run, commands do the same by themselves: nobody starts a gateway to store a password.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from mooring.config.locations import default_data_directory, socket_in
from mooring.interfaces.cli.gateway_socket import answers
from mooring.interfaces.cli.run_api import Json, Refused, ask, path_of
from mooring.interfaces.cli.user_places import secret_places
from mooring.workloads.secrets.elsewhere import Environment
from mooring.workloads.secrets.errors import NotSetUp, SecretMissing
from mooring.workloads.secrets.store import PROVIDER_VARIABLE, SecretStore, open_store


def own_gateway() -> Path | None:
    """Its socket, if somebody answers there."""
    socket = socket_in(default_data_directory(os.environ))
    return socket if answers(socket) else None


def secret_store() -> SecretStore | GatewaySecrets:
    """The user's secrets."""
    # Who names a provider for this one command means their own environment, not the gateway's.
    socket = None if PROVIDER_VARIABLE in os.environ else own_gateway()
    return open_store(secret_places()) if socket is None else GatewaySecrets(socket)


class GatewaySecrets:
    """Secrets as the gateway keeps them."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    def get(self, name: str) -> str:
        try:
            return str(self._ask("GET", path_of("secrets", name))["value"])
        except SecretMissing:
            return Environment(os.environ).get(name)

    def names(self) -> list[str]:
        return [str(each["name"]) for each in self._ask("GET", path_of("secrets"))["secrets"]]

    def set(self, name: str, value: str) -> None:
        self._ask("PUT", path_of("secrets", name), {"value": value})

    def delete(self, name: str) -> None:
        self._ask("DELETE", path_of("secrets", name))

    def _ask(self, method: str, target: str, body: Json | None = None) -> Any:
        try:
            return ask(self._socket, method, target, body)
        except Refused as refused:
            if refused.code == NotSetUp.api_code:
                raise NotSetUp from refused
            if refused.code == SecretMissing.api_code:
                raise SecretMissing(unquote(target.rpartition("/")[2])) from refused
            raise
