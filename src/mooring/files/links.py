"""Signed addresses: where to upload, where to download, and where a server fetches a file once."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import time
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final
from urllib.parse import quote

from mooring.files.faults import Gone, NotFound, Refused
from mooring.files.handles import Handle, quoted
from mooring.files.records import FileRecord
from mooring.transports.sealing import Seal, SealBroken

UPLOAD: Final = "mooring:upload"
ONCE: Final = "mooring:once"
RESUMABLE: Final = "resumable"
"""The folder of uploads in pieces, below the address of their server."""
NEW_LINK: Final = "have your assistant ask for a new one, with the server's `get_upload_url` tool"
ONCE_SECONDS: Final = 600.0
_MOMENT: Final = re.compile(r"[0-9]{1,12}")
RESUME_SECONDS: Final = 7 * 86_400.0
"""How long the address of an upload in pieces may work; the upload ends earlier if no piece comes."""


@dataclass(frozen=True, slots=True)
class Ticket:
    """What an upload URL allows: to put files into one scope of one server, for whoever asked for it."""

    server: str
    scope: str
    principal: str


class Links:
    """Makes links and checks them. `base` is the address clients use; it never comes from a request."""

    def __init__(self, seal: Seal, key: bytes, upload_path: str = "/upload") -> None:
        self.base = ""
        self.upload_path = upload_path
        self._seal = seal
        self._key = hmac.new(key, b"mooring:download", hashlib.sha256).digest()

    def upload_url(self, ticket: Ticket, ttl_seconds: float) -> str:
        values = {"server": ticket.server, "scope": ticket.scope, "principal": ticket.principal}
        sealed = self._seal.wrap(UPLOAD, values, ttl_seconds=ttl_seconds)
        return f"{self.base}{self.upload_path}/{quote(ticket.server)}?ticket={sealed}"

    def resume_url(self, ticket: Ticket, upload: str) -> str:
        """Where the pieces of one upload go, long after the link that it was begun with has expired."""
        values = {"server": ticket.server, "scope": ticket.scope, "principal": ticket.principal, "to": upload}
        sealed = self._seal.wrap(UPLOAD, values, ttl_seconds=RESUME_SECONDS)
        return f"{self.base}{self.upload_path}/{quote(ticket.server)}/{RESUMABLE}/{upload}?ticket={sealed}"

    def read_ticket(self, text: str, server: str, upload: str | None = None) -> Ticket:
        """What a link allows: everything below its server, or one upload that has begun."""
        values = self._unsealed(UPLOAD, text, NEW_LINK)
        if values.get("server") != server:
            raise NotFound("this upload link is for another server")
        if values.get("to") not in (None, upload):
            raise Refused(f"this link goes on with one upload: {NEW_LINK}")
        return Ticket(server, str(values["scope"]), str(values["principal"]))

    def once_url(self, record: FileRecord) -> str:
        """An address that one request can fetch the file from."""
        values = {"id": record.id, "scope": record.scope, "server": record.server, "n": secrets.token_hex(16)}
        sealed = self._seal.wrap(ONCE, values, ttl_seconds=ONCE_SECONDS)
        return f"{self.base}/files/once/{sealed}/{quote(record.name, safe='')}"

    def read_once(self, text: str) -> dict[str, Any]:
        return self._unsealed(ONCE, text, "call the tool again for a new one")

    def _unsealed(self, purpose: str, text: str, advice: str) -> dict[str, Any]:
        try:
            return self._seal.unwrap(purpose, text)
        except SealBroken as error:
            if str(error) == "expired":
                raise Gone(f"this link has expired: {advice}") from error
            raise Refused(f"this link is not one of ours: {advice}") from error

    def download_url(self, record: FileRecord, expires: float, principal: str) -> str:
        path = _download_path(record.server, record.scope, record.id, record.name)
        moment, owner = int(expires), self.owner(principal)
        signature = self._signature(path, moment, owner)
        return f"{self.base}{path}?expires={moment}&for={owner}&signature={signature}"

    def owner(self, principal: str) -> str:
        """Stands for whoever was given a link, and tells nobody who that is."""
        return _owner(self._key, principal)

    def check_download(self, server: str, handle: Handle, expires: str, owner: str, signature: str) -> None:
        """Whether we gave this link away. Clients may spell its path as they like: `(` or `%28`."""
        if not _MOMENT.fullmatch(expires):
            raise Refused("this link is not one of ours: ask for the artifact again")
        path = _download_path(server, handle.scope, handle.id, handle.name or "")
        wanted = self._signature(path, int(expires), owner)
        if not hmac.compare_digest(wanted.encode(), signature.encode()):
            raise Refused("this link is not one of ours: ask for the artifact again")
        if int(expires) < time.time():
            raise Gone("this link has expired: ask for the artifact again")

    def _signature(self, path: str, expires: int, owner: str) -> str:
        return _signed(self._key, f"{path}\n{expires}\n{owner}")


def _download_path(server: str, scope: str, identifier: str, name: str) -> str:
    return f"/artifacts/{quoted(server)}/{scope}/{identifier}/{quoted(name)}"


@lru_cache(maxsize=256)
def _owner(key: bytes, principal: str) -> str:
    return _signed(key, f"owner\n{principal}")[:16]


def _signed(key: bytes, text: str) -> str:
    # BLAKE2 has a key of its own: a tenth of what the library takes to set up an HMAC for one short text.
    return hashlib.blake2b(text.encode(), key=key, digest_size=32).hexdigest()
