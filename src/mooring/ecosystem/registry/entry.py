"""What a registry says about a server, whatever format it said it in."""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct, field

from mooring.errors import MooringError

OfferKind = Literal["npm", "pypi", "image", "remote", "other"]

# A package needs only its own tool, a URL somebody else's machine, an image a container engine.
_BY_NEED: tuple[OfferKind, ...] = ("npm", "pypi", "remote", "image")


class RegistryError(MooringError):
    """A registry cannot be read or reached, or has no such server; the message says what to do."""

    http_status = 422
    api_code = "registry_failed"


class NoSuchEntry(RegistryError):
    """No registry has a server of this name."""

    http_status = 404
    api_code = "no_such_server"


class Input(Struct, frozen=True, omit_defaults=True):
    """A value that the server needs: an environment variable, a header, or part of an argument."""

    name: str
    description: str = ""
    required: bool = False
    secret: bool = False
    default: str | None = None
    choices: tuple[str, ...] = ()
    value: str | None = None
    """Fixed by the publisher; `{name}` in it is one of `variables`."""
    variables: tuple[Input, ...] = ()
    path: bool = False
    """A file or folder of this machine, which the server may then use."""


class Argument(Struct, frozen=True, omit_defaults=True):
    """A word (or a flag with one) on the command line."""

    input: Input
    flag: str = ""
    repeated: bool = False


class Offer(Struct, frozen=True, omit_defaults=True):
    """One way to get the server: a package, an image, or a URL."""

    kind: OfferKind
    source: str
    """As `mooring run` takes it: `npx://...`, `uvx://...`, an image, a URL."""
    transport: str = "stdio"
    target_port: int | None = None
    path: str = "/mcp"
    arguments: tuple[Argument, ...] = ()
    env: tuple[Input, ...] = ()
    headers: tuple[Input, ...] = ()
    sha256: str = ""
    notes: tuple[str, ...] = ()


class Provenance(Struct, frozen=True, omit_defaults=True):
    """Who built the server, as the registry says."""

    sigstore_url: str = ""
    repository_uri: str = ""
    repository_ref: str = ""
    signer_identity: str = ""
    runner_environment: str = ""
    cert_issuer: str = ""
    public_key: str = ""
    """PEM; with it a signature can be checked here."""


class Entry(Struct, frozen=True, omit_defaults=True):
    """One server."""

    name: str
    description: str = ""
    title: str = ""
    version: str = ""
    status: str = ""
    tier: str = ""
    tags: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    repository: str = ""
    website: str = ""
    overview: str = ""
    updated: str = ""
    offers: tuple[Offer, ...] = ()
    permissions: dict[str, Any] | None = None
    oauth: dict[str, Any] | None = None
    provenance: Provenance | None = None
    registry: str = ""
    """Which of our registries it is from."""

    @property
    def short_name(self) -> str:
        """What follows the publisher's domain."""
        return self.name.rpartition("/")[2]

    def offer(self, kind: str | None = None) -> Offer:
        """The way that needs least here (package, URL, then image), or the first of this kind."""
        usable = [each for each in self.offers if each.kind in _BY_NEED and kind in (None, each.kind)]
        usable.sort(key=lambda each: _BY_NEED.index(each.kind))
        if not usable:
            what = f"as `{kind}`" if kind else "in a way that can be run here (npm, PyPI, image or URL)"
            raise RegistryError(f"`{self.name}` is not offered {what}")
        return usable[0]


class ServerGroup(Struct, frozen=True, omit_defaults=True):
    """Servers that belong together."""

    name: str
    description: str = ""
    servers: tuple[str, ...] = ()


class Catalogue(Struct, frozen=True):
    """Everything one registry holds (or the part that was asked for)."""

    entries: tuple[Entry, ...] = ()
    groups: tuple[ServerGroup, ...] = ()
    more: bool = False
    """There is more than was asked for."""
    problems: tuple[str, ...] = field(default_factory=tuple[str, ...])
    """Entries that could not be understood and were left out."""
