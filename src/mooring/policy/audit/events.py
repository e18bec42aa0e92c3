"""The shape of an audit event: one JSON line, with the fields and types that ToolHive's tools know."""

from __future__ import annotations

from typing import Any, Final

from msgspec import Raw, Struct

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


class Event(Struct, frozen=True, omit_defaults=True):
    """One thing that happened. `seq` and `prev` tie it to the line before."""

    seq: int
    prev: str
    audit_id: str
    type: str
    logged_at: str
    outcome: str
    component: str
    source: Source
    subjects: Subjects
    target: Target
    metadata: dict[str, dict[str, Any]]
    policy_version: str = ""
    definition_hash: str = ""
    lock_hash: str = ""
    data: dict[str, Raw] | None = None
