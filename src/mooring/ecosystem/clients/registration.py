"""Which clients know our servers: registering them, keeping their files in step, and taking entries out."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, Final, cast

import msgspec

from mooring.durable import locked, private_folder, replace_file
from mooring.ecosystem.clients import editing
from mooring.ecosystem.clients.editing import Change, ClientFileError, Edit
from mooring.ecosystem.clients.journal import Journal, Record, Seal
from mooring.ecosystem.clients.table import ClientKind, ClientPlaces, ServerAddress
from mooring.ecosystem.documents.editing import DocumentError, Entry, entries

# Where we listen when nobody said otherwise; what stands at other ports may be somebody else's.
_DEFAULT_URL = re.compile(
    r"https?://(?:127\.0\.0\.1|localhost|\[::1\]):7433/mcp/([a-z0-9][a-z0-9._-]{0,63})(?:/sse)?"
)


TOLD: Final = "clients.told.json"
CommandFor = Callable[[str], list[str]]
"""What a client starts to reach the server with this id, if it cannot take a URL."""


class Registration(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one client is to know."""

    group: str | None = None
    """Only servers of this group; None: all."""
    servers: list[str] | None = None
    """Only these servers; None: all."""
    entries: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    """What we wrote: entry name -> id of the server."""

    def wants(self, server: ServerAddress) -> bool:
        in_group = self.group is None or server.group == self.group
        return in_group and (self.servers is None or server.id in self.servers)

    def sees(self, group: str) -> bool:
        """Whether it wants whatever is in this group."""
        return self.servers is None and self.group in (None, group)


class Registrations(msgspec.Struct, frozen=True):
    """The file."""

    version: int = 1
    clients: dict[str, Registration] = msgspec.field(default_factory=dict[str, Registration])


@dataclass(frozen=True, slots=True)
class Plan:
    """What would happen to one client's file."""

    client: ClientKind
    change: Change
    edit: Edit
    registration: Registration
    conflicts: tuple[str, ...] = ()
    """Names that somebody else's entries have."""
    migrated: tuple[str, ...] = ()
    """Entries of ours that an earlier version wrote differently."""


