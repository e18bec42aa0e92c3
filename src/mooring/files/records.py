"""What is known of each kept file, and the questions that the database answers about them."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any, cast

import msgspec

from mooring.files.handles import Handle, Kind, uri

_COLUMNS = "id, kind, scope, server, blob, name, mime_type, size, sha256, created, expires, exposed, note"
_INSERT = f"INSERT INTO files ({_COLUMNS}, data) VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)"  # noqa: S608 - our words


class FileRecord(msgspec.Struct, frozen=True):
    """One complete file."""

    id: str
    kind: Kind
    scope: str
    server: str
    blob: str
    """What its bytes are called in the storage; nothing if they are few and stand in its own row."""
    name: str
    mime_type: str
    size: int
    sha256: str
    created: float
    expires: float
    exposed: bool = True
    note: str = ""

    @property
    def handle(self) -> Handle:
        return Handle(self.kind, self.scope, self.id, self.name if self.kind == "artifact" else None)

    @property
    def uri(self) -> str:
        return uri(self.kind, self.scope, self.id, self.name if self.kind == "artifact" else None)


def insert(
    connection: sqlite3.Connection, records: Sequence[FileRecord], data: Sequence[bytes] | None = None
) -> None:
    """`data` are the bytes of each file, if they stand in its row."""
    connection.executemany(
        _INSERT,
        [
            (
                record.id,
                record.kind,
                record.scope,
                record.server,
                record.blob,
                record.name,
                record.mime_type,
                record.size,
                record.sha256,
                record.created,
                record.expires,
                record.exposed,
                record.note,
                None if data is None else data[index],
            )
            for index, record in enumerate(records)
        ],
    )


def small_data(connection: sqlite3.Connection, identifier: str) -> bytes:
    """The bytes that stand in a file's own row."""
    row = connection.execute("SELECT data FROM files WHERE id = ?", (identifier,)).fetchone()
    if row is None or row["data"] is None:
        raise FileNotFoundError(f"the bytes of {identifier} are gone")
    return bytes(row["data"])


def find(connection: sqlite3.Connection, identifier: str) -> FileRecord | None:
    row = connection.execute(f"SELECT {_COLUMNS} FROM files WHERE id = ?", (identifier,)).fetchone()  # noqa: S608
    return None if row is None else _record(row)


def all_of(connection: sqlite3.Connection, kind: Kind, limit: int) -> list[FileRecord]:
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM files WHERE kind = ? ORDER BY created DESC LIMIT ?",  # noqa: S608
        (kind, limit),
    )
    return [_record(row) for row in rows]


def take_expired(connection: sqlite3.Connection, now: float, limit: int) -> list[FileRecord]:
    """Remove the records of some files whose time is over, and leave a tombstone for each."""
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM files WHERE expires <= ? ORDER BY expires LIMIT ?",  # noqa: S608
        (now, limit),
    ).fetchall()
    return _bury(connection, [_record(row) for row in rows], "expired", now)


def take_scope(
    connection: sqlite3.Connection, scope: str, reason: str, now: float, limit: int
) -> list[FileRecord]:
    """Remove the records of some files of a scope that has ended."""
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM files WHERE scope = ? LIMIT ?",  # noqa: S608
        (scope, limit),
    ).fetchall()
    return _bury(connection, [_record(row) for row in rows], reason, now)


def end_scope(connection: sqlite3.Connection, scope: str, reason: str, now: float) -> None:
    """Its session is over, also after a restart: a tombstone of its own says so."""
    connection.execute("INSERT OR REPLACE INTO tombstones VALUES (?,?,?,?)", (scope, scope, reason, now))
    connection.execute("DELETE FROM sessions WHERE scope = ?", (scope,))


def ended_scopes(connection: sqlite3.Connection) -> dict[str, float]:
    """The scopes that have ended, and when."""
    return {
        str(row[0]): float(row[1])
        for row in connection.execute("SELECT id, at FROM tombstones WHERE id = scope")
    }


def take(connection: sqlite3.Connection, identifier: str, reason: str, now: float) -> list[FileRecord]:
    found = find(connection, identifier)
    return [] if found is None else _bury(connection, [found], reason, now)


def _bury(
    connection: sqlite3.Connection, records: list[FileRecord], reason: str, now: float
) -> list[FileRecord]:
    connection.executemany("DELETE FROM files WHERE id = ?", [(record.id,) for record in records])
    connection.executemany(
        "INSERT OR REPLACE INTO tombstones (id, scope, reason, at) VALUES (?,?,?,?)",
        [(record.id, record.scope, reason, now) for record in records],
    )
    return records


def tombstone(connection: sqlite3.Connection, identifier: str, scope: str) -> tuple[str, float] | None:
    """Why and when a file of this scope went away."""
    row = connection.execute(
        "SELECT reason, at FROM tombstones WHERE id = ? AND scope = ?", (identifier, scope)
    ).fetchone()
    return None if row is None else (str(row["reason"]), float(row["at"]))


def usage(connection: sqlite3.Connection) -> list[tuple[str, str, str, int, int]]:
    """Bytes and files by scope, server and kind."""
    rows = connection.execute(
        "SELECT scope, server, kind, SUM(size), COUNT(*) FROM files GROUP BY scope, server, kind"
    )
    return [cast("tuple[str, str, str, int, int]", tuple(row)) for row in rows]


def _record(row: Any) -> FileRecord:
    *values, exposed, note = tuple(row)
    return FileRecord(*values, exposed=bool(exposed), note=note)
