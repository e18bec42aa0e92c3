"""`/artifacts/...` and `/files/once/...`: signed downloads, streamed, in ranges, as attachments."""

from __future__ import annotations

import re
from email.utils import formatdate
from functools import partial
from typing import Any, Final
from urllib.parse import quote

from mooring.files.disk import opened
from mooring.files.faults import FileFault, Gone, NotFound
from mooring.files.handles import Handle, is_scope
from mooring.files.links import ONCE_SECONDS
from mooring.files.records import FileRecord
from mooring.gateway.principal import NOBODY, Caller
from mooring.interfaces.file_requests import JSON, FileRequests, Visit, path_of, query_of
from mooring.policy.audit.events import FILE_DOWNLOAD
from mooring.transports.http_endpoint import Buffered
from mooring.transports.http_reply import Reply
from mooring.transports.http_request import Request

ALLOW: Final = ((b"allow", b"GET, HEAD, OPTIONS"),)
_RANGE: Final = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


class Downloads:
    """Both kinds of links."""

    def __init__(self, requests: FileRequests, *, artifacts: bool) -> None:
        self._requests = requests
        self._artifacts = artifacts
        self.endpoint = Buffered(self._handle, 0)

    def _handle(self, request: Request, reply: Reply) -> None:
        if request.method not in (b"GET", b"HEAD"):
            reply.send(405, (*ALLOW, *JSON), b"")
            return
        requests = self._requests
        match path_of(request):
            case ["artifacts", server_id, scope, identifier, name] if self._artifacts:
                handle = Handle("artifact", scope, identifier, name)
                come_in = partial(self._come_in, request, reply, server_id, handle)
                if requests.rules.links_need_credentials and server_id in requests.servers:
                    requests.admit(server_id, request, reply, come_in)
                else:
                    come_in(requests.stranger(server_id, request) or NOBODY)
            case ["files", "once", token, _]:
                self._come_once(request, reply, token)
            case _:
                requests.refuse(request, reply, 404, "not found")

    def _come_in(
        self, request: Request, reply: Reply, server_id: str, handle: Handle, caller: Caller
    ) -> None:
        visit = self._requests.visit(server_id, FILE_DOWNLOAD, caller)
        self._requests.run(request, reply, visit, partial(self._artifact, request, reply, server_id, handle))

    async def _artifact(
        self, request: Request, reply: Reply, server_id: str, handle: Handle, visit: Visit
    ) -> None:
        await visit.count()
        given = {"for": "", **query_of(request)}
        if not is_scope(handle.scope) or not is_scope(handle.id):
            raise NotFound("not found")
        service = self._requests.service
        signed = (given.get("expires", ""), given["for"], given.get("signature", ""))
        service.links.check_download(server_id, handle, *signed)
        principal = visit.caller.principal
        if self._requests.rules.links_need_credentials and service.links.owner(principal.id) != given["for"]:
            raise NotFound(f"not found: `{handle}`")
        await self._send(request, reply, visit, await service.store.find(handle, server_id))

    def _come_once(self, request: Request, reply: Reply, token: str) -> None:
        """Whoever has such a link is a server that was given it with a call, or runs `mooring artifact`."""
        try:
            values = self._requests.service.links.read_once(token)
        except FileFault as error:
            self._requests.refuse(request, reply, error.status, str(error))
            return
        caller = self._requests.stranger(values["server"], request) or NOBODY
        visit = self._requests.visit(values["server"], FILE_DOWNLOAD, caller)
        self._requests.run(request, reply, visit, partial(self._once, request, reply, values))

    async def _once(self, request: Request, reply: Reply, values: dict[str, Any], visit: Visit) -> None:
        await visit.count()
        store = self._requests.service.store
        for kind in ("upload", "artifact"):
            try:
                record = await store.find(Handle(kind, values["scope"], values["id"]), values["server"])
                break
            except NotFound:
                continue
        else:
            raise NotFound("not found: the file behind this link is gone")
        if request.method == b"GET" and not await store.spend(values["n"], store.clock() + ONCE_SECONDS):
            raise Gone("this link worked once and has been used: call the tool again for a new one")
        await self._send(request, reply, visit, record)

    async def _send(self, request: Request, reply: Reply, visit: Visit, record: FileRecord) -> None:
        visit.done(record.uri)
        headers = [*_headers(record), *self._requests.headers_for(request)]
        tag = f'"{record.sha256}"'.encode()
        if _is_known(request.header(b"if-none-match") or b"", tag):
            reply.send(304, headers, b"")
            return
        asked = request.header(b"range")
        fresh = request.header(b"if-range") in (None, tag)
        span = _span(asked.decode("latin-1"), record.size) if asked is not None and fresh else None
        if span == (0, 0) and asked is not None:
            headers.append((b"content-range", b"bytes */%d" % record.size))
            reply.send(416, headers, b"")
            return
        start, stop = span or (0, record.size)
        if span is not None:
            headers.append((b"content-range", b"bytes %d-%d/%d" % (start, stop - 1, record.size)))
        reply.start(206 if span else 200, headers, length=stop - start, compress=False)
        if request.method == b"GET":
            store = self._requests.service.store
            store.hold([record])  # it stays until whoever reads it has it
            try:
                await self._send_body(reply, record, start, stop)
            finally:
                store.let_go([record])
        reply.end()

    async def _send_body(self, reply: Reply, record: FileRecord, start: int, stop: int) -> None:
        store = self._requests.service.store
        path = store.path(record)
        if path is not None and reply.takes_files():
            async with opened(path) as file:
                await reply.write_file(file, start, stop)
            return
        async for block in store.read(record, start, stop):
            if reply.closed:
                return
            reply.write(block)
            await reply.drain()


def _headers(record: FileRecord) -> list[tuple[bytes, bytes]]:
    plain = re.sub(r'[^ -~]|["\\%]', "_", record.name)
    disposition = f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(record.name, safe='')}"
    return [
        (b"content-type", record.mime_type.encode("ascii", "replace")),
        (b"content-disposition", disposition.encode()),
        (b"x-content-type-options", b"nosniff"),
        (b"content-security-policy", b"default-src 'none'; sandbox"),
        (b"referrer-policy", b"no-referrer"),
        (b"cache-control", b"private, no-store"),
        (b"accept-ranges", b"bytes"),
        (b"etag", f'"{record.sha256}"'.encode()),
        (b"last-modified", formatdate(record.created, usegmt=True).encode()),
    ]


def _is_known(given: bytes, tag: bytes) -> bool:
    """Whether the client has it already: it may name several versions, or weaken what a proxy changed."""
    return given.strip() == b"*" or tag in (entry.strip().removeprefix(b"W/") for entry in given.split(b","))


def _span(text: str, size: int) -> tuple[int, int] | None:
    """The bytes that were asked for; (0, 0) if there are none such, None for anything we answer whole."""
    match = _RANGE.fullmatch(text.strip())
    if match is None or not (match[1] or match[2]):
        return None
    if not match[1]:
        length = min(int(match[2]), size)
        return (size - length, size) if length else (0, 0)
    start = int(match[1])
    stop = min(int(match[2]) + 1, size) if match[2] else size
    return (start, stop) if start < stop else (0, 0)
