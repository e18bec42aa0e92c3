"""Operations on secrets. A value goes out on the Unix socket only, and never in a list."""

from __future__ import annotations

import asyncio
from collections.abc import MutableMapping
from pathlib import Path
from typing import Annotated

from msgspec import Meta, Struct

from mooring.interfaces.rest.operations import ApiError, Call, Operation
from mooring.workloads.secrets.names import check_own_name
from mooring.workloads.secrets.store import ProviderKind, SecretPlaces, SecretStore, open_store, set_up
from mooring.workloads.secrets.vault import Vault
from mooring.workloads.secrets.vault_keys import PASSWORD_VARIABLE, KeySource


class SecretName(Struct, frozen=True):
    name: str


class SecretNames(Struct, frozen=True):
    provider: str
    secrets: list[SecretName]


class SecretValue(Struct, frozen=True, forbid_unknown_fields=True):
    value: Annotated[str, Meta(min_length=1, description="What is secret.")]


class SetUp(Struct, frozen=True, forbid_unknown_fields=True):
    """Where secrets shall be kept."""

    provider: ProviderKind = "encrypted"
    key: Annotated[KeySource, Meta(description="What opens the encrypted file.")] = "file"
    password: Annotated[str | None, Meta(description="For the key `password`.")] = None
    key_file: Annotated[str | None, Meta(description="For the key `file`: another place for it.")] = None


class Password(Struct, frozen=True, forbid_unknown_fields=True):
    password: str


class SecretOperations:
    """What the API does with secrets."""

    def __init__(self, places: SecretPlaces, environment: MutableMapping[str, str]) -> None:
        self._places = places
        self._environment = environment
        """The one `places` reads; a password lives here, in memory, until the gateway ends."""

    def table(self) -> list[Operation]:
        one = "/secrets/{name}"
        return [
            Operation("GET", "/secrets", "List the names of secrets.", self.list, SecretNames, errors=(422,)),
            Operation(
                "POST", "/secrets/setup", "Choose where secrets are kept.", self.set_up, None, SetUp,
                errors=(422,), local=True,
            ),
            Operation(
                "POST", "/secrets/unlock", "Open the encrypted file with its password, for as long as the "
                "gateway runs.", self.unlock, None, Password, errors=(422,), local=True,
            ),
            Operation(
                "GET", one, "The value of a secret.", self.get, SecretValue, errors=(404, 422), local=True
            ),
            Operation("PUT", one, "Store a secret.", self.put, None, SecretValue, errors=(422,), local=True),
            Operation("DELETE", one, "Forget a secret.", self.delete, None, errors=(404, 422), local=True),
        ]  # fmt: skip

    async def list(self, _call: Call) -> SecretNames:
        store = self._store()
        names = await asyncio.to_thread(store.names)
        return SecretNames(store.kind, [SecretName(name) for name in names])

    async def set_up(self, call: Call) -> None:
        body: SetUp = call.body
        given = {} if body.password is None else {PASSWORD_VARIABLE: body.password}
        key_file = self._places.key_file if body.key_file is None else Path(body.key_file)
        if key_file is not None and not key_file.is_absolute():
            raise ApiError(422, "secrets_unusable", "`key_file` must be an absolute path")
        places = SecretPlaces(self._places.folder, {**self._environment, **given}, None, key_file)
        await asyncio.to_thread(set_up, places, body.provider, body.key)
        self._environment.update(given)

    async def unlock(self, call: Call) -> None:
        body: Password = call.body
        trial = SecretPlaces(
            self._places.folder, {**self._environment, PASSWORD_VARIABLE: body.password}, None
        )
        await asyncio.to_thread(Vault(trial.vault_file, trial.keys).unlock)
        self._environment[PASSWORD_VARIABLE] = body.password

    async def get(self, call: Call) -> SecretValue:
        return SecretValue(await asyncio.to_thread(self._store().get, check_own_name(call.path["name"])))

    async def put(self, call: Call) -> None:
        body: SecretValue = call.body
        await asyncio.to_thread(self._store().set, check_own_name(call.path["name"]), body.value)

    async def delete(self, call: Call) -> None:
        await asyncio.to_thread(self._store().delete, check_own_name(call.path["name"]))

    def _store(self) -> SecretStore:
        return open_store(self._places)
