"""The tool `<server>_get_upload_url`: what a client needs to send files, in one answer."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any, Final

from mooring.files.handles import Handle, new_id, parse
from mooring.files.links import Links, Ticket

FIELD: Final = "file"
HASH_FIELD: Final = "sha256"
SESSION_HEADER: Final = "Mcp-Session-Id"
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class UploadRules:
    """What holds for uploads to a server."""

    enabled: bool = True
    max_file_bytes: int = 50 * 1024**2
    max_files: int = 100
    link_ttl_seconds: float = 600.0
    require_sha256: bool = False
    import_hosts: tuple[str, ...] = ()


def tool_name(server_id: str) -> str:
    """Clients and models allow letters, digits, `_` and `-` in the names of tools."""
    return f"{server_id.replace('.', '_')}_get_upload_url"


def definition(server_id: str, tools: list[str]) -> Json:
    named = ", ".join(f"`{tool}`" for tool in tools)
    return {
        "name": tool_name(server_id),
        "title": "Get an upload URL",
        "description": (
            f"Get a URL to send files to, for {named}. POST each file as the answer says; you get an "
            "`upload://` handle for each, which those tools take in place of a path. A person can open the "
            "URL in a browser instead."
        ),
        "inputSchema": {
            "type": "object",
            "properties": {
                "beside": {
                    "type": "string",
                    "description": "Optional: a handle you already have; the new files are kept beside it.",
                }
            },
            "additionalProperties": False,
        },
        "annotations": {
            "readOnlyHint": False,
            "destructiveHint": False,
            "idempotentHint": False,
            "openWorldHint": False,
        },
    }


def beside(arguments: Json) -> Handle | None:
    value = arguments.get("beside")
    return parse(value) if isinstance(value, str) else None


def answer(links: Links, rules: UploadRules, server_id: str, scope: str | None, principal: str) -> Json:
    """Everything about the upload; a caller without a scope gets a fresh one."""
    scope = scope or new_id()
    url = links.upload_url(Ticket(server_id, scope, principal), rules.link_ttl_seconds)
    headers = {SESSION_HEADER: scope}
    quoted = shlex.quote(url)
    header = f"-H '{SESSION_HEADER}: {scope}'"
    one, two, only = (_hashing(name) if rules.require_sha256 else "" for name in ("ONE", "TWO", "FILE"))
    about: Json = {
        "server_id": server_id,
        "upload_url": url,
        "method": "POST",
        "headers": headers,
        "field_name": FIELD,
        "supports_multiple_files": True,
        "max_file_bytes": rules.max_file_bytes,
        "sha256_field_name": HASH_FIELD,
        "sha256_required": rules.require_sha256,
        "expires_in_seconds": int(rules.link_ttl_seconds),
        "resumable": "tus 1.0 at the same URL",
        "example_curl": f"curl {header} -F {FIELD}=@FILE{only} {quoted}",
        "example_curl_multiple": f"curl {header} -F {FIELD}=@ONE -F {FIELD}=@TWO{one}{two} {quoted}",
        "note": "Open upload_url in a browser to choose files by hand. Give the handles to the tool.",
    }
    if rules.import_hosts:
        about["import_field_name"] = "url"
        about["import_hosts"] = list(rules.import_hosts)
    return about


def _hashing(name: str) -> str:
    return f" -F {HASH_FIELD}=$(sha256sum {name} | cut -d' ' -f1)"
