"""The upstream registry's API, v0.1, and files behind URLs: plain HTTP, bounded, no token to strangers."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from http.client import HTTPMessage
from typing import IO, Any, cast
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from mooring.ecosystem.registry.entry import Catalogue, Entry, RegistryError
from mooring.ecosystem.registry.reading import upstream_catalogue
from mooring.transports.loopback import is_loopback

TIMEOUT_SECONDS = 20.0
MAX_BYTES = 64 * 1024**2
PAGE = 100
# The public registry has a few hundred pages; a server that never ends is not followed for ever.
MAX_PAGES = 1000


@dataclass(frozen=True, slots=True)
class RegistryApi:
    """One registry that speaks the API."""

    base: str
    headers: Mapping[str, str]

    def search(self, text: str, limit: int) -> Catalogue:
        """Servers whose name holds the text, latest versions only, up to `limit`."""
        return self._pages({"search": text} if text else {}, limit)

    def entry(self, name: str, version: str = "latest") -> Entry:
        """One server."""
        target = f"/v0.1/servers/{quote(name, safe='')}/versions/{quote(version, safe='')}"
        found = upstream_catalogue([self._get(target)])
        if not found.entries:
            raise RegistryError(f"the registry's answer about `{name}` cannot be understood")
        return found.entries[0]

    def versions(self, name: str) -> list[Entry]:
        """All versions of a server, as the registry orders them."""
        answer = self._get(f"/v0.1/servers/{quote(name, safe='')}/versions")
        return list(upstream_catalogue(answer.get("servers") or []).entries)

    def everything(self) -> list[Any]:
        """All servers as they came, for a copy to look at when the registry cannot be reached."""
        return self._raw_pages({}, PAGE * MAX_PAGES)[0]

    def _pages(self, query: dict[str, str], limit: int) -> Catalogue:
        servers, more = self._raw_pages(query, limit)
        found = upstream_catalogue(servers)
        return Catalogue(found.entries[:limit], more=more or len(servers) > limit, problems=found.problems)

    def _raw_pages(self, query: dict[str, str], limit: int) -> tuple[list[Any], bool]:
        servers: list[Any] = []
        cursor = ""
        for _ in range(MAX_PAGES):
            asked = {**query, "version": "latest", "limit": str(min(PAGE, limit))}
            answer = self._get(f"/v0.1/servers?{urlencode(asked | ({'cursor': cursor} if cursor else {}))}")
            servers += cast("list[Any]", answer.get("servers") or [])
            metadata = answer.get("metadata")
            found = cast("dict[str, Any]", metadata) if isinstance(metadata, dict) else {}
            following = str(found.get("nextCursor") or found.get("next_cursor") or "")
            if not following or following == cursor:
                return servers, False
            if len(servers) >= limit:
                return servers, True
            cursor = following
        return servers, True

    def _get(self, target: str) -> dict[str, Any]:
        body = fetch(self.base.rstrip("/") + target, self.headers)
        try:
            return msgspec.json.decode(body, type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise RegistryError(f"`{self.base}` does not speak the registry API: {error}") from error


def fetch(url: str, headers: Mapping[str, str]) -> bytes:
    """GET with limits; every failure is a RegistryError."""
    check_url(url)
    sent = {"Accept": "application/json", "User-Agent": "mooring", **headers}
    request = urllib.request.Request(url, headers=sent)  # noqa: S310 - the scheme was checked
    opener = urllib.request.build_opener(_SameOrigin())
    try:
        with opener.open(request, timeout=TIMEOUT_SECONDS) as response:
            body = response.read(MAX_BYTES + 1)
    except urllib.error.HTTPError as error:
        with error:
            raise RegistryError(_refusal(url, error.code)) from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise RegistryError(f"cannot reach `{_origin(url)}`: {reason}") from error
    if len(body) > MAX_BYTES:
        raise RegistryError(f"the answer of `{_origin(url)}` is larger than {MAX_BYTES >> 20} MiB")
    return body


def check_url(url: str) -> None:
    """HTTPS, or plain HTTP on this machine."""
    parts = urlsplit(url)
    if parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or "")):
        return
    raise RegistryError(f"`{url}` is not secure: use https")


def _refusal(url: str, status: int) -> str:
    if status in (401, 403):
        return (
            f"`{_origin(url)}` wants to know who asks ({status}): give it a token with "
            "`mooring registry add NAME URL --token-secret SECRET`"
        )
    if status == 404:
        return f"`{_origin(url)}` has no such server"
    return f"`{_origin(url)}` answered {status}: try again later"


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


class _SameOrigin(urllib.request.HTTPRedirectHandler):
    """Follows redirects; a token stays with the host it was meant for."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> urllib.request.Request | None:
        check_url(newurl)
        made = super().redirect_request(req, fp, code, msg, headers, newurl)
        if made is not None and _origin(newurl) != _origin(req.full_url):
            made.headers = {
                key: value for key, value in made.headers.items() if key in ("Accept", "User-agent")
            }
        return made
