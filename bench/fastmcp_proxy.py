"""FastMCP's proxy as its documentation starts it; runs in the environment .venvs/fastmcp.

usage: fastmcp_proxy.py URL PORT default|shared

`default` is create_proxy(URL). `shared` hands it one connected client for all sessions: the quickest way to
run it, at the price of one upstream session for everybody.
"""

import asyncio
import sys
from typing import Any

from fastmcp import Client  # pyright: ignore[reportMissingImports]
from fastmcp.server import create_proxy  # pyright: ignore[reportMissingImports]


async def main(url: str, port: int, mode: str) -> None:
    if mode == "default":
        await serve(create_proxy(url), port)
        return
    async with Client(url) as client:
        await serve(create_proxy(client), port)


async def serve(proxy: Any, port: int) -> None:
    quiet = {"log_level": "error", "access_log": False}
    await proxy.run_http_async(
        transport="http", host="127.0.0.1", port=port, path="/mcp", show_banner=False, uvicorn_config=quiet
    )


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), sys.argv[3]))
