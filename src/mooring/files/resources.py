"""Artifacts and results as MCP resources: listed after the server's own, read whole or in ranges."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final
from urllib.parse import parse_qs

import msgspec
from msgspec import Raw

from mooring.errors import InvalidParams
from mooring.files import answers, handles
from mooring.files.faults import BadUpload, NotFound
from mooring.files.handles import Handle, Kind
from mooring.files.producing import contents
from mooring.files.records import FileRecord
from mooring.files.store import FileStore
from mooring.gateway.exchange import Exchange
from mooring.protocol import jsonrpc
from mooring.transports.wire import Answer

MAX_READ_BYTES: Final = 4 * 1024**2
"""What one `resources/read` answers at most; more is read in ranges or downloaded."""
CURSOR: Final = "mooring-files:"
Json = dict[str, Any]


class OwnResources:
    """The files of a server's scopes, as resources."""

    def __init__(self, store: FileStore, server_id: str, kinds: Sequence[Kind]) -> None:
        self._store = store
        self._server = server_id
        self._kinds = tuple(kinds)

    async def page(self, scope: str | None, cursor: str | None = None) -> Json:
        """A page of our own list."""
        if scope is None:
            return {"resources": []}
        found = await self._store.page(scope, self._server, self._kinds, cursor)
        page: Json = {"resources": [_listed(record) for record in found.records if record.exposed]}
        if found.next is not None:
            page["nextCursor"] = CURSOR + found.next
        return page

    async def page_at(self, scope: str | None, cursor: str) -> Json:
        try:
            return await self.page(scope, cursor.removeprefix(CURSOR))
        except BadUpload as error:
            raise InvalidParams(str(error)) from None

    def is_ours(self, uri: str) -> bool:
        handle = handles.parse(uri.partition("?")[0])
        return handle is not None and handle.kind in self._kinds

    async def read(self, exchange: Exchange, scope: str | None, uri: str) -> Answer:
        """The contents, for whoever may see them; an anonymous modern caller may if it knows the URI."""
        plain, _, query = uri.partition("?")
        handle = handles.parse(plain)
        assert handle is not None, "checked by is_ours"
        record = await self._find(exchange, handle, scope)
        start, stop = _range(query, record)
        if stop - start > MAX_READ_BYTES:
            raise InvalidParams(
                f"`{record.name}` has {record.size} bytes; read at most {MAX_READ_BYTES} at a time by adding "
                "`?offset=0&length=65536` to its URI"
            )
        try:
            data = await self._store.read_all(record, start, stop)
        except FileNotFoundError:  # it went away since it was found
            raise answers.resource_not_found(exchange, f"not found: `{handle}` is gone") from None
        found = contents(record, data)
        found["uri"] = uri
        if query:
            found["_meta"] = {"offset": start, "length": stop - start, "total": record.size}
        return answers.own({"contents": [found]})

    async def _find(self, exchange: Exchange, handle: Handle, scope: str | None) -> FileRecord:
        if scope is not None and handle.scope != scope:
            raise answers.resource_not_found(exchange, f"not found: `{handle}`")
        try:
            record = await self._store.find(handle, self._server)
        except NotFound as error:
            raise answers.resource_not_found(exchange, str(error)) from error
        if not record.exposed:
            raise answers.resource_not_found(exchange, f"not found: `{handle}`")
        return record


def appended(answer: Answer, own_page: Json) -> Answer:
    """The last page of a server's list, with ours after it; what is the server's stays as it said it."""
    members = jsonrpc.members(answer.result)
    theirs: list[Raw] = []
    with suppress(msgspec.DecodeError):  # none, which is the server's mistake
        theirs = jsonrpc.items(members.get("resources", b"[]"))
    members["resources"] = Raw(msgspec.json.encode([*theirs, *own_page["resources"]]))
    if "nextCursor" in own_page:
        members["nextCursor"] = Raw(msgspec.json.encode(own_page["nextCursor"]))
    return Answer(version=answer.version, result=jsonrpc.assemble(members))


def _listed(record: FileRecord) -> Json:
    about: Json = {
        "uri": record.uri,
        "name": record.name,
        "mimeType": record.mime_type,
        "size": record.size,
    }
    if record.note:
        about["description"] = record.note
    return about


def _range(query: str, record: FileRecord) -> tuple[int, int]:
    if not query:
        return 0, record.size
    given = parse_qs(query)
    try:
        start = int(given.get("offset", ["0"])[0])
        length = int(given.get("length", [str(MAX_READ_BYTES)])[0])
    except ValueError:
        raise InvalidParams("`offset` and `length` must be whole numbers") from None
    if start < 0 or length < 0:
        raise InvalidParams("`offset` and `length` must not be negative")
    start = min(start, record.size)
    return start, min(start + length, record.size)
