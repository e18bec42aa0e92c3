"""`mooring client take-over` and `give-back`: a client's own servers come to us, and go back."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import msgspec

from mooring.ecosystem.clients import editing
from mooring.ecosystem.clients.editing import ClientFileError, Edit
from mooring.ecosystem.clients.journal import Record
from mooring.ecosystem.clients.registration import ClientBook, Plan, Registration, with_names
from mooring.ecosystem.clients.table import BY_ID, ClientKind
from mooring.ecosystem.importers.found import FoundFile
from mooring.ecosystem.importers.planning import ImportPlan
from mooring.ecosystem.importers.reading import read_section
from mooring.interfaces.cli import import_
from mooring.interfaces.cli.asking import confirmed, show_diff
from mooring.interfaces.cli.client_files import client_book, proxy_command
from mooring.interfaces.cli.failure import Failed
from mooring.interfaces.cli.user_places import client_places
from mooring.interfaces.cli.workload_calls import base_url_for
from mooring.workloads.secrets.errors import SecretsError


def take_over(arguments: argparse.Namespace) -> int:
    """Import the client's servers, then point the client to us."""
    client = _client(arguments.client)
    book = client_book(arguments)
    try:
        plan = _import_plan(book, client, arguments)
        if not plan.servers:
            raise Failed(f"{client.title} has no servers of its own that could be taken over")
        import_.show(plan, "text")
        pointing = _pointing(book, client, plan, arguments)
        show_diff(pointing.change.path, _text(pointing.change.before or b""), _text(pointing.change.after))
        if arguments.dry_run or not confirmed(arguments, f"take over {len(plan.servers)} servers?"):
            return 0
        target = None if arguments.run else Path(arguments.into).absolute()
        import_.carry_out(plan, target, arguments)
        _point(book, pointing, plan, target)
    except (ClientFileError, SecretsError) as error:
        raise Failed(str(error)) from error
    print(f"undo this with `mooring client give-back {client.id}`", file=sys.stderr)
    return 0


def give_back(arguments: argparse.Namespace) -> int:
    """Put the client's own entries back, and take the servers out of the file they went into."""
    client = _client(arguments.client)
    book = client_book(arguments)
    try:
        records = [record for record in book.journal.records(client.id) if record.taken]
        if not records:
            raise Failed(f"nothing was taken over from {client.title}")
        record = records[-1]
        _give_back(book, client, record)
        if record.target and Path(record.target).exists():
            drops = Edit(drops=tuple(record.taken.values()))
            editing.apply(Path(record.target), import_.SERVERS, drops)
    except (ClientFileError, SecretsError) as error:
        raise Failed(str(error)) from error
    print(f"{client.title} has its own servers again", file=sys.stderr)
    if not record.target:
        names = " ".join(record.taken.values())
        print(f"they still run here, too; remove them with `mooring rm {names}`", file=sys.stderr)
    return 0


def _import_plan(book: ClientBook, client: ClientKind, arguments: argparse.Namespace) -> ImportPlan:
    text = editing.read_text(client.path(client_places()))
    found = read_section(text, client.section, f"{client.title}'s file")
    foreign = book.foreign_entries(client)
    servers = tuple(server for server in found.servers if server.name in foreign)
    problems = tuple(each for each in found.problems if any(f"`{name}`" in each for name in foreign))
    return import_.plan_for(FoundFile(found.kind, servers, problems), arguments)


def _pointing(book: ClientBook, client: ClientKind, plan: ImportPlan, arguments: argparse.Namespace) -> Plan:
    """The client's entries, under their own names, as entries that lead to us."""
    base = base_url_for(arguments)
    command = proxy_command(arguments)
    puts = {
        each.server.name: client.entry(each.server.name, f"{base}/mcp/{each.id}", command(each.id))
        for each in plan.servers
    }
    known = book.registrations().get(client.id) or Registration(servers=[])
    names = {each.server.name: each.id for each in plan.servers}
    if known.servers is not None:
        known = msgspec.structs.replace(known, servers=[*known.servers, *names.values()])
    edit = Edit(puts)
    change = editing.preview(client.path(client_places()), client.section, edit)
    return Plan(client, change, edit, with_names(known, names))


def _point(book: ClientBook, pointing: Plan, plan: ImportPlan, target: Path | None) -> None:
    originals = book.foreign_entries(pointing.client)
    names = {each.server.name: each.id for each in plan.servers}
    secret = bool(plan.secrets)
    record = book.apply(pointing, registered=True, secret=secret)
    if record is None:
        return
    taken = {name: entry for name, entry in originals.items() if name in names}
    kept = book.journal.keep_originals(record, taken, secret=secret)
    book.journal.put(
        msgspec.structs.replace(record, taken=names, originals=kept, target=str(target) if target else "")
    )


def _give_back(book: ClientBook, client: ClientKind, record: Record) -> None:
    """Byte for byte if nobody touched the file since; else entry by entry."""
    newest = book.journal.records(client.id)[-1]
    path = client.path(client_places())
    if newest.id == record.id and editing.digest(editing.read_bytes(path)) == record.after:
        book.undo(client)
        return
    own = book.own_entries(client)
    originals = book.journal.originals(record)
    still_ours = {name: entry for name, entry in originals.items() if name in own}
    before = msgspec.json.decode(record.registration, type=Registration | None)
    edit = Edit(still_ours)
    plan = Plan(client, editing.preview(path, client.section, edit), edit, before or Registration(servers=[]))
    book.apply(plan, registered=before is not None)
    book.journal.forget(record)


def _client(identifier: str) -> ClientKind:
    if identifier not in BY_ID:
        raise Failed(f"`{identifier}` is no client we know: `mooring client status --all` lists them")
    return BY_ID[identifier]


def _text(data: bytes) -> str:
    return data.decode("utf-8-sig", "replace")
