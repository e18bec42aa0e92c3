"""Rich text between ADF, Confluence storage format, wiki markup and Markdown, without silent loss.

from mooring.text import convert

done = convert(adf, "adf", "markdown")
done.result   # compact Markdown, every ADF feature in a readable syntax
done.report   # what was kept, escaped, changed or lost, with paths
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mooring.text import adf, formats
from mooring.text.errors import (
    ConversionLost,
    InvalidDocument,
    PatchRefused,
    TextError,
    UnknownFormat,
    UnreadableSource,
)
from mooring.text.formats import Dialect, Format
from mooring.text.report import Entry, Report
from mooring.text.tree import Node, without_nulls

__all__ = [
    "Conversion", "ConversionLost", "Dialect", "Entry", "Format", "InvalidDocument", "PatchRefused", "Report",
    "TextError", "UnknownFormat", "UnreadableSource", "convert", "read", "write",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Conversion:
    """The converted value (a dictionary for `adf`, text otherwise) and what happened on the way."""

    result: Any
    report: Report


def convert(
    value: Any,
    source: str,
    target: str,
    *,
    dialect: str = "extended",
    strict: bool = False,
    lenient: bool = False,
    users: Mapping[str, str] | None = None,
    resolve_media: Callable[[Node], str | None] | None = None,
    base_url: str = "",
) -> Conversion:
    """Convert `value` from one format to another.

    `value` is text, bytes, or for ADF also the parsed document. `users` maps account ids to display names;
    `resolve_media` gives the URI a media node is shown with in the plain dialect, and `base_url` makes
    relative addresses absolute there. `strict` turns loss into `ConversionLost`; `lenient` turns unreadable
    input into a visible placeholder.
    """
    report = Report(strict=strict)
    document = read(value, source, report, lenient=lenient)
    if target == "adf":
        return Conversion(document, report)
    result = write(
        document,
        target,
        report,
        dialect=dialect,
        users=users,
        resolve_media=resolve_media,
        base_url=base_url,
    )
    return Conversion(result, report)


def read(value: Any, source: str, report: Report | None = None, *, lenient: bool = False) -> Node:
    """The document tree of a value in the format called `source`."""
    if source == "adf" and not isinstance(value, str | bytes):
        return adf.from_value(value)
    return formats.reader(source)(value, report or Report(), lenient=lenient)


def write(
    document: Node,
    target: str,
    report: Report | None = None,
    *,
    dialect: str = "extended",
    users: Mapping[str, str] | None = None,
    resolve_media: Callable[[Node], str | None] | None = None,
    base_url: str = "",
) -> str:
    """The text of a document tree in the format called `target`."""
    if target == "markdown":
        from mooring.text import markdown  # noqa: PLC0415  (only now is the parser worth its import time)

        return markdown.write(
            document,
            report or Report(),
            dialect=dialect,
            users=users,
            resolve_media=resolve_media,
            base_url=base_url,
        )
    return formats.writer(target)(without_nulls(document), report or Report(), dialect=dialect)
