"""What a server said about itself, and how we present it to a client of either era."""

from __future__ import annotations

from typing import Final

import msgspec
from msgspec import Raw, Struct

from mooring.gateway.additions import NOTHING, Capabilities, merged
from mooring.protocol import jsonrpc, meta
from mooring.protocol.versions import MODERN_VERSIONS, V2025_11_25, Era

TASKS_EXTENSION: Final = "io.modelcontextprotocol/tasks"


class Profile(Struct, frozen=True):
    """The outcome of `initialize` or `server/discover`, kept raw so that unknown members pass through."""

    era: Era
    version: str
    capabilities: bytes
    server_info: bytes
    instructions: bytes

    def capability(self, name: str) -> dict[str, Raw] | None:
        """The flags of one capability, or nothing if the server lacks it."""
        raw = jsonrpc.members(self.capabilities).get(name)
        return None if raw is None or bytes(raw) == b"null" else jsonrpc.members(raw)

    def flag(self, capability: str, name: str) -> bool:
        flags = self.capability(capability)
        return flags is not None and bytes(flags.get(name, b"")) == b"true"


UNKNOWN: Final = Profile(
    Era.LEGACY,
    "",
    b'{"tools":{"listChanged":true},"prompts":{"listChanged":true},"resources":{"listChanged":true}}',
    b"",
    b"",
)
"""A server that says nothing before its user has agreed: it may have anything."""


def from_initialize(result: bytes | Raw) -> Profile:
    members = jsonrpc.members(result)
    version = meta.text(members.get("protocolVersion", b"")) or ""
    return Profile(
        Era.LEGACY,
        version,
        bytes(members.get("capabilities", b"{}")),
        bytes(members.get("serverInfo", b"")),
        bytes(members.get("instructions", b"")),
    )


def from_discover(result: bytes | Raw, version: str) -> Profile:
    members = jsonrpc.members(result)
    stamp = meta.entries(members).get(meta.SERVER_INFO, b"")
    return Profile(
        Era.MODERN,
        version,
        bytes(members.get("capabilities", b"{}")),
        bytes(stamp),
        bytes(members.get("instructions", b"")),
    )


def initialize_result(profile: Profile, version: str, server_id: str, added: Capabilities = NOTHING) -> bytes:
    """Our answer to a legacy client: what the server can do, in the revision that we agreed on with the
    client."""
    capabilities = jsonrpc.members(profile.capabilities)
    if profile.era is Era.MODERN and version >= V2025_11_25:
        capabilities["tasks"] = Raw(b'{"list":{},"cancel":{},"requests":{"tools":{"call":{}}}}')
    parts: dict[str, bytes | Raw] = {
        "protocolVersion": msgspec.json.encode(version),
        "capabilities": merged(jsonrpc.assemble(capabilities), added),
        "serverInfo": profile.server_info or _own_info(server_id),
    }
    if profile.instructions:
        parts["instructions"] = profile.instructions
    return jsonrpc.assemble(parts)


def discover_result(profile: Profile, server_id: str, added: Capabilities = NOTHING) -> bytes:
    """Our answer to a modern client."""
    capabilities = jsonrpc.members(profile.capabilities)
    if profile.era is Era.LEGACY:
        # Long calls of clients that know the extension become tasks, whatever the server itself has.
        capabilities.pop("tasks", None)
        extensions = jsonrpc.members(capabilities.get("extensions", b""))
        extensions.setdefault(TASKS_EXTENSION, Raw(b"{}"))
        capabilities["extensions"] = Raw(jsonrpc.assemble(extensions))
    info = profile.server_info or _own_info(server_id)
    parts: dict[str, bytes | Raw] = {
        "resultType": b'"complete"',
        "supportedVersions": msgspec.json.encode(MODERN_VERSIONS),
        "capabilities": merged(jsonrpc.assemble(capabilities), added),
        "ttlMs": b"0",
        "cacheScope": b'"private"',
        "_meta": jsonrpc.assemble({meta.SERVER_INFO: info}),
    }
    if profile.instructions:
        parts["instructions"] = profile.instructions
    return jsonrpc.assemble(parts)


def _own_info(server_id: str) -> bytes:
    return msgspec.json.encode({"name": server_id, "version": "unknown"})
