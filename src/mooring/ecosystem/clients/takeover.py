"""Taking a client's own servers over: they become ours, and its entries lead to us. And giving them back."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from mooring.durable import replace_file
from mooring.ecosystem.clients import editing
from mooring.ecosystem.clients.editing import ClientFileError, Edit
from mooring.ecosystem.clients.journal import Record
from mooring.ecosystem.clients.registration import ClientBook, CommandFor, Plan, Registration, with_names
from mooring.ecosystem.clients.table import ClientKind, ClientPlaces, ServerAddress
from mooring.ecosystem.documents.editing import DocumentError, Section, entries
from mooring.ecosystem.importers.found import FoundFile
from mooring.ecosystem.importers.planning import ImportPlan, as_configuration
from mooring.ecosystem.importers.reading import read_section

SERVERS = Section("yaml", "servers", "list", "id")
"""Where servers stand in a `mooring.yaml`."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Whose clients they are, and how their entries lead to us."""

    book: ClientBook
    places: ClientPlaces
    command: CommandFor

    def found(self, client: ClientKind) -> FoundFile:
        """The client's servers that are not ours."""
        text = editing.read_text(client.path(self.places))
        found = read_section(text, client.section, f"{client.title}'s file")
        foreign = self.book.foreign_entries(client)
        servers = tuple(server for server in found.servers if server.name in foreign)
        problems = tuple(each for each in found.problems if any(f"`{name}`" in each for name in foreign))
        if not servers:
            raise ClientFileError(f"{client.title} has no servers of its own that could be taken over")
        return FoundFile(found.kind, servers, problems)

    def pointing(self, client: ClientKind, plan: ImportPlan, base_url: str) -> Plan:
        """The client's entries, under their own names, as entries that lead to us."""
        puts = {
            each.server.name: client.entry(
                each.server.name,
                ServerAddress(each.id, f"{base_url}/mcp/{each.id}"),
                self.command(each.id),
            )
            for each in plan.servers
        }
        known = self.book.registrations().get(client.id) or Registration(servers=[])
        names = {each.server.name: each.id for each in plan.servers}
        if known.servers is not None:
            known = msgspec.structs.replace(known, servers=[*known.servers, *names.values()])
        edit = Edit(puts)
        change = editing.preview(client.path(self.places), client.section, edit)
        return Plan(client, change, edit, with_names(known, names))

    def point(self, pointing: Plan, plan: ImportPlan, target: Path | None) -> None:
        """Write it, and keep what stood there for the way back. `target`: the file the servers went into."""
        originals = self.book.foreign_entries(pointing.client)
        names = {each.server.name: each.id for each in plan.servers}
        secret = bool(plan.secrets)
        record = self.book.apply(pointing, registered=True, secret=secret)
        if record is None:
            return
        taken = {name: entry for name, entry in originals.items() if name in names}
        kept = self.book.journal.keep_originals(record, taken, secret=secret)
        place = str(target) if target else ""
        self.book.journal.put(msgspec.structs.replace(record, taken=names, originals=kept, target=place))

    def give_back(self, client: ClientKind) -> Record:
        """Put the client's own entries back, and take the servers out of the file they went into."""
        records = [record for record in self.book.journal.records(client.id) if record.taken]
        if not records:
            raise ClientFileError(f"nothing was taken over from {client.title}")
        record = records[-1]
        self._put_back(client, record)
        if record.target and Path(record.target).exists():
            editing.apply(Path(record.target), SERVERS, Edit(drops=tuple(record.taken.values())))
        return record

    def _put_back(self, client: ClientKind, record: Record) -> None:
        """Byte for byte if nobody touched the file since; else entry by entry."""
        newest = self.book.journal.records(client.id)[-1]
        path = client.path(self.places)
        if newest.id == record.id and editing.digest(editing.read_bytes(path)) == record.after:
            self.book.undo(client)
            return
        own = self.book.own_entries(client)
        originals = self.book.journal.originals(record)
        edit = Edit({name: entry for name, entry in originals.items() if name in own})
        before = msgspec.json.decode(record.registration, type=Registration | None)
        change = editing.preview(path, client.section, edit)
        self.book.apply(
            Plan(client, change, edit, before or Registration(servers=[])), registered=before is not None
        )
        self.book.journal.forget(record)


def edit_of(plan: ImportPlan) -> Edit:
    """What an import writes into a `mooring.yaml`."""
    return Edit({server.id: as_configuration(server) for server in plan.servers})


def write_servers(target: Path, plan: ImportPlan) -> None:
    """Into a `mooring.yaml`, which is made if need be."""
    if not target.exists():
        replace_file(target, b"mooring: 1\n")
    editing.apply(target, SERVERS, edit_of(plan))


def ids_in(target: Path) -> Iterable[str]:
    """The names that are taken there."""
    try:
        return entries(editing.read_text(target), SERVERS)
    except DocumentError as error:
        raise ClientFileError(f"`{target}` {error}") from error
