"""`/upload/<server>`: where clients, terminals and people send files."""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import msgspec

from mooring.files.faults import BadUpload
from mooring.files.importing import Importer, is_inside
from mooring.files.middleware import FileAdapters
from mooring.files.quotas import too_large
from mooring.files.receiving import Receipt, Receiver
from mooring.files.records import FileRecord
from mooring.gateway.server import Server
from mooring.interfaces import upload_page
from mooring.interfaces.file_requests import JSON, FileRequests, Visit, path_of, query_of, wants_page
from mooring.interfaces.uploads_resumable import ResumableRequest, is_resumable, method_of
from mooring.transports.http_endpoint import Streaming
from mooring.transports.http_reply import Reply
from mooring.transports.http_request import BodyStream, Request

ALLOW: Final = ((b"allow", b"GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS"),)
Json = dict[str, Any]


class Uploads:
    """All addresses below the upload path."""

    def __init__(self, requests: FileRequests) -> None:
        self._requests = requests
        self.endpoint = Streaming(self._handle)

    def _handle(self, request: Request, reply: Reply, body: BodyStream) -> None:
        requests = self._requests
        depth = requests.service.links.upload_path.count("/")
        server_id, *rest = path_of(request)[depth:] or [""]
        server = requests.servers.get(server_id)
        adapters = requests.service.adapters.get(server_id)
        if server is None or adapters is None or not adapters.takes_uploads:
            requests.refuse(request, reply, 404, "not found: no server of this name takes uploads")
            return
        upload = _Upload(requests, server, adapters, request, reply, body)
        resumable = ResumableRequest(
            requests, requests.service.resumable, server_id, adapters, request, reply, body
        )
        method = method_of(request) if rest else request.method
        match method, rest:
            case ((b"GET" | b"HEAD"), []):
                requests.enter(server, request, reply, upload.show_page)
            case b"POST", [] if is_resumable(request):
                requests.enter(server, request, reply, resumable.create)
            case b"POST", []:
                requests.enter(server, request, reply, upload.post)
            case b"PUT", ([] | [_]):
                requests.enter(server, request, reply, partial(upload.put, rest))
            case b"OPTIONS", []:
                requests.enter(server, request, reply, resumable.options)
            case b"HEAD", ["resumable", identifier]:
                requests.enter(server, request, reply, partial(resumable.head, identifier))
            case b"PATCH", ["resumable", identifier]:
                requests.enter(server, request, reply, partial(resumable.patch, identifier))
            case b"DELETE", ["resumable", identifier]:
                requests.enter(server, request, reply, partial(resumable.delete, identifier))
            case _, []:
                reply.send(405, (*ALLOW, *JSON), b"")
            case _:
                requests.refuse(request, reply, 404, "not found")


class _Upload:
    """One request."""

    def __init__(
        self,
        requests: FileRequests,
        server: Server,
        adapters: FileAdapters,
        request: Request,
        reply: Reply,
        body: BodyStream,
    ) -> None:
        self._requests = requests
        self._server = server
        self._adapters = adapters
        self._request = request
        self._reply = reply
        self._body = body
        self._store = requests.service.store
        self._receiver = Receiver(self._store, adapters.uploads, server.id)

    async def show_page(self, visit: Visit) -> None:
        self._store.refuse_ended(visit.scope)
        rules = self._adapters.uploads
        visit.done()
        self._reply.send(200, upload_page.HEADERS, upload_page.form(self._server.id, rules))

    async def post(self, visit: Visit) -> None:
        scope = visit.scope
        kind = (self._request.header(b"content-type") or b"").partition(b";")[0].strip().lower()
        with self._store.sending(scope):
            if kind == b"multipart/form-data":
                self._refuse_by_length(self._adapters.uploads.max_files)
                content_type = self._request.header(b"content-type") or b""
                made = await self._receiver.multipart(scope, content_type, self._body, self._import)
            else:
                raise BadUpload("a POST here is a form: `curl -F file=@NAME`; use PUT for a bare file")
        self._answer(visit, made)

    async def put(self, rest: list[str], visit: Visit) -> None:
        scope = visit.scope
        self._refuse_by_length(1)
        given = query_of(self._request)
        name = rest[0] if rest else given.get("filename", "file")
        sha256 = given.get("sha256") or (self._request.header(b"x-content-sha256") or b"").decode("latin-1")
        with self._store.sending(scope):
            made = await self._receiver.raw(scope, name, sha256 or None, self._body)
        self._answer(visit, made, status=201)

    async def _import(self, url: str, receipt: Receipt) -> None:
        await Importer(self._adapters.uploads.import_hosts, is_inside).fetch(url, receipt)

    def _refuse_by_length(self, files: int) -> None:
        """What announces itself as too large need not be read at all."""
        room = self._adapters.uploads.max_file_bytes * files + 1024 * 1024
        if self._body.length is not None and self._body.length > room:
            raise too_large(self._adapters.uploads.max_file_bytes)

    def _answer(self, visit: Visit, made: list[FileRecord], status: int = 200) -> None:
        visit.done(*(record.uri for record in made))
        if self._reply.closed:
            return
        if wants_page(self._request):
            self._reply.send(200, upload_page.HEADERS, upload_page.done(self._server.id, made))
            return
        headers = (*JSON, *self._requests.headers_for(self._request))
        self._reply.send(status, headers, msgspec.json.encode(answer(self._server.id, made)))


def answer(server_id: str, made: list[FileRecord]) -> Json:
    """What an upload is answered with."""
    uploads = [
        {
            "upload_handle": record.uri,
            "upload_id": record.id,
            "filename": record.name,
            "mime_type": record.mime_type,
            "size_bytes": record.size,
            "sha256": record.sha256,
        }
        for record in made
    ]
    about: Json = {
        "server_id": server_id,
        "count": len(made),
        "uploads": uploads,
        "upload_handles": [record.uri for record in made],
    }
    if len(made) == 1:
        about["upload_handle"] = made[0].uri
    return about
