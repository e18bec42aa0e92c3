"""Signing in as the official client meets it, in both eras, at a real provider."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import mcp
import pytest
from mcp.shared.exceptions import UrlElicitationRequiredError
from mcp.types import ElicitResult
from tests.policy.guarded import Browser, GrantProvider, Guarded, guarded, running_grant_provider
from tests.policy.shelf import Shelf, tool
from tests.support.gateway import Gateway, running_gateway

pytestmark = [pytest.mark.e2e, pytest.mark.anyio]
Json = dict[str, Any]
ERAS = ["legacy", "2026-07-28"]
URL_ELICITATION_REQUIRED = -32042


@pytest.fixture(scope="module")
def provider() -> Iterator[GrantProvider]:
    with running_grant_provider() as made:
        yield made


@pytest.fixture(params=["legacy", "modern"])
def server(request: pytest.FixtureRequest, tmp_path: Path, provider: GrantProvider) -> Iterator[Guarded]:
    with guarded(Shelf(tmp_path / "shelf", tool("say")), provider.issuer, request.param) as made:
        yield made


@pytest.fixture
def gateway(tmp_path: Path, server: Guarded) -> Iterator[Gateway]:
    upstream = {"url": server.url, "auth": {"type": "oauth"}}
    with running_gateway(
        tmp_path, [{"id": "notes", "upstream": upstream}], sessions={"suspended_ttl_seconds": 2}
    ) as running:
        yield running


class User:
    """Somebody who is shown addresses."""

    def __init__(self, *, signs_in: bool) -> None:
        self.signs_in = signs_in
        self.asked: list[str] = []

    async def elicit(self, context: Any, params: Any) -> ElicitResult:
        del context
        self.asked.append(params.url)
        if self.signs_in:
            await self.open(params.url)
        return ElicitResult(action="accept")

    async def open(self, url: str) -> None:
        status, page = await anyio.to_thread.run_sync(Browser().open, url)
        assert (status, "is connected" in page) == (200, True), page


@asynccontextmanager
async def connected(gateway: Gateway, mode: str, user: User | None) -> AsyncIterator[mcp.Client]:
    callback = None if user is None else user.elicit
    with anyio.fail_after(40):
        async with mcp.Client(gateway.url("notes"), mode=mode, elicitation_callback=callback) as client:
            yield client


def text_of(result: Any) -> str:
    return result.content[0].text


@pytest.mark.parametrize("mode", ERAS)
async def test_a_user_who_is_shown_the_address_signs_in_and_the_call_goes_on(
    gateway: Gateway, mode: str
) -> None:
    user = User(signs_in=True)
    async with connected(gateway, mode, user) as client:
        for _ in range(2):
            assert not (await client.call_tool("say", {"text": "hello"})).is_error
        assert len(user.asked) == 1
        assert "say" in [found.name for found in (await client.list_tools()).tools]


@pytest.mark.parametrize("mode", ERAS)
async def test_without_a_way_to_show_it_the_address_is_in_the_answer(gateway: Gateway, mode: str) -> None:
    async with connected(gateway, mode, None) as client:
        told = await client.call_tool("say", {"text": "hello"})
        assert told.is_error
        url = next(word for word in text_of(told).split() if "/oauth/login/" in word)
        await User(signs_in=True).open(url)
        assert not (await client.call_tool("say", {"text": "hello"})).is_error


@pytest.mark.parametrize("mode", ERAS)
async def test_who_does_not_sign_in_in_time_gets_the_address_with_the_error(
    gateway: Gateway, mode: str
) -> None:
    user = User(signs_in=False)
    async with connected(gateway, mode, user) as client:
        with pytest.raises(mcp.MCPError) as refused:
            await client.call_tool("say", {"text": "hello"})
        assert (refused.value.error.code == URL_ELICITATION_REQUIRED) == (mode == "legacy")
        if mode == "legacy":
            wanted = UrlElicitationRequiredError.from_error(refused.value.error).elicitations
            assert [(one.mode, one.url) for one in wanted] == [("url", user.asked[0])]
        assert [one["url"] for one in refused.value.error.data["elicitations"]] == user.asked
        await user.open(user.asked[0])
        assert not (await client.call_tool("say", {"text": "hello"})).is_error


@pytest.fixture
def demanding(tmp_path: Path) -> Iterator[Gateway]:
    """A server of 2025-11-25 that itself wants an address opened before it answers."""
    question = {"mode": "url", "message": "Sign in.", "url": "https://login.example/x", "elicitationId": "1"}
    refusal = {"code": URL_ELICITATION_REQUIRED, "message": "sign in", "data": {"elicitations": [question]}}
    shelf = Shelf(tmp_path / "shelf", tool("say", refusedOnce=refusal))
    with running_gateway(tmp_path, [shelf.stdio("notes")]) as running:
        yield running


async def test_a_server_s_own_demand_reaches_clients_of_its_era_as_it_is(demanding: Gateway) -> None:
    async with connected(demanding, "legacy", None) as client:
        with pytest.raises(mcp.MCPError) as refused:
            await client.call_tool("say", {})
        wanted = UrlElicitationRequiredError.from_error(refused.value.error).elicitations
        assert [one.url for one in wanted] == ["https://login.example/x"]
        assert not (await client.call_tool("say", {})).is_error


async def test_a_modern_client_is_asked_in_its_own_way(demanding: Gateway) -> None:
    user = User(signs_in=False)
    async with connected(demanding, "2026-07-28", user) as client:
        assert not (await client.call_tool("say", {})).is_error
    assert user.asked == ["https://login.example/x"]


async def test_a_modern_client_that_cannot_be_asked_is_told(demanding: Gateway) -> None:
    async with connected(demanding, "2026-07-28", None) as client:
        told = await client.call_tool("say", {})
        assert told.is_error
        assert "https://login.example/x" in text_of(told)
        assert not (await client.call_tool("say", {})).is_error
