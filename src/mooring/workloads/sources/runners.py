"""`npx -y NAME ...` and `uvx NAME ...` as commands: recognised, so that the package is installed once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath
from typing import Final

from mooring.workloads.runtime import CannotRun, PackageKind, PackageSource
from mooring.workloads.sources.naming import check_package

_HARMLESS: Final = {"npx": ("-y", "--yes", "-q", "--quiet"), "uvx": ("-q", "--quiet", "--no-progress")}
_PINNED: Final = re.compile(r"^([^=<>!~@]+)(==|@)(.+)$")


def package_of(argv: Sequence[str]) -> tuple[PackageSource, tuple[str, ...]] | None:
    """The package such a command names and the arguments for it; None for any other command.

    One with options that change what is run is left as it is.
    """
    runner = PurePath(argv[0]).name if argv else ""
    words = list(argv[1:])
    if words[:2] == ["tool", "run"] and runner == "uv":
        runner, words = "uvx", words[2:]
    if runner not in _HARMLESS:
        return None
    while words and words[0] in _HARMLESS[runner]:
        words.pop(0)
    if words[:1] == ["--"]:
        words.pop(0)
    if not words or words[0].startswith("-"):
        return None
    scheme: PackageKind = "npx" if runner == "npx" else "uvx"
    source = _npm(words[0]) if scheme == "npx" else _python(words[0])
    try:
        check_package(source)
    except CannotRun:
        return None  # a git address or a folder, which only the runner itself understands
    return source, tuple(words[1:])


def _npm(text: str) -> PackageSource:
    name, _, version = text[1:].partition("@")
    return PackageSource("npx", text[:1] + name, version or None)


def _python(text: str) -> PackageSource:
    pinned = _PINNED.match(text)
    return PackageSource("uvx", pinned[1], pinned[3]) if pinned else PackageSource("uvx", text)
