"""An authored server, and a client that speaks raw JSON-RPC to it, in memory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from mooring.authoring import Server
from mooring.authoring.channel import Channel

LIMIT_SECONDS = 10
META = "io.modelcontextprotocol/"
Json = dict[str, Any]


class Conversation:
    """Says messages, and hears what comes back; a request waits for its answer."""

    def __init__(self, server: Server, version: str, capabilities: Json) -> None:
        self._channel = Channel(server._engine, self._hear)
        self.version = version
        self.capabilities = capabilities
        self.heard: list[Json] = []
        self.meta: Json = {}
        self._news = asyncio.Event()
        self._next = 0

    def _hear(self, message: bytes) -> None:
        self.heard.append(json.loads(message))
        self._news.set()

    @property
    def is_modern(self) -> bool:
        return self.version >= "2026-07-28"

    def say(self, message: Json) -> None:
        self._channel.receive(json.dumps({"jsonrpc": "2.0", **message}).encode())

    def begin(self, method: str, **params: Any) -> int:
        """Send a request without waiting; its id."""
        self._next += 1
        meta = dict(self.meta)
        if self.is_modern:
            meta |= {META + "protocolVersion": self.version, META + "clientCapabilities": self.capabilities}
        if meta:
            params["_meta"] = {**meta, **params.get("_meta", {})}
        self.say({"id": self._next, "method": method, "params": params})
        return self._next

    async def until(self, wanted: Any) -> Json:
        """The first message that is wanted, taken out of what was heard."""
        async with asyncio.timeout(LIMIT_SECONDS):
            while True:
                for message in self.heard:
                    if wanted(message):
                        self.heard.remove(message)
                        return message
                self._news.clear()
                await self._news.wait()

    async def answer(self, number: int) -> Json:
        return await self.until(lambda message: message.get("id") == number and "method" not in message)

    async def ask(self, method: str, **params: Any) -> Json:
        """The result of a request, or its error."""
        answer = await self.answer(self.begin(method, **params))
        return answer["result"] if "result" in answer else answer["error"]

    async def call(self, name: str, /, **arguments: Any) -> Json:
        return await self.ask("tools/call", name=name, arguments=arguments)

    async def call_text(self, name: str, /, **arguments: Any) -> str:
        return (await self.call(name, **arguments))["content"][0]["text"]

    async def question(self) -> Json:
        """What the server asks (legacy)."""
        return await self.until(lambda message: "method" in message and "id" in message)

    async def notification(self, method: str) -> Json:
        return (await self.until(lambda message: message.get("method") == method)).get("params", {})

    def cancel(self, number: int) -> None:
        self.say({"method": "notifications/cancelled", "params": {"requestId": number}})


@asynccontextmanager
async def talking(
    server: Server, version: str = "2025-11-25", capabilities: Json | None = None
) -> AsyncGenerator[Conversation]:
    async with server._alive():
        conversation = Conversation(server, version, capabilities or {})
        try:
            if not conversation.is_modern:
                client = {"name": "test", "version": "1"}
                await conversation.ask(
                    "initialize",
                    protocolVersion=version,
                    capabilities=conversation.capabilities,
                    clientInfo=client,
                )
                conversation.say({"method": "notifications/initialized"})
            yield conversation
        finally:
            conversation._channel.close()
            await server._engine.close()
