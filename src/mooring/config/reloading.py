"""What a new configuration changes, and which of it a running gateway can follow."""

from __future__ import annotations

from typing import Final

import msgspec

from mooring.config.schema import Config, Server

HOT: Final = frozenset(
    {
        "servers", "cors", "trust_proxy_headers", "auth", "authorization", "audit", "webhooks", "plugins",
        "telemetry",
    }
)  # fmt: skip
"""Sections that can be changed while the gateway runs."""
PARTLY_HOT: Final = {
    "limits": frozenset({"max_body_bytes", "rate", "rate_store", "concurrency"}),
    "core": frozenset({"sanitize", "tool_definition_pinning", "tool_definition_lock"}),
}
GUARD: Final = ("authorization", "audit", "webhooks", "plugins", "telemetry", "limits", "core", "servers")
"""Sections that the guard is made from."""
RULES_OF_ENTRIES: Final = ("tools", "approvals", "savings")
"""What an entry says about its chain only: its sessions need not end for it."""


def changed_keys(old: Config, new: Config) -> list[str]:
    return [name for name in Config.__struct_fields__ if getattr(old, name) != getattr(new, name)]


def cold_keys(old: Config, new: Config) -> list[str]:
    """The changes that need a restart, as one would write them: `listen`, `limits.max_connections`."""
    found: list[str] = []
    for name in changed_keys(old, new):
        if name in PARTLY_HOT:
            before, after = getattr(old, name), getattr(new, name)
            fields = [field for field in before.__struct_fields__ if field not in PARTLY_HOT[name]]
            found += [
                f"{name}.{field}" for field in fields if getattr(before, field) != getattr(after, field)
            ]
        elif name not in HOT:
            found.append(name)
    return found


def guard_changed(old: Config, new: Config) -> bool:
    return any(getattr(old, name) != getattr(new, name) for name in GUARD)


def only_rules_differ(old: Server, new: Server) -> bool:
    """Whether what runs for this entry stays the same."""
    rules = {name: getattr(new, name) for name in RULES_OF_ENTRIES}
    return msgspec.structs.replace(old, **rules) == new
