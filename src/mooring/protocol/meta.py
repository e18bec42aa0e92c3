"""The `_meta` of a message: what 2026-07-28 puts there per request, and how it is read, set and taken
away."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Final

import msgspec
from msgspec import Raw

from mooring.errors import InvalidParams, ParseFailed, UnsupportedVersion
from mooring.protocol import jsonrpc, surrogates
from mooring.protocol.versions import MODERN_VERSIONS

PREFIX: Final = "io.modelcontextprotocol/"
PROTOCOL_VERSION: Final = PREFIX + "protocolVersion"
CLIENT_CAPABILITIES: Final = PREFIX + "clientCapabilities"
CLIENT_INFO: Final = PREFIX + "clientInfo"
LOG_LEVEL: Final = PREFIX + "logLevel"
SUBSCRIPTION_ID: Final = PREFIX + "subscriptionId"
SERVER_INFO: Final = PREFIX + "serverInfo"
RELATED_TASK: Final = PREFIX + "related-task"
PROGRESS_TOKEN: Final = "progressToken"  # noqa: S105 - a token of the protocol, not a secret

_PER_REQUEST: Final = (PROTOCOL_VERSION, CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL)
_REVISION: Final = PROTOCOL_VERSION.encode()
_EMPTY: Final = Raw()


class Meta(msgspec.Struct, gc=False, frozen=True):
    """What we read of a request's `_meta`; everything else stays in the raw params."""

    version: Raw = msgspec.field(default=_EMPTY, name=PROTOCOL_VERSION)
    capabilities: Raw = msgspec.field(default=_EMPTY, name=CLIENT_CAPABILITIES)
    client_info: Raw = msgspec.field(default=_EMPTY, name=CLIENT_INFO)
    log_level: Raw = msgspec.field(default=_EMPTY, name=LOG_LEVEL)
    progress_token: Raw = msgspec.field(default=_EMPTY, name="progressToken")
    subscription_id: Raw = msgspec.field(default=_EMPTY, name=SUBSCRIPTION_ID)


class Params(msgspec.Struct, gc=False, frozen=True):
    """The few members of params that routing looks at, whatever their type."""

    meta: Raw = msgspec.field(default=_EMPTY, name="_meta")
    name: Raw = _EMPTY
    uri: Raw = _EMPTY
    task_id: Raw = msgspec.field(default=_EMPTY, name="taskId")
    progress_token: Raw = msgspec.field(default=_EMPTY, name="progressToken")
    request_id: Raw = msgspec.field(default=_EMPTY, name="requestId")
    level: Raw = _EMPTY
    request_state: Raw = msgspec.field(default=_EMPTY, name="requestState")
    input_responses: Raw = msgspec.field(default=_EMPTY, name="inputResponses")


NO_META: Final = Meta()
NO_PARAMS: Final = Params()
_decode_params = msgspec.json.Decoder(Params).decode
_decode_meta = msgspec.json.Decoder(Meta).decode


def read_params(raw: bytes | Raw) -> Params:
    if not raw:
        return NO_PARAMS
    try:
        return _decode_params(raw)
    except (msgspec.DecodeError, RecursionError) as error:
        with suppress(msgspec.DecodeError, RecursionError, ParseFailed):
            found = surrogates.decoded(raw, _decode_params)
            if found is not None:
                return found
        raise InvalidParams(f"`params` cannot be read: {error}") from None


def read_meta(params: Params) -> Meta:
    """An absent `_meta` is an empty one; one that is no object at all is the sender's fault."""
    if not params.meta:
        return NO_META
    try:
        return _decode_meta(params.meta)
    except (msgspec.DecodeError, RecursionError):
        with suppress(msgspec.DecodeError, RecursionError, ParseFailed):
            found = surrogates.decoded(params.meta, _decode_meta)
            if found is not None:
                return found
        raise InvalidParams("`params._meta` must be an object") from None


