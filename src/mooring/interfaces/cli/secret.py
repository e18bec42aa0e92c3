"""`mooring secret`: store, read and list secrets. Values come from a prompt or stdin, not from arguments."""

from __future__ import annotations

import argparse
import getpass
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from mooring.interfaces.cli.failure import Failed, reason_of
from mooring.interfaces.cli.own_gateway import GatewaySecrets, own_gateway, secret_store
from mooring.interfaces.cli.run_api import ask, path_of
from mooring.interfaces.cli.user_places import secret_places
from mooring.workloads.secrets.errors import SecretsError
from mooring.workloads.secrets.names import check_own_name
from mooring.workloads.secrets.store import ProviderKind, SecretPlaces, SecretStore
from mooring.workloads.secrets.store import set_up as choose
from mooring.workloads.secrets.vault_keys import PASSWORD_VARIABLE, KeySource, keyring_works, new_password

_KEYS = {"keyring": "a key in the OS keyring", "password": "your password", "file": "a key file"}
T = TypeVar("T")


def set_up(arguments: argparse.Namespace) -> int:
    """Choose the provider and, for the encrypted file, its key."""
    if arguments.provider != "encrypted" and (arguments.key or arguments.key_file):
        raise Failed(f"`--key` is for the encrypted file: the provider `{arguments.provider}` needs none")
    key_file = Path(arguments.key_file).absolute() if arguments.key_file else None
    places = secret_places(key_file)
    key = arguments.key or ("file" if key_file else _best_key(places.ask is not None))
    _choose(places, arguments.provider, key)
    where = {
        "encrypted": f"in the encrypted file `{places.vault_file}`, opened by {_KEYS[key]}",
        "environment": "in variables named MOORING_SECRET_NAME",
        "1password": "in 1Password",
    }[arguments.provider]
    print(f"secrets are kept {where}", file=sys.stderr)
    return 0


def _choose(places: SecretPlaces, provider: ProviderKind, key: KeySource) -> None:
    socket = own_gateway()
    try:
        if socket is None:
            choose(places, provider, key)
            return
        has_password = provider == "encrypted" and key == "password"
        password = new_password(places.keys).decode() if has_password else None
    except SecretsError as error:
        raise Failed(str(error)) from error
    wish = {"provider": provider, "key": key, "password": password}
    if places.key_file is not None:
        wish["key_file"] = str(places.key_file)
    ask(socket, "POST", path_of("secrets", "setup"), wish)


def _best_key(has_terminal: bool) -> KeySource:
    if keyring_works():
        return "keyring"
    if has_terminal:
        print(
            "there is no keyring here: a password will open your secrets (or, with `--key file`, a key file)",
            file=sys.stderr,
        )
    return "password" if has_terminal or os.environ.get(PASSWORD_VARIABLE) else "file"


def set_secret(arguments: argparse.Namespace) -> int:
    """Store a secret."""

    def store(secrets: SecretStore | GatewaySecrets) -> None:
        name = check_own_name(arguments.name)
        if isinstance(secrets, GatewaySecrets):
            secrets.names()  # a store that cannot be used says so before anybody has typed a value
        secrets.set(name, _value(name))

    _with_store(store)
    return 0


def get_secret(arguments: argparse.Namespace) -> int:
    """Print a secret on stdout."""
    value = _with_store(lambda secrets: secrets.get(check_own_name(arguments.name)))
    print(value)
    return 0


def list_secrets(arguments: argparse.Namespace) -> int:
    """Print the names, never the values."""
    names = _with_store(lambda secrets: secrets.names())
    if arguments.format == "json":
        print(json.dumps({"secrets": [{"name": name} for name in names]}, indent=2, ensure_ascii=False))
        return 0
    for name in names:
        print(name)
    if not names:
        print("no secrets yet: store one with `mooring secret set NAME`", file=sys.stderr)
    return 0


def delete_secret(arguments: argparse.Namespace) -> int:
    """Forget a secret."""
    _with_store(lambda secrets: secrets.delete(check_own_name(arguments.name)))
    return 0


def _with_store(action: Callable[[SecretStore | GatewaySecrets], T]) -> T:
    try:
        return action(secret_store())
    except SecretsError as error:
        raise Failed(str(error)) from error
    except OSError as error:
        raise Failed(f"the secret store cannot be used: {reason_of(error)}") from error


def _value(name: str) -> str:
    if sys.stdin.isatty():
        value = getpass.getpass(f"value of {name}: ")
    else:
        try:
            value = sys.stdin.buffer.read().decode("utf-8")
        except UnicodeDecodeError as error:
            raise Failed("a secret must be text: encode binary ones, for example with `base64`") from error
        # A here-string and `echo` add one line end that is not part of the secret.
        value = value.removesuffix("\n").removesuffix("\r")
    if not value:
        raise Failed(f"the value of `{name}` is empty: type it, or pipe it into this command")
    return value
