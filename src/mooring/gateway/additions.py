"""What the gateway itself adds to what a server offers: files as resources, tools of our own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import msgspec
from msgspec import Raw

from mooring.gateway.exchange import Client
from mooring.protocol import jsonrpc
from mooring.protocol.subscriptions import Filter

Capabilities = Mapping[str, Mapping[str, bool]]
NOTHING: Capabilities = {}


class Additions(Protocol):
    """Somebody who adds something to a server, and wants to know what happens to it."""

    @property
    def capabilities(self) -> Capabilities:
        """Flags beside those of the server, such as `{"resources": {"listChanged": True}}`."""
        ...

    def server_changed(self, method: str) -> None:
        """The server says that one of its lists is another now."""
        ...

    def reasons(self) -> list[str]:
        """What is wrong, for the health report."""
        ...

    async def client_gone(self, client: Client) -> None:
        """A legacy session has ended."""
        ...


def merged(capabilities: bytes | Raw, added: Capabilities) -> bytes:
    """A server's capabilities with ours; everything that it said stays."""
    if not added:
        return bytes(capabilities)
    known = jsonrpc.members(capabilities)
    for name, flags in added.items():
        inner = jsonrpc.members(known.get(name, b""))
        for flag, value in flags.items():
            inner[flag] = Raw(msgspec.json.encode(value))
        known[name] = Raw(jsonrpc.assemble(inner))
    return jsonrpc.assemble(known)


def granted(by_server: Filter, wish: Filter, added: Capabilities) -> Filter:
    """What a listening client will hear of: what the server grants, and what we tell it ourselves."""
    ours = added.get("resources", {}).get("listChanged", False)
    if not ours or not wish.resources_list_changed:
        return by_server
    return msgspec.structs.replace(by_server, resources_list_changed=True)
