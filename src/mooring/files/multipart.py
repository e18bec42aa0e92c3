"""A multipart body, part by part as it arrives; nothing of it is kept here."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import unquote_to_bytes

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from mooring.files.faults import BadUpload

MAX_HEADER_BYTES: Final = 8192
_QUOTED: Final = re.compile(r'"(?:\\.|[^"\\])*"')
_EXTENDED: Final = re.compile(r";\s*filename\*\s*=\s*(utf-8|iso-8859-1)'[^']*'([^\s;]+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class PartBegun:
    """A new part: the field it belongs to, and the name of its file if it has one."""

    field: str
    filename: str | None


@dataclass(frozen=True, slots=True)
class PartData:
    data: bytes


@dataclass(frozen=True, slots=True)
class PartEnded:
    pass


Event = PartBegun | PartData | PartEnded


class MultipartReader:
    """Bytes in, events out."""

    def __init__(self, content_type: bytes) -> None:
        kind, options = parse_options_header(content_type)
        boundary = options.get(b"boundary")
        if kind != b"multipart/form-data" or not boundary:
            raise BadUpload("the body must be `multipart/form-data` with a boundary: `curl -F file=@NAME`")
        self._events: list[Event] = []
        self._headers: dict[str, str] = {}
        self._name = b""
        self._value = b""
        self._ended = False
        callbacks: Any = {
            "on_part_begin": self._headers.clear,
            "on_header_field": self._on_header_field,
            "on_header_value": self._on_header_value,
            "on_header_end": self._on_header_end,
            "on_headers_finished": self._on_headers_finished,
            "on_part_data": self._on_part_data,
            "on_part_end": lambda: self._events.append(PartEnded()),
            "on_end": self._on_end,
        }
        try:
            self._parser = MultipartParser(boundary, callbacks, max_header_size=MAX_HEADER_BYTES)
        except FormParserError as error:
            raise BadUpload(f"the body cannot be read: {error}") from error

    def feed(self, data: bytes) -> Iterator[Event]:
        try:
            self._parser.write(data)
        except FormParserError as error:
            raise BadUpload(f"the body is not multipart as announced: {error}") from error
        events, self._events = self._events, []
        yield from events

    def finish(self) -> None:
        """The body has ended; its last part must have, too."""
        if not self._ended:
            raise BadUpload("the body ended in the middle of a part: send it again")

    def _on_header_field(self, data: bytes, start: int, end: int) -> None:
        self._name += data[start:end]

    def _on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._value += data[start:end]

    def _on_header_end(self) -> None:
        self._headers[self._name.decode("latin-1").lower()] = self._value.decode("utf-8", "replace")
        self._name = self._value = b""

    def _on_headers_finished(self) -> None:
        disposition = self._headers.get("content-disposition", "")
        # The library takes text for Latin-1, while browsers and curl send names in UTF-8.
        _, options = parse_options_header(disposition.encode().decode("latin-1"))
        filename = _extended_name(disposition)
        if filename is None and b"filename" in options:
            filename = options[b"filename"].decode("utf-8", "replace")
        self._events.append(PartBegun(options.get(b"name", b"").decode("utf-8", "replace"), filename))

    def _on_part_data(self, data: bytes, start: int, end: int) -> None:
        self._events.append(PartData(data[start:end]))

    def _on_end(self) -> None:
        self._ended = True


def _extended_name(disposition: str) -> str | None:
    """`filename*=utf-8''...`: not meant for forms, but what .NET sends names in that are not ASCII."""
    found = _EXTENDED.search(_QUOTED.sub('""', disposition))
    return None if found is None else unquote_to_bytes(found[2]).decode(found[1], "replace")
