"""An authored server for the official clients: one tool for each thing that a client can do.

`stdio`, or `http`: then its base address is the first line on stdout.
"""

from __future__ import annotations

import asyncio
import os
import sys
from dataclasses import dataclass
from typing import Any, Literal

from mooring.authoring import Context, HttpSettings, NotFound, Server

server = Server("scripted", version="1.2", instructions="Say what to do.")


@dataclass
class Choice:
    colour: Literal["red", "blue"]


@server.tool
def echo(text: str) -> str:
    """Say it again."""
    print("a stray print", text)
    os.write(1, b"a stray write\n")
    return text


@server.tool
async def count(ctx: Context, steps: int = 3, pause: float = 0.0) -> str:
    """Report progress."""
    for step in range(1, steps + 1):
        await ctx.progress(step, steps)
        await asyncio.sleep(pause)
    return "counted"


@server.tool
async def ask(kind: Literal["elicitation", "sampling", "roots"], ctx: Context) -> dict[str, Any]:
    """Ask the client."""
    if kind == "elicitation":
        answer = await ctx.elicit("Which colour?", Choice)
        heard: Any = {"action": answer.action, "content": answer.content}
    elif kind == "sampling":
        said = await ctx.sample("Say hi")
        heard = {"model": said.model, "text": said.text}
    else:
        heard = {"roots": [{"uri": root.uri} for root in await ctx.roots()]}
    return {"heard": heard}


@server.tool
async def wait() -> None:
    """Take for ever."""
    await asyncio.sleep(3600)


@server.tool
async def change(what: str) -> str:
    """Change the list of tools."""
    if what == "tools":
        try:
            server.remove_tool("extra")
        except KeyError:
            server.tool(name="extra")(echo)
    return what


@server.tool
def touch(uri: str, ctx: Context) -> str:
    """Announce a change of a resource."""
    ctx.resource_updated(uri)
    return uri


@server.resource_template("item://{number}")
def item(number: int) -> str:
    """An item."""
    if number > 9:
        raise NotFound("no such item")
    return f"content of item {number}"


async def serve() -> None:
    async with server.serving_http(HttpSettings(port=0)) as url:
        print(url.removesuffix("/mcp"), flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        server.run()
    else:
        asyncio.run(serve())
