"""What servers are shown: credentials of ours, renewed in time, and never those of our callers."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from tests.policy.caller import Caller
from tests.policy.endpoint import Endpoint
from tests.policy.shelf import Shelf, tool
from tests.support.gateway import running_gateway
from tests.support.waiting import eventually

from mooring.config.loading import ConfigError, load
from mooring.gateway.principal import NOBODY
from mooring.policy.credentials.issuing import Issuing
from mooring.policy.credentials.oauth.discovery import Settings
from mooring.policy.credentials.oauth.tokens import ClientIdentity
from mooring.policy.credentials.own_token import OwnToken, Wanted
from mooring.policy.credentials.pool import CredentialPool, CredentialUnavailable, NoCredential
from mooring.policy.credentials.sigv4 import Keys, authorization
from mooring.transports.http_client import ClientLimits, Origin
from mooring.transports.http_response import Response


class TokenEndpoint(Endpoint):
    """An authorization server that counts what it hands out."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[dict[str, list[str]]] = []
        self.seconds = 3600
        self.status = 200

    def answer(self, body: bytes) -> tuple[int, dict[str, Any]]:
        self.asked.append(parse_qs(body.decode()))
        if self.status != 200:
            return self.status, {"error": "invalid_client"}
        return 200, {"access_token": f"ours-{len(self.asked)}", "expires_in": self.seconds}


@pytest.fixture
def tokens() -> Iterator[TokenEndpoint]:
    with TokenEndpoint() as made:
        yield made


@pytest.mark.e2e
def test_the_server_gets_our_token_and_never_the_caller_s(tmp_path: Path, tokens: TokenEndpoint) -> None:
    shelf = Shelf(tmp_path / "s", tool("say"))
    credential = {
        "type": "client_credentials",
        "token_url": tokens.url,
        "client_id": "gateway",
        "client_secret": "shh",
        "scopes": ["tools"],
    }
    with (
        shelf.http("one", upstream={"auth": credential}) as server,
        running_gateway(tmp_path, [server], auth={"mode": "api_key"}) as gateway,
    ):
        key = gateway.command("key", "create", "alice").stdout.strip()
        caller = Caller(gateway.address, "one", {"Authorization": f"Bearer {key}", "X-API-Secret": "x"})
        eventually(lambda: caller.initialize().status == 200, "the key to be known")
        for _ in range(3):
            assert "result" in caller.tool("say").message
        sent = shelf.headers()
        assert len(sent) >= 4
        assert {headers["authorization"] for headers in sent} == {"Bearer ours-1"}
        assert all(key not in json.dumps(headers) and "x-api-secret" not in headers for headers in sent)
        assert tokens.asked == [{"grant_type": ["client_credentials"], "scope": ["tools"]}]


def own_token(tokens: TokenEndpoint, clock: Callable[[], float] = time.monotonic) -> OwnToken:
    issuing = Issuing("https://server.example/mcp", Settings(token_url=tokens.url))
    return OwnToken(issuing, ClientIdentity("gateway", "shh"), Wanted((), "urn:them"), clock=clock)


def refusal(status: int, *challenges: bytes) -> Response:
    listed = [(b"www-authenticate", challenge) for challenge in challenges]
    return Response(status, listed, dict(listed), [])


async def line(credential: OwnToken) -> bytes:
    return await credential.headers(NOBODY, b"POST", b"/", b"")


def test_many_requests_at_once_ask_for_one_token(tokens: TokenEndpoint) -> None:
    async def run() -> set[bytes]:
        credential = own_token(tokens)
        return set(await asyncio.gather(*(line(credential) for _ in range(20))))

    assert asyncio.run(run()) == {b"authorization: Bearer ours-1\r\n"}
    assert tokens.asked[0]["audience"] == ["urn:them"]
    assert len(tokens.asked) == 1


def test_a_token_is_renewed_before_it_expires_and_when_it_is_refused(tokens: TokenEndpoint) -> None:
    now = 1000.0

    async def run() -> list[bytes]:
        nonlocal now
        credential = own_token(tokens, lambda: now)
        found = [await line(credential)]
        now += 3600 - 40
        found.append(await line(credential))
        now += 20
        found.append(await line(credential))
        now += 10
        assert await credential.refused(NOBODY, found[-1], refusal(401))
        found.append(await line(credential))
        assert not await credential.refused(NOBODY, found[-1], refusal(401))
        return found

    tokens_seen = [line.split()[-1] for line in asyncio.run(run())]
    assert tokens_seen == [b"ours-1", b"ours-1", b"ours-2", b"ours-3"]


