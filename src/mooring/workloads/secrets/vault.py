"""The `encrypted` provider: all secrets in one file under AES-256-GCM, names included."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from pathlib import Path

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from mooring.durable import locked, private_folder, replace_file
from mooring.workloads.secrets.errors import NotSetUp, SecretMissing, VaultDamaged
from mooring.workloads.secrets.vault_keys import KeyHeader, KeyPlaces, KeySource, unwrap, wrap

_BOUND = b"mooring vault 1"
# Far above anything a person keeps here; a wrong file must not fill the memory.
_LARGEST_FILE = 64 * 1024**2


class VaultFile(msgspec.Struct, frozen=True):
    """What stands on the disk."""

    mooring_vault: int
    key: KeyHeader
    sealed: bytes


class Vault:
    """Reads the file for every question, so that two processes see each other's changes."""

    def __init__(self, path: Path, places: KeyPlaces) -> None:
        self._path = path
        self._places = places
        self._opened: tuple[KeyHeader, bytes] | None = None

    def exists(self) -> bool:
        return self._path.exists()

    def create(self, source: KeySource) -> None:
        """Make an empty vault, or give an existing one another key."""
        private_folder(self._path.parent)
        with locked(self._lock_file):
            found = self._read() if self.exists() else None
            contents = self._unsealed(found) if found else {}
            key = self._key(found.key) if found else secrets.token_bytes(32)
            header = wrap(key, source, self._places)
            self._opened = (header, key)
            self._write(header, contents)

    def names(self) -> list[str]:
        """All names, in order."""
        return sorted(self._unsealed(self._read()))

    def get(self, name: str) -> str:
        """The value of a secret."""
        contents = self._unsealed(self._read())
        if name not in contents:
            raise SecretMissing(name)
        return contents[name]

    def set(self, name: str, value: str) -> None:
        """Store a secret; it is on the disk when this returns."""
        self._change(lambda contents: contents.update({name: value}))

    def delete(self, name: str) -> None:
        """Forget a secret."""

        def drop(contents: dict[str, str]) -> None:
            if contents.pop(name, None) is None:
                raise SecretMissing(name)

        self._change(drop)

    def unlock(self) -> None:
        """Get the key now rather than with the first question."""
        self._key(self._read().key)

    @property
    def _lock_file(self) -> Path:
        # Not the vault itself: that is replaced with every change, and a lock belongs to one file.
        return self._path.with_name(f"{self._path.name}.lock")

    def _change(self, change: Callable[[dict[str, str]], None]) -> None:
        # The key first: nobody else should wait while a person types a password.
        self.unlock()
        with locked(self._lock_file):
            found = self._read()
            contents = self._unsealed(found)
            change(contents)
            self._write(found.key, contents)

    def _read(self) -> VaultFile:
        try:
            with self._path.open("rb") as file:
                data = file.read(_LARGEST_FILE)
        except FileNotFoundError as error:
            raise NotSetUp from error
        except OSError as error:
            raise VaultDamaged(
                f"cannot read `{self._path}`: {(error.strerror or 'unreadable').lower()}"
            ) from error
        try:
            found = msgspec.json.decode(data, type=VaultFile)
        except msgspec.DecodeError as error:
            raise self._damaged() from error
        if found.mooring_vault != 1:
            raise VaultDamaged(f"`{self._path}` was written by a newer version of mooring: update this one")
        return found

    def _write(self, header: KeyHeader, contents: dict[str, str]) -> None:
        nonce = secrets.token_bytes(12)
        sealed = nonce + AESGCM(self._key(header)).encrypt(nonce, msgspec.json.encode(contents), _BOUND)
        replace_file(self._path, msgspec.json.encode(VaultFile(1, header, sealed)) + b"\n")

    def _unsealed(self, file: VaultFile) -> dict[str, str]:
        try:
            plain = AESGCM(self._key(file.key)).decrypt(file.sealed[:12], file.sealed[12:], _BOUND)
            return msgspec.json.decode(plain, type=dict[str, str])
        except (InvalidTag, ValueError) as error:
            raise self._damaged() from error

    def _key(self, header: KeyHeader) -> bytes:
        if self._opened is None or self._opened[0] != header:
            self._opened = (header, unwrap(header, self._places))
        return self._opened[1]

    def _damaged(self) -> VaultDamaged:
        return VaultDamaged(f"`{self._path}` is damaged or no vault: restore it from a backup")
