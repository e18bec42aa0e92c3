"""The words of `secret`, `client`, `registry`, `search` and `import`.

Apart from the commands themselves, which load libraries that `mooring version` need not wait for.
"""

from __future__ import annotations

import argparse
from typing import Any


def add_parsers(commands: Any) -> None:
    """All commands of this page."""
    _add_secret(commands)


def _add_secret(commands: Any) -> None:
    secret = commands.add_parser("secret", help="keep tokens and passwords for servers", allow_abbrev=False)
    actions = secret.add_subparsers(title="actions", metavar="ACTION", required=True)

    setup = actions.add_parser(
        "setup",
        help="choose where secrets are kept",
        description="Choose where secrets are kept. Called again, it changes the key of the encrypted file.",
        allow_abbrev=False,
    )
    setup.add_argument(
        "--provider",
        choices=["encrypted", "environment", "1password"],
        default="encrypted",
        help="an encrypted file (default), variables named MOORING_SECRET_NAME, or 1Password's command `op`",
    )
    setup.add_argument(
        "--key",
        choices=["keyring", "password", "file"],
        help="what opens the encrypted file (default: the OS keyring if it works, else a password at a "
        "terminal, else a key file)",
    )
    setup.add_argument(
        "--key-file", metavar="PATH", help="where the key file is or shall be (with `--key file`)"
    )
    setup.set_defaults(handler="secret:set_up")

    store = actions.add_parser(
        "set",
        help="store a secret",
        description="Store a secret. Its value is asked for, or read from standard input.",
        allow_abbrev=False,
    )
    store.add_argument("name", metavar="NAME", help="its name")
    store.set_defaults(handler="secret:set_secret")

    get = actions.add_parser("get", help="print a secret", allow_abbrev=False)
    get.add_argument("name", metavar="NAME", help="its name")
    get.set_defaults(handler="secret:get_secret")

    listing = actions.add_parser("list", help="list the names of secrets", allow_abbrev=False)
    _add_format(listing)
    listing.set_defaults(handler="secret:list_secrets")

    delete = actions.add_parser("delete", help="forget a secret", allow_abbrev=False)
    delete.add_argument("name", metavar="NAME", help="its name")
    delete.set_defaults(handler="secret:delete_secret")


def _add_format(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--format", choices=["text", "json"], default="text", help="for people or for programs"
    )
