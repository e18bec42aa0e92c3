"""What opens the vault: the OS keyring, a password, or a key file.

The vault has a random key of its own. That key lies in the vault's header, wrapped by a key made from one of
these sources, so a change of password encrypts thirty-two bytes anew and not every secret.
"""

from __future__ import annotations

import base64
import os
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from mooring.durable import private_folder, replace_file
from mooring.workloads.secrets.errors import KeyUnavailable, VaultDamaged, WrongKey

KeySource = Literal["keyring", "password", "file"]
# What OWASP asks for: 128 MiB and about a third of a second per guess.
SCRYPT_COST = 2**17
_LARGEST_COST = 2**20
# How often a person may mistype.
PASSWORD_TRIES = 3
_SERVICE = "mooring"
PASSWORD_VARIABLE = "MOORING_SECRETS_PASSWORD"  # noqa: S105 - the name of a variable


class KeyHeader(msgspec.Struct, frozen=True, omit_defaults=True):
    """How to get at the vault's key: where the outer key is from, and the inner one wrapped by it."""

    source: KeySource
    salt: bytes
    wrapped: bytes
    cost: int = 0
    """scrypt's N; 0 where the source is a random key and needs no stretching."""
    place: str = ""
    """The key file, or the account in the keyring."""


_QUESTION = "password for your secrets: "
_typed_open: dict[bytes, bytes] = {}
"""Keys that a typed password opened: a command that opens the vault again does not ask again."""


@dataclass(frozen=True, slots=True)
class KeyPlaces:
    """Where outer keys come from on this machine, now."""

    key_file: Path
    environment: Mapping[str, str]
    ask: Callable[[str], str] | None
    """Asks the person at the terminal, if there is one."""


def wrap(vault_key: bytes, source: KeySource, places: KeyPlaces, cost: int = SCRYPT_COST) -> KeyHeader:
    """A header for this key; makes a new outer key (or asks for a new password)."""
    salt = secrets.token_bytes(16)
    place = {"file": str(places.key_file), "keyring": secrets.token_hex(8), "password": ""}[source]
    cost = cost if source == "password" else 0
    material = _new_material(source, place, places)
    outer = _outer_key(material, salt, cost)
    return KeyHeader(source, salt, _seal(outer, vault_key, _bound(source, salt, cost)), cost, place)


def unwrap(header: KeyHeader, places: KeyPlaces) -> bytes:
    """The vault's key."""
    if not 0 <= header.cost <= _LARGEST_COST or len(header.wrapped) < 28:
        raise VaultDamaged("the vault's header makes no sense: restore the file from a backup")
    asked = header.source == "password" and not places.environment.get(PASSWORD_VARIABLE)
    if asked and places.ask is not None and header.wrapped in _typed_open:
        return _typed_open[header.wrapped]
    question = _QUESTION
    for tries_left in reversed(range(PASSWORD_TRIES if asked else 1)):
        outer = _outer_key(_material(header, places, question), header.salt, header.cost)
        bound = _bound(header.source, header.salt, header.cost)
        try:
            key = AESGCM(outer).decrypt(header.wrapped[:12], header.wrapped[12:], bound)
        except InvalidTag as error:
            if not tries_left:
                raise WrongKey(_wrong(header)) from error
            question = "that is not it: type it again: "
            continue
        if asked:
            _typed_open[header.wrapped] = key
        return key
    raise AssertionError("the last try answers or raises")


def _wrong(header: KeyHeader) -> str:
    if header.source == "password":
        return f"the password is wrong: try again, or set {PASSWORD_VARIABLE} to the right one"
    where = f"key file `{header.place}`" if header.source == "file" else "key in the OS keyring"
    return f"the {where} does not belong to this vault: put the right one back"


def _bound(source: str, salt: bytes, cost: int) -> bytes:
    """What the wrapped key is tied to, so that nobody weakens the header."""
    return msgspec.json.encode(["mooring vault key", source, base64.b64encode(salt).decode(), cost])


def _seal(key: bytes, data: bytes, bound: bytes) -> bytes:
    nonce = secrets.token_bytes(12)
    return nonce + AESGCM(key).encrypt(nonce, data, bound)


