"""Which provider keeps the secrets, and the one store that everybody else asks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from mooring.durable import private_folder, replace_file
from mooring.workloads.secrets.elsewhere import Environment, OnePassword
from mooring.workloads.secrets.errors import NotSetUp, SecretMissing, VaultDamaged
from mooring.workloads.secrets.names import RESERVED, SecretUse
from mooring.workloads.secrets.vault import Vault
from mooring.workloads.secrets.vault_keys import KeyPlaces, KeySource

ProviderKind = Literal["encrypted", "environment", "1password"]
PROVIDER_VARIABLE = "MOORING_SECRETS_PROVIDER"


class Provider(Protocol):
    """Something that keeps secrets."""

    def names(self) -> list[str]: ...

    def get(self, name: str) -> str: ...

    def set(self, name: str, value: str) -> None: ...

    def delete(self, name: str) -> None: ...


class Settings(msgspec.Struct, frozen=True):
    """What `mooring secret setup` decided."""

    provider: ProviderKind


@dataclass(frozen=True, slots=True)
class SecretPlaces:
    """Where secrets live on this machine."""

    folder: Path
    environment: Mapping[str, str]
    ask: Callable[[str], str] | None = None
    key_file: Path | None = None

    @property
    def settings_file(self) -> Path:
        return self.folder / "secrets.json"

    @property
    def vault_file(self) -> Path:
        return self.folder / "secrets.vault"

    @property
    def keys(self) -> KeyPlaces:
        return KeyPlaces(self.key_file or self.folder / "secrets.key", self.environment, self.ask)


class SecretStore:
    """The chosen provider; what it does not have may stand in the environment."""

    def __init__(self, kind: ProviderKind, provider: Provider, fallback: Environment) -> None:
        self.kind: ProviderKind = kind
        self._provider = provider
        self._fallback = fallback

    def get(self, name: str) -> str:
        """The value of a secret, or SecretMissing."""
        try:
            return self._provider.get(name)
        except SecretMissing:
            if name.startswith(RESERVED):
                raise
            return self._fallback.get(name)

    def names(self) -> list[str]:
        """What people stored; never our own."""
        return [name for name in self._provider.names() if not name.startswith(RESERVED)]

    def set(self, name: str, value: str) -> None:
        self._provider.set(name, value)

    def delete(self, name: str) -> None:
        self._provider.delete(name)

    def resolve(self, uses: Iterable[str | SecretUse]) -> dict[str, str]:
        """The environment variables that `NAME,target=ENV` ask for, with their values."""
        parsed = [SecretUse.parse(use) if isinstance(use, str) else use for use in uses]
        return {use.target: self.get(use.name) for use in parsed}


def open_store(places: SecretPlaces) -> SecretStore:
    """The store as it was set up. Nothing is unlocked until somebody asks for a secret."""
    kind = _kind(places)
    if kind == "encrypted":
        provider: Provider = Vault(places.vault_file, places.keys)
    elif kind == "1password":
        provider = OnePassword(places.environment)
    else:
        provider = Environment(places.environment)
    return SecretStore(kind, provider, Environment(places.environment))


def set_up(places: SecretPlaces, provider: ProviderKind, key: KeySource) -> None:
    """Choose the provider; for `encrypted`, make the vault or give it another key."""
    private_folder(places.folder)
    if provider == "encrypted":
        Vault(places.vault_file, places.keys).create(key)
    elif provider == "1password":
        OnePassword(places.environment).check()
    replace_file(places.settings_file, msgspec.json.encode(Settings(provider)) + b"\n")


def _kind(places: SecretPlaces) -> ProviderKind:
    if forced := places.environment.get(PROVIDER_VARIABLE):
        try:
            return msgspec.convert({"provider": forced}, Settings).provider
        except msgspec.ValidationError as error:
            raise VaultDamaged(
                f"{PROVIDER_VARIABLE} must be `encrypted`, `environment` or `1password`, not `{forced}`"
            ) from error
    try:
        return msgspec.json.decode(places.settings_file.read_bytes(), type=Settings).provider
    except FileNotFoundError as error:
        raise NotSetUp from error
    except msgspec.DecodeError as error:
        raise VaultDamaged(
            f"`{places.settings_file}` makes no sense: delete it and run `mooring secret setup`"
        ) from error
