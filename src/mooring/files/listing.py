"""The files of a scope in pages, newest first: one list for `resources/list` and for the tools of results."""

from __future__ import annotations

import math
import re
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from mooring.files import records
from mooring.files.faults import BadUpload
from mooring.files.handles import Kind
from mooring.files.records import FileRecord

PAGE: Final = 100
_CURSOR: Final = re.compile(r"([0-9.e+-]{1,32}):([0-9a-f]{1,64})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Page:
    """Some files, and where those begin that are older; None: there are none."""

    records: list[FileRecord]
    next: str | None


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a list. Files of one moment differ by their ids: none of them is left out, or told twice."""

    created: float
    id: str


START: Final = Position(math.inf, "")


def position(cursor: str) -> Position:
    """Where a page begins."""
    found = _CURSOR.fullmatch(cursor)
    try:
        if found is not None and math.isfinite(created := float(found[1])):
            return Position(created, found[2])
    except ValueError:
        pass
    raise BadUpload("`cursor` is not one that a list gave you: list without it, to begin with the newest")


def page_of(found: list[FileRecord]) -> Page:
    """A page of what was found, for which one more was asked than it has."""
    shown = found[:PAGE]
    return Page(shown, f"{shown[-1].created!r}:{shown[-1].id}" if len(found) > PAGE else None)


def older_than(
    connection: sqlite3.Connection,
    scope: str,
    server: str,
    kinds: Sequence[Kind],
    before: Position,
    now: float,
    limit: int,
) -> list[FileRecord]:
    """The files of a scope that were made before this one and still live, newest first."""
    marks = ",".join("?" * len(kinds))
    rows = connection.execute(
        f"SELECT id FROM files WHERE scope = ? AND server = ? AND kind IN ({marks}) AND expires > ?"  # noqa: S608
        " AND (created, id) < (?, ?) ORDER BY created DESC, id DESC LIMIT ?",
        (scope, server, *kinds, now, before.created, before.id, limit),
    ).fetchall()
    found = (records.find(connection, str(row[0])) for row in rows)
    return [record for record in found if record is not None]
