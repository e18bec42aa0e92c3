"""The same three tools, made with `mooring.authoring` or with the official SDK; its URL is the first line."""

from __future__ import annotations

import asyncio
import socket
import sys
from typing import Any, Literal


async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def add_in_thread(a: int, b: int) -> int:
    """Add two numbers, in a function that is no coroutine."""
    return a + b


def search(query: str, state: Literal["open", "closed"] = "open", limit: int = 10) -> dict[str, Any]:
    """Pretend to search."""
    return {"query": query, "state": state, "hits": [{"id": number} for number in range(limit)]}


TOOLS = (add, add_in_thread, search)


def run_authored(transport: str) -> None:
    from mooring.authoring import HttpSettings, Server

    server = Server("bench")
    for tool in TOOLS:
        server.tool(tool)
    if transport == "stdio":
        server.run()
        return

    async def serve() -> None:
        async with server.serving_http(HttpSettings(port=0)) as url:
            print(url, flush=True)
            await asyncio.Event().wait()

    import uvloop

    uvloop.run(serve())


def run_official(transport: str) -> None:
    from mcp.server.mcpserver import MCPServer

    server = MCPServer("bench")
    for tool in TOOLS:
        server.add_tool(tool)
    if transport == "stdio":
        server.run("stdio")
        return
    import uvicorn

    listener = socket.create_server(("127.0.0.1", 0))
    print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
    app = server.streamable_http_app(json_response=True)
    config = uvicorn.Config(app, log_level="warning", access_log=False)
    asyncio.run(uvicorn.Server(config).serve(sockets=[listener]))


if __name__ == "__main__":
    {"authored": run_authored, "official": run_official}[sys.argv[1]](sys.argv[2])
