"""API keys: made here, shown once, kept as hashes; named, scoped, limited to servers, expiring, revocable."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Final

import msgspec

from mooring import durable
from mooring.gateway.principal import NEVER, Principal
from mooring.policy import files
from mooring.policy.authentication.proof import NotAuthenticated

PREFIX: Final = "mooring_"
_SHAPE: Final = re.compile(r"mooring_([0-9a-f]{12})_([A-Za-z0-9_-]{43})")
_PRINCIPAL: Final = "key:"
_NO_HASH: Final = "0" * 64


class KeyRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is kept of a key."""

    id: str
    name: str
    hash: str
    created: float
    expires: float | None = None
    scopes: tuple[str, ...] = ()
    servers: tuple[str, ...] = ()

    def expired(self, now: float) -> bool:
        return self.expires is not None and self.expires <= now


class KeyFile(msgspec.Struct, frozen=True):
    version: int = 1
    keys: tuple[KeyRecord, ...] = ()


class KeyExists(ValueError):
    """The name is taken."""


class KeyStore:
    """The file of keys. Every change is on disk before it is reported."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> KeyFile:
        try:
            return msgspec.json.decode(self.path.read_bytes(), type=KeyFile)
        except FileNotFoundError:
            return KeyFile()
        except msgspec.DecodeError as error:
            raise ValueError(f"`{self.path}` is not a file of keys: {error}") from error

    def create(
        self, name: str, *, scopes: tuple[str, ...], servers: tuple[str, ...], expires: float | None
    ) -> tuple[KeyRecord, str]:
        """A new key, and its text, which is nowhere else."""
        key_id = secrets.token_hex(6)
        text = f"{PREFIX}{key_id}_{secrets.token_urlsafe(32)}"
        record = KeyRecord(key_id, name, _hash(text), time.time(), expires, scopes, servers)
        with self._locked():
            known = self.read()
            if any(key.name == name for key in known.keys):
                raise KeyExists(f"there is a key named `{name}` already: choose another name, or revoke it")
            self._write((*known.keys, record))
        return record, text

    def revoke(self, name: str) -> KeyRecord:
        """Take a key away, by its name or id."""
        with self._locked():
            known = self.read().keys
            found = [key for key in known if name in (key.id, key.name)]
            if not found:
                raise KeyError(name)
            self._write(tuple(key for key in known if key is not found[0]))
        return found[0]

    def _write(self, keys: tuple[KeyRecord, ...]) -> None:
        durable.replace_file(self.path, msgspec.json.format(msgspec.json.encode(KeyFile(1, keys))))

    def _locked(self) -> AbstractContextManager[None]:
        return durable.locked(durable.private_folder(self.path.parent))


class ApiKeys:
    """Recognises keys; looks at the file again when it has changed."""

    def __init__(self, store: KeyStore) -> None:
        self._store = store
        self._stamp: tuple[int, int, int] | None = None
        self._records: dict[str, KeyRecord] = {}
        self._principals: dict[str, Principal] = {}

    def known(self, credential: str) -> Principal | None:
        self._look()
        shape = _SHAPE.fullmatch(credential)
        record = self._records.get(shape[1]) if shape is not None else None
        # An unknown id costs the same as a wrong secret: one hash and one comparison.
        right = hmac.compare_digest(_hash(credential), record.hash if record is not None else _NO_HASH)
        if record is None or not right or record.expired(time.time()):
            return None
        principal = self._principals.get(record.id)
        if principal is None:
            principal = self._principals[record.id] = _principal(record)
        return principal

    def holds(self, principal: Principal) -> bool:
        self._look()
        record = self._records.get(principal.id.removeprefix(_PRINCIPAL))
        return record is not None and not record.expired(time.time())

    async def verify(self, credential: str) -> Principal:
        principal = self.known(credential)
        if principal is None:
            raise NotAuthenticated("the key is unknown, expired or revoked")
        return principal

    def _look(self) -> None:
        # On every call: whoever revoked a key was told that it is revoked, and that is true from then on.
        stamp = files.stamp(self._store.path)
        if stamp != self._stamp:
            self._records = {record.id: record for record in self._store.read().keys}
            self._principals = {}
            self._stamp = stamp


def _principal(record: KeyRecord) -> Principal:
    claims = {"sub": record.name, "iss": "mooring", "scope": " ".join(record.scopes), "key_id": record.id}
    return Principal(
        id=f"{_PRINCIPAL}{record.id}",
        subject=record.name,
        scopes=frozenset(record.scopes),
        claims=claims,
        audiences=frozenset(record.servers) if record.servers else None,
        expires=record.expires if record.expires is not None else NEVER,
    )


def _hash(text: str) -> str:
    # A fast hash is right here: the secret has 256 random bits, so guessing is hopeless at any speed.
    return hashlib.sha256(text.encode()).hexdigest()