class ClientBook:
    """The registered clients of one user."""

    def __init__(
        self, folder: Path, places: ClientPlaces, command: CommandFor, seal: Callable[[], Seal | None]
    ) -> None:
        self._file = folder / "clients.json"
        self._told = folder / TOLD
        self._places = places
        self._command = command
        self.journal = Journal(folder / "clients.journal", _LateSeal(seal))

    def registrations(self) -> dict[str, Registration]:
        """The registered clients by id."""
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=Registrations).clients
        except FileNotFoundError:
            return {}
        except msgspec.DecodeError as error:
            raise ClientFileError(
                f"`{self._file}` makes no sense: move it away and register again"
            ) from error

    def own_entries(self, client: ClientKind) -> dict[str, str]:
        """Our entries in the client's file as it is now: name -> id of the server."""
        found = self._entries(client)
        return {
            name: server for name, entry in found.items() if (server := self._server_of(client, name, entry))
        }

    def foreign_entries(self, client: ClientKind) -> dict[str, Entry]:
        """Other people's entries in the client's file."""
        own = self.own_entries(client)
        return {name: entry for name, entry in self._entries(client).items() if name not in own}

    def plan(
        self,
        client: ClientKind,
        servers: Iterable[ServerAddress],
        wish: Registration | None,
        replacing: bool = False,
    ) -> Plan:
        """What registering the client (or, without a wish, removing it) would do.

        Another gateway of the same user may have written entries, too: only those of these servers' go.
        """
        addresses = list(servers)
        known = self.registrations().get(client.id)
        registration = wish or Registration(entries=known.entries if known else {})
        current = self._entries(client)
        own = self.own_entries(client)
        wanted = self._wanted(registration, known, addresses if wish is not None else (), own)
        conflicts = tuple(name for name in wanted if name in current and name not in own)
        puts: dict[str, Entry] = {}
        for name, server in wanted.items():
            entry = client.entry(name, server, self._command(server.id))
            if (replacing or name not in conflicts) and current.get(name) != entry:
                puts[name] = _merged(current.get(name, {}) if name in own else {}, entry, client)
        puts = {name: entry for name, entry in puts.items() if current.get(name) != entry}
        drops = tuple(
            name for name in own if name not in wanted and (wish is None or _is_of(current[name], addresses))
        )
        written = {name: server.id for name, server in wanted.items() if replacing or name not in conflicts}
        edit = Edit(puts, drops)
        return Plan(
            client,
            editing.preview(client.path(self._places), client.section, edit),
            edit,
            msgspec.structs.replace(registration, entries=written),
            () if replacing else conflicts,
            tuple(name for name in puts if name in own),
        )

    def apply(self, plan: Plan, *, registered: bool, secret: bool = False) -> Record | None:
        """Do it; the answer is what can be undone, if anything was changed."""
        client = plan.client
        records: list[Record] = []
        before = msgspec.json.encode(self.registrations().get(client.id))

        def keep(change: Change) -> None:
            # Somebody else may write between our tries; only the last one happened.
            while records:
                self.journal.forget(records.pop())
            records.append(self.journal.add(client.id, change, before, secret=secret))

        editing.apply(client.path(self._places), client.section, plan.edit, keep)
        with self._changing() as clients:
            if registered:
                clients[client.id] = plan.registration
            else:
                clients.pop(client.id, None)
        return records[-1] if records else None

    def undo(self, client: ClientKind) -> Record:
        """Take back the last change of this client's file, byte for byte."""
        records = self.journal.records(client.id)
        if not records:
            raise ClientFileError(f"nothing of ours can be undone in {client.title}'s file")
        record = records[-1]
        self.journal.undo(record)
        before = msgspec.json.decode(record.registration, type=Registration | None)
        with self._changing() as clients:
            if before is None:
                clients.pop(client.id, None)
            else:
                clients[client.id] = before
        self.journal.forget(record)
        return record

    def server_came(self, server: ServerAddress, kinds: Mapping[str, ClientKind]) -> dict[str, str]:
        """Tell all registered clients of a server that is new or has changed.

        The answer is what went wrong, by client.
        """

        return self._each_client(kinds, lambda client, registration: self._put(client, registration, server))

    def server_went(self, server: str, kinds: Mapping[str, ClientKind]) -> dict[str, str]:
        """Take a removed server out of all registered clients' files."""

        return self._each_client(kinds, lambda client, registration: self._drop(client, registration, server))

    def told(self) -> list[ServerAddress] | None:
        """The servers of this gateway as clients were last told of them; None: nobody was told of any."""
        try:
            return msgspec.json.decode(self._told.read_bytes(), type=list[ServerAddress])
        except (OSError, msgspec.DecodeError):
            return None

    def note_told(self, servers: list[ServerAddress]) -> None:
        """From these on changes count; needed only where somebody is to hear of them."""
        if self.registrations() and self.told() != servers:
            replace_file(self._told, msgspec.json.encode(servers) + b"\n")

    def _put(self, client: ClientKind, registration: Registration, server: ServerAddress) -> None:
        if not registration.wants(server):
            self._drop(client, registration, server.id)
            return
        own = self.own_entries(client)
        if server.id in registration.entries.values() and server.id not in own.values():
            return  # somebody took it out by hand
        name = next((name for name, each in own.items() if each == server.id), server.id)
        current = self._entries(client)
        if name in current and name not in own:
            raise ClientFileError(conflict_text(client, [name]))
        entry = client.entry(name, server, self._command(server.id))
        puts = {} if current.get(name) == entry else {name: _merged(current.get(name, {}), entry, client)}
        self._change(client, Edit(puts), with_names(registration, {name: server.id}))

    def _drop(self, client: ClientKind, registration: Registration, server: str) -> None:
        names = tuple(name for name, each in self.own_entries(client).items() if each == server)
        left = {name: each for name, each in registration.entries.items() if each != server}
        if names or left != registration.entries:
            self._change(client, Edit(drops=names), msgspec.structs.replace(registration, entries=left))

    def _change(self, client: ClientKind, edit: Edit, registration: Registration) -> None:
        change = editing.preview(client.path(self._places), client.section, edit)
        self.apply(Plan(client, change, edit, registration), registered=True)

    def _each_client(
        self, kinds: Mapping[str, ClientKind], tell: Callable[[ClientKind, Registration], None]
    ) -> dict[str, str]:
        problems: dict[str, str] = {}
        for identifier, registration in self.registrations().items():
            if identifier not in kinds:
                continue
            try:
                tell(kinds[identifier], registration)
            except ClientFileError as error:
                problems[identifier] = str(error)
        return problems

    def _wanted(
        self,
        registration: Registration,
        known: Registration | None,
        servers: Iterable[ServerAddress],
        own: dict[str, str],
    ) -> dict[str, ServerAddress]:
        """Entry name -> server. An entry that already stands for a server keeps its name."""
        names = {server: name for name, server in own.items()}
        names |= {server: name for name, server in ((known or registration).entries).items()}
        return {names.get(server.id, server.id): server for server in servers if registration.wants(server)}

    def _entries(self, client: ClientKind) -> dict[str, Entry]:
        path = client.path(self._places)
        try:
            return entries(editing.read_text(path), client.section)
        except DocumentError as error:
            raise ClientFileError(f"`{path}` {error}; mend it, then try again") from error

    def _server_of(self, client: ClientKind, name: str, entry: Entry) -> str | None:
        """Which server of ours the entry stands for; what older versions wrote is recognised too."""
        for key in (client.url_key, "url", "serverUrl", "httpUrl", "uri"):
            url = entry.get(key)
            if isinstance(url, str) and (match := _DEFAULT_URL.fullmatch(url)):
                return match.group(1)
        if server := _bridged(_words(entry)):
            return server
        registered = self.registrations().get(client.id)
        server = registered.entries.get(name) if registered else None
        urls = [value for value in entry.values() if isinstance(value, str)]
        # At another address only our own notes tell; an entry that somebody made into another one is theirs.
        known = server and any(
            url.rstrip("/").removesuffix("/sse").endswith(f"/mcp/{server}") for url in urls
        )
        return server if known else None

    @contextmanager
    def _changing(self) -> Generator[dict[str, Registration]]:
        private_folder(self._file.parent)
        with locked(self._file.with_name("clients.lock")):
            clients = dict(self.registrations())
            yield clients
            replace_file(self._file, msgspec.json.encode(Registrations(clients=clients)) + b"\n")


