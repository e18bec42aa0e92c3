"""What a client keeps for us and brings back: encrypted, authenticated, dated."""

from __future__ import annotations

import base64
import hashlib
import secrets
import time
from typing import Any, Final

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_NONCE_BYTES: Final = 12
_PURPOSE: Final = b"mooring.authoring:request-state"


class SealBroken(ValueError):
    """Forged, damaged or too old: all one thing to whoever presents it."""


class Seal:
    """Processes that share a key open each other's seals."""

    def __init__(self, key: bytes | None) -> None:
        self._cipher = AESGCM(hashlib.sha256(key).digest() if key else secrets.token_bytes(32))

    def wrap(self, values: dict[str, Any], ttl_seconds: float) -> str:
        nonce = secrets.token_bytes(_NONCE_BYTES)
        payload = msgspec.msgpack.encode([time.time() + ttl_seconds, values])
        return _spelled(nonce + self._cipher.encrypt(nonce, payload, _PURPOSE))

    def unwrap(self, text: str) -> dict[str, Any]:
        try:
            sealed = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
            if _spelled(sealed) != text:
                raise SealBroken("not a value of ours")  # the same bytes, but not as we spell them
            opened = self._cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], _PURPOSE)
        except (InvalidTag, ValueError) as error:
            raise SealBroken("not a value of ours") from error
        expires, values = msgspec.msgpack.decode(opened)
        if expires < time.time():
            raise SealBroken("expired")
        return values


def _spelled(sealed: bytes) -> str:
    return base64.urlsafe_b64encode(sealed).rstrip(b"=").decode()
