"""The words of `secret`, `client`, `registry`, `search` and `import`.

Apart from the commands themselves, which load libraries that `mooring version` need not wait for.
"""

from __future__ import annotations

import argparse
from typing import Any

from mooring.interfaces.cli import words


def add_parsers(commands: Any) -> None:
    """All commands of this page."""
    _add_secret(commands)
    _add_client(commands)
    _add_import(commands)
    _add_registry(commands)
    _add_search(commands)


def _add_secret(commands: Any) -> None:
    secret = commands.add_parser("secret", help="keep tokens and passwords for servers")
    actions = secret.add_subparsers(title="actions", metavar="ACTION", required=True)

    setup = actions.add_parser(
        "setup",
        help="choose where secrets are kept",
        description="Choose where secrets are kept. Called again, it changes the key of the encrypted file.",
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
    )
    store.add_argument("name", metavar="NAME", help="its name")
    store.set_defaults(handler="secret:set_secret")

    get = actions.add_parser("get", help="print a secret")
    get.add_argument("name", metavar="NAME", help="its name")
    get.set_defaults(handler="secret:get_secret")

    listing = actions.add_parser("list", help="list the names of secrets")
    words.add_format(listing)
    listing.set_defaults(handler="secret:list_secrets")

    delete = actions.add_parser("delete", help="forget a secret")
    delete.add_argument("name", metavar="NAME", help="its name")
    delete.set_defaults(handler="secret:delete_secret")


def _add_client(commands: Any) -> None:
    client = commands.add_parser("client", help="tell AI clients about the servers")
    actions = client.add_subparsers(title="actions", metavar="ACTION", required=True)
    where = words.where()
    status = words.add_action(
        actions, "status", "client_files:status", "show which clients are here and registered", where
    )
    status.add_argument("--all", action="store_true", help="also list clients that were not found here")
    words.add_format(status)
    _add_registering(actions, where)
    _add_taking_over(actions, where)


def _add_registering(actions: Any, where: argparse.ArgumentParser) -> None:
    writing = (where, _which_servers(), _consent())
    words.add_action(
        actions, "setup", "client_files:setup", "register the clients found here", *writing,
        description="Register every client found here: show what would change in its file, ask, write.",
    )  # fmt: skip
    register = words.add_action(
        actions, "register", "client_files:register", "write our servers into clients' files", *writing,
        description="Write our servers into clients' files, now and whenever a server comes or goes.",
    )  # fmt: skip
    register.add_argument(
        "clients", metavar="CLIENT", nargs="+", help="ids, as `mooring client status` shows"
    )
    register.add_argument("--create", action="store_true", help="also for a client that was not found here")
    remove = words.add_action(
        actions, "remove", "client_files:remove", "take our servers out of clients' files", where, _consent()
    )
    remove.add_argument("clients", metavar="CLIENT", nargs="+", help="their ids")
    text = "take back the last change of a client's file, byte for byte"
    undo = words.add_action(actions, "undo", "client_files:undo", text, where)
    undo.add_argument("client", metavar="CLIENT", help="its id")


def _add_taking_over(actions: Any, where: argparse.ArgumentParser) -> None:
    take = words.add_action(
        actions, "take-over", "client_takeover:take_over", "import a client's own servers and point it to us",
        where, _target(), _consent(),
        description="Import a client's own servers (secrets go into the secret store) and point it to us.",
    )  # fmt: skip
    take.add_argument("client", metavar="CLIENT", help="its id")
    text = "undo a take-over: the client has its own servers again"
    give = words.add_action(actions, "give-back", "client_takeover:give_back", text, where)
    give.add_argument("client", metavar="CLIENT", help="its id")


def _add_import(commands: Any) -> None:
    parser = commands.add_parser(
        "import",
        help="take servers from another program's file",
        description="Take servers from a file with `mcpServers`, VS Code's `servers`, Codex's config.toml or "
        "a Remote MCP Adapter configuration. Secrets in it go into the secret store.",
        parents=[words.where(), _target(), _consent()],
    )
    parser.add_argument("source", metavar="SOURCE", help="a file, or the id of a client")
    words.add_format(parser)
    parser.set_defaults(handler="import_:run")


