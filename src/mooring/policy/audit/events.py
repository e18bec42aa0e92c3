"""The shape of an audit event: one JSON line, with the fields and types that ToolHive's tools know."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Raw, Struct
from msgspec.json import encode

from mooring.policy.audit.delegation import Delegation

TYPES: Final = {
    "initialize": "mcp_initialize",
    "server/discover": "mcp_initialize",
    "tools/call": "mcp_tool_call",
    "tools/list": "mcp_tools_list",
    "resources/read": "mcp_resource_read",
    "resources/list": "mcp_resources_list",
    "resources/templates/list": "mcp_resources_list",
    "prompts/get": "mcp_prompt_get",
    "prompts/list": "mcp_prompts_list",
    "ping": "mcp_ping",
    "logging/setLevel": "mcp_logging",
    "completion/complete": "mcp_completion",
    "notifications/roots/list_changed": "mcp_roots_list_changed",
}
"""Method -> type of event; further ones are `mcp_notification`, `mcp_request`, `http_request`."""
SSE_CONNECTION: Final = "sse_connection"
HTTP_REQUEST: Final = "http_request"
TOOL_DRIFT: Final = "tool_drift"
FILE_UPLOAD: Final = "file_upload"
FILE_DOWNLOAD: Final = "file_download"
CHECKPOINT: Final = "checkpoint"
RECOVERED: Final = "recovered"
KNOWN_TYPES: Final = frozenset(
    {*TYPES.values(), SSE_CONNECTION, HTTP_REQUEST, "mcp_notification", "mcp_request", TOOL_DRIFT}
    | {FILE_UPLOAD, FILE_DOWNLOAD}
)

_LINE_ENDS: Final = {ord(mark): f"\\u{ord(mark):04x}" for mark in "\u2028\u2029\u0085"}


def type_of(method: str) -> str:
    found = TYPES.get(method)
    if found is not None:
        return found
    return "mcp_notification" if method.startswith("notifications/") else "mcp_request"


class Source(Struct, frozen=True, omit_defaults=True):
    """Where it came from."""

    type: str
    value: str
    extra: dict[str, str] | None = None


class Subjects(Struct, frozen=True, omit_defaults=True):
    """Who did it."""

    user: str
    user_id: str
    client_name: str = ""
    client_version: str = ""
    claims: dict[str, Any] | None = None


class Target(Struct, frozen=True, omit_defaults=True):
    """What it was done to."""

    endpoint: str
    method: str
    type: str
    name: str = ""
    uri: str = ""
    own_name: str = ""
    """What the server itself calls the tool, where clients know it by another name."""
    group: str = ""
    """The group of the server, if it has one."""
    hints: dict[str, Any] | None = None
    """What the server said of the nature of the tool; policies may have looked at it."""


class Actor(Struct, frozen=True, omit_defaults=True):
    """Who did it and where from: the same in all events of one caller."""

    component: str
    source: Source
    subjects: Subjects
    delegation: Delegation | None = None


class Version(Struct, frozen=True, omit_defaults=True):
    """By which rules, and on which definition."""

    policy_version: str = ""
    definition_hash: str = ""
    lock_hash: str = ""


def text_of(part: object) -> str:
    return encode(part).decode()


def members_of(part: Struct) -> str:
    """The members of an object without its braces, each followed by a comma."""
    text = text_of(part)[1:-1]
    return f"{text}," if text else ""


def line(
    seq: int,
    prev: str,
    run: str,
    kind: str,
    logged_at: str,
    outcome: str,
    actor: str,
    target: str,
    version: str,
    extra: str,
    data: dict[str, Raw] | None,
) -> bytes:
    """One thing that happened. `seq` and `prev` tie it to the line before; `kind` and `outcome` are words of
    ours; `actor`, `target` and `version` are encoded, because they are the same again and again, and so is
    `extra`, because most of it are a few numbers."""
    kept = f',"data":{text_of(data)}' if data is not None else ""
    text = (
        f'{{"seq":{seq},"prev":"{prev}","audit_id":"{run}-{seq}","type":"{kind}","logged_at":"{logged_at}",'
        f'"outcome":"{outcome}",{actor}"target":{target},{version}"metadata":{{"extra":{extra}}}{kept}}}'
    )
    if not text.isascii():
        # Some readers end a line at more characters than JSON does; a name must not begin one for them.
        text = text.translate(_LINE_ENDS)
    return text.encode()
