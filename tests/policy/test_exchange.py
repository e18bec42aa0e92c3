"""The caller's token for one that the server takes: exchanged at a real provider, once for each of them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from tests.policy.caller import Caller as Client
from tests.policy.guarded import GrantProvider, Guarded, guarded, running_grant_provider
from tests.policy.shelf import Shelf, tool
from tests.policy.test_credentials import refusal
from tests.support.gateway import running_gateway
from tests.support.waiting import eventually

from mooring.gateway.principal import NOBODY, Caller, Principal
from mooring.policy.credentials.cache import ExpiringCache
from mooring.policy.credentials.pool import CredentialUnavailable
from mooring.policy.credentials.roles import MatcherMistake, Roles, compiled
from mooring.policy.credentials.settings import RoleMapping
from mooring.policy.credentials.sigv4 import Keys, signed_lines
from mooring.policy.credentials.sts import AwsRole, StsSettings
from mooring.policy.credentials.subjects import Subjects

Json = dict[str, Any]


@pytest.fixture(scope="module")
def provider() -> Iterator[GrantProvider]:
    with running_grant_provider() as made:
        yield made


@pytest.fixture
def server(tmp_path: Path, provider: GrantProvider) -> Iterator[Guarded]:
    with guarded(Shelf(tmp_path / "shelf", tool("say")), provider.issuer) as made:
        yield made


@pytest.mark.e2e
@pytest.mark.parametrize("kind", ["token_exchange", "on_behalf_of"])
def test_each_caller_gets_a_token_of_their_own_once(
    tmp_path: Path, provider: GrantProvider, server: Guarded, kind: str
) -> None:
    auth = {
        "type": kind,
        "token_url": f"{provider.issuer}/token",
        "client_id": "gateway",
        "client_secret": "gateway-secret",
        "audience": server.url,
        "scopes": ["mcp"],
    }
    entry = {"id": "notes", "upstream": {"url": server.url, "auth": auth}}
    ours = "urn:gateway"
    inbound = {"mode": "oidc", "issuer": provider.issuer, "audience": [ours]}
    before = len(provider.told())
    with running_gateway(tmp_path, [entry], auth=inbound) as gateway:
        for who in ("alice", "bob"):
            token = provider.token(who, ours)
            caller = Client(gateway.address, "notes", {"Authorization": f"Bearer {token}"})
            eventually(lambda caller=caller: caller.initialize().status == 200, "the provider to be known")
            for _ in range(3):
                assert "result" in caller.tool("say").message
            assert (server.claims()["act_for"], server.claims()["aud"]) == (who, server.url)
            assert all(token not in given for given in server.seen)
    word = "exchange" if kind == "token_exchange" else kind
    asked = [line["params"] for line in provider.told()[before:] if line.get("grant") == word]
    assert len(asked) == 2
    if kind == "token_exchange":
        assert asked[0]["subject_token_type"] == "urn:ietf:params:oauth:token-type:access_token"
    else:
        assert asked[0]["requested_token_use"] == "on_behalf_of"


def test_a_value_is_made_once_at_a_time_and_again_when_it_expired() -> None:
    now, made = 0.0, 0

    async def run() -> None:
        nonlocal now
        cache: ExpiringCache[int] = ExpiringCache(lambda: now, most=2)
        hold = asyncio.Event()

        async def make() -> tuple[int, float]:
            nonlocal made
            made += 1
            await hold.wait()
            return made, 100.0

        waiting = [asyncio.ensure_future(cache.get("key", make)) for _ in range(10)]
        await asyncio.sleep(0)
        hold.set()
        assert set(await asyncio.gather(*waiting)) == {1}
        now = 69.0
        assert await cache.get("key", make) == 1
        now = 71.0  # half a minute before it expires
        assert await cache.get("key", make) == 2
        assert not cache.drop("key", unless_young=True)
        assert await cache.get("other", make) == 3
        await cache.get("third", make)
        assert len(cache) == 2

    asyncio.run(run())


def test_who_has_no_token_to_exchange_is_told_what_to_configure() -> None:
    with pytest.raises(CredentialUnavailable, match=r"auth\.mode: oidc"):
        asyncio.run(Subjects("access_token").of(NOBODY))


# Roles at AWS

ADMIN = "arn:aws:iam::123456789012:role/admin"
READER = "arn:aws:iam::123456789012:role/reader"


def principal(**claims: Any) -> Caller:
    return Caller(Principal("me", "me", claims=claims, credential="header.payload.signature"))


def test_the_role_with_the_lowest_number_that_fits_counts() -> None:
    roles = Roles(
        [
            RoleMapping(READER, claim="staff", priority=20),
            RoleMapping(ADMIN, matcher='claims["email"].endsWith("@corp.example")', priority=10),
        ],
        "groups",
        None,
    )
    assert roles.role_of({"groups": ["staff", "x"]}) == READER
    assert roles.role_of({"groups": ["staff"], "email": "ann@corp.example"}) == ADMIN
    assert roles.role_of({"groups": "staff"}) == READER
    assert roles.role_of({"email": "ann@elsewhere.example"}) is None
    assert Roles([], "groups", READER).role_of({}) == READER
    with pytest.raises(MatcherMistake, match="no CEL expression"):
        compiled("claims[")


@pytest.fixture(scope="module")
def sts() -> Iterator[str]:
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}/"
    server.stop()


def aws_role(sts: str, clock: Any = None) -> AwsRole:
    settings = StsSettings("eu-west-1", "aws-mcp", "mcp.example", sts)
    more = {} if clock is None else {"clock": clock}
    moment = datetime(2026, 1, 2, tzinfo=UTC)
    roles = Roles([RoleMapping(READER, claim="staff")], "groups", None)
    return AwsRole(settings, roles, Subjects("access_token"), now=lambda: moment, **more)


@pytest.mark.e2e
def test_the_caller_s_token_becomes_keys_of_a_role_that_sign_requests(sts: str) -> None:
    now = 0.0

    async def run() -> list[bytes]:
        nonlocal now
        role = aws_role(sts, lambda: now)
        caller = principal(groups=["staff"], sub="ann smith")
        found = [await role.headers(caller, b"POST", b"/mcp", b"{}") for _ in range(2)]
        now += 3600 - 29
        found.append(await role.headers(caller, b"POST", b"/mcp", b"{}"))
        with pytest.raises(CredentialUnavailable, match="no role at AWS"):
            await role.headers(principal(groups=["guests"]), b"POST", b"/mcp", b"{}")
        assert not await role.refused(caller, found[-1], refusal(403))
        now += 10
        assert await role.refused(caller, found[-1], refusal(403))
        return found

    first, second, third = asyncio.run(run())
    assert first == second != third
    lines = dict(line.split(": ", 1) for line in first.decode().split("\r\n") if line)
    assert lines["x-amz-date"] == "20260102T000000Z"
    assert (
        "/20260102/eu-west-1/aws-mcp/aws4_request, SignedHeaders=host;x-amz-date;x-amz-security-token, "
        in (lines["authorization"])
    )
    assert "header.payload.signature" not in first.decode()


# From AWS's own test suite for Signature Version 4, `post-sts-header-before`.
STS_TOKEN = (
    "AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuFqwAeMicRXmxfpSPfIeoIYRqTflfKD8"
    "YUuwthAx7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6f"
    "E8YQcHNVXAkiY9q6d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4rvx3iSIlTJabIQwj2"
    "ICCR/oLxBA=="
)


def test_a_session_token_is_signed_as_in_the_published_example() -> None:
    keys = Keys("AKIDEXAMPLE", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY", STS_TOKEN)
    moment = datetime(2015, 8, 30, 12, 36, tzinfo=UTC)
    lines = signed_lines(
        keys, "us-east-1", "service", "example.amazonaws.com", moment, b"POST", b"/", b""
    ).decode()
    wanted = "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead"
    assert f"SignedHeaders=host;x-amz-date;x-amz-security-token, Signature={wanted}" in lines


@pytest.mark.e2e
def test_a_refused_token_is_an_error_that_names_the_role() -> None:
    import http.server

    class Denying(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = (
                b'<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type>'
                b"<Code>InvalidIdentityToken</Code><Message>expired</Message></Error></ErrorResponse>"
            )
            self.send_response(400)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Denying) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        role = aws_role(f"http://127.0.0.1:{server.server_port}/")
        with pytest.raises(CredentialUnavailable, match=f"{READER}.*InvalidIdentityToken: expired"):
            asyncio.run(role.headers(principal(groups=["staff"]), b"POST", b"/mcp", b"{}"))
        server.shutdown()
