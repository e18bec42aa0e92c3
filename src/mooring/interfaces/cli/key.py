"""`mooring key`: make, list and revoke API keys."""

from __future__ import annotations

import argparse
import json
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from mooring.config.guarding import KEYS_FILE
from mooring.interfaces.cli.failure import Failed
from mooring.interfaces.cli.gateway_socket import find_socket
from mooring.interfaces.cli.output import print_table
from mooring.interfaces.cli.spans import seconds
from mooring.policy.authentication.api_keys import KeyRecord, KeyStore


def create(arguments: argparse.Namespace) -> int:
    """Print a new key on stdout; everything else about it on stderr."""
    expires = time.time() + seconds("--expires", arguments.expires) if arguments.expires else None
    store = _store(arguments)
    try:
        record, text = store.create(
            arguments.name,
            scopes=tuple(arguments.scope),
            servers=tuple(arguments.server),
            expires=expires,
        )
    except (OSError, ValueError) as error:
        raise Failed(str(error)) from error
    if arguments.format == "json":
        print(json.dumps({**_described(record), "key": text}))
    else:
        print(text)
        print(f"key `{record.name}` ({record.id}) was made; it is not shown again", file=sys.stderr)
    return 0


def list_keys(arguments: argparse.Namespace) -> int:
    keys = _read(_store(arguments))
    if arguments.format == "json":
        print(json.dumps([_described(record) for record in keys]))
        return 0
    rows = [
        (
            record.name,
            record.id,
            _moment(record.created),
            _expiry(record),
            " ".join(record.scopes),
            " ".join(record.servers) or "all",
        )
        for record in keys
    ]
    print_table(("NAME", "ID", "CREATED", "EXPIRES", "SCOPES", "SERVERS"), rows)
    return 0


def revoke(arguments: argparse.Namespace) -> int:
    try:
        record = _store(arguments).revoke(arguments.name)
    except KeyError:
        raise Failed(f"no key `{arguments.name}`: see `mooring key list`") from None
    except (OSError, ValueError) as error:
        raise Failed(str(error)) from error
    print(f"key `{record.name}` ({record.id}) is revoked", file=sys.stderr)
    return 0


def _store(arguments: argparse.Namespace) -> KeyStore:
    return KeyStore(keys_file(arguments))


def keys_file(arguments: argparse.Namespace) -> Path:
    """Where the gateway that is meant keeps its keys: beside its socket, or where its file says."""
    if arguments.config:
        from mooring.config.loading import ConfigError, load  # noqa: PLC0415 - slow

        try:
            config = load(Path(arguments.config))
        except ConfigError as error:
            raise Failed(str(error)) from error
        return config.auth.keys_file or config.storage.root / KEYS_FILE
    return find_socket(arguments).parent / KEYS_FILE


def _read(store: KeyStore) -> tuple[KeyRecord, ...]:
    try:
        return store.read().keys
    except (OSError, ValueError) as error:
        raise Failed(str(error)) from error


def _described(record: KeyRecord) -> dict[str, object]:
    return {
        "name": record.name,
        "id": record.id,
        "created": record.created,
        "expires": record.expires,
        "scopes": list(record.scopes),
        "servers": list(record.servers),
    }


def _expiry(record: KeyRecord) -> str:
    if record.expires is None:
        return "never"
    return "expired" if record.expired(time.time()) else _moment(record.expires)


def _moment(stamp: float) -> str:
    return datetime.fromtimestamp(stamp, UTC).strftime("%Y-%m-%d %H:%M")
