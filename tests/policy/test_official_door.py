"""The official client comes to a guarded server with its address alone, and is led to a real provider."""

from __future__ import annotations

import http.cookiejar
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import anyio
import anyio.to_thread
import httpx2
import jwt
import mcp
import pytest
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
)
from pydantic import AnyUrl
from tests.policy.guarded import GrantProvider, running_grant_provider
from tests.policy.shelf import Shelf, tool
from tests.support.gateway import Gateway, running_gateway
from tests.support.official import TokenMemory

pytestmark = [pytest.mark.e2e, pytest.mark.anyio]
REDIRECT = "http://127.0.0.1:9/callback"


@pytest.fixture(scope="module")
def provider() -> Iterator[GrantProvider]:
    with running_grant_provider() as made:
        yield made


class Memory(TokenMemory):
    """What the token says is looked at, too."""

    @property
    def claims(self) -> dict[str, Any]:
        assert self.tokens is not None
        return jwt.decode(self.tokens.access_token, options={"verify_signature": False})


class _NoCallback(urllib.request.HTTPRedirectHandler):
    """Follows a browser up to the address of the client itself."""

    def redirect_request(self, req: Any, fp: Any, code: Any, msg: Any, headers: Any, newurl: str) -> Any:
        if newurl.startswith(REDIRECT):
            return None
        return super().redirect_request(req, fp, code, msg, headers, newurl)


def agreed(url: str) -> str:
    """Where the browser of a user who agrees ends."""
    cookies = urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar())
    try:
        urllib.request.build_opener(cookies, _NoCallback).open(url, timeout=20)
    except urllib.error.HTTPError as error:
        with error:
            return error.headers["location"]
    raise AssertionError("nobody was sent back")


@asynccontextmanager
async def signed_in(gateway: Gateway, mode: str, memory: Memory) -> AsyncIterator[mcp.Client]:
    sent: list[str] = []

    async def open_browser(url: str) -> None:
        sent.append(await anyio.to_thread.run_sync(agreed, url))

    async def came_back() -> AuthorizationCodeResult:
        query = parse_qs(urlsplit(sent[-1]).query)
        return AuthorizationCodeResult(
            code=query["code"][0], state=query["state"][0], iss=query.get("iss", [None])[0]
        )

    described = OAuthClientMetadata(client_name="official", redirect_uris=[AnyUrl(REDIRECT)])
    auth = OAuthClientProvider(gateway.url("one"), described, memory, open_browser, came_back)
    with anyio.fail_after(40):
        async with (
            httpx2.AsyncClient(auth=auth, timeout=20) as web,
            mcp.Client(streamable_http_client(gateway.url("one"), http_client=web), mode=mode) as client,
        ):
            yield client


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_the_official_client_finds_its_way_from_the_address_alone(
    tmp_path: Path, provider: GrantProvider, mode: str
) -> None:
    shelf = Shelf(tmp_path / "shelf", tool("say"))
    auth = {"mode": "oidc", "issuer": provider.issuer, "required_scopes": ["mcp"]}
    with (
        shelf.http("one", "legacy") as server,
        running_gateway(tmp_path, [server], auth=auth, audit={"enabled": True}) as gateway,
    ):
        memory = Memory()
        async with signed_in(gateway, mode, memory) as client:
            assert not (await client.call_tool("say", {"text": "hello"})).is_error
        assert memory.claims["aud"] == gateway.url("one")
        assert "mcp" in memory.claims["scope"].split()
        log = (tmp_path / "data" / "audit.log").read_text()
        assert '"user":"ada"' in log
        assert memory.tokens is not None
        assert memory.tokens.access_token not in log
        assert all("authorization" not in headers for headers in shelf.headers())


async def registered(provider: GrantProvider) -> OAuthClientInformationFull:
    """A client that may ask for more than it does at first."""
    asked = {"redirect_uris": [REDIRECT], "scope": "mcp write", "token_endpoint_auth_method": "none"}
    async with httpx2.AsyncClient(timeout=10) as web:
        made = (await web.post(f"{provider.issuer}/reg", json=asked)).json()
    return OAuthClientInformationFull(
        client_id=made["client_id"],
        redirect_uris=[AnyUrl(REDIRECT)],
        token_endpoint_auth_method="none",
        issuer=provider.issuer,
    )


@pytest.mark.parametrize("mode", ["legacy", "2026-07-28"])
async def test_the_official_client_steps_up_when_it_lacks_a_scope(
    tmp_path: Path, provider: GrantProvider, mode: str
) -> None:
    """Its first token was for less: the challenge names what is needed, and it comes back with more."""
    shelf = Shelf(tmp_path / "shelf", tool("say"))
    memory = Memory()
    memory.client = await registered(provider)
    with shelf.http("one", "legacy") as server:
        auth = {"mode": "oidc", "issuer": provider.issuer, "required_scopes": ["mcp"]}
        with running_gateway(tmp_path, [server], auth=auth) as gateway:
            async with signed_in(gateway, mode, memory) as client:
                await client.list_tools()
            assert memory.claims["scope"] == "mcp"
            port = gateway.port
        auth["required_scopes"] = ["mcp", "write"]
        listen = f"127.0.0.1:{port}"
        with running_gateway(tmp_path, [server], auth=auth, listen=listen) as gateway:
            async with signed_in(gateway, mode, memory) as client:
                assert not (await client.call_tool("say", {"text": "hello"})).is_error
            assert set(memory.claims["scope"].split()) == {"mcp", "write"}