def test_requests_with_a_credential_keep_their_connection() -> None:
    opened: list[asyncio.StreamWriter] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        opened.append(writer)
        for _ in range(3):
            await reader.readuntil(b"\r\n\r\n")
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")
        writer.close()

    async def run() -> None:
        async with asyncio.timeout(10), await asyncio.start_server(serve, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            async with CredentialPool(
                Origin.of(f"http://127.0.0.1:{port}"), ClientLimits(), NoCredential()
            ) as pool:
                for _ in range(3):
                    assert (await pool.request(b"GET", b"/", b"", b"")).status == 200
            assert len(opened) == 1

    asyncio.run(run())


def test_without_a_token_nothing_is_sent(tokens: TokenEndpoint) -> None:
    tokens.status = 401
    with pytest.raises(CredentialUnavailable, match="invalid_client"):
        asyncio.run(line(own_token(tokens)))


# The examples of AWS's own test suite for Signature Version 4.
KEYS = Keys("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY")
BASE = {"host": "example.amazonaws.com", "x-amz-date": "20150830T123600Z"}
FORM = {"content-type": "application/x-www-form-urlencoded"}
VECTORS: list[Any] = [
    ("GET", "/", {}, b"", "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31"),
    ("POST", "/", {}, b"", "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b"),
    (
        "GET",
        "/?Param2=value2&Param1=value1",
        {},
        b"",
        "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500",
    ),
    (
        "POST",
        "/",
        FORM,
        b"Param1=value1",
        "ff11897932ad3f4e8b18135d722051e5ac45fc38421b1da7b9d196a0fe09473a",
    ),
]


@pytest.mark.parametrize(("method", "target", "more", "body", "expected"), VECTORS)
def test_signatures_are_those_of_the_published_examples(
    method: str, target: str, more: dict[str, str], body: bytes, expected: str
) -> None:
    value = authorization(KEYS, "us-east-1", "service", method, target, {**BASE, **more}, body)
    assert value.endswith(f"Signature={expected}")
    assert "Credential=AKIDEXAMPLE/20150830/us-east-1/service/aws4_request" in value


@pytest.mark.e2e
@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_only_the_headers_that_are_named_go_on_to_the_server(tmp_path: Path, era: str) -> None:
    shelf = Shelf(tmp_path / "s", tool("say"))
    with (
        shelf.http("one", era, upstream={"forward_headers": ["X-Tenant"]}) as server,
        running_gateway(tmp_path, [server]) as gateway,
    ):
        for tenant in ("red", "blue"):
            headers = {
                "X-Tenant": tenant,
                "X-Other": "kept here",
                "Cookie": "a=b",
                "Authorization": "Bearer c",
            }
            caller = Caller(gateway.address, "one", headers)
            if era == "legacy":
                caller.initialize()
                assert "result" in caller.tool("say").message
            else:
                assert "result" in caller.modern_tool("say").message
            assert shelf.headers()[-1]["x-tenant"] == tenant
        sent = shelf.headers()
        assert all("authorization" not in each and "cookie" not in each for each in sent)
        assert all("x-other" not in each for each in sent)


@pytest.mark.parametrize(
    "name",
    ["Authorization", "cookie", "Host", "Connection", "Transfer-Encoding", "Proxy-Authorization", "Forwarded",
     "X-Forwarded-For", "X-Real-IP", "Mcp-Session-Id", "Mcp-Param-Region", "MCP-Protocol-Version", "TE",
     "X-API-Key", "Content-Length", "Accept", "Origin", "no good"],
)  # fmt: skip
def test_headers_that_are_ours_or_secret_cannot_be_passed_on(tmp_path: Path, name: str) -> None:
    file = tmp_path / "mooring.yaml"
    upstream = {"url": "https://example.com/mcp", "forward_headers": [name]}
    file.write_text(json.dumps({"mooring": 1, "servers": [{"id": "one", "upstream": upstream}]}))
    with pytest.raises(ConfigError, match=r"forward_headers\[0\]"):
        load(file)


@pytest.mark.parametrize(
    ("auth", "problem"),
    [
        ({"type": "token_exchange"}, "token_url"),
        ({"type": "on_behalf_of", "token_url": "https://x/t", "client_id": "a"}, "client_secret"),
        ({"type": "aws_sts", "region": "eu-west-1"}, "role_mappings"),
        ({"type": "upstream_swap", "provider": "nobody"}, "is none of `providers`"),
        ({"type": "oauth", "issuer": "http://elsewhere.example"}, "https://"),
        ({"type": "oauth", "token_url": "https://x/t"}, "authorize_url"),
        ({"type": "aws_sts", "region": "r", "role_mappings": [{"role_arn": "a", "matcher": "x["}]}, "CEL"),
        ({"type": "client_credentials", "client_id": "a", "client_authentication": "private_key_jwt"},
         "private_key"),
    ],
)  # fmt: skip
def test_what_a_credential_lacks_is_said_when_the_file_is_read(
    tmp_path: Path, auth: dict[str, Any], problem: str
) -> None:
    file = tmp_path / "mooring.yaml"
    upstream = {"url": "https://example.com/mcp", "auth": auth}
    file.write_text(json.dumps({"mooring": 1, "servers": [{"id": "one", "upstream": upstream}]}))
    with pytest.raises(ConfigError, match=problem):
        load(file)


def test_credentials_of_users_are_not_shared_globally(tmp_path: Path) -> None:
    file = tmp_path / "mooring.yaml"
    upstream = {"url": "https://example.com/mcp", "auth": {"type": "oauth"}}
    entry = {"id": "one", "share": "global", "upstream": upstream}
    file.write_text(json.dumps({"mooring": 1, "servers": [entry]}))
    with pytest.raises(ConfigError, match="each caller has their own"):
        load(file)
