"""Reading from the registry an image is in: its digest, and the signatures that lie beside it."""

from __future__ import annotations

import hashlib
import re
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any, cast
from urllib.parse import urlencode

import msgspec

from mooring.ecosystem.registry.api import check_url, fetch
from mooring.ecosystem.registry.entry import RegistryError
from mooring.ecosystem.registry.provenance import verify_image
from mooring.transports.loopback import is_loopback

TIMEOUT_SECONDS = 20.0
MAX_BYTES = 8 * 1024**2
_ACCEPT = ", ".join(
    f"application/vnd.{kind}+json"
    for kind in (
        "oci.image.index.v1",
        "oci.image.manifest.v1",
        "docker.distribution.manifest.list.v2",
        "docker.distribution.manifest.v2",
    )
)
_CHALLENGE = re.compile(r'(\w+)="([^"]*)"')


@dataclass(frozen=True, slots=True)
class ImageName:
    """`host/repository` and a tag or digest."""

    host: str
    repository: str
    reference: str

    @property
    def base(self) -> str:
        """Where its registry answers; plain HTTP only on this machine."""
        host = self.host.partition(":")[0]
        return f"{'http' if is_loopback(host) else 'https'}://{self.host}/v2/{self.repository}/"


def image_name(text: str) -> ImageName:
    """Read `host/repository:tag`, `repository@sha256:...` and so on, as Docker does."""
    rest, _, digest = text.partition("@")
    host, slash, path = rest.partition("/")
    if not slash or not ("." in host or ":" in host or host == "localhost"):
        host, path = "registry-1.docker.io", rest if slash else f"library/{rest}"
    path, _, tag = path.partition(":")
    return ImageName(host, path, digest or tag or "latest")


class ImageRegistry:
    """One image's repository; fetches a token if it is asked for one."""

    def __init__(self, name: ImageName) -> None:
        self._name = name
        self._token = ""

    def digest(self) -> str:
        """The digest of the image's manifest."""
        if self._name.reference.startswith("sha256:"):
            return self._name.reference
        return f"sha256:{hashlib.sha256(self.get(f'manifests/{self._name.reference}')).hexdigest()}"

    def get(self, target: str) -> bytes:
        """Something below the repository; what is not there is empty JSON."""
        try:
            return self._get(target)
        except urllib.error.HTTPError as error:
            with error:
                if error.code == 404 and target.endswith(".sig"):
                    return b"{}"
                raise RegistryError(f"`{self._name.host}` answered {error.code} about the image") from error
        except (OSError, ValueError) as error:
            raise RegistryError(f"cannot reach `{self._name.host}`: {error}") from error

    def _get(self, target: str) -> bytes:
        try:
            return self._open(target)
        except urllib.error.HTTPError as error:
            if error.code != 401 or self._token:
                raise
            with error:
                self._token = self._new_token(error.headers.get("WWW-Authenticate") or "")
        return self._open(target)

    def _open(self, target: str) -> bytes:
        url = self._name.base + target
        check_url(url)
        request = urllib.request.Request(url, headers={"Accept": _ACCEPT})  # noqa: S310 - checked above
        if self._token:
            # Not sent on when the registry redirects to where the bytes are.
            request.add_unredirected_header("Authorization", f"Bearer {self._token}")
        with urllib.request.urlopen(request, timeout=TIMEOUT_SECONDS) as response:  # noqa: S310 - as above
            data = cast("bytes", response.read(MAX_BYTES + 1))
        if len(data) > MAX_BYTES:
            raise RegistryError(f"the answer of `{self._name.host}` is too large")
        return data

    def _new_token(self, challenge: str) -> str:
        found = dict(_CHALLENGE.findall(challenge))
        if not challenge.lower().startswith("bearer") or "realm" not in found:
            raise RegistryError(f"`{self._name.host}` wants a login that cannot be given here")
        asked = {"service": found.get("service", ""), "scope": f"repository:{self._name.repository}:pull"}
        answer: Any = msgspec.json.decode(fetch(f"{found['realm']}?{urlencode(asked)}", {}))
        return str(answer.get("token") or answer.get("access_token") or "")


def verified_image(reference: str, public_key: str) -> str:
    """The image by its digest, after a signature by this key was found for it; else RegistryError."""
    name = image_name(reference)
    registry = ImageRegistry(name)
    digest = registry.digest()
    verify_image(digest, public_key, registry.get)
    return f"{reference.partition('@')[0].removesuffix(':' + name.reference)}@{digest}"