def _outer_key(material: bytes, salt: bytes, cost: int) -> bytes:
    if cost:
        return Scrypt(salt=salt, length=32, n=cost, r=8, p=1).derive(material)
    return HKDF(algorithm=hashes.SHA256(), length=32, salt=salt, info=b"mooring vault").derive(material)


def _new_material(source: KeySource, place: str, places: KeyPlaces) -> bytes:
    if source == "password":
        return new_password(places)
    material = secrets.token_bytes(32)
    text = base64.b64encode(material)
    if source == "keyring":
        _keyring().set_password(_SERVICE, place, text.decode())
        return material
    if places.key_file.exists():
        return _key_in(places.key_file)
    private_folder(places.key_file.parent)
    replace_file(places.key_file, text + b"\n")
    return material


def _material(header: KeyHeader, places: KeyPlaces, question: str) -> bytes:
    if header.source == "password":
        return _password(places, question)
    if header.source == "file":
        return _key_in(Path(header.place))
    found = _keyring().get_password(_SERVICE, header.place)
    if not found:
        raise KeyUnavailable(
            "the OS keyring has no key for this vault: unlock the keyring, or log in as who set it up"
        )
    return base64.b64decode(found)


def _key_in(path: Path) -> bytes:
    try:
        status = path.stat()
        text = path.read_bytes()
    except OSError as error:
        raise KeyUnavailable(
            f"cannot read the key file `{path}`: {(error.strerror or 'unreadable').lower()}; put it back"
        ) from error
    if os.name == "posix" and status.st_mode & 0o077:
        raise KeyUnavailable(f"others can read the key file `{path}`: run `chmod 600 {path}`")
    try:
        key = base64.b64decode(text.strip(), validate=True)
    except ValueError as error:
        raise KeyUnavailable(f"`{path}` is no key file: put the right one back") from error
    if len(key) < 32:
        raise KeyUnavailable(f"the key in `{path}` is too short: put the right one back")
    return key


def _password(places: KeyPlaces, question: str) -> bytes:
    if given := places.environment.get(PASSWORD_VARIABLE):
        return given.encode()
    if places.ask is None:
        raise KeyUnavailable(
            "the vault needs its password and nobody is at a terminal: type it at one, for example at "
            f"`mooring secret list`, set {PASSWORD_VARIABLE}, or use a key file (`mooring secret setup "
            "--key file`)"
        )
    return places.ask(question).encode()


def new_password(places: KeyPlaces) -> bytes:
    """Asked for twice, unless it is in the environment."""
    first = _password(places, "new password for your secrets: ")
    if len(first) < 8:
        raise WrongKey("a password needs at least 8 characters: choose a longer one")
    if not places.environment.get(PASSWORD_VARIABLE) and _password(places, "the same once more: ") != first:
        raise WrongKey("the two passwords differ: try again")
    return first


class Keyring:
    """The OS keyring through the `keyring` library, its errors in our words."""

    def __init__(self, library: Any) -> None:
        self._library = library

    def get_password(self, service: str, account: str) -> str | None:
        return cast("str | None", self._call("get_password", service, account))

    def set_password(self, service: str, account: str, password: str) -> None:
        self._call("set_password", service, account, password)

    def _call(self, name: str, *arguments: str) -> object:
        try:
            return getattr(self._library, name)(*arguments)
        except Exception as error:  # each backend raises what its system raises
            raise KeyUnavailable(
                "the OS keyring cannot be used here: unlock it, or use another key with "
                "`mooring secret setup --key password` or `--key file`"
            ) from error


def _keyring() -> Keyring:
    # Looks for the desktop's services: 100 ms that only a vault with such a key needs.
    import keyring  # noqa: PLC0415

    return Keyring(keyring)


def keyring_works() -> bool:
    """Whether the OS keyring keeps what it is given."""
    account = f"probe-{secrets.token_hex(8)}"
    try:
        keyring = _keyring()
        keyring.set_password(_SERVICE, account, "probe")
        kept = keyring.get_password(_SERVICE, account) == "probe"
    except KeyUnavailable:
        return False
    import keyring as library  # noqa: PLC0415 - as above

    library.delete_password(_SERVICE, account)
    return kept
