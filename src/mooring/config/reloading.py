"""What a new configuration changes, and which of it a running gateway can follow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import msgspec
from msgspec import Struct

from mooring.config.schema import Config, Server

HOT: Final = frozenset(
    {
        "servers", "cors", "trust_proxy_headers", "auth", "authorization", "audit", "webhooks", "plugins",
        "telemetry", "providers",
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


def provider_changed(old: Config, new: Config, entry: Server) -> bool:
    """Whether somebody whose grants this server is shown is not the one they were."""
    if entry.upstream is None:
        return False
    names = {entry.upstream.auth.provider, entry.upstream.auth.identity_provider} - {None}
    return any(old.providers.get(name) != new.providers.get(name) for name in names if name)


def only_rules_differ(old: Server, new: Server) -> bool:
    """Whether what runs for this entry stays the same."""
    rules = {name: getattr(new, name) for name in RULES_OF_ENTRIES}
    return msgspec.structs.replace(old, **rules) == new


class Change(Struct, frozen=True):
    """What becomes of the servers; each is named once, at most."""

    added: list[str]
    gone: list[str]
    remade: list[str]
    """Taken out and put in anew."""
    judged: list[str]
    """Only their rules are others."""

    def in_words(self) -> list[str]:
        words = (("added", self.added), ("changed", self.remade + self.judged), ("removed", self.gone))
        return [f"{word} {', '.join(names)}" for word, names in words if names]


def change_of(entries: Mapping[str, Server], old: Config, new: Config) -> Change:
    """From the servers that are there to those of the new configuration."""
    wanted = {entry.id for entry in new.servers}
    change = Change([], [name for name in entries if name not in wanted], [], [])
    for entry in new.servers:
        before = entries.get(entry.id)
        if before is None:
            change.added.append(entry.id)
        elif provider_changed(old, new, entry):
            change.remade.append(entry.id)
        elif before != entry:
            (change.judged if only_rules_differ(before, entry) else change.remade).append(entry.id)
    return change
