"""The suite's `auth/*` scenarios: a client that signs in by itself, or whose gateway does it for its user.

Both have the same headless browser: the suite's authorization servers ask nobody anything and send the
browser straight back.
"""

from __future__ import annotations

import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.client.auth.extensions.identity_assertion import IdentityAssertionOAuthProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
)
from pydantic import AnyUrl
from tests.support.official import TokenMemory

CLIENT_DOCUMENT = "https://conformance-test.local/client-metadata.json"
_REDIRECT = "http://127.0.0.1:3000/callback"
_MOST_REDIRECTS = 10


def context() -> dict[str, Any]:
    """What the suite tells a client about itself."""
    return json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")


# --- the gateway signs in ------------------------------------------------------------------------------


def upstream_auth(scenario: str, folder: Path) -> dict[str, Any]:
    """How the gateway is told to authenticate: nothing that it can find out by itself."""
    told = context()
    known = {"client_id": told.get("client_id"), "client_secret": told.get("client_secret")}
    match scenario.removeprefix("auth/"):
        case "basic-cimd":
            return {"type": "oauth", "client_metadata_url": CLIENT_DOCUMENT}
        case "pre-registration":
            return {"type": "oauth", **known}
        case "client-credentials-basic":
            return {"type": "client_credentials", **known}
        case "client-credentials-jwt":
            key = folder / "client.pem"
            key.write_text(told["private_key_pem"])
            proof = {"client_authentication": "private_key_jwt", "private_key": str(key)}
            algorithm = {"private_key_algorithm": told["signing_algorithm"]}
            return {"type": "client_credentials", "client_id": known["client_id"], **proof, **algorithm}
        case "enterprise-managed-authorization" | "cross-app-access-complete-flow":
            token = folder / "id.token"
            token.write_text(told["idp_id_token"])
            subject = {"subject_token_file": str(token), "subject_token_type": "id_token"}
            return {"type": "identity_assertion", "identity_provider": "idp", **known, **subject}
        case "wif-jwt-bearer":
            token = folder / "workload.token"
            token.write_text(told["valid_jwt"])
            return {
                "type": "jwt_bearer",
                "client_id": known["client_id"],
                "subject_token_file": str(token),
            }
        case _:
            return {"type": "oauth"}


def providers() -> dict[str, Any]:
    """The identity provider that a scenario names, if it does."""
    told = context()
    if "idp_token_endpoint" not in told:
        return {}
    return {"idp": {"token_url": told["idp_token_endpoint"], "client_id": told["idp_client_id"]}}


async def browse(url: str) -> None:
    """Open an address as a browser does: with cookies, wherever it leads."""
    async with httpx2.AsyncClient(timeout=10) as browser:
        for _ in range(_MOST_REDIRECTS):
            page = await browser.get(url)
            if page.status_code not in (302, 303, 307):
                return
            url = str(page.url.join(page.headers["location"]))


# --- the client signs in -------------------------------------------------------------------------------


@asynccontextmanager
async def signed_in(url: str, scenario: str) -> AsyncIterator[Any]:
    """A transport whose requests carry tokens that the official SDK got."""
    provider = await _provider(url, scenario.removeprefix("auth/"))
    async with (
        httpx2.AsyncClient(auth=provider, timeout=20, follow_redirects=True) as http,
        streamable_http_client(url, http_client=http) as streams,
    ):
        yield streams


async def _provider(url: str, scenario: str) -> httpx2.Auth:
    told, storage = context(), TokenMemory()
    match scenario:
        case "client-credentials-basic":
            return ClientCredentialsOAuthProvider(url, storage, told["client_id"], told["client_secret"])
        case "client-credentials-jwt":
            signing = SignedJWTParameters(
                issuer=told["client_id"],
                subject=told["client_id"],
                signing_key=told["private_key_pem"],
                signing_algorithm=told["signing_algorithm"],
            )
            return PrivateKeyJWTOAuthProvider(
                url, storage, told["client_id"], signing.create_assertion_provider()
            )
        case "enterprise-managed-authorization" | "cross-app-access-complete-flow":
            issuer = await _issuer(url)
            return IdentityAssertionOAuthProvider(
                url,
                storage,
                told["client_id"],
                told["client_secret"],
                issuer,
                _assertion,
                token_endpoint_auth_method="client_secret_basic",
            )
        case "pre-registration":
            storage.client = OAuthClientInformationFull(
                client_id=told["client_id"],
                client_secret=told["client_secret"],
                redirect_uris=[AnyUrl(_REDIRECT)],
                token_endpoint_auth_method="client_secret_basic",
                issuer=told.get("issuer"),
            )
    browser = _Redirects()
    return OAuthClientProvider(
        url,
        OAuthClientMetadata(
            client_name="conformance-driver",
            redirect_uris=[AnyUrl(_REDIRECT)],
            grant_types=["authorization_code", "refresh_token"],
            response_types=["code"],
        ),
        storage,
        browser.redirect,
        browser.callback,
        client_metadata_url=CLIENT_DOCUMENT if scenario == "basic-cimd" else None,
    )


async def _issuer(url: str) -> str:
    parts = urlsplit(url)
    place = f"{parts.scheme}://{parts.netloc}/.well-known/oauth-protected-resource{parts.path}"
    async with httpx2.AsyncClient(timeout=10) as http:
        return (await http.get(place)).json()["authorization_servers"][0]


async def _assertion(audience: str, resource: str) -> str:
    told = context()
    form = {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
        "requested_token_type": "urn:ietf:params:oauth:token-type:id-jag",
        "subject_token": told["idp_id_token"],
        "subject_token_type": "urn:ietf:params:oauth:token-type:id_token",
        "audience": audience,
        "resource": resource,
        "client_id": told["idp_client_id"],
    }
    async with httpx2.AsyncClient(timeout=10) as http:
        return (await http.post(told["idp_token_endpoint"], data=form)).json()["access_token"]


class _Redirects:
    """The browser of a client that does it alone."""

    def __init__(self) -> None:
        self._answer: dict[str, list[str]] = {}

    async def redirect(self, url: str) -> None:
        async with httpx2.AsyncClient(timeout=10) as http:
            self._answer = parse_qs(urlsplit((await http.get(url)).headers["location"]).query)

    async def callback(self) -> AuthorizationCodeResult:
        found = {name: values[0] for name, values in self._answer.items()}
        return AuthorizationCodeResult(code=found["code"], state=found.get("state"), iss=found.get("iss"))
