"""What the gateway adds to a server, as its configuration says: for rules that must know whose a tool is."""

from __future__ import annotations

from mooring.config.schema import Config, Server
from mooring.policy.items import OwnItems


def own_items(config: Config, server: Server) -> OwnItems:
    """Our tools and resources on this server."""
    if not config.wants_files(server):
        return OwnItems()
    # Loaded only where files are carried: a gateway without them starts sooner.
    from mooring.files import handles, results, upload_tool  # noqa: PLC0415

    consumers = [entry for entry in server.adapters if entry.type == "upload_consumer"]
    tools: dict[str, tuple[str, ...]] = {}
    if consumers and config.uploads.enabled:
        tools[upload_tool.tool_name(server.id)] = tuple(name for entry in consumers for name in entry.tools)
    if (server.results or config.results).enabled:
        tools |= dict.fromkeys(results.tool_names(server.id), ())

    def is_resource(uri: str) -> bool:
        handle = handles.parse(uri.partition("?")[0])
        return handle is not None and handle.kind in ("artifact", "result")

    return OwnItems(tools, is_resource)
