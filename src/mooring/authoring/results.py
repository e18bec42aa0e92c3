"""What a handler returned, as the result that its client's revision knows."""

from __future__ import annotations

import inspect
import types
import typing
from collections.abc import Sequence
from typing import Any, Final, cast

import msgspec

from mooring.authoring.content import BLOCKS, Block, Contents, Json, Message, Result, Text, encode_block
from mooring.authoring.records import plain
from mooring.protocol.versions import V2025_06_18, V2026_07_28

WRAPPED: Final = "result"
"""Before 2026-07-28 structured content is an object: anything else is put into one, under this name."""
JSON_TYPE: Final = "application/json"


def says_nothing_structured(returns: Any) -> bool:
    """Return annotations that promise content, or nothing at all, rather than data."""
    if returns in (inspect.Parameter.empty, None, types.NoneType, str, Any, object, Result, list, tuple):
        return True
    origin, parts = typing.get_origin(returns), typing.get_args(returns)
    if origin is typing.Annotated:
        return says_nothing_structured(parts[0])
    if origin in (typing.Union, types.UnionType):
        return all(says_nothing_structured(part) for part in parts)
    if origin in (list, tuple, Sequence):
        # A list of nothing but strings is data; one with blocks in it, or with anything at all, is not.
        kinds = [part for part in parts if part not in (Ellipsis, str)]
        return bool(kinds) and all(says_nothing_structured(kind) for kind in kinds)
    return inspect.isclass(returns) and issubclass(returns, (*BLOCKS, Result))


class Produced(msgspec.Struct, frozen=True):
    """A tool's answer, not yet in the terms of a revision."""

    content: list[Json]
    structured: Any = msgspec.UNSET
    is_error: bool = False
    meta: Json = msgspec.field(default_factory=dict[str, Any])


def produced(value: Any, *, structured: bool) -> Produced:
    """What a tool returned. `structured`: it has an output schema, so its value is data whatever it is."""
    if isinstance(value, Result):
        data = msgspec.UNSET if value.structured is None else plain(value.structured)
        content = [encode_block(block) for block in value.content]
        if data is not msgspec.UNSET and not content:
            content = [_as_text(data)]
        return Produced(content, data, value.is_error, value.meta)
    blocks = None if structured else _blocks(value)
    if blocks is not None:
        return Produced([encode_block(block) for block in blocks])
    data = plain(value)
    keeps_data = structured or isinstance(data, dict)
    return Produced([_as_text(data)], data if keeps_data else msgspec.UNSET)


def failure(message: str, meta: Json | None = None) -> Produced:
    return Produced([Text(message).encode()], is_error=True, meta=meta or {})


def _blocks(value: Any) -> list[Block | str] | None:
    """The value as content, if that is what it is."""
    if value is None:
        return []
    if isinstance(value, (str, *BLOCKS)):
        return [value]
    if isinstance(value, list | tuple):
        items = cast("Sequence[Any]", value)
        if any(isinstance(item, BLOCKS) for item in items):
            return [item if isinstance(item, (str, *BLOCKS)) else _json_block(item) for item in items]
    return None


def _json_block(value: Any) -> Text:
    return Text(_spelled(plain(value)))


def _as_text(data: Any) -> Json:
    return {"type": "text", "text": data if isinstance(data, str) else _spelled(data)}


def _spelled(data: Any) -> str:
    return msgspec.json.encode(data).decode()


def call_result(answer: Produced, version: str, *, wraps: bool) -> Json:
    """A `CallToolResult` for a client of this revision."""
    members: Json = {"content": answer.content}
    if answer.structured is not msgspec.UNSET and version >= V2025_06_18:
        data: Any = answer.structured
        wrap = wraps and version < V2026_07_28
        members["structuredContent"] = {WRAPPED: data} if wrap else data
    if answer.is_error:
        members["isError"] = True
    if answer.meta:
        members["_meta"] = answer.meta
    return members


def contents_of(value: Any, uri: str, mime_type: str | None) -> list[Json]:
    """What a resource's handler returned, as the contents of the resource."""
    if isinstance(value, Contents):
        return [value.encode()]
    if isinstance(value, list | tuple) and any(
        isinstance(item, Contents) for item in cast("list[Any]", value)
    ):
        return [part for item in cast("list[Any]", value) for part in contents_of(item, uri, mime_type)]
    if isinstance(value, str):
        return [Contents(uri, value, mime_type or "text/plain").encode()]
    if isinstance(value, bytes | bytearray):
        return [Contents(uri, bytes(value), mime_type or "application/octet-stream").encode()]
    return [Contents(uri, _spelled(plain(value)), mime_type or JSON_TYPE).encode()]


def prompt_result(value: Any, description: str) -> Json:
    """A `GetPromptResult`."""
    items: list[Any] = list(cast("Sequence[Any]", value)) if isinstance(value, list | tuple) else [value]
    messages = [item if isinstance(item, Message) else Message(_spoken(item)) for item in items]
    members: Json = {"description": description} if description else {}
    members["messages"] = [message.encode() for message in messages]
    return members


def _spoken(item: Any) -> Block | str:
    return item if isinstance(item, (str, *BLOCKS)) else _json_block(item)
