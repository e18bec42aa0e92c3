"""`mooring client`: tell AI clients about our servers, in their own files."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar, cast

from mooring.ecosystem.clients.editing import ClientFileError
from mooring.ecosystem.clients.registration import (
    ClientBook,
    CommandFor,
    Plan,
    Registration,
    conflict_text,
)
from mooring.ecosystem.clients.table import BY_ID, CLIENTS, ClientKind, ServerAddress
from mooring.interfaces.cli import client_api
from mooring.interfaces.cli.asking import confirmed, show_diff
from mooring.interfaces.cli.failure import Failed, no_such_server
from mooring.interfaces.cli.output import one_line, print_table
from mooring.interfaces.cli.user_places import client_places, data_directory, secret_places
from mooring.interfaces.cli.words import closest
from mooring.interfaces.cli.workload_calls import server_addresses
from mooring.workloads.secrets.errors import NotSetUp, SecretsError
from mooring.workloads.secrets.store import SecretStore, open_store

T = TypeVar("T")


def status(arguments: argparse.Namespace) -> int:
    """Which clients are here, which are registered, and what of ours stands in their files."""
    socket = client_api.gateway_for(arguments)
    book = client_book(arguments)
    rows = [_state(book, client) for client in CLIENTS] if socket is None else client_api.rows(socket)
    if not arguments.all:
        rows = [row for row in rows if row["installed"] or row["registered"] or row["entries"]]
    if arguments.format == "json":
        print(json.dumps({"clients": rows}, indent=2, ensure_ascii=False))
        return 0
    if not rows:
        print("no client was found here; `mooring client status --all` lists those we know", file=sys.stderr)
        return 0
    keys = ("id", "title", "installed", "registered", "entries", "file")
    heads = ("id", "client", "installed", "registered", "servers", "file")
    print_table(heads, [[_short(_cell(row[key])) for key in keys] for row in rows], sys.stdout)
    for row in rows:
        if row["problem"]:
            print(f"{row['id']}: {one_line(str(row['problem']))}", file=sys.stderr)
    return 0


def _state(book: ClientBook, client: ClientKind) -> dict[str, object]:
    problem, own = "", dict[str, str]()
    try:
        own = book.own_entries(client)
    except ClientFileError as error:
        problem = str(error)
    registration = book.registrations().get(client.id)
    return {
        "id": client.id,
        "title": client.title,
        "installed": client.is_installed(client_places()),
        "registered": registration is not None,
        "group": registration.group if registration else None,
        "entries": sorted(own.values()),
        "file": str(client.path(client_places())),
        "note": client.note,
        "problem": problem,
    }


def _cell(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "-"
    return ", ".join(cast("list[str]", value)) or "-" if isinstance(value, list) else str(value)


def _short(text: str) -> str:
    """A file in the home folder as people write it."""
    home = f"{Path.home()}/"
    return f"~/{text.removeprefix(home)}" if text.startswith(home) else text


def setup(arguments: argparse.Namespace) -> int:
    """Register the clients found here, after asking for each."""
    book = client_book(arguments)
    servers = server_addresses(arguments)
    _check_wish(arguments, servers)
    found = [client for client in CLIENTS if client.is_installed(client_places())]
    if not found:
        raise Failed("no client was found here: `mooring client status --all` lists those we know")
    failed = 0
    for client in found:
        print(f"{client.title} ({client.path(client_places())})", file=sys.stderr)
        try:
            _register(book, client, servers, _wish(arguments), arguments)
        except Failed as error:
            # One broken file must not keep the others from being set up.
            print(f"error: {error}", file=sys.stderr)
            failed += 1
    return 1 if failed else 0


def register(arguments: argparse.Namespace) -> int:
    """Register the named clients."""
    book = client_book(arguments)
    servers = server_addresses(arguments)
    _check_wish(arguments, servers)
    for client in _named(arguments.clients):
        if not client.is_installed(client_places()) and not arguments.create:
            raise Failed(
                f"{client.title} was not found here (`{client.path(client_places())}`): add --create to "
                "write its file anyway"
            )
        _register(book, client, servers, _wish(arguments), arguments)
    return 0


def remove(arguments: argparse.Namespace) -> int:
    """Take our entries out of the named clients' files."""
    book = client_book(arguments)
    socket = client_api.gateway_for(arguments)
    for client in _named(arguments.clients):
        if socket is not None:
            client_api.remove(socket, client, arguments)
            continue
        plan = _tried(lambda client=client: book.plan(client, [], None))
        if _go_on(plan, arguments):
            _tried(lambda plan=plan: book.apply(plan, registered=False))
    return 0