class _LateSeal:
    """Opens the secret store only when something must be sealed."""

    def __init__(self, opening: Callable[[], Seal | None]) -> None:
        self._opening = opening

    def _seal(self) -> Seal:
        seal = self._opening()
        if seal is None:
            raise ClientFileError("the secret store is needed for this: run `mooring secret setup` first")
        return seal

    def get(self, name: str) -> str:
        return self._seal().get(name)

    def set(self, name: str, value: str) -> None:
        self._seal().set(name, value)

    def delete(self, name: str) -> None:
        self._seal().delete(name)


def conflict_text(client: ClientKind, names: Iterable[str]) -> str:
    """What to do about entries of the same name."""
    listed = ", ".join(f"`{name}`" for name in names)
    return (
        f"{client.title} has entries of its own named {listed}: take them over with "
        f"`mooring client take-over {client.id}`, or overwrite them with --replace"
    )


def with_names(registration: Registration, names: Mapping[str, str]) -> Registration:
    """The registration with these entry names for these servers."""
    return msgspec.structs.replace(registration, entries={**registration.entries, **names})


def _is_of(entry: Entry, servers: list[ServerAddress]) -> bool:
    """Whether the entry leads to the gateway of these servers, or to none that can be told apart."""
    bases = {server.url.rpartition("/mcp/")[0] for server in servers}
    urls = [value for value in entry.values() if isinstance(value, str) and "/mcp/" in value]
    return bool(bases) and (not urls or any(url.rpartition("/mcp/")[0] in bases for url in urls))


def _merged(old: Entry, new: Entry, client: ClientKind) -> Entry:
    """The new entry with what the person added to the old one; what earlier versions wrote goes."""
    ours = {client.url_key, client.type_key, "url", "serverUrl", "httpUrl", "uri", "command", "args", "type"}
    return {**new, **{key: value for key, value in old.items() if key not in ours and key not in new}}


def _bridged(words: list[str]) -> str | None:
    """The server that `mooring proxy stdio ID` leads to."""
    at = next((at for at in range(1, len(words)) if words[at - 1 : at + 1] == ["proxy", "stdio"]), None)
    if at is None or not any("mooring" in PurePath(word.replace("\\", "/")).name for word in words[:at]):
        return None
    return next((word for word in words[at + 1 :] if not word.startswith("-")), None)


def _words(entry: Entry) -> list[str]:
    command = entry.get("command")
    first = cast("list[Any]", command) if isinstance(command, list) else [command] if command else []
    arguments = entry.get("args")
    rest = cast("list[Any]", arguments) if isinstance(arguments, list) else []
    return [str(word) for word in [*first, *rest]]
