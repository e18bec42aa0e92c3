"""Values that travel through a client and come back: encrypted, authenticated, bound to a purpose, and
dated."""

from __future__ import annotations

import base64
import binascii
import os
import secrets
import time
from pathlib import Path
from typing import Any, Final

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12


class SealBroken(ValueError):
    """Forged, damaged, meant for something else, or too old: all one thing to whoever presents it."""


class Seal:
    """Whoever has the same key opens each other's seals."""

    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key)

    def wrap(self, purpose: str, values: dict[str, Any], *, ttl_seconds: float) -> str:
        """Seal some values for one purpose; the result is URL-safe text."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        payload = msgspec.msgpack.encode({"x": time.time() + ttl_seconds, "v": values})
        sealed = nonce + self._cipher.encrypt(nonce, payload, purpose.encode())
        return _spelled(sealed)

    def unwrap(self, purpose: str, text: str) -> dict[str, Any]:
        """The values that were sealed for this purpose, if they still hold."""
        try:
            sealed = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
            if _spelled(sealed) != text:
                raise SealBroken("not a value of ours")  # the same bytes, but not as we spell them
            payload = self._cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], purpose.encode())
            content: dict[str, Any] = msgspec.msgpack.decode(payload)
        except (InvalidTag, ValueError, binascii.Error) as error:
            raise SealBroken("not a value of ours") from error
        if content["x"] < time.time():
            raise SealBroken("expired")
        return content["v"]


def _spelled(sealed: bytes) -> str:
    return base64.urlsafe_b64encode(sealed).rstrip(b"=").decode()


def load_key(path: Path) -> bytes:
    """The key at this path, made on first use; readable by its owner only."""
    try:
        key = path.read_bytes()
    except FileNotFoundError:
        return _create_key(path)
    if len(key) != KEY_BYTES:
        raise ValueError(f"`{path}` is not a key of {KEY_BYTES} bytes; remove it to have a new one made")
    return key


def _create_key(path: Path) -> bytes:
    path.parent.mkdir(parents=True, exist_ok=True)
    key = secrets.token_bytes(KEY_BYTES)
    temporary = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(key)
        file.flush()
        os.fsync(file.fileno())
    try:
        os.link(temporary, path)  # unlike a rename, this cannot replace a key that another process just made
    except FileExistsError:
        return path.read_bytes()
    finally:
        temporary.unlink()
    return key
