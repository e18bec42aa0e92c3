"""Whether an image is signed with the key that its registry entry names, in cosign's way.

Cosign keeps signatures beside the image, under the tag `sha256-<digest>.sig`: each layer is a small JSON that
names the image's digest, with its signature as an annotation.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.serialization import load_pem_public_key

from mooring.ecosystem.registry.entry import RegistryError

_ANNOTATION = "dev.cosignproject.cosign/signature"
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
Fetch = Callable[[str], bytes]
"""Gets a URL below `/v2/<repository>/`."""


@dataclass(frozen=True, slots=True)
class SignedPayload:
    """What was signed, and the signature."""

    payload: bytes
    signature: bytes


def verify_image(digest: str, public_key: str, fetch: Fetch) -> None:
    """Return if a signature by this key is for this digest; otherwise RegistryError says what is wrong."""
    if not _DIGEST.fullmatch(digest):
        raise RegistryError(f"`{digest}` is no digest of an image")
    found = signatures_of(digest, fetch)
    if not found:
        raise RegistryError(
            f"the image {digest[:19]} is not signed, though its entry names a key: do not run it"
        )
    if not any(is_signed(each, digest, public_key) for each in found):
        raise RegistryError(
            f"no signature of the image {digest[:19]} is by the key its entry names: do not run it"
        )


def signatures_of(digest: str, fetch: Fetch) -> list[SignedPayload]:
    """The signatures that lie beside the image."""
    manifest = _object(_decoded(fetch(f"manifests/{digest.replace(':', '-')}.sig")))
    found: list[SignedPayload] = []
    for layer in map(_object, cast("list[Any]", manifest.get("layers") or [])):
        text = _object(layer.get("annotations")).get(_ANNOTATION)
        place = str(layer.get("digest") or "")
        if not isinstance(text, str) or not _DIGEST.fullmatch(place):
            continue
        payload = fetch(f"blobs/{place}")
        if f"sha256:{hashlib.sha256(payload).hexdigest()}" != place:
            raise RegistryError("the image registry sent a signature that is not what it named: try again")
        try:
            found.append(SignedPayload(payload, base64.b64decode(text, validate=True)))
        except binascii.Error:
            continue
    return found


def is_signed(signed: SignedPayload, digest: str, public_key: str) -> bool:
    """Whether the signature is by this key, and for this image and no other."""
    try:
        _verify(public_key, signed)
    except InvalidSignature:
        return False
    critical = _object(_object(_decoded(signed.payload)).get("critical"))
    return _object(critical.get("image")).get("docker-manifest-digest") == digest


def _verify(public_key: str, signed: SignedPayload) -> None:
    try:
        key = load_pem_public_key(public_key.encode())
    except ValueError as error:
        raise RegistryError(
            "the key that the entry names cannot be read: it must be a public key in PEM"
        ) from error
    if isinstance(key, ec.EllipticCurvePublicKey):
        key.verify(signed.signature, signed.payload, ec.ECDSA(hashes.SHA256()))
    elif isinstance(key, ed25519.Ed25519PublicKey):
        key.verify(signed.signature, signed.payload)
    elif isinstance(key, rsa.RSAPublicKey):
        key.verify(signed.signature, signed.payload, padding.PKCS1v15(), hashes.SHA256())
    else:
        raise RegistryError("the key that the entry names is of a kind that is not used for signing images")


def _decoded(data: bytes) -> Any:
    try:
        return msgspec.json.decode(data)
    except msgspec.DecodeError as error:
        raise RegistryError("what lies beside the image is no signature that can be read") from error


def _object(value: Any) -> dict[str, Any]:
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
