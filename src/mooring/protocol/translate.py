"""Results and errors carried from one revision to another: the smallest change that makes them legal there.

Nothing here runs when both legs speak the same revision. Where it runs, unknown members stay as they are.
"""

from __future__ import annotations

import base64
from itertools import pairwise
from operator import itemgetter
from typing import Any, Final, cast

import msgspec
from msgspec import Raw

from mooring.errors import (
    HEADER_MISMATCH,
    INTERNAL_ERROR,
    INVALID_PARAMS,
    MISSING_CAPABILITY,
    RESOURCE_NOT_FOUND,
    UNSUPPORTED_VERSION,
)
from mooring.protocol import jsonrpc
from mooring.protocol.versions import V2025_03_26, V2025_06_18, V2025_11_25, V2026_07_28

CACHEABLE: Final = frozenset(
    {
        "server/discover",
        "tools/list",
        "prompts/list",
        "resources/list",
        "resources/templates/list",
        "resources/read",
    }
)
"""Methods whose complete results must carry `ttlMs` and `cacheScope` since 2026-07-28."""

_LISTED: Final = {
    "tools/list": ("tools", "name"),
    "prompts/list": ("prompts", "name"),
    "resources/list": ("resources", "uri"),
    "resources/templates/list": ("resourceTemplates", "uriTemplate"),
}
MODERN_ONLY: Final = ("resultType", "ttlMs", "cacheScope")
_COMPLETE: Final = Raw(b'"complete"')
_MODERN_ONLY_ERRORS: Final = {
    HEADER_MISMATCH: INTERNAL_ERROR,
    MISSING_CAPABILITY: INVALID_PARAMS,
    UNSUPPORTED_VERSION: INTERNAL_ERROR,
}

Json = dict[str, Any]


def needed(source: str, target: str) -> bool:
    """Whether a result of one revision may have to change for a client of another."""
    if source == target:
        return False
    return target >= V2026_07_28 or source >= V2026_07_28 or target < source


def result(method: str, raw: bytes | Raw, target: str) -> bytes:
    """A server's result, for a client of revision `target`."""
    if target >= V2026_07_28:
        return _to_modern(method, raw)
    return _to_legacy(method, raw, target)


def error(method: str, raw: bytes | Raw, source: str, target: str) -> bytes:
    """A server's error object of revision `source`, for a client of revision `target`."""
    members = jsonrpc.members(raw)
    code = _code(members)
    if target >= V2026_07_28:
        replacement = INVALID_PARAMS if code == RESOURCE_NOT_FOUND else None
    elif method == "resources/read" and code == INVALID_PARAMS and source >= V2026_07_28:
        replacement = RESOURCE_NOT_FOUND
    else:
        replacement = _MODERN_ONLY_ERRORS.get(code)
    if replacement is None:
        return bytes(raw)
    members["code"] = Raw(str(replacement).encode())
    return jsonrpc.assemble(members)


def _code(members: dict[str, Raw]) -> int:
    try:
        return msgspec.json.decode(members["code"], type=int)
    except (KeyError, msgspec.DecodeError):
        return INTERNAL_ERROR


def modern_members(method: str) -> dict[str, bytes]:
    """What every complete result has since 2026-07-28, and an older server did not say."""
    if method not in CACHEABLE:
        return {"resultType": b'"complete"'}
    return {"resultType": b'"complete"', "ttlMs": b"0", "cacheScope": b'"private"'}


def _to_modern(method: str, raw: bytes | Raw) -> bytes:
    members = jsonrpc.members(raw)
    if members.setdefault("resultType", _COMPLETE) == _COMPLETE:
        for name, value in modern_members(method).items():
            members.setdefault(name, Raw(value))
    if method == "tools/list" and jsonrpc.may_contain(members.get("tools", b""), b'"execution"'):
        members["tools"] = _without_execution(members["tools"])
    if method in _LISTED:
        member, key = _LISTED[method]
        if member in members:
            members[member] = _in_order(members[member], key)
    return jsonrpc.assemble(members)


def _in_order(items: Raw, key: str) -> Raw:
    """2026-07-28 wants the same list in the same order every time; an older server may shuffle it."""
    entries = _blocks(items)
    if entries is None:
        return items
    named = [(_member(entry, key), entry) for entry in entries]
    if all(before[0] <= after[0] for before, after in pairwise(named)):
        return items
    return Raw(msgspec.json.encode([entry for _, entry in sorted(named, key=itemgetter(0))]))


def _member(entry: Raw, key: str) -> bytes:
    return bytes(jsonrpc.members(entry).get(key, b"")) if bytes(entry).startswith(b"{") else b""


