"""Files in and out of one gateway. Nothing of it is loaded until a server has to do with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from mooring.config import schema
from mooring.gateway.server import Server
from mooring.gateway.sessions import SessionTable
from mooring.interfaces.gateway_app import GatewayApp
from mooring.policy.watching import Watch
from mooring.transports.sealing import Seal, load_key

if TYPE_CHECKING:
    from mooring.files.middleware import FileAdapters
    from mooring.files.service import FileService


class CarriedFiles:
    """A gateway none of whose servers has adapters or result handles has no service, and no routes for it."""

    def __init__(
        self,
        seal: Seal,
        sessions: SessionTable,
        servers: dict[str, Server],
        watch_for: Callable[[str], Watch | None],
    ) -> None:
        self.service: FileService | None = None
        self._seal = seal
        self._sessions = sessions
        self._servers = servers
        self._watch_for = watch_for

    async def open(self, config: schema.Config, app: GatewayApp, url: str) -> None:
        """Where files come in and go out, if any server wants that and it is not there yet."""
        if self.service is not None or not any(config.wants_files(entry) for entry in config.servers):
            return
        from mooring.config.files_build import service_for  # noqa: PLC0415
        from mooring.interfaces.downloads import Downloads  # noqa: PLC0415
        from mooring.interfaces.file_requests import FileRequests  # noqa: PLC0415
        from mooring.interfaces.uploads import Uploads  # noqa: PLC0415

        service = service_for(config, self._seal, load_key(config.storage.root / "seal.key"))
        service.links.base = url
        await service.start()
        self.service = service
        self._sessions.recall = service.sessions.recall
        requests = FileRequests(service, self._servers, self._sessions, lambda: app.rules, self._watch_for)
        downloads = Downloads(requests, artifacts=config.core.allow_artifacts_download)
        app.add_prefix(f"{service.links.upload_path}/".encode(), Uploads(requests).endpoint)
        app.add_prefix(b"/artifacts/", downloads.endpoint)
        app.add_prefix(b"/files/once/", downloads.endpoint)

    def adapters(self, config: schema.Config, entry: schema.Server) -> FileAdapters | None:
        if self.service is None:
            return None
        if not config.wants_files(entry):
            self.service.adapters.pop(entry.id, None)  # those that it had before
            return None
        from mooring.config.files_build import adapters_for  # noqa: PLC0415

        return adapters_for(self.service, config, entry)

    def show_anew(self, config: schema.Config, entry: schema.Server, adapters: FileAdapters) -> None:
        """The tools of this server are hidden or renamed in another way."""
        from mooring.config.files_build import shown_by  # noqa: PLC0415

        adapters.show_as(shown_by(config, entry))

    def leave(self) -> None:
        """The gateway is about to end: sessions that have files are to be found again."""
        if self.service is not None:
            self.service.leave()

    async def close(self) -> None:
        if self.service is not None:
            await self.service.close()
