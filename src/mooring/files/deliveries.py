"""A handle becomes what the workload can read: a path in its own view, the bytes themselves, or a link."""

from __future__ import annotations

import base64
from typing import Final

from mooring.files.adapters import Delivery
from mooring.files.faults import TooLarge
from mooring.files.links import Links
from mooring.files.records import FileRecord
from mooring.files.store import FileStore
from mooring.files.views import Views, file_uri

MAX_INLINE_BYTES: Final = 16 * 1024**2
"""Larger files do not belong into a message; they would be in memory several times over."""


class Deliverer:
    """Hands files to one server."""

    def __init__(self, store: FileStore, views: Views, links: Links) -> None:
        self._store = store
        self._views = views
        self._links = links

    def at_hand(self, record: FileRecord, how: Delivery, view: str) -> str | None:
        """What the workload gets, if it is there already."""
        if how is not Delivery.PATH:
            return None
        placed = self._views.placed(record, view)
        return None if placed is None else self._views.shown(placed)

    async def value(self, record: FileRecord, how: Delivery, view: str) -> str:
        match how:
            case Delivery.PATH:
                return self._views.shown(await self._views.place(record, view))
            case Delivery.FILE_URI:
                return file_uri(self._views.shown(await self._views.place(record, view)))
            case Delivery.BASE64:
                return await self._encoded(record)
            case Delivery.DATA_URI:
                return f"data:{record.mime_type};base64,{await self._encoded(record)}"
            case Delivery.URL:
                return self._links.once_url(record)

    async def _encoded(self, record: FileRecord) -> str:
        if record.size > MAX_INLINE_BYTES:
            raise TooLarge(
                f"`{record.name}` has {record.size} bytes; this tool gets files inside its arguments, which "
                f"works up to {MAX_INLINE_BYTES}: send a smaller one"
            )
        return base64.b64encode(await self._store.read_all(record)).decode()
