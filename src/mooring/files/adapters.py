"""What is done with the files of each tool, as the configuration says it and as a call needs it."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from mooring.files.argument_paths import ArgumentPath

DEFAULT_REGEXES: Final = (
    re.compile(r"((?<![\w:/])(?:file://)?/(?:[^/\s\"'`<>|)\],;]+/)*[^/\s\"'`<>|)\],;]+)"),
)
"""A path that stands on its own: not the path of a URL, and without the quotes and brackets around it.

Each character can be matched in one way only, so that no text makes it slow."""


class Delivery(Enum):
    """What a tool gets in place of a handle."""

    PATH = "path"
    FILE_URI = "file_uri"
    BASE64 = "base64"
    DATA_URI = "data_uri"
    URL = "url"


class LocatorMode(Enum):
    NONE = "none"
    REGEX = "regex"
    STRUCTURED = "structured"
    EMBEDDED = "embedded"


@dataclass(frozen=True, slots=True)
class Consumer:
    """The tool takes files at these arguments."""

    arguments: tuple[ArgumentPath, ...]
    delivery: Delivery
    accept_other_values: bool = False


@dataclass(frozen=True, slots=True)
class Locator:
    """Where a result names what was made."""

    mode: LocatorMode = LocatorMode.NONE
    key: ArgumentPath | None = None
    regexes: tuple[re.Pattern[str], ...] = DEFAULT_REGEXES


@dataclass(frozen=True, slots=True)
class Producer:
    """The tool makes files."""

    output_argument: ArgumentPath | None = None
    locator: Locator = field(default_factory=Locator)
    persist: bool = True
    expose: bool = True
    raw_output: bool = False


@dataclass(frozen=True, slots=True)
class ToolFiles:
    """Everything about the files of one tool."""

    consumers: tuple[Consumer, ...] = ()
    producers: tuple[Producer, ...] = ()


@dataclass(frozen=True, slots=True)
class Adapter:
    """One entry of the configuration."""

    tools: tuple[str, ...]
    what: Consumer | Producer


def by_tool(adapters: Iterable[Adapter]) -> dict[str, ToolFiles]:
    """A tool may stand in several entries: it may take several files, and both take and make them."""
    found: dict[str, ToolFiles] = {}
    for adapter in adapters:
        for tool in adapter.tools:
            known = found.get(tool, ToolFiles())
            if isinstance(adapter.what, Consumer):
                known = ToolFiles((*known.consumers, adapter.what), known.producers)
            else:
                known = ToolFiles(known.consumers, (*known.producers, adapter.what))
            found[tool] = known
    return found
