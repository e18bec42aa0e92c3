"""`mooring client take-over` and `give-back`: a client's own servers come to us, and go back."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from mooring.ecosystem.clients.editing import ClientFileError
from mooring.ecosystem.clients.table import BY_ID, ClientKind
from mooring.ecosystem.clients.takeover import Surroundings
from mooring.interfaces.cli import import_
from mooring.interfaces.cli.asking import confirmed, show_diff
from mooring.interfaces.cli.client_api import gateway_for
from mooring.interfaces.cli.client_files import client_book, proxy_command, unknown_client
from mooring.interfaces.cli.failure import Failed
from mooring.interfaces.cli.run_api import Json, ask, ask_with_progress, path_of
from mooring.interfaces.cli.run_progress import Progress
from mooring.interfaces.cli.user_places import client_places
from mooring.interfaces.cli.workload_calls import base_url_for
from mooring.workloads.secrets.errors import SecretsError


def take_over(arguments: argparse.Namespace) -> int:
    """Import the client's servers, then point the client to us."""
    client = _client(arguments.client)
    socket = gateway_for(arguments)
    try:
        done = (
            _take_over_here(client, arguments)
            if socket is None
            else _take_over_there(socket, client, arguments)
        )
    except (ClientFileError, SecretsError) as error:
        raise Failed(str(error)) from error
    if done:
        print(f"undo this with `mooring client give-back {client.id}`", file=sys.stderr)
    return 0


def _take_over_there(socket: Path, client: ClientKind, arguments: argparse.Namespace) -> bool:
    """By the gateway, which runs the servers and keeps the clients' files."""
    target = path_of("clients", client.id, "take-over")
    wish: Json = {"only": list(arguments.only)}
    if not arguments.run:
        wish |= {"into": str(Path(arguments.into).absolute()), "base_url": base_url_for(arguments)}
    planned: dict[str, Any] = ask(socket, "POST", target, {**wish, "dry_run": True})
    import_.show_rows(planned)
    change = planned["client"]
    if not _agreed(
        arguments, len(planned["servers"]), Path(change["file"]), change["before"], change["after"]
    ):
        return False
    import_.need_store(bool(planned["secrets"]), planned["wanted_secrets"])
    ask_with_progress(socket, "POST", target, wish, Progress())
    if not arguments.run:
        import_.say_where(Path(arguments.into))
    return True


def _take_over_here(client: ClientKind, arguments: argparse.Namespace) -> bool:
    around = _surroundings(arguments)
    plan = import_.plan_for(around.found(client), arguments)
    if not plan.servers:
        raise Failed(f"{client.title} has no servers of its own that could be taken over")
    import_.show(plan, "text")
    pointing = around.pointing(client, plan, base_url_for(arguments))
    change = pointing.change
    if not _agreed(
        arguments, len(plan.servers), change.path, _text(change.before or b""), _text(change.after)
    ):
        return False
    target = None if arguments.run else Path(arguments.into).absolute()
    import_.carry_out(plan, target, arguments)
    around.point(pointing, plan, target)
    return True


def _agreed(arguments: argparse.Namespace, count: int, path: Path, before: str, after: str) -> bool:
    show_diff(path, before, after)
    return not arguments.dry_run and confirmed(arguments, f"take over {count} servers?")


def give_back(arguments: argparse.Namespace) -> int:
    """Put the client's own entries back, and take the servers out of the file they went into."""
    client = _client(arguments.client)
    if (socket := gateway_for(arguments)) is not None:
        answer: Json = ask(socket, "POST", path_of("clients", client.id, "give-back"))
        target, servers = str(answer["target"]), answer["servers"]
    else:
        try:
            record = _surroundings(arguments).give_back(client)
        except (ClientFileError, SecretsError) as error:
            raise Failed(str(error)) from error
        target, servers = record.target, record.taken.values()
    print(f"{client.title} has its own servers again", file=sys.stderr)
    if not target:
        print(f"they still run here, too; remove them with `mooring rm {' '.join(servers)}`", file=sys.stderr)
    return 0


def _surroundings(arguments: argparse.Namespace) -> Surroundings:
    return Surroundings(client_book(arguments), client_places(), proxy_command(arguments))


def _client(identifier: str) -> ClientKind:
    if identifier not in BY_ID:
        raise unknown_client(identifier)
    return BY_ID[identifier]


def _text(data: bytes) -> str:
    return data.decode("utf-8-sig", "replace")