def undo(arguments: argparse.Namespace) -> int:
    """Take back the last change of a client's file."""
    book = client_book(arguments)
    for client in _named([arguments.client]):
        socket = client_api.gateway_for(arguments)
        path = (
            client_api.undo(socket, client)
            if socket
            else _tried(lambda client=client: book.undo(client)).path
        )
        print(f"`{path}` is as it was before", file=sys.stderr)
    return 0


def _register(
    book: ClientBook,
    client: ClientKind,
    servers: list[ServerAddress],
    wish: Registration,
    arguments: argparse.Namespace,
) -> None:
    if (socket := client_api.gateway_for(arguments)) is not None:
        client_api.register(socket, client, arguments)
        return
    plan = _tried(lambda: book.plan(client, servers, wish, arguments.replace))
    if plan.conflicts:
        raise Failed(conflict_text(client, plan.conflicts))
    for name in plan.migrated:
        print(f"`{name}` was written differently before and is brought up to date", file=sys.stderr)
    if _go_on(plan, arguments):
        _tried(lambda: book.apply(plan, registered=True))
        if not plan.registration.entries:
            print(f"{client.title} is registered; servers appear there when you run them", file=sys.stderr)


def _go_on(plan: Plan, arguments: argparse.Namespace) -> bool:
    """Show the change and ask; what changes no byte needs no question."""
    change = plan.change
    if change.is_empty:
        return not arguments.dry_run
    before = (change.before or b"").decode("utf-8-sig", "replace")
    show_diff(change.path, before, change.after.decode("utf-8-sig", "replace"))
    return not arguments.dry_run and confirmed(arguments, f"write this to `{change.path}`?")


def client_book(arguments: argparse.Namespace) -> ClientBook:
    """The user's registered clients."""
    return ClientBook(data_directory(), client_places(), proxy_command(arguments), _secret_store)


def proxy_command(arguments: argparse.Namespace) -> CommandFor:
    """What a client starts that cannot take a URL."""
    program = shutil.which("mooring") or str(Path(sys.executable).with_name("mooring"))
    flags: list[str] = []
    if arguments.config:
        flags = ["--config", str(Path(arguments.config).absolute())]
    elif socket := arguments.socket or os.environ.get("MOORING_SOCKET"):
        flags = ["--socket", str(Path(socket).absolute())]
    elif (here := Path("mooring.yaml")).is_file():
        flags = ["--config", str(here.absolute())]
    return lambda server: [program, "proxy", "stdio", server, *flags]


def _secret_store() -> SecretStore | None:
    try:
        return open_store(secret_places())
    except NotSetUp:
        return None


def _wish(arguments: argparse.Namespace) -> Registration:
    return Registration(group=arguments.group, servers=list(arguments.server) or None)


def _check_wish(arguments: argparse.Namespace, servers: list[ServerAddress]) -> None:
    """A mistyped name would register a client for nothing, for ever."""
    known = {server.id for server in servers}
    for wanted in arguments.server:
        if wanted not in known:
            raise no_such_server(wanted, known)
    groups = sorted({server.group for server in servers})
    if arguments.group is None or arguments.group in groups:
        return
    socket = client_api.gateway_for(arguments)
    if socket is None:
        listed = ", ".join(f"`{group}`" for group in groups) or "none"
        raise Failed(f"no server is in a group called `{arguments.group}`; there are: {listed}")
    client_api.check_group(socket, arguments.group)


def unknown_client(identifier: str) -> Failed:
    meant = closest(identifier, list(BY_ID))
    guess = f"did you mean `{meant}`? " if meant else ""
    return Failed(f"`{identifier}` is no client we know: {guess}`mooring client status --all` lists them")


def _named(identifiers: list[str]) -> list[ClientKind]:
    for each in identifiers:
        if each not in BY_ID:
            raise unknown_client(each)
    return [BY_ID[each] for each in identifiers]


def _tried(action: Callable[[], T]) -> T:
    try:
        return action()
    except (ClientFileError, SecretsError) as error:
        raise Failed(str(error)) from error
