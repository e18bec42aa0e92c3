"""Tokens that are of no use to a thief: each request proves that we hold their key (RFC 9449)."""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
import time
from typing import Any, Final
from urllib.parse import urlsplit

import jwt
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from jwt.algorithms import ECAlgorithm

ALGORITHM: Final = "ES256"


def new_key() -> str:
    """A key for the tokens of one grant, as it is kept with them."""
    made = ec.generate_private_key(ec.SECP256R1())
    form = serialization.PrivateFormat.PKCS8
    return made.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()).decode()


def proof(key: str, method: str, url: str, *, token: str | None = None, nonce: str | None = None) -> str:
    """That whoever sends this one request holds the key."""
    private = serialization.load_pem_private_key(key.encode(), None)
    assert isinstance(private, ec.EllipticCurvePrivateKey)
    public: dict[str, Any] = json.loads(ECAlgorithm.to_jwk(private.public_key()))
    parts = urlsplit(url)
    claims: dict[str, Any] = {
        "jti": secrets.token_urlsafe(16),
        "htm": method,
        "htu": f"{parts.scheme}://{parts.netloc}{parts.path}",
        "iat": int(time.time()),
    }
    if token is not None:
        digest = hashlib.sha256(token.encode("ascii")).digest()
        claims["ath"] = base64.urlsafe_b64encode(digest).rstrip(b"=").decode()
    if nonce is not None:
        claims["nonce"] = nonce
    return jwt.encode(claims, private, ALGORITHM, {"typ": "dpop+jwt", "jwk": public})