def names_revision(raw: bytes | Raw) -> bool:
    """Whether a request says in its metadata which revision it is of, as only modern ones do."""
    if not raw or not jsonrpc.may_contain(raw, _REVISION):
        return False
    try:
        return bool(read_meta(read_params(raw)).version)
    except InvalidParams:
        return False


def text(raw: Raw | bytes) -> str | None:
    """A raw value as a string, if it is one."""
    if not raw:
        return None
    try:
        return msgspec.json.decode(raw, type=str)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def require_modern(meta: Meta) -> str:
    """The revision of a 2026-07-28 request whose required metadata is all there."""
    missing = [
        name
        for name, value in ((PROTOCOL_VERSION, meta.version), (CLIENT_CAPABILITIES, meta.capabilities))
        if not value
    ]
    if missing:
        raise InvalidParams(f"`params._meta` lacks {', '.join(missing)}")
    version = text(meta.version)
    if version is None:
        raise InvalidParams(f"`{PROTOCOL_VERSION}` must be a string")
    if bytes(meta.capabilities)[:1] != b"{":
        raise InvalidParams(f"`{CLIENT_CAPABILITIES}` must be an object")
    return version


def require_spoken(version: str) -> None:
    if version not in MODERN_VERSIONS:
        raise UnsupportedVersion(
            f"revision {version!r} is not supported here",
            data={"supported": list(MODERN_VERSIONS), "requested": version},
        )


def entries(members: Mapping[str, Raw]) -> dict[str, Raw]:
    """The `_meta` among the members of params or a result. Some encoders write one that is not there as
    null."""
    raw = members.get("_meta", _EMPTY)
    return {} if bytes(raw) == b"null" else jsonrpc.members(raw)


def without_request_metadata(raw: bytes | Raw) -> bytes:
    """Params for a legacy server: the same, less what only 2026-07-28 knows."""
    members = jsonrpc.members(raw)
    for name in ("inputResponses", "requestState"):
        members.pop(name, None)
    if "_meta" in members:
        kept = entries(members)
        for name in _PER_REQUEST:
            kept.pop(name, None)
        if kept:
            members["_meta"] = Raw(jsonrpc.assemble(kept))
        else:
            del members["_meta"]
    return jsonrpc.assemble(members) if members else b""


def with_request_metadata(
    raw: bytes | Raw, *, version: str, capabilities: bytes, client_info: bytes, log_level: bytes
) -> bytes:
    """Params for a modern server: the same, with who asks and what they can do."""
    members = jsonrpc.members(raw)
    meta = entries(members)
    meta[PROTOCOL_VERSION] = Raw(msgspec.json.encode(version))
    meta[CLIENT_CAPABILITIES] = Raw(capabilities or b"{}")
    if client_info:
        meta[CLIENT_INFO] = Raw(client_info)
    if log_level:
        meta[LOG_LEVEL] = Raw(log_level)
    members["_meta"] = Raw(jsonrpc.assemble(meta))
    return jsonrpc.assemble(members)


def with_meta(raw: bytes | Raw, name: str, value: bytes) -> bytes:
    """Params (or a result) with one entry of `_meta` set."""
    members = jsonrpc.members(raw)
    meta = entries(members)
    meta[name] = Raw(value)
    members["_meta"] = Raw(jsonrpc.assemble(meta))
    return jsonrpc.assemble(members)


def without_meta(raw: bytes | Raw, name: str) -> bytes:
    """Params with one entry of `_meta` gone, and `_meta` itself when nothing else is in it."""
    members = jsonrpc.members(raw)
    meta = entries(members)
    if meta.pop(name, None) is None:
        return bytes(raw)
    if meta:
        members["_meta"] = Raw(jsonrpc.assemble(meta))
    else:
        del members["_meta"]
    return jsonrpc.assemble(members) if members else b""


def with_member(raw: bytes | Raw, name: str, value: bytes) -> bytes:
    """A raw object with one member set (in place, if it was there)."""
    members = jsonrpc.members(raw)
    members[name] = Raw(value)
    return jsonrpc.assemble(members)