def _without_execution(tools: Raw) -> Raw:
    """`execution` told 2025-11-25 clients how a tool may run as a task; the extension tells it otherwise."""
    kept: list[Raw] = []
    for tool in _blocks(tools) or ():
        members = jsonrpc.members(tool) if bytes(tool).startswith(b"{") else {}
        kept.append(tool if members.pop("execution", None) is None else Raw(jsonrpc.assemble(members)))
    return Raw(msgspec.json.encode(kept)) if kept else tools


def _to_legacy(method: str, raw: bytes | Raw, target: str) -> bytes:
    members = jsonrpc.members(raw)
    for name in MODERN_ONLY:
        members.pop(name, None)
    if method == "tools/list" and "tools" in members:
        members["tools"] = Raw(_legacy_tools(members["tools"], target))
    if "content" in members:
        _older_content(members, target)
    elif "messages" in members:
        members["messages"] = Raw(_older_messages(members["messages"], target))
    return jsonrpc.assemble(members)


def _legacy_tools(tools: Raw, target: str) -> bytes:
    """Before 2026-07-28 an output schema describes an object; any other one would be refused with its tool.

    2025-11-25 clients may run a tool as a task only if its definition says so; towards servers of another
    era the gateway keeps those tasks.
    """
    if not bytes(tools).startswith(b"["):
        return bytes(tools)
    kept = [jsonrpc.members(tool) for tool in jsonrpc.items(tools)]
    for tool in kept:
        if "outputSchema" in tool:
            schema = msgspec.json.decode(tool["outputSchema"])
            if not isinstance(schema, dict) or cast("Json", schema).get("type") != "object":
                del tool["outputSchema"]
        if target >= V2025_11_25:
            tool.setdefault("execution", Raw(b'{"taskSupport":"optional"}'))
    return msgspec.json.encode(kept)


def _older_content(members: dict[str, Raw], target: str) -> None:
    structured = members.get("structuredContent")
    if structured is not None and not bytes(structured).startswith(b"{"):
        del members["structuredContent"]
        blocks = _blocks(members["content"]) or []
        if all(_kind(block) != "text" for block in blocks):
            text = {"type": "text", "text": bytes(structured).decode()}
            members["content"] = Raw(msgspec.json.encode([*blocks, text]))
    blocks = _blocks(members["content"]) if target < V2025_06_18 else None
    if blocks is not None:
        members["content"] = Raw(msgspec.json.encode([_older_block(block, target) for block in blocks]))


def _older_messages(messages: Raw, target: str) -> bytes:
    """The messages of a prompt hold one block each."""
    blocks = _blocks(messages)
    if target >= V2025_06_18 or blocks is None:
        return bytes(messages)
    kept = [jsonrpc.members(message) for message in blocks]
    for message in kept:
        if "content" in message:
            message["content"] = _older_block(message["content"], target)
    return msgspec.json.encode(kept)


def _blocks(content: Raw) -> list[Raw] | None:
    """None: this is something of a server's own that only shares the name."""
    try:
        return jsonrpc.items(content)
    except msgspec.DecodeError:
        return None


def _kind(block: Raw) -> str:
    try:
        return msgspec.json.decode(block, type=_Typed).type
    except msgspec.DecodeError:
        return ""


def _older_block(block: Raw, target: str) -> Raw:
    kind = _kind(block)
    if kind == "resource_link":
        return Raw(msgspec.json.encode(_link_as_text(msgspec.json.decode(block))))
    if kind == "audio" and target < V2025_03_26:
        return Raw(msgspec.json.encode(_audio_as_resource(msgspec.json.decode(block))))
    return block


class _Typed(msgspec.Struct):
    type: str = ""


def _link_as_text(link: Json) -> Json:
    """A link that an older client can at least show, with what the link said about its target."""
    label = link.get("title") or link.get("name") or link.get("uri", "")
    lines = [f"[{label}]({link.get('uri', '')})"]
    if link.get("description"):
        lines.append(str(link["description"]))
    block: Json = {"type": "text", "text": "\n".join(lines)}
    if "annotations" in link:
        block["annotations"] = link["annotations"]
    return block


def _audio_as_resource(audio: Json) -> Json:
    """2024-11-05 has no audio blocks, but it has embedded resources with any MIME type."""
    mime = str(audio.get("mimeType", "application/octet-stream"))
    data = str(audio.get("data", ""))
    label = base64.urlsafe_b64encode(data[:12].encode()).decode().rstrip("=")
    return {"type": "resource", "resource": {"uri": f"audio:{label}", "mimeType": mime, "blob": data}}
