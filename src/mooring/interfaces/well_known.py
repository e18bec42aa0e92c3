"""What clients read before they authenticate: each server's metadata as a protected resource (RFC 9728)."""

from __future__ import annotations

from typing import Final

import msgspec

from mooring.transports.http_reply import Reply
from mooring.transports.http_request import Request

PREFIX: Final = "/.well-known/oauth-protected-resource"
# It is public, and a client may be a web page.
_HEADERS: Final = (
    (b"content-type", b"application/json"),
    (b"cache-control", b"max-age=300"),
    (b"access-control-allow-origin", b"*"),
)


class ResourceMetadata:
    """The document about one server."""

    def __init__(self, url: str, name: str, issuer: str | None, scopes: list[str]) -> None:
        document: dict[str, object] = {
            "resource": url,
            "resource_name": name,
            "bearer_methods_supported": ["header"],
        }
        if issuer is not None:
            document["authorization_servers"] = [issuer]
        if scopes:
            document["scopes_supported"] = scopes
        self._body = msgspec.json.encode(document)

    def handle(self, request: Request, reply: Reply) -> None:
        if request.method not in (b"GET", b"HEAD"):
            reply.send(405, ((b"allow", b"GET"),), b"")
        else:
            reply.send(200, _HEADERS, self._body)
