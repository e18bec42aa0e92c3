"""What users granted: kept encrypted, one file each, so that several processes can share them safely."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from mooring import durable
from mooring.policy.credentials.pool import CredentialUnavailable

log = logging.getLogger(__name__)

FOLDER: Final = "grants"
LOCK_SECONDS: Final = 30.0
"""Longer than a token endpoint may take: whoever holds the lock is asking one."""
_NONCE_BYTES: Final = 12
T = TypeVar("T")


class Grant(msgspec.Struct, frozen=True):
    """What one user granted for one server or provider."""

    party: str
    principal: str
    issuer: str
    token_url: str
    client_id: str | None
    access_token: str
    expires: float
    """Unix time."""
    client_secret: str | None = None
    method: str | None = None
    refresh_token: str | None = None
    id_token: str | None = None
    scopes: tuple[str, ...] = ()
    resource: str | None = None
    granted_at: float = 0.0
    renewed_at: float = 0.0
    url: str | None = None
    """The server's address when the user agreed; None for a provider."""
    proof_key: str | None = None
    """The key that each request with this token has to prove, if it does."""


def grant_name(party: str, principal: str) -> str:
    return f"grant {party} {principal}"


class GrantStore:
    """Sealed records by name. What was read is remembered until its file is another one."""

    def __init__(self, folder: Path, key: Callable[[], bytes]) -> None:
        """`key` may ask the keyring or derive something: it is called once, in a thread."""
        self._folder = folder
        self._key = key
        self._cipher: AESGCM | None = None
        self._known: dict[str, tuple[tuple[int, int], Any]] = {}

    async def read(self, name: str, kind: type[T]) -> T | None:
        """The record, if there is one that can be read."""
        path = self._path(name)
        try:
            stamp = _stamp(path)
        except OSError:
            self._known.pop(name, None)
            return None
        known = self._known.get(name)
        if known is not None and known[0] == stamp:
            return known[1]
        found = await asyncio.to_thread(self._read, path, name, kind)
        if found is not None:
            self._known[name] = (stamp, found)
        return found

    async def write(self, name: str, record: msgspec.Struct) -> None:
        """Keep a record; it is on the disk when this returns."""
        await asyncio.to_thread(self._write, name, record)

    async def delete(self, name: str) -> bool:
        """Forget a record; whether there was one."""
        self._known.pop(name, None)
        try:
            self._path(name).unlink()
        except FileNotFoundError:
            return False
        return True

    async def grants(self) -> list[Grant]:
        """Everything that users granted and that can still be read."""
        return await asyncio.to_thread(self._all)

    async def delete_all(self, party: str) -> None:
        """Forget what anybody granted for this party."""
        for grant in await self.grants():
            if grant.party == party:
                await self.delete(grant_name(party, grant.principal))

    @asynccontextmanager
    async def lock(self, name: str) -> AsyncGenerator[None]:
        """Nobody else changes this record meanwhile, in this process or another."""
        durable.private_folder(self._folder)
        holding = durable.locked(self._path(name).with_suffix(".lock"), LOCK_SECONDS)
        try:
            await asyncio.to_thread(holding.__enter__)
        except durable.LockTimedOut as error:
            raise CredentialUnavailable(str(error)) from error
        try:
            yield
        finally:
            holding.__exit__(None, None, None)

    def _path(self, name: str) -> Path:
        return self._folder / f"{hashlib.sha256(name.encode()).hexdigest()[:40]}.grant"

    def _all(self) -> list[Grant]:
        found = [self._opened(path) for path in sorted(self._folder.glob("*.grant"))]
        return [msgspec.json.decode(data[1], type=Grant) for data in found if data and data[0] == "Grant"]

    def _read(self, path: Path, name: str, kind: type[T]) -> T | None:
        data = self._opened(path)
        if data is None or data[0] != kind.__name__:
            return None
        try:
            return msgspec.json.decode(data[1], type=kind)
        except msgspec.DecodeError as error:
            log.warning("the record of `%s` cannot be read any more: %s", name, error)
            return None

    def _opened(self, path: Path) -> tuple[str, bytes] | None:
        try:
            sealed = path.read_bytes()
            plain = self._seal().decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], path.stem.encode())
        except OSError:
            return None
        except InvalidTag:
            log.warning("`%s` was sealed with another key: its user has to agree again", path)
            return None
        kind, _, data = plain.partition(b"\n")
        return kind.decode(), data

    def _write(self, name: str, record: msgspec.Struct) -> None:
        durable.private_folder(self._folder)
        path = self._path(name)
        nonce = os.urandom(_NONCE_BYTES)
        plain = type(record).__name__.encode() + b"\n" + msgspec.json.encode(record)
        durable.replace_file(path, nonce + self._seal().encrypt(nonce, plain, path.stem.encode()))
        self._known[name] = (_stamp(path), record)

    def _seal(self) -> AESGCM:
        if self._cipher is None:
            self._cipher = AESGCM(self._key())
        return self._cipher


def _stamp(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_ino, status.st_mtime_ns
