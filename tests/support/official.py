"""The official Python client, connected to whatever it is given, with a person and a model that answer."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

MODES = ("legacy", "2026-07-28", "auto")
LIMIT_SECONDS = 40


@asynccontextmanager
async def connected(target: Any, mode: str) -> AsyncIterator[mcp.Client]:
    """A client that says blue when it is asked, `hi` as a model, and has one root."""

    async def on_elicitation(context: Any, params: Any) -> Any:
        return mcp.types.ElicitResult(action="accept", content={"colour": "blue"})

    async def on_sampling(context: Any, params: Any) -> Any:
        content = mcp.types.TextContent(type="text", text="hi")
        return mcp.types.CreateMessageResult(role="assistant", content=content, model="m")

    async def on_roots(context: Any) -> Any:
        return mcp.types.ListRootsResult(roots=[mcp.types.Root(uri="file:///here")])  # pyright: ignore[reportArgumentType]

    with anyio.fail_after(LIMIT_SECONDS):
        async with mcp.Client(
            target,
            mode=mode,
            elicitation_callback=on_elicitation,
            sampling_callback=on_sampling,
            list_roots_callback=on_roots,
        ) as client:
            yield client


class TokenMemory:
    """Where the client keeps what it was given when it signed in."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info
