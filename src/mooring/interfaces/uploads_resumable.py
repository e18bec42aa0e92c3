"""tus 1.0 at `/upload/<server>`: create with POST, ask with HEAD, go on with PATCH, give up with DELETE."""

from __future__ import annotations

import base64
import binascii
from email.utils import formatdate
from typing import Final

from mooring.files.faults import BadUpload, FileFault
from mooring.files.links import RESUMABLE, Ticket
from mooring.files.middleware import FileAdapters
from mooring.files.receiving import checked_hash
from mooring.files.resuming import Resumable, ResumableUploads
from mooring.interfaces.file_requests import PRIVATE, TUS_VERSION, FileRequests, Visit, query_of
from mooring.transports.http_reply import Reply
from mooring.transports.http_request import BodyStream, Request

PIECE: Final = b"application/offset+octet-stream"
EXTENSIONS: Final = b"creation,creation-with-upload,expiration,termination"


class OtherVersion(FileFault):
    """A version of the protocol that we do not speak."""

    status = 412


class WrongType(FileFault):
    """The body is not a piece of a file."""

    status = 415


def is_resumable(request: Request) -> bool:
    return request.header(b"tus-resumable") is not None


def method_of(request: Request) -> bytes:
    """What is meant: whoever cannot send PATCH or DELETE sends POST and says so."""
    meant = request.header(b"x-http-method-override")
    return request.method if meant is None or request.method != b"POST" else meant.upper()


class ResumableRequest:
    """One request of the protocol, in the scope of its ticket."""

    def __init__(
        self,
        requests: FileRequests,
        uploads: ResumableUploads,
        server_id: str,
        adapters: FileAdapters,
        request: Request,
        reply: Reply,
        body: BodyStream,
    ) -> None:
        self._requests = requests
        self._uploads = uploads
        self._server = server_id
        self._adapters = adapters
        self._request = request
        self._reply = reply
        self._body = body

    async def options(self, visit: Visit) -> None:
        visit.done()
        limit = self._requests.service.store.rules.upload.max_file_bytes
        self._send(
            204,
            (b"tus-version", TUS_VERSION),
            (b"tus-extension", EXTENSIONS),
            (b"tus-max-size", b"%d" % limit),
        )

    async def create(self, visit: Visit) -> None:
        self._check_version()
        scope = visit.scope
        length = self._number(b"upload-length")
        about = _metadata(self._request.header(b"upload-metadata") or b"")
        name = about.get("filename") or about.get("name") or "file"
        sha256 = checked_hash(about["sha256"]) if about.get("sha256") else ""
        if self._adapters.uploads.require_sha256 and not sha256:
            raise BadUpload("every file needs its SHA-256 here: give it as `sha256` in `Upload-Metadata`")
        with self._requests.service.store.sending(scope):
            upload = await self._uploads.create(scope, self._server, name, length, sha256)
            if self._request.header(b"content-type") == PIECE and length:
                upload = await self._uploads.append(upload, 0, self._body)
        await self._state(visit, 201, upload, (b"location", self._location(visit, upload).encode()))

    def _location(self, visit: Visit, upload: Resumable) -> str:
        """Whoever came with a link goes on with one; all others show again who they are."""
        links = self._requests.service.links
        if "ticket" in query_of(self._request):
            return links.resume_url(Ticket(self._server, visit.scope, visit.caller.principal.id), upload.id)
        path = self._request.path.decode("latin-1").rstrip("/")
        return f"{links.base}{path}/{RESUMABLE}/{upload.id}"

    async def head(self, identifier: str, visit: Visit) -> None:
        self._check_version()
        upload = await self._uploads.settled(identifier, visit.scope, self._server)
        about = (b"upload-metadata", _described(upload))
        await self._state(visit, 200, upload, (b"upload-length", b"%d" % upload.length), about)

    async def patch(self, identifier: str, visit: Visit) -> None:
        self._check_version()
        if self._request.header(b"content-type") != PIECE:
            raise WrongType(f"a piece is sent as `{PIECE.decode()}`")
        upload = await self._uploads.find(identifier, visit.scope, self._server)
        with self._requests.service.store.sending(visit.scope):
            upload = await self._uploads.append(upload, self._number(b"upload-offset"), self._body)
        await self._state(visit, 204, upload)

    async def delete(self, identifier: str, visit: Visit) -> None:
        self._check_version()
        upload = await self._uploads.find(identifier, visit.scope, self._server)
        await self._uploads.give_up(upload)
        visit.done()
        self._send(204)

    async def _state(self, visit: Visit, status: int, upload: Resumable, *more: tuple[bytes, bytes]) -> None:
        offset = await self._uploads.kept(upload)
        headers = [(b"upload-offset", b"%d" % offset), *more]
        headers.append((b"upload-expires", formatdate(upload.expires, usegmt=True).encode()))
        if upload.finished:
            headers.append((b"upload-handle", upload.finished.encode()))
        visit.done(*([upload.finished] if upload.finished else []))
        self._send(status, *headers)

    def _send(self, status: int, *headers: tuple[bytes, bytes]) -> None:
        extra = self._requests.headers_for(self._request)
        self._reply.send(status, ((b"tus-resumable", TUS_VERSION), *headers, *PRIVATE, *extra), b"")

    def _check_version(self) -> None:
        if self._request.header(b"tus-resumable") != TUS_VERSION:
            raise OtherVersion("this speaks tus 1.0.0 only: send `Tus-Resumable: 1.0.0`")

    def _number(self, name: bytes) -> int:
        value = self._request.header(name) or b""
        if not value.isdigit() or len(value) > 18:
            raise BadUpload(f"`{name.decode()}` must be a whole number")
        return int(value)


def _metadata(header: bytes) -> dict[str, str]:
    """`Upload-Metadata`: names and base64 values."""
    found: dict[str, str] = {}
    for pair in header.decode("latin-1").split(",")[:20]:
        name, _, value = pair.strip().partition(" ")
        try:
            found[name] = base64.b64decode(value, validate=True).decode()
        except (binascii.Error, ValueError):
            raise BadUpload("`Upload-Metadata` must be names with base64 values") from None
    return found


def _described(upload: Resumable) -> bytes:
    """What was said about an upload when it began, as far as we kept it."""
    kept = {b"filename": upload.name, b"sha256": upload.sha256}
    return b",".join(
        b"%b %b" % (name, base64.b64encode(text.encode())) for name, text in kept.items() if text
    )
