"""`mooring key`: make, list and revoke API keys."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from mooring.config.guarding import KEYS_FILE, keys_file
from mooring.interfaces.cli.failure import Failed
from mooring.interfaces.cli.gateway_socket import answers, find_socket
from mooring.interfaces.cli.output import print_table
from mooring.interfaces.cli.run_api import ask, path_of
from mooring.interfaces.cli.spans import seconds
from mooring.policy.authentication.api_keys import KeyRecord, KeyStore

Key = dict[str, Any]


def create(arguments: argparse.Namespace) -> int:
    """Print a new key on stdout; everything else about it on stderr."""
    expires = time.time() + seconds("--expires", arguments.expires) if arguments.expires else None
    wish = {
        "name": arguments.name,
        "scopes": arguments.scope,
        "servers": arguments.server,
        "expires": expires,
    }
    text, made = _keys(arguments).create(wish)
    if arguments.format == "json":
        print(json.dumps({**made, "key": text}))
    else:
        print(text)
        print(f"key `{made['name']}` ({made['id']}) was made; it is not shown again", file=sys.stderr)
    return 0


def list_keys(arguments: argparse.Namespace) -> int:
    keys = _keys(arguments).all()
    if arguments.format == "json":
        print(json.dumps(keys))
        return 0
    if not keys:
        print("no keys yet: make one with `mooring key create NAME`", file=sys.stderr)
        return 0
    rows = [
        (
            key["name"],
            key["id"],
            _moment(key["created"]),
            _expiry(key["expires"]),
            " ".join(key["scopes"]),
            " ".join(key["servers"]) or "all",
        )
        for key in keys
    ]
    print_table(("name", "id", "created", "expires", "scopes", "servers"), rows)
    return 0


def revoke(arguments: argparse.Namespace) -> int:
    gone = _keys(arguments).revoke(arguments.name)
    print(f"key `{gone['name']}` ({gone['id']}) is revoked", file=sys.stderr)
    return 0


def _keys(arguments: argparse.Namespace) -> GatewayKeys | FileKeys:
    """The keys of the gateway that is meant. Where it does not run (yet), its file is changed here."""
    socket = find_socket(arguments)
    return GatewayKeys(socket) if answers(socket) else FileKeys(KeyStore(_keys_file(arguments, socket)))


class GatewayKeys:
    """Keys as a running gateway keeps them."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket

    def all(self) -> list[Key]:
        return ask(self._socket, "GET", path_of("keys"))["keys"]

    def create(self, wish: Key) -> tuple[str, Key]:
        made = ask(self._socket, "POST", path_of("keys"), wish)
        return made["key"], made["record"]

    def revoke(self, name: str) -> Key:
        return ask(self._socket, "DELETE", path_of("keys", name))


class FileKeys:
    """Keys in their file."""

    def __init__(self, store: KeyStore) -> None:
        self._store = store

    def all(self) -> list[Key]:
        with _told():
            return [_described(record) for record in self._store.read().keys]

    def create(self, wish: Key) -> tuple[str, Key]:
        with _told():
            record, text = self._store.create(
                wish["name"],
                scopes=tuple(wish["scopes"]),
                servers=tuple(wish["servers"]),
                expires=wish["expires"],
            )
        return text, _described(record)

    def revoke(self, name: str) -> Key:
        with _told():
            try:
                return _described(self._store.revoke(name))
            except KeyError:
                raise Failed(f"no key `{name}`: see `mooring key list`") from None


@contextmanager
def _told() -> Generator[None]:
    try:
        yield
    except (OSError, ValueError) as error:
        raise Failed(str(error)) from error


def _keys_file(arguments: argparse.Namespace, socket: Path) -> Path:
    """Where the gateway that is meant keeps its keys: where its file says, or beside its socket."""
    if not arguments.config:
        return socket.parent / KEYS_FILE
    from mooring.config.loading import ConfigError, load  # noqa: PLC0415 - slow

    try:
        return keys_file(load(Path(arguments.config)))
    except ConfigError as error:
        raise Failed(str(error)) from error


def _described(record: KeyRecord) -> Key:
    return {
        "name": record.name,
        "id": record.id,
        "created": record.created,
        "expires": record.expires,
        "scopes": list(record.scopes),
        "servers": list(record.servers),
    }


def _expiry(expires: float | None) -> str:
    if expires is None:
        return "never"
    return "expired" if expires <= time.time() else _moment(expires)


def _moment(stamp: float) -> str:
    return datetime.fromtimestamp(stamp, UTC).strftime("%Y-%m-%d %H:%M")
