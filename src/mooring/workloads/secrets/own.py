"""A key of our own among the secrets: what Mooring seals by itself is then as safe as what people store."""

from __future__ import annotations

import base64
import secrets
from pathlib import Path
from typing import Final

from mooring.transports.sealing import KEY_BYTES, load_key
from mooring.workloads.secrets.errors import NotSetUp, SecretMissing, VaultDamaged
from mooring.workloads.secrets.names import RESERVED
from mooring.workloads.secrets.store import SecretPlaces, open_store

NAME: Final = f"{RESERVED}grants key"


def own_key(places: SecretPlaces, file: Path) -> bytes:
    """The key, made on first use: in the encrypted store if there is one, else in a file that only we read.

    A key file that is there is used in any case: something was sealed with it.
    """
    if file.exists():
        return load_key(file)
    try:
        store = open_store(places)
    except NotSetUp:
        store = None
    if store is None or store.kind != "encrypted":
        return load_key(file)
    try:
        key = base64.b64decode(store.get(NAME))
    except SecretMissing:
        key = secrets.token_bytes(KEY_BYTES)
        store.set(NAME, base64.b64encode(key).decode())
    if len(key) != KEY_BYTES:
        raise VaultDamaged(f"the secret `{NAME}` is not a key of {KEY_BYTES} bytes: restore the store")
    return key
