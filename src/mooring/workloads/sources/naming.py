"""What `npx://name@version` and the like may say: these words become arguments of a program."""

from __future__ import annotations

import hashlib
import re
from typing import Final

from mooring.workloads.runtime import CannotRun, PackageKind, PackageSource

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]+")
_PACKAGE: Final[dict[PackageKind, re.Pattern[str]]] = {
    "npx": re.compile(r"^(@[a-z0-9~-][a-z0-9._~-]*/)?[a-z0-9~][a-z0-9._~-]*$"),
    "uvx": re.compile(r"^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?(\[[A-Za-z0-9,._-]+\])?$"),
    "go": re.compile(r"^[a-z0-9][a-z0-9.-]*\.[a-z]{2,}(/[A-Za-z0-9._~-]+)+$"),
}
_VERSION: Final = re.compile(r"^[A-Za-z0-9^~*+!<>=.,_][A-Za-z0-9^~*+!<>=.,_-]*$")


def parse_package(text: str) -> PackageSource | None:
    """A package source; None for a text that is none, `CannotRun` for a wrong one."""
    found, separator, rest = text.partition("://")
    for scheme in _PACKAGE:
        if separator and scheme == found:
            name, _, version = rest[1:].partition("@")  # a scope begins with an @ of its own
            source = PackageSource(scheme, rest[:1] + name, version or None)
            check_package(source)
            return source
    return None


def check_package(source: PackageSource) -> None:
    """Refuse names that are no names."""
    if not _PACKAGE[source.scheme].match(source.package):
        raise CannotRun(f"`{source.package}` is not the name of a package for `{source.scheme}://`")
    if source.version is not None and not _VERSION.match(source.version):
        raise CannotRun(
            f"`{source.version}` is not a version: write `{source.scheme}://{source.package}@1.2.3`"
        )


def folder_name(source: PackageSource) -> str:
    """Where a package is kept below the store: readable, and one folder per exact wish."""
    readable = _UNSAFE.sub("_", f"{source.package}@{source.version or 'latest'}").strip("._")
    return f"{readable}-{hashlib.sha256(str(source).encode()).hexdigest()[:8]}"
