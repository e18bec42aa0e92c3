"""What we changed in clients' files, so that it can be undone byte for byte.

Only the changed bytes are kept, not the file: a client's file may hold tokens of other servers. What was
removed from it and may be secret itself lies in the secret store.
"""

from __future__ import annotations

import secrets as randomness
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import msgspec

from mooring.durable import locked, private_folder, replace_file
from mooring.ecosystem.clients.editing import Change, ClientFileError, Step, digest, replace_if_same
from mooring.ecosystem.documents.editing import Entry
from mooring.ecosystem.importers.secrets_found import hidden

KEPT = 50
"""How many changes per client can be undone; older ones are forgotten."""


class Seal(Protocol):
    """A place for bytes that must not lie in the open."""

    def get(self, name: str) -> str: ...
    def set(self, name: str, value: str) -> None: ...
    def delete(self, name: str) -> None: ...


class StepRecord(msgspec.Struct, frozen=True):
    """A step; with `sealed`, what was removed is under that name in the secret store."""

    start: int
    removed: bytes
    inserted: bytes
    sealed: str = ""


class Record(msgspec.Struct, frozen=True):
    """One change of one client's file."""

    id: str
    client: str
    path: str
    existed: bool
    before: str
    after: str
    steps: list[StepRecord]
    registration: bytes
    """The registration before the change, as JSON."""
    taken: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    """Of a take-over: entry name -> id of the server."""
    originals: str = ""
    """Of a take-over: the entries as they were, sealed or as JSON."""
    target: str = ""
    """Of a take-over: the file that the servers went into."""


class Records(msgspec.Struct, frozen=True):
    """The file."""

    version: int = 1
    records: list[Record] = msgspec.field(default_factory=list[Record])


@dataclass(frozen=True, slots=True)
class Journal:
    """All changes, newest last."""

    file: Path
    seal: Seal | None

    def records(self, client: str) -> list[Record]:
        return [record for record in self._read().records if record.client == client]

    def add(self, client: str, change: Change, registration: bytes, *, secret: bool = False) -> Record:
        """Remember a change before it is made."""
        identifier = randomness.token_hex(8)
        steps = [self._step(identifier, number, step, secret) for number, step in enumerate(change.steps)]
        record = Record(
            identifier,
            client,
            str(change.path),
            change.before is not None,
            digest(change.before),
            digest(change.after),
            steps,
            registration,
        )
        self.put(record)
        return record

    def put(self, record: Record) -> None:
        """Store a record, or its new form."""
        with self._changing() as records:
            records[:] = [each for each in records if each.id != record.id] + [record]
            mine = [each for each in records if each.client == record.client]
            for old in mine[:-KEPT]:
                records.remove(old)
                self._unseal_all(old)

    def forget(self, record: Record) -> None:
        with self._changing() as records:
            records[:] = [each for each in records if each.id != record.id]
        self._unseal_all(record)

    def keep_originals(self, record: Record, originals: dict[str, Entry], *, secret: bool) -> str:
        """Where the entries of a take-over are: the text for `Record.originals`."""
        text = msgspec.json.encode(originals).decode()
        if not secret:
            return text
        name = f"mooring/undo/{record.id}/originals"
        self._sealing().set(name, text)
        return f"sealed:{name}"

    def originals(self, record: Record) -> dict[str, Entry]:
        text = record.originals
        if text.startswith("sealed:"):
            text = self._sealing().get(text.removeprefix("sealed:"))
        return msgspec.json.decode(text or "{}", type=dict[str, Entry])

    def undo(self, record: Record) -> None:
        """Put the file back as it was before this change."""
        path = Path(record.path)

        def back(found: bytes | None) -> Change:
            if digest(found) == record.before:
                return Change(path, found, found or b"", ())
            made = self._reversed(record, found or b"")
            return Change(path, found, made, (Step(0, found or b"", made),))

        if not record.existed:
            self._remove_new(record, path)
            return
        replace_if_same(path, back)

    def _remove_new(self, record: Record, path: Path) -> None:
        """The file is our own work: it goes, unless somebody added to it."""
        target = path.resolve()
        if not target.exists():
            return
        with locked(target.parent):
            if digest(target.read_bytes()) == record.after:
                target.unlink()
                return
        raise ClientFileError(_changed_since(path, record.client))

    def _reversed(self, record: Record, found: bytes) -> bytes:
        exact = digest(found) == record.after
        for step in reversed(record.steps):
            removed = self._removed(step)
            start = step.start
            if not exact:
                if not step.inserted or found.count(step.inserted) != 1:
                    raise ClientFileError(_changed_since(Path(record.path), record.client))
                start = found.index(step.inserted)
            found = found[:start] + removed + found[start + len(step.inserted) :]
        return found

    def _removed(self, step: StepRecord) -> bytes:
        return self._sealing().get(step.sealed).encode("latin-1") if step.sealed else step.removed

    def _step(self, identifier: str, number: int, step: Step, secret: bool) -> StepRecord:
        if not (secret and step.removed) and not _may_be_secret(step.removed):
            return StepRecord(step.start, step.removed, step.inserted)
        name = f"mooring/undo/{identifier}/{number}"
        self._sealing().set(name, step.removed.decode("latin-1"))
        return StepRecord(step.start, b"", step.inserted, name)

    def _unseal_all(self, record: Record) -> None:
        names = [step.sealed for step in record.steps if step.sealed]
        if record.originals.startswith("sealed:"):
            names.append(record.originals.removeprefix("sealed:"))
        for name in names:
            self._sealing().delete(name)

    def _sealing(self) -> Seal:
        if self.seal is None:
            raise ClientFileError("the secret store is needed for this: run `mooring secret setup` first")
        return self.seal

    def _read(self) -> Records:
        try:
            return msgspec.json.decode(self.file.read_bytes(), type=Records)
        except FileNotFoundError:
            return Records()
        except msgspec.DecodeError as error:
            raise ClientFileError(f"`{self.file}` makes no sense: move it away, then try again") from error

    @contextmanager
    def _changing(self) -> Generator[list[Record]]:
        """The records for as long as the lock is held; written when it is given back."""
        private_folder(self.file.parent)
        with locked(self.file.with_name(f"{self.file.name}.lock")):
            records = list(self._read().records)
            yield records
            replace_file(self.file, msgspec.json.encode(Records(records=records)) + b"\n")


def _may_be_secret(data: bytes) -> bool:
    lines = data.decode("utf-8", "replace").splitlines()
    return any(hidden(line) != line for line in lines)


def _changed_since(path: Path, client: str) -> str:
    return (
        f"`{path}` was changed since, and undoing would lose that: take our entries out with "
        f"`mooring client remove {client}`, or edit the file by hand"
    )
