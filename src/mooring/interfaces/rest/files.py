"""Operations on files: a link to upload to, and the artifacts that are kept."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from msgspec import Struct

from mooring.files import records, upload_tool
from mooring.files.records import FileRecord
from mooring.files.service import FileService
from mooring.gateway.principal import ANONYMOUS, Caller
from mooring.interfaces.rest.operations import ApiError, Call, Operation

MOST_LISTED = 1000


class UploadLink(Struct, frozen=True):
    """Where files go: to the caller's own place, or without authentication to one of their own."""

    server_id: str
    upload_url: str
    path: str
    """The same without what stands before it in `public_url`: on this socket, or behind a proxy."""
    expires_in_seconds: int


class ArtifactView(Struct, frozen=True):
    uri: str
    server: str
    filename: str
    mime_type: str
    size_bytes: int
    sha256: str
    created: float
    expires: float


class ArtifactList(Struct, frozen=True):
    artifacts: list[ArtifactView]


class ArtifactLink(Struct, frozen=True):
    """An address that works once."""

    url: str
    path: str
    filename: str
    size_bytes: int
    sha256: str


class AdapterView(Struct, frozen=True):
    """A tool as clients call it, and what is done with its files."""

    tool: str
    type: Literal["upload_consumer", "artifact_producer"]


class AdapterList(Struct, frozen=True):
    adapters: list[AdapterView]


class FileOperations:
    """What the API does with files."""

    def __init__(self, service: Callable[[], FileService | None], local: Callable[[], Caller]) -> None:
        """`service` is None while no server has anything to do with files."""
        self._service = service
        self._local = local

    def table(self) -> list[Operation]:
        return [
            Operation(
                "POST", "/servers/{id}/upload-link", "Make a link to upload files to.", self.link, UploadLink,
                status=201, errors=(404,),
            ),
            Operation(
                "GET", "/servers/{id}/adapters", "List the tools whose files are taken care of.",
                self.adapters, AdapterList,
            ),
            Operation("GET", "/artifacts", "List artifacts, newest first.", self.list, ArtifactList),
            Operation(
                "POST", "/artifacts/{id}/link", "Make a link that downloads an artifact once.", self.fetch,
                ArtifactLink, status=201, errors=(404,),
            ),
        ]  # fmt: skip

    async def link(self, call: Call) -> UploadLink:
        name = call.path["id"]
        service = self._service()
        adapters = service.adapters.get(name) if service else None
        if service is None or adapters is None or not adapters.takes_uploads:
            able = service.adapters.items() if service else ()
            known = ", ".join(n for n, found in able if found.takes_uploads)
            raise ApiError(
                404,
                "not_found",
                f"`{name}` takes no uploads",
                f"these do: {known or 'none; see docs/guides/files.md'}",
            )
        principal = self._caller_of(call).principal
        # Whoever proved who they are has a place of their own, where their calls find the files.
        scope = None if principal is ANONYMOUS else service.scopes.of_principal(principal.id, name)
        about = upload_tool.answer(service.links, adapters.uploads, name, scope, principal.id)
        url = about["upload_url"]
        return UploadLink(name, url, url.removeprefix(service.links.base), about["expires_in_seconds"])

    async def adapters(self, call: Call) -> AdapterList:
        service = self._service()
        tools = service.wired_tools(call.path["id"]) if service else {}
        takes = [AdapterView(name, "upload_consumer") for name, files in tools.items() if files.consumers]
        makes = [AdapterView(name, "artifact_producer") for name, files in tools.items() if files.producers]
        return AdapterList([*takes, *makes])

    def _caller_of(self, call: Call) -> Caller:
        return self._local() if call.request.peer == "unix" else call.caller

    async def list(self, _call: Call) -> ArtifactList:
        service = self._service()
        if service is None:
            return ArtifactList([])
        store = service.store
        found = await store.database.read(
            lambda connection: records.all_of(connection, "artifact", MOST_LISTED)
        )
        return ArtifactList([_view(record) for record in found if record.expires > store.clock()])

    async def fetch(self, call: Call) -> ArtifactLink:
        identifier = call.path["id"]
        service = self._service()
        found = None
        if service is not None:
            found = await service.store.database.read(lambda known: records.find(known, identifier))
        if (
            service is None
            or found is None
            or found.kind != "artifact"
            or found.expires <= service.store.clock()
        ):
            raise ApiError(404, "not_found", f"no artifact `{identifier}`", "see `mooring artifact list`")
        url = service.links.once_url(found)
        path = url.removeprefix(service.links.base)
        return ArtifactLink(url, path, found.name, found.size, found.sha256)


def _view(record: FileRecord) -> ArtifactView:
    return ArtifactView(
        record.uri,
        record.server,
        record.name,
        record.mime_type,
        record.size,
        record.sha256,
        record.created,
        record.expires,
    )
