"""Who a server says it is, and how long its lists may be kept."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

from mooring.authoring.catalog import Catalog
from mooring.protocol.versions import V2025_06_18, V2025_11_25

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Cache:
    """How long, and for whom, a client or gateway may keep lists and resources (2026-07-28)."""

    ttl_seconds: float = 0
    scope: Literal["public", "private"] = "private"

    @property
    def hints(self) -> Json:
        return {"ttlMs": int(self.ttl_seconds * 1000), "cacheScope": self.scope}


@dataclass(frozen=True, slots=True)
class Identity:
    name: str
    version: str
    title: str | None = None
    instructions: str | None = None
    website_url: str | None = None
    description: str | None = None
    icons: tuple[Json, ...] = ()
    extensions: Json = field(default_factory=dict[str, Any])
    experimental: Json = field(default_factory=dict[str, Any])
    logging: bool = True

    @property
    def info(self) -> Json:
        optional = {
            "title": self.title,
            "description": self.description,
            "websiteUrl": self.website_url,
            "icons": list(self.icons) or None,
        }
        found = {name: value for name, value in optional.items() if value is not None}
        return {"name": self.name, "version": self.version, **found}

    def info_for(self, version: str) -> Json:
        """As far as a revision knows it."""
        if version >= V2025_11_25:
            return self.info
        kept = ("name", "version", "title") if version >= V2025_06_18 else ("name", "version")
        return {name: value for name, value in self.info.items() if name in kept}

    @property
    def advice(self) -> Json:
        return {"instructions": self.instructions} if self.instructions else {}

    def capabilities(self, catalog: Catalog) -> Json:
        found = catalog.capabilities(logging=self.logging)
        if self.experimental:
            found["experimental"] = self.experimental
        if self.extensions:
            found["extensions"] = self.extensions
        return found