def _add_registry(commands: Any) -> None:
    registry = commands.add_parser("registry", help="look at and add registries of servers")
    actions = registry.add_subparsers(title="actions", metavar="ACTION", required=True)

    listing = actions.add_parser("list", help="list servers of the registries")
    listing.add_argument("--registry", metavar="NAME", help="only of this registry")
    listing.add_argument("--sources", action="store_true", help="list the registries themselves")
    _add_limit(listing)
    words.add_format(listing)
    listing.set_defaults(handler="registry:list_servers")

    info = actions.add_parser("info", help="show everything about one server")
    info.add_argument("name", metavar="SERVER", help="its name, or the last part of it")
    info.add_argument("--registry", metavar="NAME", help="the registry to ask")
    info.add_argument("--version", metavar="VERSION", help="another version than the latest")
    info.add_argument("--versions", action="store_true", help="list its versions")
    info.add_argument(
        "--run-config", action="store_true", help="print the RunConfig that `mooring run` would use"
    )
    words.add_format(info)
    info.set_defaults(handler="registry:info")

    add = actions.add_parser(
        "add",
        help="add a registry",
        description="Add a registry: a JSON file, the URL of one (it ends in .json), or the address of a "
        "registry API.",
    )
    add.add_argument("name", metavar="NAME", help="what you call it")
    add.add_argument("location", metavar="LOCATION", help="a file or a URL")
    add.add_argument(
        "--token-secret", metavar="SECRET", default="", help="the secret to send as a bearer token"
    )
    add.add_argument(
        "--header-secret",
        metavar="HEADER=SECRET",
        action="append",
        default=[],
        help="a secret to send in this header; may be repeated",
    )
    add.set_defaults(handler="registry:add")

    remove = actions.add_parser("remove", help="forget a registry")
    remove.add_argument("name", metavar="NAME", help="its name")
    remove.set_defaults(handler="registry:remove")

    refresh = actions.add_parser(
        "refresh",
        help="read registries anew and keep a copy",
        description="Read registries anew and keep a copy for when they cannot be reached.",
    )
    refresh.add_argument("name", metavar="NAME", nargs="?", help="only this registry")
    refresh.set_defaults(handler="registry:refresh")


def _add_search(commands: Any) -> None:
    search = commands.add_parser("search", help="find servers in the registries")
    search.add_argument("words", metavar="WORD", nargs="+", help="what the name or description shall hold")
    search.add_argument("--registry", metavar="NAME", help="only in this registry")
    _add_limit(search)
    words.add_format(search)
    search.set_defaults(handler="registry:search")


def _add_limit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--limit", metavar="N", type=int, default=50, help="show at most this many (default: 50)"
    )


def _which_servers() -> argparse.ArgumentParser:
    which = argparse.ArgumentParser(add_help=False)
    which.add_argument(
        "--server", metavar="ID", action="append", default=[], help="only this server; may be repeated"
    )
    which.add_argument("--group", metavar="GROUP", help="only servers of this group")
    which.add_argument(
        "--replace", action="store_true", help="overwrite entries of the same name that are not ours"
    )
    return which


def _target() -> argparse.ArgumentParser:
    target = argparse.ArgumentParser(add_help=False)
    group = target.add_mutually_exclusive_group()
    group.add_argument(
        "--into",
        metavar="FILE",
        default="mooring.yaml",
        help="the configuration to add to (default: ./mooring.yaml)",
    )
    group.add_argument(
        "--run", action="store_true", help="run them as workloads of the running gateway instead"
    )
    target.add_argument(
        "--only", metavar="NAME", action="append", default=[], help="only this server; may be repeated"
    )
    return target


def _consent() -> argparse.ArgumentParser:
    consent = argparse.ArgumentParser(add_help=False)
    consent.add_argument("--yes", action="store_true", help="do not ask")
    consent.add_argument("--dry-run", action="store_true", help="only show what would change")
    return consent
