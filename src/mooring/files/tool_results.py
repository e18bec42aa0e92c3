"""The result of a tool that makes files: what we change in it is decoded, everything else stays as it was."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Any, Final, cast

import msgspec
from msgspec import Raw

from mooring.files.argument_paths import ArgumentPath
from mooring.files.locating import plain_path, replaced
from mooring.files.views import file_uri
from mooring.protocol import jsonrpc, meta, surrogates

Json = dict[str, Any]
COMPLETE: Final = (None, b'"complete"')
_encode = msgspec.json.Encoder().encode
_decode_block = msgspec.json.Decoder(dict[str, Any]).decode


class ToolResult:
    """A result on its way to the client."""

    def __init__(self, raw: Raw | bytes) -> None:
        self._raw = raw
        self._members = jsonrpc.members(raw)
        self._content: list[Raw] | None = None

    @property
    def is_complete(self) -> bool:
        """Whether the tool did what it was asked for."""
        members = self._members
        is_error = members.get("isError")
        if is_error is not None and bytes(is_error) == b"true":
            return False
        kind = members.get("resultType")
        return kind is None or bytes(kind) in COMPLETE

    @cached_property
    def decoded(self) -> Json:
        """All of it, to look at; half a character in it is another one there."""
        try:
            return msgspec.json.decode(self._raw)
        except msgspec.DecodeError:
            return msgspec.json.decode(surrogates.readable(self._raw) or self._raw)

    def replace_paths(self, uris: Mapping[str, str], common: str) -> None:
        """Put URIs in place of paths in text blocks; `common` stands in each path, and is never escaped."""
        hint = common.encode()
        blocks = self._blocks()
        for index, raw in enumerate(blocks):
            if hint in bytes(raw) and (changed := _with_uris(raw, uris)) is not None:
                blocks[index] = Raw(changed)

    def replace_structured(self, uris: Mapping[str, str], key: ArgumentPath) -> None:
        """The same at one key of the structured content."""
        raw = self._members.get("structuredContent")
        try:
            structured: Any = None if raw is None else msgspec.json.decode(raw)
        except msgspec.DecodeError:  # half a character, which we could not give back
            return
        if not isinstance(structured, dict):
            return
        is_changed = False
        for place in key.places(cast("Json", structured)):
            value = place.value
            if isinstance(value, str) and (uri := uris.get(plain_path(value))) is not None:
                place.put(uri)
                is_changed = True
        if is_changed:
            self._members["structuredContent"] = Raw(_encode(structured))

    def append(self, block: Json) -> None:
        self._blocks().append(Raw(_encode(block)))

    def add_meta(self, **values: Any) -> None:
        members = meta.entries(self._members)
        for name, value in values.items():
            members[name] = Raw(_encode(value))
        self._members["_meta"] = Raw(_encode(members))

    def encoded(self) -> bytes:
        if self._content is not None:
            self._members["content"] = Raw(_encode(self._content))
        return _encode(self._members)

    def _blocks(self) -> list[Raw]:
        if self._content is None:
            try:
                self._content = jsonrpc.items(self._members.get("content", b"[]"))
            except msgspec.DecodeError:  # not a list: the server's mistake, and no place for what we add
                self._content = []
        return self._content


def _with_uris(raw: Raw, uris: Mapping[str, str]) -> bytes | None:
    """A block with every path replaced; None if there is nothing to replace."""
    try:
        block = _decode_block(raw)
    except msgspec.DecodeError:  # lone surrogates, which we cannot read
        return None
    text = block.get("text")
    if block.get("type") != "text" or not isinstance(text, str):
        return None
    for shown, uri in uris.items():
        if "file://" in text:
            text = replaced(replaced(text, f"file://{shown}", uri), file_uri(shown), uri)
        text = replaced(text, shown, uri)
    block["text"] = text
    return _encode(block)
